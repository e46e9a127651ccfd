"""Start from given vectors of entities, such as text embeddings or those of an older model.

The vectors are matched by name, reduced to the dimension of the model by PCA if they have more
numbers, and scaled to the size of the model's own initialization (frozen ones to a root mean square
of 1, because what is not trained must have the size of what is). If they have fewer numbers, the
other columns keep the ordinary initialization, and so do entities without a vector. Complex models
have rows [real parts | imaginary parts], which are filled in this order; models with a vector per
role (CP, SimplE) get the same vector in both. Vectors of labels initialize nothing unless they are
frozen, because that brings nothing (measured: docs/inside-5star.md).

Entities without a training fact never learn from it. After training, they get the row that a ridge
regression predicts from their vectors, fitted to the rows of all entities with training facts; its
weight is chosen by generalized cross-validation (Golub et al. 1979).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fivestar.errors import BadSource, DamagedRun, SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.label_vectors import label_vectors
from fivestar.graph.triples import Triples
from fivestar.graph.vector_files import NamedVectors, read_vectors, vectors_of
from fivestar.models.base import Model
from fivestar.runs.run import VECTORS, load_run, write_tensors
from fivestar.training.optimizers import project_to_ball

LABELS = "labels"
Use = Literal["trained", "frozen", "prediction"]
# Weights of the ridge regression that are tried, relative to the mean eigenvalue.
_RIDGE = torch.logspace(-4, 2, 13, dtype=torch.float64)
# Rows that are converted to double precision at once.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class EntityVectors:
    """Vectors (m, k) of some entities, with k at most the dimension of the model.

    Attributes:
        rows: the ids (m) of the entities.
        vectors: their vectors.
        use: whether the entities start from them and are trained or frozen, or whether they only
            predict the entities without a training fact.
        origin: where they come from, for the metrics of the run.
    """

    rows: Tensor
    vectors: Tensor
    use: Use
    origin: dict[str, Any] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write them to the folder of a run."""
        notes = {"origin": json.dumps(self.origin), "use": self.use}
        write_tensors(folder / VECTORS, {"rows": self.rows, "vectors": self.vectors}, notes)

    @classmethod
    def load(cls, folder: Path, num_entities: int) -> EntityVectors | None:
        """Read those of a run; None if it has none.

        Raises:
            DamagedRun: The file cannot be used.
        """
        path = folder / VECTORS
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                notes = file.metadata()
                rows, vectors = file.get_tensor("rows"), file.get_tensor("vectors")
            use: Any = notes["use"]
            found = cls(rows, vectors, use, json.loads(notes["origin"]))
            is_valid = (
                use in get_args(Use)
                and rows.ndim == 1
                and vectors.ndim == 2
                and len(rows) == len(vectors)
                and bool(((rows >= 0) & (rows < num_entities)).all())
                and bool(torch.isfinite(vectors).all())
            )
        except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
            raise DamagedRun(f"{path}: cannot be read ({error}); train again") from error
        if not is_valid:
            raise DamagedRun(f"{path}: does not fit the graph; train again")
        return found

    @torch.no_grad()
    def copy_into(self, model: Model) -> None:
        """Set the vectors of a model that was just initialized."""
        if self.use == "prediction":
            return
        rows, width = self.rows.to(model.entities.device), self.vectors.shape[1]
        for part in model.entity_vectors(model.entities):
            size = 1.0 if self.use == "frozen" else float(part[:, :width].square().mean().sqrt())
            scale = size / float(self.vectors.double().square().mean().sqrt())
            part[rows, :width] = self.vectors.to(part) * scale

    def freezer(self, model: Model) -> Callable[[Tensor], None] | None:
        """Return what sets the gradient of the given vectors to 0; None if they are trained."""
        if self.use != "frozen":
            return None
        table, width = model.entities, self.vectors.shape[1]
        is_given = torch.zeros(len(table), dtype=torch.bool, device=table.device)
        is_given[self.rows.to(table.device)] = True

        def freeze(grad: Tensor) -> None:
            mask = is_given[grad.indices()[0]] if grad.is_sparse else is_given
            for part in model.entity_vectors(grad.values() if grad.is_sparse else grad):
                part[:, :width].masked_fill_(mask[:, None], 0)

        return freeze


def match_vectors(
    given: Any, graph: KnowledgeGraph, model: Model, *, frozen: bool
) -> EntityVectors:
    """Return given vectors by the ids of a graph, reduced to the dimension of the model.

    Args:
        given: a file, the folder of a run, "labels", a mapping from names to vectors, or an array
            with a row per entity of the graph.
        graph: the graph.
        model: the model to train.
        frozen: whether the vectors are not to be trained.

    Raises:
        SourceNotFound: There is no such file.
        BadSource: The vectors are not finite, of different lengths, or of no entity of the graph.
        SettingsError: The model cannot use them.
    """
    if frozen and model.manifold_parameters(model.entities, model.relations):
        raise SettingsError(
            "freeze_entities: the entities of this model are points of a ball, which cannot be "
            "given; train them, or use another model"
        )
    width = model.entity_vectors(model.entities)[0].shape[1]
    named = _named(given, graph, width)
    ids = {name: number for number, name in enumerate(graph.entities)}
    known = [row for row, name in enumerate(named.names) if name in ids]
    if not known:
        examples = ", ".join(repr(name) for name in list(named.names)[:3])
        raise BadSource(
            f"{named.source}: none of its {len(named.names):,} names is an entity of the graph; "
            f"its first are {examples}, an entity is {graph.entities.name_of(0)!r}"
        )
    rows = torch.tensor([ids[named.names[row]] for row in known])
    vectors = torch.tensor(named.vectors[known])
    if not bool(vectors.any()):
        raise BadSource(f"{named.source}: all vectors are 0")
    reduced, share = reduce_dimension(vectors, width)
    use: Use = "frozen" if frozen else "prediction" if _are_labels(given) else "trained"
    origin: dict[str, Any] = {
        "source": named.source,
        "sha256": named.sha256,
        "dimension": vectors.shape[1],
        "used_dimension": reduced.shape[1],
        "explained_variance": share,
        "entities": len(known),
        "without": len(graph.entities) - len(known),
        "unknown_names": len(named.names) - len(known),
        "use": use,
    }
    return EntityVectors(rows, reduced, use, origin)


