"""Evidence is what a reader can count in train, and its verdicts follow from the counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import fivestar
from fivestar.graph.triples import Triples
from fivestar.prediction.evidence import count_evidence
from fivestar.prediction.explanation import Explainer
from fivestar.prediction.findings import findings_of
from fivestar.prediction.paths import TripleIds
from fivestar.runs.run import Run, build_model

CITIES = 12


@pytest.fixture(scope="module")
def travels():
    """Cities 0–11, each in one of the countries A and B, which are neighbors; all speak x."""
    facts = [(f"c{n}", "in", "A" if n < 8 else "B") for n in range(CITIES)]
    facts += [("A", "next_to", "B"), ("B", "next_to", "A")]
    facts += [(f"c{n}", "speaks", "x") for n in range(CITIES)]
    facts += [(f"c{n}", "speaks", "y") for n in range(6)]
    return fivestar.read_graph(facts)


def ids(graph, head, relation, tail):
    find = graph.entities.find
    return TripleIds(find(head), graph.relations.find(relation), find(tail))


def cosines_of(graph, order):
    """All cosines are −1, but those with the named entities fall in their order."""
    row = np.full(len(graph.entities), -1.0)
    for rank, name in enumerate(order):
        row[graph.entities.find(name)] = 1 - rank / 100
    return torch.as_tensor(np.stack([row, row]))


def test_similar_heads_are_counted_against_all_heads(travels):
    near = ["c1", "c2", "c3", "c4", "c8", "c9", "c10", "c11", "c5", "c6", "c7"]
    found = count_evidence(travels, ids(travels, "c0", "in", "B"), cosines_of(travels, near))
    assert (found.similar_heads.count, found.similar_heads.support) == (10, 4)
    assert found.similar_heads.share == pytest.approx(4 / 11)  # without c0
    assert found.similar_heads.supports
    far = ["c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11"]
    found = count_evidence(travels, ids(travels, "c0", "in", "B"), cosines_of(travels, far))
    assert (found.similar_heads.support, found.similar_heads.supports) == (3, False)


def test_another_answer_speaks_against_where_one_is_the_rule(travels):
    cosines = cosines_of(travels, [])
    found = count_evidence(travels, ids(travels, "c0", "in", "B"), cosines)
    assert (found.other_tails.count, found.other_tails.example.id) == (1, "A")
    assert (found.other_tails.single_share, found.other_tails.is_against) == (1.0, True)
    # Then whether the tails similar to B have c0 says nothing.
    assert found.similar_tails.count == 0
    own = count_evidence(travels, ids(travels, "c0", "in", "A"), cosines)
    assert (own.other_tails.count, own.other_tails.is_against) == (0, False)
    # Half of the cities speak two languages.
    many = count_evidence(travels, ids(travels, "c11", "speaks", "y"), cosines)
    assert (many.other_tails.count, many.other_tails.is_against) == (1, False)
    assert many.similar_tails.count == 1


def explained(graph, *triple):
    settings = fivestar.make_settings({"model": {"name": "complex", "dim": 4}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(3))
    return Explainer(Run(graph, settings, model)).explain(*triple)


def test_paths_that_never_have_the_relation_do_not_support_it(travels):
    found = explained(travels, "c0", "in", "B")
    by_links = {"".join(map(str, each.links)): each for each in found.paths.patterns}
    wrong = by_links["—in→—next_to→"]
    assert (wrong.support, wrong.pairs, wrong.supports) == (0, CITIES - 1, False)
    right = by_links["—speaks→←speaks——in→"]
    assert right.supports == (right.confidence > found.paths.base_rate)
    assert found.paths.base_rate == pytest.approx(CITIES / (CITIES * 2))
    supporting = [each for each in found.paths.patterns if each.supports]
    assert found.paths.num_measured == len(found.paths.patterns)
    assert found.paths.num_supporting == len(supporting)


def test_findings_agree_with_the_counts(travels):
    found = explained(travels, "c0", "in", "B")
    findings = findings_of(found)
    assert [each.supports for each in findings] == sorted(
        (each.supports for each in findings), reverse=True
    )
    text = "\n".join(map(str, findings))
    assert "− c0 has another tail of in in train (A); 100.0% of all heads have exactly one." in text
    count = found.paths.num_supporting
    number = "None" if count == 0 else str(count)
    assert f"{number} of {found.paths.num_measured} path patterns between them support" in text


def test_nothing_to_count():
    graph = fivestar.read_graph([("a", "r", "b"), ("c", "s", "d")])
    lonely = fivestar.KnowledgeGraph(
        "lonely", graph.entities, graph.relations, Triples.of([(0, 0, 1)])
    )
    found = explained(lonely, "c", "s", "d")
    assert found.evidence.similar_heads.count == found.evidence.similar_tails.count == 0
    assert found.evidence.other_tails.single_share == 0
    assert found.paths.base_rate == 0
    assert findings_of(found) == []
