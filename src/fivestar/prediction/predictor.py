"""The best answers to a question with one open slot: (?, r, t), (h, ?, t) or (h, r, ?)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fivestar.errors import SettingsError
from fivestar.graph.vocabulary import Vocabulary
from fivestar.runs.run import Run


@dataclass(frozen=True)
class Prediction:
    """One answer: its name in the graph, its text for people, and whether the graph knows it."""

    rank: int
    name: str
    label: str
    score: float
    known: bool


def predict_tails(run: Run, head: str, relation: str, top: int = 10) -> list[Prediction]:
    """The likeliest tails of (head, relation, ?)."""
    h, r = run.graph.entities.id_of(head), run.graph.relations.id_of(relation)
    facts = run.graph.facts
    known = facts.tails[(facts.heads == h) & (facts.relations == r)]
    return _best(run.graph.entities, _scores(run, h, r), known, top)


def predict_heads(run: Run, relation: str, tail: str, top: int = 10) -> list[Prediction]:
    """The likeliest heads of (?, relation, tail)."""
    r, t = run.graph.relations.id_of(relation), run.graph.entities.id_of(tail)
    facts = run.graph.facts
    known = facts.heads[(facts.tails == t) & (facts.relations == r)]
    scores = _scores(run, t, r + len(run.graph.relations))
    return _best(run.graph.entities, scores, known, top)


def predict_relations(run: Run, head: str, tail: str, top: int = 10) -> list[Prediction]:
    """The likeliest relations of (head, ?, tail)."""
    h, t = run.graph.entities.id_of(head), run.graph.entities.id_of(tail)
    count = len(run.graph.relations)
    heads, tails = torch.full((count,), h), torch.full((count,), t)
    with torch.no_grad():
        scores = run.model.score(heads, torch.arange(count), tails)
    facts = run.graph.facts
    known = facts.relations[(facts.heads == h) & (facts.tails == t)]
    return _best(run.graph.relations, scores, known, top)


@torch.no_grad()
def _scores(run: Run, head: int, relation: int) -> torch.Tensor:
    model = run.model
    own = len(model.relations)
    if relation >= own:  # a model without reciprocals is asked for the heads of a tail
        return model.score_heads(relation - own, torch.tensor([head]))[0]
    return model.score_tails(torch.tensor([head]), torch.tensor([relation]))[0]


def _best(
    names: Vocabulary,
    scores: torch.Tensor,
    known: np.ndarray[tuple[int], np.dtype[np.int32]],
    top: int,
) -> list[Prediction]:
    if top < 1:
        raise SettingsError(f"top must be at least 1, not {top}")
    values, ids = torch.topk(scores, min(top, len(scores)))
    answers = set(known.tolist())
    return [
        Prediction(rank, names.name_of(i), names.label_of(i), score, i in answers)
        for rank, (score, i) in enumerate(zip(values.tolist(), ids.tolist(), strict=True), start=1)
    ]
