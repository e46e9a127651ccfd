"""A run that is served: everything that is found out about it once is kept."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fivestar.analysis.clustering import Method, TypedEntities, entity_map
from fivestar.analysis.relations import relation_maps, require_mobius
from fivestar.errors import SettingsError, UnknownName
from fivestar.geometry.classification import MobiusClass, classify
from fivestar.geometry.fixed_points import fixed_points, multiplier
from fivestar.geometry.mobius import entries, norm, relative_determinant
from fivestar.graph.name_search import NameSearch
from fivestar.graph.statistics import profile_graph
from fivestar.graph.triples import Triples
from fivestar.graph.vocabulary import Vocabulary
from fivestar.prediction.trained_model import TrainedModel
from fivestar.runs.run import load_run

Json = dict[str, Any]
# How far tr²/det may be from where a kind has it, as in `fivestar geometry`.
_TOLERANCE = 0.05
_TYPES_SHOWN = 8
_FACTS_SHOWN = 50
_NAMES_MEANT = 3


class ServedRun:
    """A run by its name, with answers as JSON."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.run = TrainedModel.of(load_run(folder, mapped=True))
        self.graph = self.run.graph
        self.predictor = self.run
        self._maps: dict[tuple[Method, int], Json] = {}

    def warm_up(self) -> None:
        """Find out everything that the first questions need."""
        some, relation = self.graph.entities.name_of(0), self.graph.relations.name_of(0)
        self.predictor.predict([(some, relation, "_"), ("_", relation, some)], top=1)
        self.search.find("warm-up")

    def info(self) -> Json:
        """What is served, and what can be asked of it."""
        model = self.run.settings.model
        figures = self.run.metrics.get("valid")
        return {
            "name": self.name,
            "graph": self.graph.name,
            "model": model.name,
            "dim": model.dim,
            "entities": len(self.graph.entities),
            "relations": len(self.graph.relations),
            "facts": len(self.graph.facts),
            "types": self.graph.types is not None,
            "geometry": self._has_geometry,
            "calibrated": self.predictor.calibration is not None,
            "metrics": {k: v for k, v in figures.items() if k in {"mrr", "hits@1", "hits@10"}}
            if figures
            else None,
        }

    @cached_property
    def _has_geometry(self) -> bool:
        try:
            require_mobius(self.run)
        except SettingsError:
            return False
        return True

    @cached_property
    def facts_of_entity(self) -> npt.NDArray[np.int64]:
        """How many facts each entity has."""
        facts, count = self.graph.facts, len(self.graph.entities)
        loops = np.bincount(facts.heads[facts.heads == facts.tails], minlength=count)
        ends = np.concatenate([facts.heads, facts.tails])
        return np.bincount(ends, minlength=count) - loops

    @cached_property
    def search(self) -> NameSearch:
        """Entities while their names are typed."""
        return NameSearch(self.graph.entities, self.facts_of_entity)

    def entity(self, name: str) -> int:
        """The id of an entity; of unknown names those like it are found quickly."""
        names = self.graph.entities
        if (number := names.lookup(name)) is not None:
            return number
        near = names.labels_of(self.search.find(name, _NAMES_MEANT))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise UnknownName(f"no entity {name!r}{hint}", near)

    def numbers(
        self, head: str | None, relation: str | None, tail: str | None
    ) -> tuple[int, int, int]:
        """A triple or question by ids, −1 for what is open."""
        return (
            -1 if head is None else self.entity(head),
            -1 if relation is None else self.graph.relations.find(relation),
            -1 if tail is None else self.entity(tail),
        )

    def question(self, numbers: tuple[int, int, int]) -> Json:
        """The same in names, null for what is open."""
        vocabularies = (self.graph.entities, self.graph.relations, self.graph.entities)
        return {
            slot: None if number < 0 else named(vocabulary, number)
            for slot, vocabulary, number in zip(
                ("head", "relation", "tail"), vocabularies, numbers, strict=True
            )
        }

    def entities(self, text: str, most: int) -> list[Json]:
        """What somebody who types this may mean."""
        return [self.described(number) for number in self.search.find(text, most)]

    def described(self, number: int) -> Json:
        """An entity with what helps to tell it from others."""
        types = self._types_of(number)
        description = self.graph.entities.description_of(number)
        return {**named(self.graph.entities, number), "description": description, "types": types}

    def _types_of(self, number: int) -> list[str]:
        return [] if self.graph.types is None else self.graph.types.of(number)

    def card(self, name: str) -> Json:
        """An entity with some of its facts."""
        number, facts = self.entity(name), self.graph.facts
        mine = np.flatnonzero((facts.heads == number) | (facts.tails == number))
        some = facts.take(mine[:_FACTS_SHOWN])
        return {
            **self.described(number),
            "facts": int(self.facts_of_entity[number]),
            "some": [self.question(row) for row in _rows(some)],
        }

    @cached_property
    def relations(self) -> list[Json]:
        """All relations, the most frequent first."""
        names = self.graph.relations
        counts = np.bincount(self.graph.facts.relations, minlength=len(names))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{**named(names, number), "facts": int(counts[number])} for number in order]

    @cached_property
    def types(self) -> list[Json]:
        """All types, the most frequent first."""
        held = self.graph.types
        if held is None:
            return []
        counts = np.bincount(held.types, minlength=len(held.vocabulary))
        order = np.argsort(-counts, kind="stable").tolist()
        return [{"id": held.vocabulary.name_of(n), "entities": int(counts[n])} for n in order]

    @cached_property
    def statistics(self) -> Json:
        """What `fivestar graph info` tells, but not where files lie on this machine."""
        found = profile_graph(self.graph).as_json()
        for split in found["splits"].values():
            split.pop("source", None)
            split.pop("skipped", None)
        return found

    def geometry(self, relation: str) -> Json:
        """What a relation does in every dimension."""
        model = require_mobius(self.run)
        number = self.graph.relations.find(relation)
        maps = relation_maps(model, model.relations.detach()[number])
        kinds = [MobiusClass(kind).name.lower() for kind in classify(maps, _TOLERANCE).tolist()]
        scaled = maps / norm(maps)[..., None, None]
        fixed, multipliers = fixed_points(maps), multiplier(maps).tolist()
        parts = torch.stack(entries(scaled), dim=-1).tolist()
        rows = zip(
            kinds,
            parts,
            zip(fixed.repelling.tolist(), fixed.attracting.tolist(), strict=True),
            multipliers,
            relative_determinant(maps).tolist(),
            strict=True,
        )
        return {
            "relation": named(self.graph.relations, number),
            "facts": int((self.graph.facts.relations == number).sum()),
            "kinds": {
                kind.name.lower(): kinds.count(kind.name.lower()) / len(kinds)
                for kind in MobiusClass
            },
            "dimensions": [
                {
                    "dimension": place,
                    "kind": kind,
                    "matrix": [_pair(entry) for entry in part],
                    "fixed_points": []
                    if kind in {"identity", "degenerate"}
                    else [_pair(point) for point in points],
                    "multiplier": None if kind == "degenerate" else _pair(k),
                    "steadiness": steady,
                }
                for place, (kind, part, points, k, steady) in enumerate(rows)
            ],
        }

    def map(self, method: Method, most: int) -> Json:
        """The entities with the most facts, placed in the plane; made once."""
        if (method, most) not in self._maps:
            self._maps[method, most] = self._placed(method, most)
        return self._maps[method, most]

    def _placed(self, method: Method, most: int) -> Json:
        entities = np.argsort(-self.facts_of_entity, kind="stable")[:most].astype(np.int64)
        legend = _covering([self._types_of(number) for number in entities.tolist()])
        place = {name: at for at, name in enumerate(legend)}
        nothing = np.zeros(len(entities), np.int64)
        xy = entity_map(self.run, TypedEntities(legend, entities, nothing), method)
        xy = xy - (xy.max(axis=0) + xy.min(axis=0)) / 2
        xy = xy / np.abs(xy).max()
        points = []
        for number, (x, y) in zip(entities.tolist(), xy.tolist(), strict=True):
            own = self._types_of(number)
            kind = min((place[name] for name in own if name in place), default=None)
            label = named(self.graph.entities, number)
            points.append({**label, "x": round(x, 5), "y": round(y, 5), "type": kind})
        return {"method": method, "types": legend, "points": points}


