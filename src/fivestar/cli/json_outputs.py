"""What `--json` prints: a type per command, from which docs/json.md and its schemas are generated.

Nothing imports this module while a command runs: the types describe what the commands print, and
the tests hold them to it.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from fivestar.analysis.clustering import ClusteringMetrics
from fivestar.analysis.inference import Inference
from fivestar.analysis.patterns import Control, Finding
from fivestar.analysis.shapes import ShapeCounts
from fivestar.evaluation.calibration import Method
from fivestar.experiments.path_loop import Closing
from fivestar.graph.datasets.catalog import Dataset
from fivestar.graph.relation_forms import RelationForm
from fivestar.graph.report import SplitReport
from fivestar.graph.statistics import HeldOut, RelationProfile
from fivestar.prediction.explanation import Explanation
from fivestar.prediction.neighbors import Neighbor
from fivestar.prediction.predictions import Prediction
from fivestar.training.search.trials import Tried


def as_type(hint: Any) -> Any:
    """Return a type in which every dataclass is a pydantic model that refuses other keys."""
    if is_dataclass(hint) and isinstance(hint, type):
        return _model_of(hint)
    parts = tuple(part if part is Ellipsis else as_type(part) for part in get_args(hint))
    origin = get_origin(hint)
    if not parts or origin is Literal:
        return hint
    if origin in (Union, types.UnionType):
        return Union[parts]  # noqa: UP007  (made at run time)
    return origin[parts]


@cache
def _model_of(kind: type) -> type[BaseModel]:
    hints = get_type_hints(kind)
    found: dict[str, Any] = {f.name: (as_type(hints[f.name]), ...) for f in fields(kind)}
    config = ConfigDict(extra="forbid")
    return create_model(kind.__name__, __config__=config, __doc__=kind.__doc__, **found)


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid")


class QueryAnswers(_Object):
    """A line of `--queries` or of the prompt.

    Attributes:
        query: head, relation and tail as given.
        answers: the answers, best first.
    """

    query: tuple[str, str, str]
    answers: list[as_type(Prediction)]  # type: ignore[valid-type]


class RankMetrics(BaseModel):
    """Metrics of ranks; `hits@k` for each k of `--hits`, and `hits@k_without_self`.

    Attributes:
        mrr: mean reciprocal rank (realistic).
        mr: mean rank.
        amri: adjusted mean rank index: 1 for perfect ranks, 0 for random ones.
        mrr_optimistic: MRR if the target wins all ties.
        mrr_pessimistic: MRR if the target loses all ties.
        count: number of ranks.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float]

    mrr: float
    mr: float
    amri: float
    mrr_optimistic: float
    mrr_pessimistic: float
    count: int


class SideMetrics(RankMetrics):
    """Metrics of ranks with self-answers.

    Attributes:
        self_answer_rate: share of queries whose own entity outranks the target.
        mrr_without_self: MRR if the query's own entity is no candidate.
    """

    self_answer_rate: float
    mrr_without_self: float


