"""5★E as an interaction and a model of PyKEEN."""

# No `from __future__ import annotations`: PyKEEN's command line reads the annotations as types.
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import torch
from class_resolver import HintOrType, OptionalKwargs
from docdata import parse_docdata
from pykeen.constants import DEFAULT_EMBEDDING_HPO_EMBEDDING_DIM_RANGE
from pykeen.losses import CrossEntropyLoss, Loss
from pykeen.models import ERModel
from pykeen.nn.modules import Interaction
from pykeen.regularizers import Regularizer
from torch import Tensor

from fivestar.errors import ConversionImpossible
from fivestar.geometry.complex_pairs import Complex, Matrix, from_row, to_row
from fivestar.integrations.pykeen.data import triples_factory
from fivestar.models import fivestar as formula
from fivestar.models.base import INIT_STD
from fivestar.models.similarity import InnerProduct
from fivestar.runs.run import Run

_OPTIONS = ("denominator", "pairing", "score", "norm", "epsilon")
Relation = tuple[Tensor, Tensor, Tensor, Tensor]


@parse_docdata
class FiveStarEInteraction(Interaction[Tensor, Relation, Tensor]):
    r"""The interaction function of 5★E.

    .. math::

        f(h, r, t) = \operatorname{Re} \sum_i \frac{a_i h_i + b_i}{c_i h_i + d_i} \overline{t_i}

    or minus a distance of the transformed head and the tail. Heads, tails and a, b, c, d are
    complex vectors; real ones have imaginary parts of 0.
    ---
    citation:
        author: Nayyeri
        year: 2021
        link: https://arxiv.org/abs/2006.04986
    """

    relation_shape = ("d", "d", "d", "d")
    is_complex: ClassVar[bool] = True

    def __init__(
        self,
        denominator: str = "mobius",
        pairing: str = "hermitian",
        score: str = "inner",
        norm: str = "l2",
        epsilon: float = 1e-6,
    ) -> None:
        """Initialize the interaction.

        Args:
            denominator: the exact map ("mobius"), its phase only ("phase", as the authors' code
                has it), or the affine part ("none").
            pairing: compare with conj(t) ("hermitian") or with t ("bilinear").
            score: "inner" product or negative "distance".
            norm: norm of the distance: "l1", "l2", or "modulus" for the sum of complex moduli.
            epsilon: softening of the pole of the exact map.

        Raises:
            SettingsError: if an option has a wrong value, or two exclude one another.
        """
        super().__init__()
        given = (denominator, pairing, score, norm, epsilon)
        options = formula.FiveStarE.resolve_options(dict(zip(_OPTIONS, given, strict=True)))
        self.options = {name: options[name] for name in _OPTIONS}
        self.similarity = formula.similarity_of(score, norm)

    def forward(self, h: Tensor, r: Relation, t: Tensor) -> Tensor:
        """Return the scores of broadcast representations.

        Args:
            h: heads (…, d).
            r: the entries a, b, c and d of relations, each (…, d).
            t: tails (…, d).

        Returns:
            Scores (…).
        """
        form = (self.options[name] for name in ("denominator", "pairing", "epsilon"))
        query = to_row(formula.transform_heads(_parts(h), Matrix(*map(_parts, r)), *form))
        tail = to_row(_parts(t))
        if isinstance(self.similarity, InnerProduct):
            # A matrix product where heads and tails are all combined, unlike `score_pairs`.
            return torch.einsum("...d,...d->...", query, tail)
        return self.similarity.score_pairs(query, tail)


