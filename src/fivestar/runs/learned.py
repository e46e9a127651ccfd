"""The part of the settings that decides what is learned: the identity of a result."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from fivestar.runs.defaults import baseline
from fivestar.runs.renamed import original_names
from fivestar.runs.settings import Settings

# Settings that change how a result is come by, or which of the equal ones, but not what is learned:
# where and with how much it is computed, what is kept on the way, and the seed, which has its own
# field. How long is trained, and what chooses the epoch, does change it.
NOT_LEARNED = frozenset(
    {
        "seed",
        "threads",
        "memory",
        "device",
        "checkpoint_every",
        "checkpoint_minutes",
        "snapshot_epochs",
    }
)


def learned_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what decides what is learned, without values that equal the frozen baseline.

    Counting from defaults that never change keeps the hash of the same settings the same, whatever
    the defaults of the day are.
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
