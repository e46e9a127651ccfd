"""Do positive premises give a positive conclusion? The paper's inference of patterns, measured.

The paper calls a pattern inferred if a triple that follows scores above 0 whenever its premises do:
(t, r⁻¹, h) from (h, r, t), and (x, r₂ ∘ r₁, z) from (x, r₁, y) and (y, r₂, z). Two measurements:

exact: The conclusion has the map that the pattern requires, the inverse or the product of the maps
of the premises. Premises are facts of train, or paths of two facts; and the same with random
entities, among which many score above 0 as well.

learned: The patterns are those of the graph, and the conclusion has the relation's own map.
Conclusions that were trained are omitted.

The permutation baseline has the same premises and the tails of the conclusions permuted among those
of the same relations: what a relation scores positive whatever the premises are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.errors import SettingsError
from fivestar.geometry.mobius import compose, entries, inverse, normalize
from fivestar.graph.relation_patterns import RelationRule, find_patterns
from fivestar.models.fivestar import FiveStarE
from fivestar.runs.run import Run

# Maximum number of premises per pattern; more are sampled.
MAX_PREMISES = 10_000
_BATCH_SIZE = 1000

Ids = npt.NDArray[np.int64]
Map = Literal["exact", "learned"]
Source = Literal["facts", "random"]


@dataclass(frozen=True)
class Inference:
    """How often positive premises give a positive conclusion.

    Attributes:
        pattern: "symmetric", "inverse" or "composed".
        map: of the conclusion: "exact" as the pattern requires, or "learned" by the relation.
        source: whether premises are "facts" of train, or of their relations with "random" entities.
        num_rules: the number of relations or pairs of relations in the premises.
        num_premises: the number of sampled premises.
        premises: the share of premises whose scores are all positive.
        conclusions: of these, the share whose conclusion is positive.
        baseline: the same with permuted tails.
    """

    pattern: str
    map: Map
    source: Source
    num_rules: int
    num_premises: int
    premises: float
    conclusions: float
    baseline: float

    def as_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class _Premises:
    """Premises of a pattern: one or two triples each, and the ends of the conclusion.

    The conclusion has the relation `then`, or −1 for the map that the pattern requires.
    """

    triples: Sequence[Ids]  # one or two of (n, 3)
    head: Ids
    tail: Ids
    then: Ids

    def take(self, rows: npt.NDArray[Any]) -> _Premises:
        taken = [triples[rows] for triples in self.triples]
        return _Premises(taken, self.head[rows], self.tail[rows], self.then[rows])


def inference(run: Run, seed: int = 0) -> list[Inference]:
    """Measure how often positive premises give a positive conclusion.

    Args:
        run: a run of a 5★E with Möbius maps and the inner-product score.
        seed: the seed of samples and permutations.

    Returns:
        One measurement per pattern and map; patterns that the graph does not have are omitted, and
        so is the exact composition with the bilinear pairing, where it is no map of a relation.

    Raises:
        SettingsError: if the run is of another model or has another score.
    """
    model, graph = require_mobius(run), run.graph
    if run.settings.model.options["score"] != "inner":
        raise SettingsError("a negative distance is never positive; this needs score inner")
    generator = np.random.default_rng(seed)
    train = np.asarray(graph.train.array, dtype=np.int64)
    measured = []

    def measure(pattern: str, map_: Map, source: Source, premises: _Premises) -> None:
        if len(premises.head):
            measured.append(_measured(model, (pattern, map_, source), premises, generator))

    facts = train[_sample(len(train), MAX_PREMISES, generator)]
    first, second = _paths(train, train, MAX_PREMISES, generator)
    for source in get_args(Source):
        if source == "random":
            facts, first, second = facts.copy(), first.copy(), second.copy()
            for triples in (facts, first, second):
                triples[:, [0, 2]] = generator.integers(len(graph.entities), size=(len(triples), 2))
            second[:, 0] = first[:, 2]
        measure("inverse", "exact", source, _concluded([facts], facts[:, 2], facts[:, 0]))
        if model.pairing == "hermitian":
            concluded = _concluded([first, second], first[:, 0], second[:, 2])
            measure("composed", "exact", source, concluded)
    truth = find_patterns(graph.facts, len(graph.entities), len(graph.relations))
    known = {tuple(row) for row in train.tolist()}
    for pattern in ("symmetric", "inverse", "composed"):
        rules: Sequence[RelationRule] = getattr(truth, pattern)
        if rules:
            limit = max(MAX_PREMISES // len(rules), 2)
            parts = [_of_rule(rule, train, known, limit, generator) for rule in rules]
            measure(pattern, "learned", "facts", _joined(parts))
    return measured


def _concluded(triples: Sequence[Ids], head: Ids, tail: Ids, then: int = -1) -> _Premises:
    return _Premises(triples, head, tail, np.full(len(head), then))


def _sample(count: int, limit: int, generator: np.random.Generator) -> npt.NDArray[np.int64]:
    return np.sort(generator.permutation(count)[:limit])


def _paths(first: Ids, second: Ids, limit: int, generator: np.random.Generator) -> tuple[Ids, Ids]:
    """Return pairs of facts that form a path of two steps, all or a uniform sample."""
    second = second[np.argsort(second[:, 0], kind="stable")]
    start = np.searchsorted(second[:, 0], first[:, 2], "left")
    degree = np.searchsorted(second[:, 0], first[:, 2], "right") - start
    ends = np.cumsum(degree)
    total = int(ends[-1]) if len(ends) else 0
    number = np.arange(total)
    if total > limit:
        number = np.unique(generator.integers(0, total, limit))
    row = np.searchsorted(ends, number, "right")
    return first[row], second[start[row] + number - (ends[row] - degree[row])]


def _of_rule(
    rule: RelationRule,
    train: Ids,
    known: set[tuple[int, ...]],
    limit: int,
    generator: np.random.Generator,
) -> _Premises:
    """Return premises of a rule of the graph whose conclusion was not trained."""
    bodies = [train[train[:, 1] == relation] for relation in rule.given]
    if len(bodies) == 1:
        triples, head, tail = bodies, bodies[0][:, 2], bodies[0][:, 0]
    else:
        # Many conclusions are in train, so more paths are sampled than are used.
        triples = list(_paths(bodies[0], bodies[1], 10 * limit, generator))
        head, tail = triples[0][:, 0], triples[1][:, 2]
    new = [
        (h, rule.then, t) not in known for h, t in zip(head.tolist(), tail.tolist(), strict=True)
    ]
    premises = _concluded(triples, head, tail, rule.then)
    rows = np.flatnonzero(np.array(new, dtype=bool) & (head != tail))
    return premises.take(rows[_sample(len(rows), limit, generator)])


def _joined(parts: Sequence[_Premises]) -> _Premises:
    triples = [np.concatenate(each) for each in zip(*(p.triples for p in parts), strict=True)]
    head, tail, then = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("head", "tail", "then")
    )
    return _Premises(triples, head, tail, then)


def _measured(
    model: FiveStarE,
    kind: tuple[str, Map, Source],
    premises: _Premises,
    generator: np.random.Generator,
) -> Inference:
    scores = [_scores(model, t[:, 0], t[:, 2], _own(model, t[:, 1])) for t in premises.triples]
    positive = np.all([score > 0 for score in scores], axis=0)
    used = premises.take(np.flatnonzero(positive))
    group = _groups(used)
    rows_of = _own(model, used.then) if kind[1] == "learned" else _required(model, used.triples)
    permuted = used.tail[_permutation_within(group, generator)]
    shares = [
        float((_scores(model, used.head, tail, rows_of) > 0).mean()) if len(group) else float("nan")
        for tail in (used.tail, permuted)
    ]
    num_rules = len(np.unique(_groups(premises)))
    return Inference(*kind, num_rules, len(positive), float(positive.mean()), shares[0], shares[1])


def _groups(premises: _Premises) -> Ids:
    """Return equal numbers for premises and conclusions of the same relations."""
    columns = np.stack([*(t[:, 1] for t in premises.triples), premises.then], axis=1)
    if not len(columns):
        return np.empty(0, np.int64)
    groups: Ids = np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1)
    return groups


def _permutation_within(groups: Ids, generator: np.random.Generator) -> npt.NDArray[np.intp]:
    """Return a permutation that moves every row to another one of its group, if there is any.

    >>> _permutation_within(np.array([0, 1, 0, 1, 2]), np.random.default_rng(0)).tolist()
    [2, 3, 0, 1, 4]
    """
    order = np.lexsort((generator.random(len(groups)), groups))
    ordered = groups[order]
    following = np.roll(order, -1)
    start = np.searchsorted(ordered, ordered, "left")
    last = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)[: len(ordered)])
    following[last] = order[start[last]]
    permutation = np.empty_like(order)
    permutation[order] = following
    return permutation


Rows = Callable[[slice], Tensor]


def _own(model: FiveStarE, relations: Ids) -> Rows:
    """Return the rows of relations, batch by batch."""
    return lambda batch: model.relations.detach()[torch.as_tensor(relations[batch])]


def _required(model: FiveStarE, triples: Sequence[Ids]) -> Rows:
    """Return rows of the inverse map, or of the product of two maps, batch by batch."""

    def rows(batch: slice) -> Tensor:
        first, *second = (relation_maps(model, _own(model, t[:, 1])(batch)) for t in triples)
        if second:
            maps = compose(second[0], first)
        else:
            maps = inverse(first if model.pairing == "hermitian" else first.conj())
        parts = [part for e in entries(normalize(maps)) for part in (e.real, e.imag)]
        return torch.cat(parts, dim=-1).to(model.relations.dtype)

    return rows


def _scores(model: FiveStarE, heads: Ids, tails: Ids, rows: Rows) -> npt.NDArray[np.float64]:
    """Return the scores of triples whose relations are given as rows of the relation table."""
    table = model.entities.detach()
    scores = []
    with torch.no_grad():
        for start in range(0, len(heads), _BATCH_SIZE):
            batch = slice(start, start + _BATCH_SIZE)
            query = model.transform(table[torch.as_tensor(heads[batch])], rows(batch))
            scores.append((query * table[torch.as_tensor(tails[batch])]).sum(dim=1))
    if not scores:
        return np.empty(0)
    return torch.cat(scores).double().numpy()
