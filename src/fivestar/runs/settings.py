"""The settings of a run: the same names in Python, in TOML and, with dashes, as flags."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fivestar.errors import FivestarError, SettingsError
from fivestar.plugins import OBJECTIVES, REGULARIZERS
from fivestar.runs.defaults import (
    CURRENT,
    GRAPH_DEFAULTS,
    GraphSize,
    default_training,
    defaults_for,
    validation_sample,
    with_defaults_of,
    with_method,
)
from fivestar.runs.renamed import NAMES, current_names, note_renamed
from fivestar.runs.units import parse_bytes
from fivestar.spelling import closest_names, did_you_mean

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph

_LARGEST_FILE = 1 << 20
# More threads than any machine has, and few enough that the operating system starts them.
MAX_THREADS = 1024
# Larger whole numbers do not fit a TOML file or a tensor.
_MAX_COUNT = 2**31 - 1
# There are about as many buckets of facts as the square of the number of partitions.
_MAX_PARTITIONS = 1024
_OVER_NEGATIVES = ("negative-sampling", "margin")
# Settings that mean something for some objectives only.
_ONLY_FOR: dict[str, Collection[str]] = {
    "label_smoothing": OBJECTIVES,
    "num_candidates": OBJECTIVES,
    "relation_loss_weight": ("softmax",),
    "precision": OBJECTIVES,
    "num_negatives": _OVER_NEGATIVES,
    "negatives_from": _OVER_NEGATIVES,
    "negative_candidates": _OVER_NEGATIVES,
    "negative_candidates_share": _OVER_NEGATIVES,
    "corruption": _OVER_NEGATIVES,
    "margin": _OVER_NEGATIVES,
    "adversarial_temperature": ("negative-sampling",),
}


def _known_name(name: str, known: Collection[str]) -> str:
    if name not in known:
        hint = did_you_mean(closest_names(name, known))
        raise ValueError(f"Input should be {', '.join(known)}{hint}")
    return name


class _Section(BaseModel):
    # With validated defaults, a value has the same type before it is saved and when it is read.
    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        protected_namespaces=(),
        allow_inf_nan=False,
        validate_default=True,
    )


class ModelSettings(_Section):
    """The model: its name, its dimension, and the options that its class declares.

    Options are flat keys beside `name` and `dim`; `Settings` validates them and fills in
    their defaults.

    >>> ModelSettings(name="transe", norm="l2").options
    {'norm': 'l2'}
    """

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    name: str = Field("fivestar", description="Name of the model; `fivestar models` lists them.")
    dim: int = Field(
        100,
        ge=1,
        le=_MAX_COUNT,
        description="Embedding dimension (complex dimensions for complex models).",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The options of the model by name."""
        return dict(self.model_extra or {})


