"""Tables at 60 and 80 columns, of a graph with long IRIs: labels, whole values, no lost row."""

from __future__ import annotations

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner

import fivestar
from fivestar.cli import terminal
from fivestar.cli.main import app
from fivestar.cli.tables import name_column, number_column, print_table, prose_column, shorten
from fivestar.prediction.predictions import Named

BASE = "https://data.example.org/knowledge/graph/2026/resource/"
RELATIONS = {"P1": "lives in the country", "P2": "is acquainted with", "P3": "is home country of"}
COUNTRY = "Country of the Many Names {}"
PERSON = "Professor Doctor Person Number {} of the Long Name"


def people(number):
    return BASE + f"entity/Q{1000 + number}"


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A run on a graph whose names are long IRIs, most of them with labels."""
    folder = tmp_path_factory.mktemp("tables")
    relation = {key: f"{BASE}ontology/property/{key}" for key in RELATIONS}
    facts = []
    for i in range(40):
        facts.append((people(i), relation["P1"], people(100 + i % 4)))
        facts.append((people(i), relation["P2"], people((i + 7) % 40)))
        facts += [(people(100 + i % 4), relation["P3"], people(i))] * (i % 2)
    graph = folder / "graph"
    fivestar.write_graph(
        fivestar.split_graph(fivestar.read_graph(facts), valid=0.1, test=0.1), graph
    )
    entities = [(people(i), PERSON.format(i)) for i in range(38)]
    entities += [(people(i), "Twin") for i in (38, 39)]
    entities += [(people(100 + i), COUNTRY.format(i)) for i in range(4)]
    types = [
        (people(i), f"{BASE}class/{'Person' if i < 100 else 'Country'}")
        for i in [*range(40), *range(100, 104)]
    ]
    for file, rows in {
        "entity_labels.tsv": entities,
        "relation_labels.tsv": [(relation[key], label) for key, label in RELATIONS.items()],
        "entity_types.tsv": types,
    }.items():
        (graph / file).write_text("".join("\t".join(row) + "\n" for row in rows))
    fivestar.train(graph, dim=4, epochs=3, reg_weight=0, out=folder / "run")
    return folder


def shown(monkeypatch, width, *arguments):
    monkeypatch.setattr(terminal.out, "width", width)
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def unwrapped(text):
    """The text without frames, spaces and line ends."""
    return re.sub(r"[\s│┃━┏┓┡┩┳╇┴└┘─]", "", text)


LONG_RELATIONS = [label.replace(" ", "") for label in RELATIONS.values()]
# The command, the headers, and texts that must be there in full.
COMMANDS = {
    "ask": (
        ["ask", "{run}", PERSON.format(3), "lives in the country", "_", "--top", "50"],
        ["answer", "score", "probability", "fact"],
        ["intrain", "new", *(f"ManyNames{i}" for i in range(4))],
    ),
    "ask for relations": (
        ["ask", "{run}", PERSON.format(3), "_", COUNTRY.format(3)],
        ["answer", "score", "probability", "fact"],
        LONG_RELATIONS,
    ),
    "similar": (
        ["similar", "{run}", PERSON.format(3), "--top", "43"],
        ["entity", "cosine", "types in common"],
        ["Twin(", "Q1038)", "Q1039)", "Person"],
    ),
    "explain": (
        ["explain", "{run}", PERSON.format(3), "lives in the country", COUNTRY.format(3)],
        ["head", "tail", "similarity", "both", "dimension", "contribution"],
        [COUNTRY.format(3).replace(" ", ""), people(3), people(103)],
    ),
    "complete": (
        ["complete", "{run}", "--top", "5", "--out", "{out}"],
        ["head", "relation", "tail", "probability"],
        ["5newtriples", "%"],
    ),
    "evaluate": (
        ["evaluate", "{run}", "--by", "relation"],
        ["mrr", "hits@1", "hits@3", "hits@10", "mr", "count"],
        ["bothsides", "heads", "tails"],
    ),
    "geometry": (
        ["geometry", "{run}"],
        ["facts", "classes", "expansion", "rotation", "distortion", "pole"],
        ["lives", "ecountry", "isacquaintedwith", "(untrained)"],
    ),
    "geometry of one relation": (
        ["geometry", "{run}", "--relation", "lives in the country"],
        ["trained", "untrained", "quartiles"],
        ["livesinthecountry", "local_rotation"],
    ),
    "patterns": (
        ["patterns", "{run}"],
        ["pattern", "relations", "distance", "learned", "true", "precision", "recall"],
        ["livesinthecountry"],
    ),
    "shapes": (
        ["shapes", "{run}"],
        ["heads → transformed heads", "dimensions", "share", "permutation baseline"],
        ["permutation"],
    ),
    "calibration": (
        ["calibration", "{run}"],
        ["probability", "Brier score", "expected calibration error"],
        ["sigmoid", "softmax", "calibrated"],
    ),
    "cluster": (
        ["cluster", "{run}"],
        ["within", "between", "silhouette", "purity"],
        ["Person40", "Country4", "permutationbaseline"],
    ),
    "graph info": (
        ["graph", "info", "{graph}"],
        ["relation", "triples", "tails per head", "heads per tail", "category", "forms"],
        ["livesinthecountry", "isacquaintedwith"],
    ),
    "models": (["models"], ["name", "formula", "options", "objective"], ["fivestar", "softmax"]),
    "datasets": (
        ["datasets"],
        ["name", "entities", "relations", "facts", "downloaded", "description"],
        ["nell-995-h100", "40,943", "wn18rr"],
    ),
    "reproduce": (["reproduce"], ["what, and how long"], ["table-fb15k237-wn18rr"]),
}


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", COMMANDS)
def test_every_table_survives_a_narrow_terminal(run_folder, tmp_path, monkeypatch, command, width):
    arguments, titles, texts = COMMANDS[command]
    places = {"run": run_folder / "run", "graph": run_folder / "graph", "out": tmp_path / "o.tsv"}
    text = shown(monkeypatch, width, *(word.format(**places) for word in arguments))
    plain = unwrapped(text)
    for words in titles:
        for word in words.split():
            assert re.search(rf"(?<![\w@]){re.escape(word)}(?![\w@])", text), word
    for each in texts:
        assert each in plain, each
    # No value is cut, only names are.
    assert not re.search(r"\d\.\d+…", text)
    framed = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    assert all(cell_len(line) <= width for line in framed)
    if command not in {"explain", "similar", "ask"}:
        assert BASE not in plain


def test_the_table_holds_what_the_json_holds(run_folder, monkeypatch):
    query = [
        "ask",
        run_folder / "run",
        PERSON.format(3),
        "lives in the country",
        "_",
        "--top",
        "12",
    ]
    answers = json.loads(shown(monkeypatch, 60, *query, "--json"))
    rows = re.findall(r"^\s*(\d+) .*?(-?\d+\.\d{3})", shown(monkeypatch, 60, *query), re.MULTILINE)
    assert rows == [(str(a["rank"]), f"{a['score']:.3f}") for a in answers]


def printed(columns, rows, width):
    text = io.StringIO()
    print_table(columns, rows, console=Console(file=text, width=width))
    return text.getvalue()


WORDS = st.text(st.sampled_from("abcXYZ éß漢/:_"), min_size=1, max_size=90).map(
    lambda text: text.strip() or "x"
)
VALUES = st.integers(-(10**6), 10**6).map(str)


@given(
    st.lists(st.tuples(WORDS, VALUES, VALUES, WORDS), min_size=1, max_size=5), st.integers(40, 120)
)
def test_values_are_whole_and_names_distinct_at_any_width(rows, width):
    columns = [name_column("name"), number_column("one"), "two", prose_column("text")]
    text = printed(columns, rows, width)
    plain = unwrapped(text)
    assert all(cell_len(line) <= width for line in text.splitlines())
    for name, one, two, prose in rows:
        assert one in text
        assert two in text
        first = unwrapped(name)[:3]
        assert first in plain or len(first) < 3
        assert len(unwrapped(prose)) < 3 or unwrapped(prose)[:3] in plain


def test_names_that_would_become_equal_are_wrapped():
    names = [PERSON.format(number) for number in (27, 48)]
    rows = [(name, "1") for name in [*names, "https://example.org/a/long/path/to/P31"]]
    text = printed([name_column("name"), "value"], rows, 40)
    assert "…" in text
    assert all(
        f"Number {number}" in " ".join(text.split()) or str(number) in text for number in (27, 48)
    )


def test_equal_labels_show_their_ids():
    rows = [(Named("Q1", "Paris"), "1"), (Named("Q2", "Paris"), "2"), (Named("Q3", "Rome"), "3")]
    text = printed([name_column("name"), "value"], rows, 60)
    assert "Paris (Q1)" in text
    assert "Paris (Q2)" in text
    assert "Q3" not in text


@given(WORDS, st.integers(3, 100))
def test_shortening_keeps_both_ends(text, width):
    short = shorten(text, width)
    assert cell_len(short) <= width
    if short != text:
        first, _, last = short.partition("…")
        assert text.startswith(first)
        assert text.endswith(last)