def _are_labels(given: Any) -> bool:
    return isinstance(given, str) and given == LABELS


def _named(given: Any, graph: KnowledgeGraph, width: int) -> NamedVectors:
    if _are_labels(given):
        return label_vectors(graph.entities, width)
    if isinstance(given, Mapping):
        return vectors_of(given)
    if isinstance(given, str | Path) or hasattr(given, "__fspath__"):
        path = Path(given)
        if (path / "settings.toml").is_file():
            run = load_run(path)
            table = run.model.entities.detach().float().cpu().numpy()
            return NamedVectors(list(run.graph.entities), table, str(path))
        return read_vectors(path)
    table = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    if table.ndim != 2 or len(table) != len(graph.entities):
        raise SettingsError(
            f"entity_vectors: an array needs a row per entity, ({len(graph.entities):,}, …), not "
            f"{table.shape}; give a mapping from names to vectors"
        )
    return NamedVectors(list(graph.entities), table, "entity_vectors")


def reduce_dimension(vectors: Tensor, width: int) -> tuple[Tensor, float]:
    """Return vectors of at most this many numbers, by PCA, and the share of variance they keep."""
    if vectors.shape[1] <= width:
        return vectors, 1.0
    mean = vectors.double().mean(dim=0)
    covariance = torch.zeros(vectors.shape[1], vectors.shape[1], dtype=torch.float64)
    for block in torch.split(vectors, _BLOCK):
        centered = block.double() - mean
        covariance += centered.T @ centered
    values, axes = torch.linalg.eigh(covariance)
    first = axes[:, values.argsort(descending=True)[:width]]
    share = float(values.sort(descending=True)[0][:width].sum() / values.sum().clamp(min=1e-300))
    parts = [(block.double() - mean) @ first for block in torch.split(vectors, _BLOCK)]
    return torch.cat(parts).float(), share


@torch.no_grad()
def fill_unseen(model: Model, given: EntityVectors, facts: Triples) -> int:
    """Predict the rows of entities without a fact from their vectors; return their number.

    Args:
        model: the trained model.
        given: the vectors. Frozen ones are kept as they are.
        facts: what the model was trained on.
    """
    if given.use == "frozen":
        return 0
    is_seen = np.zeros(model.num_entities, bool)
    is_seen[facts.heads] = is_seen[facts.tails] = True
    seen = torch.tensor(is_seen)[given.rows]
    num_seen, num_unseen = int(seen.sum()), int((~seen).sum())
    if not num_unseen or num_seen < 2:
        return 0
    table = model.entities
    targets = table[given.rows[seen].to(table.device)].cpu()
    map_, offset = fit_ridge(given.vectors[seen], targets)
    predicted = (given.vectors[~seen].double() @ map_ + offset).to(table)
    table[given.rows[~seen].to(table.device)] = predicted
    project_to_ball(model)
    return num_unseen


def fit_ridge(inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the map (k, D) and offset (D) of a ridge regression.

    Its weight is the one of least generalized cross-validation error.
    """
    count = len(inputs)
    input_mean, target_mean = inputs.double().mean(dim=0), targets.double().mean(dim=0)
    gram = torch.zeros(inputs.shape[1], inputs.shape[1], dtype=torch.float64)
    cross = torch.zeros(inputs.shape[1], targets.shape[1], dtype=torch.float64)
    square = 0.0
    for block, values in zip(
        torch.split(inputs, _BLOCK), torch.split(targets, _BLOCK), strict=True
    ):
        x, y = block.double() - input_mean, values.double() - target_mean
        gram += x.T @ x
        cross += x.T @ y
        square += float(y.square().sum())
    eigenvalues, axes = torch.linalg.eigh(gram)
    eigenvalues = eigenvalues.clamp(min=0)
    rotated = axes.T @ cross
    norms = rotated.square().sum(dim=1)
    weights = _RIDGE * eigenvalues.mean().clamp(min=1e-30)
    shrunk = eigenvalues + weights[:, None]
    residual = square - (norms * (eigenvalues + 2 * weights[:, None]) / shrunk.square()).sum(dim=1)
    degrees = 1 + (eigenvalues / shrunk).sum(dim=1)  # the offset is a parameter, too
    errors = residual.clamp(min=0) / (count - degrees).clamp(min=1e-9).square()
    weight = weights[errors.argmin()]
    map_ = axes @ (rotated / (eigenvalues + weight)[:, None])
    return map_, target_mean - input_mean @ map_