class TrainingSettings(_Section):
    """Settings of the training."""

    objective: str = Field(
        "softmax",
        description="Loss: softmax or bce (all entities), negative-sampling or margin (sampled "
        "negatives), or one of a package.",
    )
    num_candidates: int = Field(
        0,
        ge=0,
        le=_MAX_COUNT,
        description="Sampled candidates per step, besides the targets (0: all entities).",
    )
    relation_loss_weight: float = Field(
        0.0,
        ge=0,
        description="Weight of the auxiliary relation-prediction loss (0: off).",
    )
    num_relation_candidates: int = Field(
        0, ge=0, le=_MAX_COUNT, description="Relations sampled per step for that loss (0: all)."
    )
    num_negatives: int = Field(64, ge=1, le=_MAX_COUNT, description="Negative samples per triple.")
    negatives_from: Literal["all", "unknown"] = Field(
        "all",
        description="Sample negatives from all entities, or only from non-answers.",
    )
    negative_candidates: Literal["all", "observed", "types"] = Field(
        "all",
        description="Sample negatives from all entities, from those seen on that side of the "
        "relation, or from those that share a type with one of these.",
    )
    negative_candidates_share: float = Field(
        0.5,
        gt=0,
        le=1,
        description="Share of the negatives that come from these; the others from all entities.",
    )
    corruption: Literal["uniform", "bernoulli"] = Field(
        "uniform",
        description="Corrupt heads and tails equally often, or by the relation's tails per head.",
    )
    margin: float = Field(
        6.0,
        ge=0,
        description="Margin of the loss (with negative-sampling: added to all scores).",
    )
    adversarial_temperature: float | None = Field(
        None,
        ge=0,
        description="Self-adversarial temperature. (default: none, equal weights)",
    )
    epochs: int = Field(40, ge=0, le=_MAX_COUNT, description="Passes over the training queries.")
    batch_size: int = Field(500, ge=1, le=_MAX_COUNT, description="Queries per batch.")
    optimizer: Literal[
        "adagrad", "row-adagrad", "adam", "sgd", "riemannian-sgd", "riemannian-adagrad"
    ] = Field(
        "adagrad",
        description="Optimizer; row-adagrad has half the memory of adagrad, riemannian-sgd and "
        "riemannian-adagrad are for MuRP.",
    )
    lr: float = Field(0.1, gt=0, description="Learning rate.")
    regularizer: str = Field(
        "n3-transformed",
        description="Regularizer: n3, n3-transformed, f2, dura, none, or one of a package.",
    )
    reg_weight: float = Field(0.1, ge=0, description="Regularization weight.")
    reg_exponent: float = Field(
        3.0,
        ge=2,
        le=6,
        description="Exponent p of Σ|x|ᵖ, of the regularizers n3 and n3-transformed.",
    )
    label_smoothing: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of the target distribution that is spread evenly over all entities.",
    )
    warmup: float = Field(0.0, ge=0, description="Epochs of linear learning-rate warmup.")
    decay: Literal["none", "linear"] = Field(
        "none", description="Learning-rate schedule: constant, or linear decay to 0."
    )
    average: int = Field(
        0,
        ge=0,
        le=_MAX_COUNT,
        description="Average the weights of about the last N epochs (0: off).",
    )
    clip: float = Field(
        0.0, ge=0, description="Clip the global gradient norm to this value (0: off)."
    )
    reciprocals: bool = Field(
        default=True,
        description="Reciprocal relations for head queries, or exhaustive head scoring.",
    )
    grouping: Literal["queries", "triples"] = Field(
        "queries",
        description="Batch unique (head, relation) queries, or single triples (slower, same loss).",
    )
    patience: int = Field(
        0,
        ge=0,
        le=_MAX_COUNT,
        description="Stop early after this many validations without a better MRR (0: off).",
    )
    evaluate_every: int = Field(
        5, ge=0, le=_MAX_COUNT, description="Epochs between validations (0: no validation)."
    )
    validation_queries: int = Field(
        0,
        ge=0,
        le=_MAX_COUNT,
        description="Rank a fixed sample of this many validation queries, two per triple (0: all; "
        "above 100,000 entities, 10,000 unless it is set).",
    )
    refit: bool = Field(
        default=False,
        description="Train again on train and valid for the best number of epochs.",
    )
    checkpoint_every: int = Field(
        1,
        ge=1,
        le=_MAX_COUNT,
        description="Epochs between checkpoints; more while writing one would take over a tenth of "
        "the time.",
    )
    checkpoint_minutes: float = Field(
        10.0, gt=0, description="Minutes between checkpoints, also within an epoch."
    )
    snapshot_epochs: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        (), description="Epochs whose weights are saved for analysis, as in 0,5,10."
    )
    seed: int = Field(0, ge=0, lt=2**31, description="Random seed.")
    threads: int = Field(0, ge=0, le=MAX_THREADS, description="CPU threads (0: all).")
    memory: str | None = Field(
        None, description="Limit of the working set, as in 2GiB. (default: none)"
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="Device.")
    table: Literal["memory", "mmap"] = Field(
        "memory",
        description="Entity table and optimizer state in memory, or in mapped files that may be "
        "larger.",
    )
    partitions: int = Field(
        1,
        ge=1,
        le=_MAX_PARTITIONS,
        description="Partitions of the entities; a batch touches two (1: batches are random).",
    )
    query_groups: int = Field(
        1,
        ge=1,
        le=_MAX_COUNT,
        description="Groups of processes, each with an entity table, that divide the queries of a "
        "batch between them; must divide the number of processes.",
    )
    precision: Literal["float32", "tf32", "bf16", "auto"] = Field(
        "float32",
        description="Precision of the matrix products, where the device supports it (auto: bf16 if "
        "it does, else float32).",
    )
    max_minutes: float = Field(0, ge=0, description="Stop after this many minutes (0: no limit).")

    @field_validator("objective")
    @classmethod
    def _is_an_objective(cls, name: str) -> str:
        return _known_name(name, [*OBJECTIVES, *_OVER_NEGATIVES])

    @field_validator("regularizer")
    @classmethod
    def _is_a_regularizer(cls, name: str) -> str:
        return _known_name(name, REGULARIZERS)

    @field_validator("memory")
    @classmethod
    def _is_a_size(cls, text: str | None) -> str | None:
        if text is not None:
            parse_bytes(text)
        return text

    @field_validator("snapshot_epochs", mode="before")
    @classmethod
    def _from_text(cls, value: Any) -> Any:
        """Split the text `0,5,10` of a flag; settings files have a list."""
        return [part for part in value.split(",") if part] if isinstance(value, str) else value


