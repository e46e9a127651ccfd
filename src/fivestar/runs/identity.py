"""The identity of a result: the settings that determine what is learned, and their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.runs.defaults import baseline
from fivestar.runs.renamed import original_names
from fivestar.runs.settings import Settings

HASH_DIGITS = 16
# Settings that do not change what is learned: where it is computed, what is saved on the way, and
# the seed, which has its own field. The number of epochs and what chooses the best do change it.
NOT_LEARNED = frozenset(
    {
        "seed",
        "threads",
        "memory",
        "device",
        "table",
        "query_groups",
        "checkpoint_every",
        "checkpoint_minutes",
        "snapshot_epochs",
    }
)


def learned_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the settings that determine what is learned, without those of the frozen baseline.

    The baseline never changes, so equal settings have equal hashes when the defaults change.
    """
    frozen = baseline()
    sections: dict[str, BaseModel] = {"model": settings.model, "training": settings.training}
    return {
        section: original_names(
            {
                name: value
                for name, value in values.model_dump(mode="json").items()
                if name not in NOT_LEARNED and value not in (None, frozen[section].get(name))
            }
        )
        for section, values in sections.items()
    }


def settings_hash(settings: Settings) -> str:
    """Return 16 hexadecimal digits that two runs share if and only if they learn the same way."""
    return hash_of(learned_settings(settings))


def hash_of(values: Mapping[str, Any]) -> str:
    """Return the hash of the learned settings of a run."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def graph_hash(graph: KnowledgeGraph) -> str:
    """Return 16 hexadecimal digits of the ids and sizes that a model of a graph depends on."""
    digest = hashlib.blake2b(digest_size=HASH_DIGITS // 2)
    digest.update(f"{len(graph.entities)} {len(graph.relations)}".encode())
    for split in (graph.train, graph.valid):
        digest.update(split.array.astype("<i4").tobytes())
        if split.weights is not None:
            digest.update(split.weights.astype("<f8").tobytes())
    if graph.negatives is not None:
        digest.update(graph.negatives.array.astype("<i4").tobytes())
    return digest.hexdigest()