def _covering(types: list[list[str]]) -> list[str]:
    """Types for a legend: each is that of most entities that have no earlier one.

    The most frequent ones would not do: where entities have many types, they overlap.
    """
    found: list[str] = []
    rest = [own for own in types if own]
    while rest and len(found) < _TYPES_SHOWN:
        ((best, _),) = Counter(name for own in rest for name in own).most_common(1)
        found.append(best)
        rest = [own for own in rest if best not in own]
    return found


def named(names: Vocabulary, number: int) -> Json:
    """Something by id and label."""
    return {"id": names.name_of(number), "label": names.label_of(number)}


def names_of_folders(folders: list[Path]) -> dict[str, Path]:
    """Runs by the names of their folders, numbered where two have the same one."""
    found: dict[str, Path] = {}
    for folder in folders:
        name = own = folder.resolve().name
        while name in found:
            name = f"{own}-{sum(other.startswith(own) for other in found) + 1}"
        found[name] = folder
    return found


def _rows(triples: Triples) -> list[tuple[int, int, int]]:
    return [(h, r, t) for h, r, t in triples.array.tolist()]


def _pair(number: complex) -> tuple[float, float] | None:
    """Re and im; None for ∞."""
    finite = np.isfinite(number.real) and np.isfinite(number.imag)
    return (number.real, number.imag) if finite else None