class Settings(_Section):
    """All settings of a run, with every default filled in that depends on the model.

    Defaults that depend on the graph are left open until `for_graph`.

    Raises:
        SettingsError: The model does not have an option, or a setting would have no effect.

    >>> Settings(model={"name": "complex"}).training.lr
    0.3
    """

    model: ModelSettings = ModelSettings()
    training: TrainingSettings = TrainingSettings()

    def __init__(self, **sections: Any) -> None:
        from fivestar.models.registry import MODELS  # noqa: PLC0415  (slow to import)

        super().__init__(**sections)
        name, given = self.model.name, self.training.model_dump(exclude_unset=True)
        options = {key: v for key, v in self.model.options.items() if v is not None}
        options = MODELS[name].resolve_options(options)
        defaults = default_training(name, given, self.model.dim)
        training = TrainingSettings(**{**defaults, **given})
        _check_training(training)
        model = ModelSettings(name=name, dim=self.model.dim, **options)
        # Settings are frozen: this is the only assignment, before the object is used.
        self.__dict__.update(model=model, training=training)

    @property
    def is_concrete(self) -> bool:
        """Whether all defaults that depend on the graph are filled in."""
        return self.training.model_fields_set >= GRAPH_DEFAULTS

    def for_graph(self, graph: KnowledgeGraph) -> Settings:
        """Return the settings with the defaults that depend on the size of the graph filled in."""
        sample = validation_sample(len(graph.entities))
        if sample and "validation_queries" not in self.training.model_fields_set:
            training = self.training.model_copy(update={"validation_queries": sample})
            return self.model_copy(update={"training": training}).for_graph(graph)
        if self.is_concrete:
            return self
        size = GraphSize(len(graph.entities), len(graph.train), graph.pair_redundancy)
        values = defaults_for(self.model.name, self.training.model_dump(), size)
        unset = {
            name: values.get(name, getattr(self.training, name))
            for name in GRAPH_DEFAULTS - self.training.model_fields_set
        }
        return self.model_copy(update={"training": self.training.model_copy(update=unset)})

    def as_toml(self) -> str:
        """Return the settings as TOML, as `read_settings` reads it."""
        sections = self.model_dump(exclude_none=True)
        return tomli_w.dumps(
            {
                section: {key.replace("_", "-"): value for key, value in values.items()}
                for section, values in sections.items()
            }
        )


def _check_training(training: TrainingSettings) -> None:
    """Refuse settings that would have no effect."""
    for name, objectives in _ONLY_FOR.items():
        changed = getattr(training, name) != TrainingSettings.model_fields[name].default
        if changed and training.objective not in objectives:
            raise SettingsError(
                f"{name} has no effect with the objective {training.objective}; "
                f"it belongs to {' and '.join(objectives)}"
            )
    if training.num_candidates and training.label_smoothing and not training.reciprocals:
        raise SettingsError("num_candidates with label_smoothing needs reciprocals")
    if training.relation_loss_weight and not training.reciprocals:
        raise SettingsError("relation_loss_weight needs reciprocals")
    if training.num_relation_candidates and not training.relation_loss_weight:
        raise SettingsError(
            "num_relation_candidates has no effect without a relation_loss_weight; set one"
        )
    if training.reg_exponent != 3 and training.regularizer not in ("n3", "n3-transformed"):
        raise SettingsError(
            f"reg_exponent has no effect with the regularizer {training.regularizer}; it belongs "
            "to n3 and n3-transformed"
        )
    if training.negative_candidates_share != 0.5 and training.negative_candidates == "all":
        raise SettingsError(
            "negative_candidates_share has no effect if negative_candidates is all; choose "
            "observed or types"
        )
    _check_table(training)
    if training.refit and not training.evaluate_every:
        raise SettingsError(
            "refit needs validation to find the number of epochs: set evaluate_every"
        )
    if training.objective == "bce" and training.grouping == "triples":
        raise SettingsError(
            "bce needs all answers of a query in one row, or it treats some as negatives; "
            "use grouping queries"
        )