class FiveStarE(ERModel[Tensor, Relation, Tensor]):  # type: ignore[no-untyped-call]
    r"""5★E (Nayyeri et al., AAAI 2021): relations as Möbius maps of each complex dimension.

    The paper trains with inverse triples and the cross entropy over all entities (LCWA). That is
    the default loss of this model; PyKEEN's pipeline needs `loss="crossentropy"` for it.
    ---
    citation:
        author: Nayyeri
        year: 2021
        link: https://arxiv.org/abs/2006.04986
    """

    #: The default strategy for optimizing the model's hyper-parameters
    hpo_default: ClassVar[Mapping[str, Any]] = {
        "embedding_dim": DEFAULT_EMBEDDING_HPO_EMBEDDING_DIM_RANGE,
        "denominator": {"type": "categorical", "choices": ["mobius", "phase", "none"]},
        "pairing": {"type": "categorical", "choices": ["hermitian", "bilinear"]},
    }
    #: The loss of the paper
    loss_default: ClassVar[type[Loss]] = CrossEntropyLoss
    loss_default_kwargs: ClassVar[Mapping[str, Any] | None] = None

    def __init__(  # type: ignore[no-untyped-def]  # noqa: PLR0913
        self,
        *,
        embedding_dim: int = 200,
        denominator: str = "mobius",
        pairing: str = "hermitian",
        score: str = "inner",
        norm: str = "l2",
        pole_epsilon: float = 1e-6,
        init: str | None = None,
        off_diagonal_lr: float | None = None,
        regularizer: HintOrType[Regularizer] = None,
        regularizer_kwargs: OptionalKwargs = None,
        **kwargs,
    ) -> None:
        """Initialize the model.

        Args:
            embedding_dim: number of complex dimensions.
            denominator: the exact map ("mobius"), its phase only ("phase"), or the affine part
                ("none").
            pairing: compare with conj(t) ("hermitian") or with t ("bilinear").
            score: "inner" product or negative "distance".
            norm: norm of the distance: "l1", "l2" or "modulus".
            pole_epsilon: softening of the pole of the exact map (`epsilon` in fivestar; PyKEEN's
                command line has an option --epsilon with another default).
            init: "rotation", "identity" or "small"; by default "small" for denominator "phase",
                else "rotation".
            off_diagonal_lr: learning rate of b and c relative to that of all others, for optimizers
                whose steps do not depend on the scale of gradients (Adagrad, Adam). By default 1
                with init "small", else 0.1.
            regularizer: the regularizer of entities and of each of a, b, c and d.
            regularizer_kwargs: arguments of the regularizer.
            **kwargs: arguments of `pykeen.models.ERModel`, such as `triples_factory` and `loss`.

        Raises:
            SettingsError: if an option has a wrong value, or two exclude one another.
        """
        form = dict(zip(_OPTIONS, (denominator, pairing, score, norm, pole_epsilon), strict=True))
        given = {"init": init, "off_diagonal_lr": off_diagonal_lr}
        options = formula.FiveStarE.resolve_options(
            form | {name: value for name, value in given.items() if value is not None}
        )
        shared = {
            "shape": embedding_dim,
            "dtype": torch.cfloat,
            "regularizer": regularizer,
            "regularizer_kwargs": regularizer_kwargs,
        }
        super().__init__(
            interaction=FiveStarEInteraction,
            interaction_kwargs=form,
            entity_representations_kwargs={**shared, "initializer": init_small},
            relation_representations_kwargs=[
                {**shared, **own} for own in _entries(options["init"], options["off_diagonal_lr"])
            ],
            **kwargs,
        )
        self.options = options

    @classmethod
    def from_run(cls, run: Run, **kwargs: Any) -> Self:
        """Return a trained 5★E of fivestar, whose training PyKEEN can continue.

        Args:
            run: a trained model, as `fivestar.train` and `fivestar.load` return it.
            **kwargs: arguments of the constructor, such as `loss` and `regularizer`.

        Raises:
            ConversionImpossible: if it is another model than 5★E.
        """
        source = run.model
        if not isinstance(source, formula.FiveStarE):
            raise ConversionImpossible(
                f"{type(source).__name__} is not a 5★E; use fivestar.integrations.pykeen.from_run, "
                "which takes every model"
            )
        num_relations = len(run.graph.relations)
        reciprocals = len(source.relations) > num_relations
        options = dict(run.settings.model.options)
        options["pole_epsilon"] = options.pop("epsilon")
        kwargs = {"random_seed": 0, **options, **kwargs}
        model = cls(
            triples_factory=triples_factory(run.graph, create_inverse_triples=reciprocals),
            embedding_dim=source.dim,
            **kwargs,
        )
        relations = source.relations.detach()
        if reciprocals:  # PyKEEN has each relation followed by its reciprocal
            relations = torch.stack(relations.chunk(2), dim=1).flatten(0, 1)
        model._load_tables(from_row(source.entities.detach()), source.matrix(relations))
        return model

    @torch.no_grad()
    def _load_tables(self, entities: Complex, m: Matrix) -> None:
        (entity,) = self.entity_representations
        for representation, values in zip(
            (entity, *self.relation_representations), (entities, *m), strict=True
        ):
            (weight,) = representation.parameters()
            scale = 1.0 if representation.normalizer is None else self.options["off_diagonal_lr"]
            weight.copy_((torch.stack(values, dim=-1) / scale).flatten(1))


def _parts(x: Tensor) -> Complex:
    return Complex(x.real, x.imag) if x.is_complex() else Complex(x, torch.zeros_like(x))


def _entries(init: str, off_diagonal_lr: float) -> list[dict[str, Any]]:
    """Return the arguments of the embeddings of a, b, c and d.

    b and c are stored divided by their relative learning rate, and multiplied where they are used:
    a step of Adagrad or Adam then changes them by that much less. With 0 they are constant.
    """
    first, last = {
        "rotation": (init_rotation, init_one),
        "identity": (init_identity, init_identity),
        "small": (init_small, init_small),
    }[init]
    scale = off_diagonal_lr or 1.0
    off_diagonal: dict[str, Any] = {
        "initializer": init_small,
        "initializer_kwargs": {"scale": 1 / scale},
        "trainable": off_diagonal_lr > 0,
    }
    if scale != 1:
        off_diagonal |= {"normalizer": multiply, "normalizer_kwargs": {"factor": scale}}
    return [{"initializer": first}, off_diagonal, off_diagonal, {"initializer": last}]


def init_small(x: Tensor, scale: float = 1.0) -> Tensor:
    """Return normal numbers × 1e-3, of the shape (…, 2) of complex numbers as pairs."""
    return torch.nn.init.normal_(x, std=INIT_STD * scale)


def init_identity(x: Tensor) -> Tensor:
    """Return normal complex numbers × 1e-3 plus 1."""
    x = init_small(x)
    x[..., 0] += 1
    return x


def init_rotation(x: Tensor) -> Tensor:
    """Return complex numbers of modulus 1 with random angles."""
    angle = torch.empty_like(x[..., 0]).uniform_(0, 2 * torch.pi)
    return torch.stack([angle.cos(), angle.sin()], dim=-1)


def init_one(x: Tensor) -> Tensor:
    """Return complex ones."""
    return torch.stack([torch.ones_like(x[..., 0]), torch.zeros_like(x[..., 0])], dim=-1)


def multiply(x: Tensor, factor: float) -> Tensor:
    """Return x times a factor."""
    return x * factor
