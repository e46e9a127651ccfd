"""Settings that were renamed: the one table by which older files, runs and ledgers are read.

The ledger keeps the original names, so that equal settings have equal hashes whenever they were
recorded. Everything else is written with the current names.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from fivestar.errors import SettingsError

# Original name → current name.
NAMES = {
    "start": "init",
    "batch": "batch_size",
    "candidates": "num_candidates",
    "reg": "reg_weight",
    "negatives": "num_negatives",
    "adversarial": "adversarial_temperature",
    "relation_weight": "relation_loss_weight",
    "relation_draws": "num_relation_candidates",
}
# Current setting → original value → current value.
VALUES: dict[str, dict[str, str]] = {"regularizer": {"n3-moved": "n3-transformed"}}
_ORIGINAL_NAMES = {new: old for old, new in NAMES.items()}


class RenamedSetting(UserWarning):
    """A settings file or mapping uses the name of an older version."""


def current_names(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section of settings with original names and values replaced by the current ones.

    Raises:
        SettingsError: A setting is given by both names.

    >>> current_names({"start": "small", "regularizer": "n3-moved", "lr": 0.1})
    {'init': 'small', 'regularizer': 'n3-transformed', 'lr': 0.1}
    """
    current: dict[str, Any] = {}
    for name, value in section.items():
        new = NAMES.get(name, name)
        if new != name and new in section:
            raise SettingsError(f"{name} is the former name of {new}: remove {name}")
        current[new] = VALUES.get(new, {}).get(value, value) if isinstance(value, str) else value
    return current


def original_names(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return a section of settings with current names and values replaced by the original ones.

    >>> original_names({"reg_weight": 0.1, "regularizer": "n3-transformed"})
    {'reg': 0.1, 'regularizer': 'n3-moved'}
    """
    original = {}
    for name, value in section.items():
        values = {new: old for old, new in VALUES.get(name, {}).items()}
        is_renamed = isinstance(value, str) and value in values
        original[_ORIGINAL_NAMES.get(name, name)] = values[value] if is_renamed else value
    return original


def note_renamed(section: Mapping[str, Any], where: str) -> None:
    """Warn once about original names in a section that a user has written."""
    current = current_names(section)
    old = [f"{name} is now {NAMES[name]}" for name in section if name in NAMES]
    old += [
        f"{name} {section[name]} is now {current[name]}"
        for name in section
        if isinstance(section[name], str) and section[name] in VALUES.get(name, ())
    ]
    if old:
        text = "; ".join(old).replace("_", "-")
        warnings.warn(f"{where}: {text} (the old names still work)", RenamedSetting, stacklevel=3)
