"""Labels of runs for figures: the model as it is written, and what distinguishes two runs of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fivestar.models.registry import MODELS
from fivestar.runs.identity import NOT_LEARNED
from fivestar.runs.run import Run
from fivestar.runs.settings import Settings

# Those that are not written like their class.
_MODEL_LABELS = {"FiveStarE": "5★E", "PRotatE": "pRotatE"}


def model_label(name: str) -> str:
    """Return a model's name as papers write it.

    Args:
        name: the name by which it is registered.

    >>> model_label("fivestar"), model_label("complex")
    ('5★E', 'ComplEx')
    """
    written = MODELS[name].__name__
    return _MODEL_LABELS.get(written, written)


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Return a label per run: that of its model.

    Runs of the same model have in parentheses the first settings that distinguish them, as
    "5★E (phase)"; runs with the same settings are numbered.
    """
    labels = [model_label(run.settings.model.name) for run in runs]
    for label in set(labels):
        same = [index for index, each in enumerate(labels) if each == label]
        if len(same) > 1:
            texts = _differences([_values(runs[index].settings) for index in same])
            for index, text in zip(same, texts, strict=True):
                labels[index] = f"{label} ({text})"
    return labels


def _differences(values: Sequence[dict[str, Any]]) -> list[str]:
    """Return a text for each of several settings: the first values that make all texts unique."""
    texts: list[list[str]] = [[] for _ in values]
    for name in dict.fromkeys(name for each in values for name in each):
        if len({str(each.get(name)) for each in values}) > 1:
            for text, each in zip(texts, values, strict=True):
                text.extend([_text(name, each[name])] if name in each else [])
            if len({tuple(text) for text in texts}) == len(texts):
                return [", ".join(text) or f"no {name}" for text in texts]
    return [", ".join([*text, str(number)]) for number, text in enumerate(texts, start=1)]


def _values(settings: Settings) -> dict[str, Any]:
    """Return what may distinguish runs: what determines what is learned, and the seed."""
    training = settings.training.model_dump(mode="json", exclude_none=True)
    return settings.model.model_dump(mode="json", exclude_none=True) | {
        name: value for name, value in training.items() if name not in NOT_LEARNED - {"seed"}
    }


def _text(name: str, value: Any) -> str:
    return value if isinstance(value, str) else f"{name.replace('_', ' ')} {value}"