class SampledQueries(BaseModel):
    """What was ranked with `--sampled`; `hits@k_95` for each k of `--hits`.

    Attributes:
        queries: number of ranked queries.
        of: number of queries of the split.
        mrr_95: 95 % confidence interval of the MRR of all queries.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, tuple[float, float]]

    queries: int
    of: int
    mrr_95: tuple[float, float]


class MetricsAmong(RankMetrics):
    """Metrics among the candidates of each relation (`--candidates`): not the standard protocol.

    Attributes:
        candidates: which candidates: observed, or types.
        mean_candidates: mean number of candidates per query.
        outside: number of true answers that are no candidates; they are ranked nevertheless.
        heads: metrics of head queries.
        tails: metrics of tail queries.
    """

    candidates: Literal["observed", "types"]
    mean_candidates: float
    outside: int
    heads: RankMetrics
    tails: RankMetrics


class LinkMetrics(SideMetrics):
    """Metrics of link prediction (`--task links`).

    Attributes:
        mrr_95: 95 % confidence interval of the MRR.
        heads: metrics of head queries.
        tails: metrics of tail queries.
        heads_by: how head queries are scored.
        sampled: with `--sampled`: the intervals of the estimates.
        among: with `--candidates`: metrics among the candidates of each relation.
        by_relation: with `--by relation`: metrics per relation.
        by_side: with `--by side`: metrics per side.
        by_category: with `--by category`: metrics per category of relations.
        by_seen: with `--by seen`: metrics of seen and unseen entities; empty without such triples.
    """

    mrr_95: tuple[float, float]
    heads: SideMetrics
    tails: SideMetrics
    heads_by: Literal["reciprocal relations", "exhaustive scoring"]
    sampled: SampledQueries | None = None
    among: MetricsAmong | None = None
    by_relation: dict[str, SideMetrics] | None = None
    by_side: dict[str, SideMetrics] | None = None
    by_category: dict[str, SideMetrics] | None = None
    by_seen: dict[str, SideMetrics | dict[str, None]] | None = None


class ClassificationMetrics(_Object):
    """Metrics of triple classification (`--task classification`).

    Attributes:
        accuracy: share of triples that are classified correctly.
        auc_roc: area under the ROC curve.
        auc_pr: area under the precision-recall curve.
        count: number of triples.
        count_without_own_threshold: those whose relation has no validation triples.
    """

    accuracy: float
    auc_roc: float
    auc_pr: float
    count: int
    count_without_own_threshold: int


class QuartilesOutput(_Object):
    """Quartiles over dimensions."""

    low: float
    median: float
    high: float


class UntrainedGeometry(_Object):
    """The geometry of a relation; see `fivestar.analysis.relations.RelationGeometry`.

    Attributes:
        name: the relation.
        facts: its number of facts in train.
        classes: the share of dimensions per class of map.
        expansion: log |k| of the multiplier k.
        rotation: |arg k| of the multiplier k.
        relative_determinant: 1 for a rotation of the sphere, 0 for a constant map.
        translation: |f(h) − h| at the heads h.
        local_rotation: |arg f′(h)|.
        local_expansion: |log |f′(h)||.
        distortion: standard deviation of log |f′| over the heads.
        near_pole: share of heads close to the pole.
    """

    name: str
    facts: int
    classes: dict[str, float]
    expansion: QuartilesOutput
    rotation: QuartilesOutput
    relative_determinant: QuartilesOutput
    translation: QuartilesOutput
    local_rotation: QuartilesOutput
    local_expansion: QuartilesOutput
    distortion: QuartilesOutput
    near_pole: float


class Geometry(UntrainedGeometry):
    """The geometry of a relation.

    Attributes:
        untrained: the same of the model before training.
    """

    untrained: UntrainedGeometry


class PatternScore(_Object):
    """Counts of a pattern, and precision and recall (null if undefined)."""

    learned: int
    true: int
    both: int
    precision: float | None
    recall: float | None


class Patterns(_Object):
    """Patterns of relations.

    Attributes:
        control: separation of the reciprocals, which calibrates the findings.
        scores: counts, precision and recall per pattern.
        findings: patterns that are learned, true, or both.
        untested: what could not be tested, and why.
        inference: how often positive premises give a positive conclusion.
    """

    control: as_type(Control)  # type: ignore[valid-type]
    scores: dict[str, PatternScore]
    findings: list[as_type(Finding)]  # type: ignore[valid-type]
    untested: list[str]
    inference: list[as_type(Inference)]  # type: ignore[valid-type]


class Bin(_Object):
    """A bin of a reliability diagram.

    Attributes:
        probability: mean probability.
        true: share of true answers.
        answers: share of all answers.
    """

    probability: float
    true: float
    answers: float


class ReliabilityOutput(_Object):
    """Reliability of a kind of probability.

    Attributes:
        brier: Brier score.
        calibration_error: expected calibration error over ten bins.
        bins: the bins.
    """

    brier: float
    calibration_error: float
    bins: list[Bin]


class CalibrationOutput(_Object):
    """Reliability of probabilities on test.

    Attributes:
        method: how the calibrated probabilities are fitted.
        sigmoid: σ(score).
        softmax: the softmax over all entities.
        calibrated: the calibrated probability.
    """

    method: Method
    sigmoid: ReliabilityOutput
    softmax: ReliabilityOutput
    calibrated: ReliabilityOutput


class Degrees(_Object):
    """Degrees in train.

    Attributes:
        percentiles: degrees by percentile.
        histogram: number of entities per range of degrees.
    """

    percentiles: dict[str, float]
    histogram: dict[str, int]


class Components(_Object):
    """Connected components.

    Attributes:
        count: number of components.
        largest: entities in the largest one.
    """

    count: int
    largest: int


class Rule(_Object):
    """A pattern of relations in the graph: facts of `given` imply one of `then`."""

    given: list[str]
    then: str
    support: int
    confidence: float


class AntiSymmetric(_Object):
    """A relation that never holds in both directions."""

    relation: str
    support: int


class GraphPatterns(_Object):
    """Patterns of relations in train.

    Attributes:
        share_of_paths_sampled: 1 if all two-step paths were counted for compositions.
    """

    symmetric: list[Rule]
    inverse: list[Rule]
    duplicate: list[Rule]
    composed: list[Rule]
    anti_symmetric: list[AntiSymmetric]
    share_of_paths_sampled: float


class Weights(_Object):
    """Weights of the facts of a split.

    Attributes:
        facts: number of facts with a weight.
        minimum: smallest weight.
        mean: mean weight.
        maximum: largest weight.
    """

    facts: int
    minimum: float
    mean: float
    maximum: float


class GraphInfo(_Object):
    """Statistics of a graph.

    Attributes:
        name: name of the graph.
        warnings: suspicious content, duplicates and leaks.
        entities: number of entities.
        relations: number of relations.
        splits: how the lines of each split were used.
        weights: weights of facts by split, if they have some.
        degrees: degrees in train.
        relation_categories: number of relations per category.
        pair_redundancy: share of train facts that link a pair which another fact links as well.
        relation_profiles: statistics per relation, most frequent first.
        components: connected components.
        held_out: how valid and test relate to train.
        patterns: patterns of relations in train.
        relation_forms: whether relations form paths or loops.
        types: number of entity types.
    """

    name: str
    warnings: list[str]
    entities: int
    relations: int
    splits: dict[str, as_type(SplitReport)]  # type: ignore[valid-type]
    weights: dict[str, Weights]
    degrees: Degrees
    relation_categories: dict[str, int]
    pair_redundancy: float
    relation_profiles: list[as_type(RelationProfile)]  # type: ignore[valid-type]
    components: Components
    held_out: dict[str, as_type(HeldOut)]  # type: ignore[valid-type]
    patterns: GraphPatterns
    relation_forms: dict[str, as_type(RelationForm)]  # type: ignore[valid-type]
    types: int


class ModelOption(_Object):
    """An option of a model."""

    type: str
    choices: list[str | int | float | bool]
    default: str | int | float | bool | None
    description: str


class ModelDescription(_Object):
    """A model.

    Attributes:
        formula: its score, with the citation.
        description: what else there is to say.
        package: the package that registers it; null for our own.
        options: its options by name.
        training: its default training settings.
        training_source: where these come from.
        published: the settings that it was published with.
        published_source: where those come from.
    """

    formula: str
    description: str
    package: str | None
    options: dict[str, ModelOption]
    training: dict[str, Any]
    training_source: str | None
    published: dict[str, Any]
    published_source: str | None


class DatasetEntry(Dataset):
    """A benchmark dataset.

    Attributes:
        here: whether it is downloaded.
        verified_by: what a first download is compared with.
    """

    here: bool
    verified_by: Literal["sha256", "md5", "counts"]


class SearchOutput(_Object):
    """A search.

    Attributes:
        trials: all trials.
        importance: share of the differences in MRR that each setting explains.
    """

    trials: list[as_type(Tried)]  # type: ignore[valid-type]
    importance: dict[str, float]


class MrrDifference(_Object):
    """First MRR minus second MRR, its 95 % confidence interval and two-sided p-value."""

    mrr: float
    low: float
    high: float
    p: float


class ComparedModel(_Object):
    """The runs of a model.

    Attributes:
        settings: identity of the settings.
        seeds: seeds of the runs.
        mrr: mean test MRR.
        in_table: whether the table of results has these runs.
    """

    settings: str
    seeds: list[int]
    mrr: float
    in_table: bool


class Comparison(_Object):
    """Two models on one graph.

    Attributes:
        data: the graph.
        dim: the dimension.
        models: both models by name.
        equal_search_seconds: seconds of the searches, if equal; null without.
        difference: null if the ranks of a model are not recorded.
        verdict: the conclusion in words.
    """

    data: str
    dim: int
    models: dict[str, ComparedModel]
    equal_search_seconds: float | None
    difference: MrrDifference | None
    verdict: str


class PathLoop(_Object):
    """Ranks on a path beside a loop.

    Attributes:
        closing: whether the fact that closes the loop is held out or trained.
        triples: the ranked triples.
        fit: MRR of the trained facts by model.
        separated: seeds in which the loop is closed and the path is open, by r3 and by r1.
        median: median left and right rank of each triple.
        ranks: left and right rank of each triple per seed.
    """

    closing: Closing
    triples: list[str]
    fit: dict[str, float]
    separated: dict[str, tuple[int, int]]
    median: dict[str, list[tuple[float, float]]]
    ranks: dict[str, list[list[tuple[float, float]]]]


class Package(_Object):
    """This package."""

    version: str
    folder: str


class TorchInfo(_Object):
    """torch; all but `error` are null if it cannot be imported."""

    device: str | None
    threads: int | None
    blas: str | None
    error: str | None


class ExtraInfo(_Object):
    """An extra: whether it is installed, its missing modules, and what it is for."""

    installed: bool
    missing: list[str]
    purpose: str


class FolderInfo(_Object):
    """A folder that is written to."""

    path: str
    exists: bool
    writable: bool


class Doctor(_Object):
    """The installation.

    Attributes:
        fivestar: this package.
        python: version of Python.
        platform: the operating system.
        cpus: number of usable CPUs.
        torch: device, threads and BLAS.
        versions: version of each dependency; null if it is missing.
        extras: the extras by name.
        page: whether the page of `fivestar serve` is there.
        folders: the folders that are written to.
        variables: environment variables that matter.
        problems: what keeps fivestar from working.
    """

    fivestar: Package
    python: str
    platform: str
    cpus: int | None
    torch: TorchInfo
    versions: dict[str, str | None]
    extras: dict[str, ExtraInfo]
    page: bool
    folders: dict[str, FolderInfo]
    variables: dict[str, str]
    problems: list[str]


class Output(NamedTuple):
    """What a command prints with `--json`."""

    command: str
    type: Any
    note: str

    @property
    def adapter(self) -> TypeAdapter[Any]:
        """Return what validates the output and gives its schema."""
        return TypeAdapter(self.type)


def _listed(kind: Any) -> Any:
    return list[as_type(kind)]  # type: ignore[misc]


def _by_name(kind: Any) -> Any:
    return dict[str, as_type(kind)]  # type: ignore[misc]


OUTPUTS = {
    output.command: output
    for output in (
        Output("graph info", GraphInfo, "The statistics of the graph."),
        Output("datasets", list[DatasetEntry], "One object per dataset."),
        Output("search", SearchOutput, "The trials and the importance of settings."),
        Output(
            "evaluate", LinkMetrics | ClassificationMetrics | RankMetrics, "By `--task`: metrics."
        ),
        Output("doctor", Doctor, "The installation, for bug reports."),
        Output("models", dict[str, ModelDescription], "One object per model, by name."),
        Output("ask", _listed(Prediction), "The answers, best first."),
        Output(
            "ask --queries",
            QueryAnswers,
            "One object per line and query; so does the prompt of `fivestar ask RUN`.",
        ),
        Output("explain", as_type(Explanation), "The evidence for the triple."),
        Output("similar", _listed(Neighbor), "The nearest neighbors, best first."),
        Output("calibration", CalibrationOutput, "The reliability of probabilities."),
        Output("geometry", list[Geometry], "One object per relation."),
        Output("patterns", Patterns, "The patterns of relations."),
        Output("shapes", as_type(ShapeCounts), "The counts of shapes."),
        Output("cluster", _by_name(ClusteringMetrics), "Metrics by name of the run."),
        Output("reproduce compare", list[Comparison], "One object per graph and dimension."),
        Output("reproduce path-beside-loop", list[PathLoop], "Closing fact trained, and held out."),
    )
}
