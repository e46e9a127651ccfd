"""The most probable new facts of each served run: searched once, in the background, and cached.

The result is cached in the folder of the run, beside the files of its manifest, and is searched
again if the manifest changes. If the folder cannot be written, it is kept in memory only.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fivestar.errors import OutputError
from fivestar.files import make_folder, write_atomic
from fivestar.prediction.probable_facts import ProbableFacts, find_probable_facts
from fivestar.runs.run import CACHE
from fivestar.server.lanes import Lane

if TYPE_CHECKING:
    from fivestar.server.service import ServedModel

Json = dict[str, Any]
CACHE_FILE = "probable_facts.parquet"
# Facts that are kept per relation.
FACTS_PER_RELATION = 100
# Estimated work of a search (see `cost`), about half a minute on one core.
SEARCH_WORK = 4e11
# Multiply-adds that take as long as the softmax of one score.
_SOFTMAX_WORK = 256
_MAX_CACHE_BYTES = 64 << 20
# Seconds that a request waits for a search before it reports the progress.
_PATIENCE = 1.0
_FINGERPRINT = b"fingerprint"


@dataclass(eq=False)
class Search:
    """A search in the background.

    Attributes:
        task: ends with the facts.
        done: queries answered.
        total: queries in all; 0 before the search has begun.
    """

    task: asyncio.Task[ProbableFacts] | None = None
    done: int = 0
    total: int = 0

    def advance(self, done: int, total: int) -> None:
        """Store the progress; called from the thread that searches."""
        self.done, self.total = done, total

    @property
    def progress(self) -> float:
        """Return the share of queries answered."""
        return self.done / self.total if self.total else 0.0


class FactSearches:
    """Searches the probable new facts of runs, one run after the other, in a lane of its own.

    Args:
        max_queued: number of runs that may wait.
    """

    def __init__(self, max_queued: int) -> None:
        self._lane = Lane("probable facts", max_queued)
        # A run that is no longer served takes its search with it.
        self._searches: WeakKeyDictionary[ServedModel, Search] = WeakKeyDictionary()

    async def of(self, served: ServedModel) -> Search:
        """Return the search of a run, which begins with the first call.

        A failed search raises its error once; the next call begins another.
        """
        search = self._searches.get(served)
        if search is None:
            search = self._searches[served] = Search()
            work = self._lane.run(find_or_load, served, search)
            # Without the context of this request: the search does not end with it.
            search.task = asyncio.create_task(work, context=Context())
        assert search.task is not None  # noqa: S101  (set with the search)
        await asyncio.wait({search.task}, timeout=_PATIENCE)
        if search.task.done() and (search.task.cancelled() or search.task.exception()):
            del self._searches[served]
            search.task.result()
        return search

    def close(self) -> None:
        """Stop the current search."""
        self._lane.close()
        for search in self._searches.values():
            if search.task is not None:
                search.task.cancel()


def find_or_load(served: ServedModel, search: Search) -> ProbableFacts:
    """Return the cached facts of a run, or search them and cache them."""
    softmax = _SOFTMAX_WORK * len(served.graph.entities)
    query_work = max(served.cost.tail, served.cost.head) + softmax
    max_queries = max(1, int(SEARCH_WORK / query_work))
    settings = f"{served.version} {FACTS_PER_RELATION} {max_queries}"
    fingerprint = hashlib.sha256(settings.encode()).hexdigest().encode()
    path = None if served.folder is None else served.folder / CACHE / CACHE_FILE
    graph = served.graph
    sizes = len(graph.entities), len(graph.relations)
    if path is not None and (cached := _load(path, fingerprint, *sizes)) is not None:
        return cached
    found = find_probable_facts(served.model, FACTS_PER_RELATION, max_queries, search.advance)
    if path is not None:
        with suppress(OutputError):  # in memory only
            make_folder(path.parent)
            _save(path, found, fingerprint)
    return found


def _load(
    path: Path, fingerprint: bytes, num_entities: int, num_relations: int
) -> ProbableFacts | None:
    """Read cached facts; None if there are none, or not those of this run."""
    try:
        if path.stat().st_size > _MAX_CACHE_BYTES:
            return None
        table = pq.read_table(path)
        if (table.schema.metadata or {}).get(_FINGERPRINT) != fingerprint:
            return None
        return ProbableFacts.from_arrow(table, num_entities, num_relations)
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _save(path: Path, found: ProbableFacts, fingerprint: bytes) -> None:
    table = found.as_arrow()
    metadata = {**(table.schema.metadata or {}), _FINGERPRINT: fingerprint}
    buffer = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), buffer)
    write_atomic(path, buffer.getvalue())


def facts_json(served: ServedModel, search: Search, relation: int | None, limit: int) -> Json:
    """Return the state of a search and, once it is done, the most probable facts."""
    if search.task is None or not search.task.done():
        return {
            "status": "running",
            "progress": search.progress,
            "facts": [],
            "num_facts": 0,
            "relations": [],
            "searched": None,
        }
    found = search.task.result()
    new = found.of_relation(relation)
    rows = zip(new.triples.array[:limit].tolist(), new.probabilities.tolist(), strict=False)
    is_calibrated = served.model.calibration is not None
    return {
        "status": "done",
        "progress": 1.0,
        "facts": [
            {**served.named_query((h, r, t)), "probability": probability if is_calibrated else None}
            for (h, r, t), probability in rows
        ],
        "num_facts": len(new),
        "relations": _relations(served, found),
        "searched": {**vars(found.searched), "is_complete": found.searched.is_complete},
    }


def _relations(served: ServedModel, found: ProbableFacts) -> list[Json]:
    """Return the relations that have probable facts, those with the most probable one first."""
    relations = found.new.triples.relations
    numbers, first, counts = np.unique(relations, return_index=True, return_counts=True)
    names = served.graph.relations
    return [
        {
            "id": names.name_of(int(numbers[row])),
            "label": names.label_of(int(numbers[row])),
            "num_facts": int(counts[row]),
        }
        for row in np.argsort(first, kind="stable").tolist()
    ]
