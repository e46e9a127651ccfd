"""Convert trained models: to a 5★E with the same scores, and from PyKEEN.

A 5★E contains every model that transforms each complex dimension separately by an affine map and
has one of its scores: DistMult, ComplEx and pRotatE (l2) with the inner product, TransE and RotatE
with the distance in their own norm.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fivestar.errors import ConversionImpossible
from fivestar.geometry.complex_pairs import Complex, to_row
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.base import Model
from fivestar.models.bilinear import CP, RESCAL, ComplEx, DistMult, SimplE
from fivestar.models.distances import L1Distance, ModulusDistance, SquaredSineDistance
from fivestar.models.fivestar import Denominator, FiveStarE
from fivestar.models.hyperbolic import MuRP
from fivestar.models.neural import ConvE, TuckER
from fivestar.models.registry import make_model
from fivestar.models.rotation import PRotatE, QuatE, RotatE
from fivestar.models.translation import MuRE, TransE

Score = Literal["inner", "distance"]

# Tolerance for the modulus of a rotation, which is 1.
_UNIT = 1e-4

_TWO_VECTORS = "an entity has one vector as head and another as tail; in a 5★E it has one"
_MIXED = "it mixes dimensions, and a 5★E transforms each complex dimension separately"
_IMPOSSIBLE: dict[type[Model], str] = {
    SimplE: _TWO_VECTORS,
    CP: _TWO_VECTORS,
    RESCAL: _MIXED,
    TuckER: _MIXED,
    ConvE: "it is a network, not a map of each dimension",
    QuatE: "a quaternion product mixes two complex dimensions, which a 5★E transforms separately",
    MuRP: "its points lie on a Poincaré ball, which has another distance",
    MuRE: "a 5★E has no squared distance and no biases",
    FiveStarE: "it is one already",
}
_POSSIBLE = (DistMult, ComplEx, PRotatE, RotatE, TransE)


class Converted(NamedTuple):
    """A 5★E with its options; its scores are `scale` · the old ones + `shift`."""

    model: FiveStarE
    dim: int
    options: dict[str, Any]
    scale: float = 1.0
    shift: float = 0.0


class _Parts(NamedTuple):
    """A model in the form of a 5★E: points, the maps a z + b, and the score."""

    points: Complex
    a: Complex
    b: Complex
    score: Score
    norm: str = "l2"
    scale: float = 1.0
    shift: float = 0.0


@torch.no_grad()
def to_fivestar(
    model: Model, score: Score | None = None, denominator: Denominator = "mobius"
) -> Converted:
    """Return the same model as a 5★E: with the same scores, or (pRotatE) with the same ranks.

    Args:
        model: A DistMult, ComplEx, pRotatE (norm l2), RotatE or TransE.
        score: The score of the 5★E; by default the one that the model needs.
        denominator: All denominators agree on affine maps; they differ under further training.

    Raises:
        ConversionImpossible: A 5★E does not contain this model, or not with this score.
    """
    name = type(model).__name__
    parts = _parts(model, name)
    if score is not None and score != parts.score:
        raise ConversionImpossible(
            f"a 5★E with the {score} score cannot give the scores of {name}, which "
            + (
                "compares by a distance; use score distance"
                if parts.score == "distance"
                else "compares by an inner product; use score inner"
            )
        )
    dim = parts.points.real.shape[1]
    options = {"denominator": denominator, "score": parts.score, "norm": parts.norm}
    converted = FiveStarE(
        len(model.entities),
        len(model.relations),
        dim,
        denominator=denominator,
        score=parts.score,
        norm=parts.norm,  # type: ignore[arg-type]
    ).to(model.entities)
    converted.entities.copy_(to_row(parts.points))
    # The softened map divides by |d|²(1 + ε): this d has the effect of 1.
    d = 1 / (1 + converted.epsilon) if denominator == "mobius" else 1.0
    for entry, value in zip(
        converted.relations.chunk(4, dim=1)[:2], (parts.a, parts.b), strict=True
    ):
        entry.copy_(to_row(value))
    converted.relations.chunk(4, dim=1)[2].zero_()
    converted.relations.chunk(4, dim=1)[3].copy_(to_row(_real(torch.full_like(parts.a.real, d))))
    return Converted(converted.eval(), dim, options, parts.scale, parts.shift)


def _parts(model: Model, name: str) -> _Parts:
    reason = _IMPOSSIBLE.get(type(model))
    if reason is not None:
        raise ConversionImpossible(f"{name} cannot become a 5★E: {reason}")
    if type(model) not in _POSSIBLE:  # a subclass has another formula
        raise ConversionImpossible(f"{name} cannot become a 5★E: its formula is not known here")
    entities, relations = model.entities.detach(), model.relations.detach()
    match model:
        case DistMult():
            return _Parts(_real(entities), _real(relations), _zeros(relations), "inner")
        case ComplEx():
            points, a = (Complex(*table.chunk(2, dim=1)) for table in (entities, relations))
            return _Parts(points, a, _zeros(a.real), "inner")
        case PRotatE():
            if not isinstance(model.similarity, SquaredSineDistance):
                raise ConversionImpossible(
                    "pRotatE in its authors' form Σ|sin| cannot become a 5★E; train it with norm l2"
                )
            # −Σ sin²(x/2) = (Σ cos x − d)/2.
            shift = float(entities.shape[1])
            points, a = _on_circle(entities), _on_circle(relations)
            return _Parts(points, a, _zeros(relations), "inner", scale=2.0, shift=shift)
        case RotatE():
            points = Complex(*entities.chunk(2, dim=1))
            norm = "modulus" if isinstance(model.similarity, ModulusDistance) else "l2"
            return _Parts(points, _on_circle(relations), _zeros(relations), "distance", norm)
        case TransE():
            norm = "l1" if isinstance(model.similarity, L1Distance) else "l2"
            once = _real(torch.ones_like(relations))
            return _Parts(_real(entities), once, _real(relations), "distance", norm)
    raise AssertionError(name)


def _real(values: Tensor) -> Complex:
    return Complex(values, torch.zeros_like(values))


def _zeros(like: Tensor) -> Complex:
    return _real(torch.zeros_like(like))


def _on_circle(angles: Tensor) -> Complex:
    wide = angles.double()
    return Complex(wide.cos().to(angles), wide.sin().to(angles))


class Imported(NamedTuple):
    """A model from another toolkit, with its name and options here."""

    model: Model
    name: str
    dim: int
    options: dict[str, Any]
    graph: KnowledgeGraph
    reciprocals: bool


@torch.no_grad()
def from_pykeen(model: Any, triples_factory: Any) -> Imported:
    """Return a 5★E, TransE, RotatE, DistMult or ComplEx trained in PyKEEN, with the same scores.

    Args:
        model: The model, for instance `pipeline(...).model`.
        triples_factory: Its training data, for instance `pipeline(...).training`, with the names of
            entities and relations and the training triples.

    Raises:
        ConversionImpossible: Another model, or a triples factory that does not belong to it.
    """
    interaction = model.interaction
    kind = type(interaction).__name__.removesuffix("Interaction").lower()
    if kind not in {"fivestare", "transe", "rotate", "distmult", "complex"}:
        raise ConversionImpossible(
            f"{type(model).__name__} cannot be converted from PyKEEN; FiveStarE, TransE, RotatE, "
            "DistMult and ComplEx can"
        )
    options: dict[str, Any] = {}
    if kind == "fivestare":  # that of fivestar.integrations.pykeen
        kind, options = "fivestar", dict(interaction.options)
    if kind == "transe":
        if interaction.p not in {1, 2} or interaction.power_norm:
            raise ConversionImpossible("only TransE with the plain 1- or 2-norm can be converted")
        options["norm"] = f"l{interaction.p}"
    if kind == "rotate":
        options["norm"] = "l2"  # PyKEEN's RotatE has no other, whatever its p is
    (entities,) = _tables(model.entity_representations, type(model).__name__)
    entries = _tables(model.relation_representations, type(model).__name__)
    relations = entries[0] if len(entries) == 1 else torch.stack(entries, dim=1)
    graph = _graph_of(triples_factory)
    reciprocals = bool(model.use_inverse_triples)
    if reciprocals:  # even rows are relations, odd rows their reciprocals
        relations = torch.cat([relations[0::2], relations[1::2]])
    expected = len(graph.entities), len(graph.relations) * (1 + reciprocals)
    if (len(entities), len(relations)) != expected:
        raise ConversionImpossible(
            f"the model has {len(entities)} entities and {len(relations)} relations, its "
            f"triples_factory {expected[0]} and {expected[1]}; give the one it was trained on"
        )
    if kind == "rotate":
        relations = _angles(relations)
    dim = entities.shape[1]
    converted = make_model(kind, *expected, dim, **options)
    for table, content in ((converted.entities, entities), (converted.relations, relations)):
        rows = to_row(Complex(content.real, content.imag)) if content.is_complex() else content
        table.copy_(rows.flatten(1))
    return Imported(converted.eval(), kind, dim, options, graph, reciprocals)


def _tables(representations: Any, name: str) -> list[Tensor]:
    """Return the rows of each representation, all of them vectors."""
    tables = [representation().detach().cpu() for representation in representations]
    for rows in tables:
        if rows.ndim != 2:
            raise ConversionImpossible(
                f"{name} has rows of shape {tuple(rows.shape[1:])}, not vectors"
            )
    return tables


def _angles(rotations: Tensor) -> Tensor:
    modulus = rotations.abs()
    if (modulus - 1).abs().max() > _UNIT:
        raise ConversionImpossible(
            "the relations of this RotatE are not rotations: their modulus is not 1"
        )
    return rotations.angle()


def _graph_of(factory: Any) -> KnowledgeGraph:
    """Return the training triples of a triples factory; without names, ids are the names."""

    def vocabulary(kind: str, count: int) -> Vocabulary:
        by_name = getattr(factory, f"{kind}_to_id", None) or {str(n): n for n in range(count)}
        return Vocabulary(kind, sorted(by_name, key=by_name.__getitem__))

    entities = vocabulary("entity", factory.num_entities)
    relations = vocabulary("relation", factory.real_num_relations)
    columns = factory.mapped_triples.cpu().numpy().astype(np.int32).T
    train = Triples(*(np.ascontiguousarray(column) for column in columns)).distinct()
    return KnowledgeGraph("pykeen", entities, relations, train)
