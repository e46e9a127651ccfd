"""State shared by all requests: the served models with cached lookups, workers and limits."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import torch
from fastapi import Request

from fivestar.analysis.clustering import Method, TypedEntities, entity_map
from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.cancellation import cancel_when, check_cancelled
from fivestar.errors import AmbiguousName, Cancelled, SettingsError, UnknownName
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.fixed_points import fixed_points, multiplier
from fivestar.geometry.mobius import entries, norm, relative_determinant
from fivestar.graph.name_search import NameSearch
from fivestar.graph.statistics import profile_graph
from fivestar.graph.vocabulary import Vocabulary
from fivestar.models.packed import pack_candidates
from fivestar.prediction.explanation import TOLERANCE
from fivestar.prediction.predictions import Prediction, QueryIds
from fivestar.prediction.trained_model import TrainedModel, load
from fivestar.runs.manifest import run_version
from fivestar.server.background import Background, map_methods, saved_projection
from fivestar.server.batching import BATCH_WORK, BatchedQuery, Batcher
from fivestar.server.cost import CostModel
from fivestar.server.lanes import Lane, request_context
from fivestar.server.metrics import Metrics
from fivestar.server.probable_facts import FactSearches
from fivestar.server.problems import Problem, busy
from fivestar.server.responses import ByteCache
from fivestar.server.settings import NO_MEMORY, Limits, ServerSettings
from fivestar.server.tracing import Tracer
from fivestar.server.weights import is_current
from fivestar.spelling import did_you_mean

Json = dict[str, Any]
_MAX_LEGEND = 8
_MAX_TRIPLES = 50
_MAX_SUGGESTIONS = 3
_MIN_SIMILARITY = 70
_SUGGESTION_SECONDS = 0.25
# Seconds that a request waits for a long computation before the response is 202.
_PATIENCE = 2.0
_LANES = (
    "scoring",
    "large",
    "lookup",
    "analysis",
    "projection",
    "comparison",
    "completion",
    "maintenance",
)
# Numbers of served models: the address of one may be used again by another.
_SERIALS = itertools.count()
Names = tuple[str | None, str | None, str | None]


class Service:
    """The served models and the workers that answer requests."""

    def __init__(
        self,
        settings: ServerSettings,
        metrics: Metrics,
        on_ready: Callable[[], None] | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.limits = settings.limits
        self.metrics = metrics
        self.tracer = tracer
        self.can_fold_in = settings.fold_in
        # Small batches of queries; single queries that take longer than a batch; names and lists;
        # neighbors, explanations and statistics; t-SNE; comparisons of two runs; new facts of whole
        # relations; new versions and new entities. Nobody waits for work in another lane.
        self._lanes = [Lane(name, self.limits.queued_requests) for name in _LANES]
        self.scoring, self.large, self.lookup, self.analysis, *more = self._lanes
        self.projection, self.comparison, self.completion, self.maintenance = more
        folders = names_of_folders(settings.runs)
        weights: list[Path | None] = [*settings.weights] or [None] * len(folders)
        self.models: dict[str, ServedModel] = {}
        self._batchers: dict[tuple[ServedModel, Lane], Batcher[bytes]] = {}
        for (name, folder), copy in zip(folders.items(), weights, strict=True):
            self.replace(ServedModel.load(name, folder, copy, self.limits))
        self.probable_facts = FactSearches(self.limits.queued_requests)
        self.background = Background(min(_PATIENCE, self.limits.seconds / 2))
        self._unsent_answers = 0
        self.started_folder = settings.started_folder
        self._on_ready = on_ready
        self.is_ready = False

    def replace(self, served: ServedModel) -> None:
        """Serve a model from now on; requests that have begun finish with the one before."""
        before = self.models.get(served.name)
        for lane in (self.scoring, self.large):
            self._batchers[served, lane] = self._new_batcher(served, lane)
            self._batchers.pop((before, lane), None)  # type: ignore[arg-type]
        self.models[served.name] = served

    def _new_batcher(self, served: ServedModel, lane: Lane) -> Batcher[bytes]:
        trace = None if self.tracer is None else partial(self.tracer.batch, served.name)
        work, render = self.limits.queued_work, served.query_result
        return Batcher(served.model, lane, work, self.metrics, render, trace)

    def warm_up(self) -> None:
        """Build the indices that the first requests need."""
        for served in self.models.values():
            served.warm_up()
            check_cancelled()
        if self._on_ready is not None:
            self._on_ready()
        self.is_ready = True

    def close(self) -> None:
        """Stop all workers."""
        self.is_ready = False
        for lane in self._lanes:
            lane.close()
        self.probable_facts.close()
        if self.tracer is not None:
            self.tracer.close()

    def model(self, run: str | None) -> ServedModel:
        """Return a model by the name of its run; by default the first."""
        if run is None:
            return next(iter(self.models.values()))
        try:
            return self.models[run]
        except KeyError:
            detail = f"no run {run!r} is served here; choose one of: {', '.join(self.models)}"
            raise Problem(404, detail, "unknown-run") from None

    def check_top(self, top: int) -> None:
        """Reject requests for too many results."""
        if top > self.limits.top:
            raise Problem(422, f"top is {top:,}, but at most {self.limits.top:,} are returned")

    async def predict(self, served: ServedModel, queries: list[BatchedQuery]) -> list[bytes]:
        """Return the results of queries as JSON.

        Raises:
            Problem: 413 if it is too much work for one request, 429 or 503 if too much waits.
        """
        answers = sum(query.top for query in queries)
        if answers > self.limits.answers:
            raise Problem(
                413,
                f"{answers:,} answers; at most {self.limits.answers:,} at once: reduce top, or "
                "send several requests",
            )
        work = [served.cost.of(query.ids, query.top) for query in queries]
        if sum(work) > self.limits.work:
            raise Problem(
                413,
                f"an estimated {sum(work):.1e} multiply-adds; at most {self.limits.work:.1e} at "
                "once: reduce top, or send several requests",
            )
        self._reserve(answers)
        lane = self.scoring if max(work) <= BATCH_WORK else self.large
        # A version that has been replaced meanwhile has no batcher of its own any more.
        batcher = self._batchers.get((served, lane)) or self._new_batcher(served, lane)
        return await batcher.predict(queries, work)

    def _reserve(self, answers: int) -> None:
        """Count the answers of a request until its response is sent: their text is in memory."""
        if self._unsent_answers + answers > self.limits.unsent_answers:
            raise busy("too many answers have not been received by their clients yet")
        self._unsent_answers += answers
        request_context.get().on_end.callback(self._release, answers)

    def _release(self, answers: int) -> None:
        self._unsent_answers -= answers


async def service_of(request: Request) -> Service:
    """Return the service of a request. Async: FastAPI runs plain functions on other threads."""
    service: Service = request.app.state.service
    return service


class ServedModel:
    """A `TrainedModel` under a name, with the lookups of the explore routes as JSON.

    Args:
        name: name of the run.
        model: the model.
        version: identifies the version of the run.
        limits: sizes of the cache of responses and of the packed candidates.
        num_folded_in: number of entities that requests have added.
        folder: where results that take long are cached; None: only in memory.

    Attributes:
        serial: differs from that of any other served model of this process.
    """

    def __init__(
        self,
        name: str,
        model: TrainedModel,
        version: str = "",
        limits: Limits = NO_MEMORY,
        num_folded_in: int = 0,
        folder: Path | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.version = version
        self.num_folded_in = num_folded_in
        self.folder = folder
        self.serial = next(_SERIALS)
        pack_candidates(self.model.model, limits.packed_bytes)
        self.graph = self.model.graph
        self.cost = CostModel(self.model)
        self.cache = ByteCache(limits.cache_bytes)
        self.is_warm = False

    @classmethod
    def load(
        cls, name: str, folder: Path, weights: Path | None = None, limits: Limits = NO_MEMORY
    ) -> ServedModel:
        """Load a run.

        Args:
            name: name of the run.
            folder: its folder.
            weights: a copy of its weights that nobody changes (see `weights`). It is not used if
                the folder holds another version by now.
            limits: see above.
        """
        if weights is not None and not is_current(weights, folder):
            weights = None
        model = load(folder, weights=weights)
        return cls(name, model, run_version(folder), limits, folder=folder)

    def warm_up(self) -> None:
        """Build the indices that the first requests need."""
        _ = self.model.known_answers  # not built for a few queries of a large graph
        entity, relation = self.graph.entities.name_of(0), self.graph.relations.name_of(0)
        self.model.predict([(entity, relation, "_"), ("_", relation, entity)], top=1)
        for search in (self.search, self._relation_search):
            check_cancelled()
            search.find("warm-up")
            search.vocabulary.lookup("warm-up")
        self.is_warm = True

    def info(self) -> Json:
        """Return the graph, the model and its capabilities."""
        model, valid = self.model.settings.model, self.model.metrics.get("valid")
        shown = {"mrr", "hits@1", "hits@10"}
        return {
            "name": self.name,
            "version": self.version,
            "graph": self.graph.name,
            "model": model.name,
            "dim": model.dim,
            "num_entities": len(self.graph.entities),
            "num_relations": len(self.graph.relations),
            "num_triples": len(self.graph.facts),
            "has_types": self.graph.types is not None,
            "has_geometry": self._has_geometry,
            "is_calibrated": self.model.calibration is not None,
            "map_methods": map_methods(),
            "metrics": {k: v for k, v in valid.items() if k in shown} if valid else None,
        }

    @cached_property
    def _has_geometry(self) -> bool:
        try:
            require_mobius(self.model)
        except SettingsError:
            return False
        return True

    @cached_property
    def triples_per_entity(self) -> npt.NDArray[np.int64]:
        """Return the number of triples per entity."""
        facts, count = self.graph.facts, len(self.graph.entities)
        loops = np.bincount(facts.heads[facts.heads == facts.tails], minlength=count)
        ends = np.concatenate([facts.heads, facts.tails])
        return np.bincount(ends, minlength=count) - loops

    @cached_property
    def search(self) -> NameSearch:
        """Return the index of entity names."""
        return NameSearch(self.graph.entities, self.triples_per_entity)

    @cached_property
    def _relation_search(self) -> NameSearch:
        counts = np.bincount(self.graph.facts.relations, minlength=len(self.graph.relations))
        return NameSearch(self.graph.relations, counts)

    @cached_property
    def _type_search(self) -> NameSearch:
        types = self.graph.required_types()
        counts = np.bincount(types.types, minlength=len(types.vocabulary))
        return NameSearch(types.vocabulary, counts)

    def entity_id(self, name: str) -> int:
        """Return the id of an entity; see `find`."""
        return find(self.search, name)

    def relation_id(self, name: str) -> int:
        """Return the id of a relation; see `find`."""
        return find(self._relation_search, name)

    def known_ids(self, query: Names) -> QueryIds | None:
        """Return the ids of a triple or query, −1 for None, if all names are in the graph.

        This only looks into dictionaries, so that the event loop can do it.
        """
        if not self.is_warm:
            return None
        entities, relations = self.graph.entities, self.graph.relations
        try:
            ids = [
                -1 if name is None else vocabulary.lookup(name)
                for name, vocabulary in zip(query, (entities, relations, entities), strict=True)
            ]
        except AmbiguousName:
            return None
        return None if None in ids else tuple(ids)  # type: ignore[return-value]

    def ids(self, head: str | None, relation: str | None, tail: str | None) -> QueryIds:
        """Return the ids of a triple or query, −1 for None.

        Raises:
            UnknownName, AmbiguousName: a name is not in the graph, or several entities have it.
        """
        return (
            -1 if head is None else self.entity_id(head),
            -1 if relation is None else self.relation_id(relation),
            -1 if tail is None else self.entity_id(tail),
        )

    def check_types(self, types: Sequence[str]) -> None:
        """Refuse types that the graph does not have."""
        self.graph.required_types()
        for name in types:
            find(self._type_search, name)

    def query_result(self, ids: QueryIds, answers: list[Prediction]) -> bytes:
        """Return a query and its answers as JSON."""
        return orjson.dumps(
            {
                "query": self.named_query(ids),
                "answers": answers,
                "warnings": self._warnings(ids),
            }
        )

    def _warnings(self, ids: QueryIds) -> list[str]:
        entities, relations = self.model.seen_in_train
        seen = zip((entities, relations, entities), ids, strict=True)
        if all(number < 0 or mask[number] for mask, number in seen):
            return []  # without the arrays of the general case
        return self.model.unseen_warnings(np.array([ids]))

    def named_query(self, ids: QueryIds) -> Json:
        """Return the names of a triple or query, None for −1."""
        vocabularies = (self.graph.entities, self.graph.relations, self.graph.entities)
        return {
            slot: None if number < 0 else named(vocabulary, number)
            for slot, vocabulary, number in zip(
                ("head", "relation", "tail"), vocabularies, ids, strict=True
            )
        }

    def entities(self, text: str, limit: int) -> list[Json]:
        """Return the entities that match a text."""
        return [self._described(number) for number in self.search.find(text, limit)]

    def _described(self, number: int) -> Json:
        types = self._types_of(number)
        description = self.graph.entities.description_of(number)
        return {**named(self.graph.entities, number), "description": description, "types": types}

    def _types_of(self, number: int) -> list[str]:
        return [] if self.graph.types is None else self.graph.types.of(number)

    def card(self, name: str) -> Json:
        """Return an entity with some of its triples."""
        number, facts = self.entity_id(name), self.graph.facts
        rows = np.flatnonzero((facts.heads == number) | (facts.tails == number))
        triples = facts.take(rows[:_MAX_TRIPLES]).array.tolist()
        return {
            **self._described(number),
            "num_triples": int(self.triples_per_entity[number]),
            "triples": [self.named_query((h, r, t)) for h, r, t in triples],
        }

    def relations(self) -> list[Json]:
        """Return all relations, most frequent first."""
        names = self.graph.relations
        counts = np.bincount(self.graph.facts.relations, minlength=len(names))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{**named(names, number), "num_triples": int(counts[number])} for number in order]

    def types(self) -> list[Json]:
        """Return all entity types, most frequent first."""
        types = self.graph.types
        if types is None:
            return []
        counts = np.bincount(types.types, minlength=len(types.vocabulary))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{"id": types.vocabulary.name_of(n), "num_entities": int(counts[n])} for n in order]

    def statistics(self) -> Json:
        """Return the statistics of `fivestar graph info`, without paths of this machine."""
        statistics = profile_graph(self.graph).as_json()
        for split in statistics["splits"].values():
            split.pop("source", None)
            split.pop("skipped", None)
        return statistics

    def geometry(self, relation: str) -> Json:
        """Return the Möbius map of a relation per dimension."""
        model = require_mobius(self.model)
        number = self.relation_id(relation)
        maps = relation_maps(model, model.relations.detach()[number])
        classes = [MobiusClass(each).name.lower() for each in classify(maps, TOLERANCE).tolist()]
        fixed = fixed_points(maps)
        columns = zip(
            classes,
            torch.stack(entries(maps / norm(maps)[..., None, None]), dim=-1).tolist(),
            zip(fixed.repelling.tolist(), fixed.attracting.tolist(), strict=True),
            multiplier(maps).tolist(),
            relative_determinant(maps).tolist(),
            strict=True,
        )
        return {
            "relation": named(self.graph.relations, number),
            "num_triples": int((self.graph.facts.relations == number).sum()),
            "class_shares": {
                name: classes.count(name) / len(classes)
                for name in (each.name.lower() for each in MobiusClass)
            },
            "dimensions": [
                {"dimension": dimension, **_map_json(*column)}
                for dimension, column in enumerate(columns)
            ],
        }

    def map(self, method: Method, limit: int) -> Json:
        """Return a projection of the entities with the most triples."""
        entities = np.argsort(-self.triples_per_entity, kind="stable")[:limit].astype(np.int64)
        legend = _legend_types([self._types_of(number) for number in entities.tolist()])
        index = {name: at for at, name in enumerate(legend)}
        untyped = np.zeros(len(entities), np.int64)
        typed = TypedEntities(legend, entities, untyped)
        project = partial(saved_projection, folder=self.folder)
        xy = entity_map(self.model, typed, method, project=project)
        xy = xy - (xy.max(axis=0) + xy.min(axis=0)) / 2
        xy = xy / np.abs(xy).max()
        points = []
        for number, (x, y) in zip(entities.tolist(), xy.tolist(), strict=True):
            types = [index[name] for name in self._types_of(number) if name in index]
            label = named(self.graph.entities, number)
            points.append(
                {**label, "x": round(x, 5), "y": round(y, 5), "type": min(types, default=None)}
            )
        count = len(self.graph.entities)
        return {"method": method, "num_entities": count, "types": legend, "points": points}


def _map_json(
    map_class: str,
    matrix: list[complex],
    points: tuple[complex, complex],
    k: complex,
    determinant: float,
) -> Json:
    has_fixed_points = map_class not in {"identity", "degenerate"}
    return {
        "map_class": map_class,
        "matrix": [_pair(entry) for entry in matrix],
        "fixed_points": [_pair(point) for point in points] if has_fixed_points else [],
        "multiplier": None if map_class == "degenerate" else _pair(k),
        "relative_determinant": determinant,
    }


def _legend_types(types: list[list[str]]) -> list[str]:
    """Choose types for a legend: each is the most frequent among entities without an earlier one.

    The most frequent types overall would overlap where entities have many types.
    """
    chosen: list[str] = []
    rest = [own for own in types if own]
    while rest and len(chosen) < _MAX_LEGEND:
        ((best, _),) = Counter(name for own in rest for name in own).most_common(1)
        chosen.append(best)
        rest = [own for own in rest if best not in own]
    return chosen


def find(search: NameSearch, name: str) -> int:
    """Return the id of a name or label; suggestions come from the index of names.

    Raises:
        UnknownName: there is no such name. Searching similar ones takes a bounded time.
        AmbiguousName: several have this label.
    """
    vocabulary = search.vocabulary
    if (number := vocabulary.lookup(name)) is not None:
        return number
    suggestions: list[str] = []
    end = time.monotonic() + _SUGGESTION_SECONDS
    with suppress(Cancelled), cancel_when(lambda: time.monotonic() > end):
        suggestions = vocabulary.labels_of(search.find(name, _MAX_SUGGESTIONS, _MIN_SIMILARITY))
    message = f"no {vocabulary.kind} {name!r}{did_you_mean(suggestions)}"
    raise UnknownName(message, suggestions)


def named(names: Vocabulary, number: int) -> Json:
    """Return an entity or relation by id and label."""
    return {"id": names.name_of(number), "label": names.label_of(number)}


def names_of_folders(folders: list[Path]) -> dict[str, Path]:
    """Name runs by their folders; numbered where two folders have the same name."""
    runs: dict[str, Path] = {}
    for folder in folders:
        name = own = folder.resolve().name
        while name in runs:
            name = f"{own}-{sum(other.startswith(own) for other in runs) + 1}"
        runs[name] = folder
    return runs


def _pair(number: complex) -> tuple[float, float] | None:
    """Return (re, im); None for ∞."""
    finite = np.isfinite(number.real) and np.isfinite(number.imag)
    return (number.real, number.imag) if finite else None
