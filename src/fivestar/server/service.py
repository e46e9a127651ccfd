"""State shared by all requests: the served models with cached lookups, workers and limits."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from fastapi import Request

from fivestar.analysis.clustering import Method, TypedEntities, entity_map
from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.errors import SettingsError, UnknownName
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.fixed_points import fixed_points, multiplier
from fivestar.geometry.mobius import entries, norm, relative_determinant
from fivestar.graph.name_search import NameSearch
from fivestar.graph.statistics import profile_graph
from fivestar.graph.vocabulary import Vocabulary
from fivestar.prediction.explanation import TOLERANCE
from fivestar.prediction.predictions import QueryIds
from fivestar.prediction.trained_model import load
from fivestar.server.batching import Batcher, Worker
from fivestar.server.metrics import Metrics
from fivestar.server.problems import Problem
from fivestar.server.settings import ServerSettings

Json = dict[str, Any]
_MAX_LEGEND = 8
_MAX_TRIPLES = 50
_MAX_SUGGESTIONS = 3


class Service:
    """The served models and the workers that answer requests."""

    def __init__(self, settings: ServerSettings, metrics: Metrics) -> None:
        self.limits = settings.limits
        self.metrics = metrics
        folders = names_of_folders(settings.runs)
        self.models = {name: ServedModel(name, folder) for name, folder in folders.items()}
        self.scoring = Worker("scoring", self.limits.queued_queries)
        self.slow = Worker("slow", self.limits.queued_requests)
        self.batchers = {
            name: Batcher(served.model, self.scoring, self.limits.queued_queries, metrics)
            for name, served in self.models.items()
        }
        self.is_ready = False

    def warm_up(self) -> None:
        """Build the indices that the first requests need."""
        for served in self.models.values():
            served.warm_up()
        self.is_ready = True

    def close(self) -> None:
        """Stop all workers."""
        self.is_ready = False
        self.scoring.close()
        self.slow.close()

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


async def service_of(request: Request) -> Service:
    """Return the service of a request. Async: FastAPI runs plain functions on other threads."""
    service: Service = request.app.state.service
    return service


class ServedModel:
    """A `TrainedModel` under a name, with the lookups of the explore routes as JSON."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.model = load(folder, mapped=True)
        self.graph = self.model.graph
        self._maps: dict[tuple[Method, int], Json] = {}

    def warm_up(self) -> None:
        """Build the indices that the first requests need."""
        entity, relation = self.graph.entities.name_of(0), self.graph.relations.name_of(0)
        self.model.predict([(entity, relation, "_"), ("_", relation, entity)], top=1)
        self.search.find("warm-up")

    def info(self) -> Json:
        """Return the graph, the model and its capabilities."""
        model, valid = self.model.settings.model, self.model.metrics.get("valid")
        shown = {"mrr", "hits@1", "hits@10"}
        return {
            "name": self.name,
            "graph": self.graph.name,
            "model": model.name,
            "dim": model.dim,
            "num_entities": len(self.graph.entities),
            "num_relations": len(self.graph.relations),
            "num_triples": len(self.graph.facts),
            "has_types": self.graph.types is not None,
            "has_geometry": self._has_geometry,
            "is_calibrated": self.model.calibration is not None,
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

    def entity_id(self, name: str) -> int:
        """Return the id of an entity; suggestions for unknown names come from the name index."""
        names = self.graph.entities
        if (number := names.lookup(name)) is not None:
            return number
        near = names.labels_of(self.search.find(name, _MAX_SUGGESTIONS))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UnknownName(f"no entity {name!r}{hint}", near)

    def ids(self, head: str | None, relation: str | None, tail: str | None) -> QueryIds:
        """Return the ids of a triple or query, −1 for None."""
        return (
            -1 if head is None else self.entity_id(head),
            -1 if relation is None else self.graph.relations.find(relation),
            -1 if tail is None else self.entity_id(tail),
        )

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

    @cached_property
    def relations(self) -> list[Json]:
        """Return all relations, most frequent first."""
        names = self.graph.relations
        counts = np.bincount(self.graph.facts.relations, minlength=len(names))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{**named(names, number), "num_triples": int(counts[number])} for number in order]

    @cached_property
    def types(self) -> list[Json]:
        """Return all entity types, most frequent first."""
        types = self.graph.types
        if types is None:
            return []
        counts = np.bincount(types.types, minlength=len(types.vocabulary))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{"id": types.vocabulary.name_of(n), "num_entities": int(counts[n])} for n in order]

    @cached_property
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
        number = self.graph.relations.find(relation)
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
        """Return a projection of the entities with the most triples; computed once."""
        if (method, limit) not in self._maps:
            self._maps[method, limit] = self._project(method, limit)
        return self._maps[method, limit]

    def _project(self, method: Method, limit: int) -> Json:
        entities = np.argsort(-self.triples_per_entity, kind="stable")[:limit].astype(np.int64)
        legend = _legend_types([self._types_of(number) for number in entities.tolist()])
        index = {name: at for at, name in enumerate(legend)}
        untyped = np.zeros(len(entities), np.int64)
        xy = entity_map(self.model, TypedEntities(legend, entities, untyped), method)
        xy = xy - (xy.max(axis=0) + xy.min(axis=0)) / 2
        xy = xy / np.abs(xy).max()
        points = []
        for number, (x, y) in zip(entities.tolist(), xy.tolist(), strict=True):
            types = [index[name] for name in self._types_of(number) if name in index]
            label = named(self.graph.entities, number)
            points.append(
                {**label, "x": round(x, 5), "y": round(y, 5), "type": min(types, default=None)}
            )
        return {"method": method, "types": legend, "points": points}


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