def _check_table(training: TrainingSettings) -> None:
    """Refuse what does not go with partitions or a mapped table."""
    if training.partitions > 1:
        if training.objective != "softmax":
            raise SettingsError(
                f"partitions have no effect with the objective {training.objective}; use softmax, "
                "or partitions 1"
            )
        if not training.reciprocals or training.label_smoothing:
            raise SettingsError("partitions need reciprocals, and label_smoothing 0")
    if training.table == "mmap":
        if training.optimizer == "adam":
            raise SettingsError(
                "table mmap needs an optimizer that updates single rows: adagrad, row-adagrad or "
                "sgd"
            )
        if training.average or training.label_smoothing:
            raise SettingsError("table mmap needs average 0 and label_smoothing 0")


def make_settings(values: Mapping[str, Any], where: str = "settings") -> Settings:
    """Make settings from nested mappings; keys may have dashes or underscores.

    Args:
        values: The sections `model` and `training`. With `defaults = 1` beside them, omitted values
            are those of that version; with `method = "published"`, the training settings are those
            that the model was published with; with `method = "paper"`, those of the 5★E paper.
        where: Named in error messages.

    Returns:
        The settings, resolved as far as they do not depend on the graph.

    Raises:
        SettingsError: A setting is unknown, has a wrong value, or would have no effect.

    >>> make_settings({"model": {"dim": 50}, "training": {"batch-size": 100}}).training.batch_size
    100
    """
    given = dict(values)
    version = given.pop("defaults", CURRENT)
    method = given.pop("method", given.pop("recipe", "default"))
    _check_keys(given, Settings.model_fields, where)
    sections: dict[str, Any] = {}
    for name, section in given.items():
        if not isinstance(section, Mapping):
            raise SettingsError(f"{where}: [{name}] must be a section of settings")
        sections[name] = _current_section(name, section, f"{where}, [{name}]")
    try:
        filled = with_method(method, with_defaults_of(version, sections))
        return Settings(**filled)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
            # Of a whole section, the message itself says what is wrong in it.
            + ("" if isinstance(problem["input"], Mapping) else f" (not {problem['input']!r})")
            for problem in error.errors()
        ]
        raise SettingsError(f"{where}: " + "; ".join(problems)) from None
    except SettingsError as error:
        raise SettingsError(f"{where}: {error}") from None


def read_settings(path: Path, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Read the settings of a TOML file, with some values changed."""
    return make_settings(read_values(path, changes), str(path))


def read_values(
    path: Path, changes: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return what a TOML file says, with some values changed, before defaults are filled in."""
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise SettingsError(f"{path}: too large to be a settings file")
        values: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    for section, changed in (changes or {}).items():
        inner = values.setdefault(section, {})
        if isinstance(inner, dict):
            # A change replaces the file's value however its key is spelled.
            values[section] = {k.replace("-", "_"): v for k, v in inner.items()} | dict(changed)
    return values


def _current_section(name: str, section: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a section by the current names of its settings; unknown ones are refused."""
    values = {str(key).replace("-", "_"): value for key, value in section.items()}
    known: Mapping[str, Any] = TrainingSettings.model_fields
    options: list[str] = []
    if name == "model":
        try:
            known, options = ModelSettings.model_fields, _options(values)
        except FivestarError as error:
            raise type(error)(f"{where}: {error}") from error
    # A model may have an option that is called as another setting once was.
    own = {key: value for key, value in values.items() if key in options and key in NAMES}
    others = {key: value for key, value in values.items() if key not in own}
    note_renamed(others, where)
    current = current_names(others) | own
    _check_keys(current, [*known, *options], where)
    return current


def _options(model: Mapping[str, Any]) -> list[str]:
    """Return the names of the options of the model that a section names."""
    from fivestar.models.options import options_of  # noqa: PLC0415  (slow to import)
    from fivestar.models.registry import MODELS  # noqa: PLC0415

    name = model.get("name", "fivestar")
    if not isinstance(name, str):
        return list(model)  # the validation of the name says what is wrong
    return list(options_of(MODELS[name]))


def _check_keys(values: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    known = list(names)
    for key in values:
        if str(key).replace("-", "_") not in known:
            near = closest_names(str(key).replace("-", "_"), known)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
            raise SettingsError(f"{where}: unknown setting {key!r}{hint}")
