"""Amounts of memory as people write them."""

from __future__ import annotations

import re

from fivestar.errors import SettingsError

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


def bytes_of(text: str) -> int:
    """The bytes of a size; KiB are 1024 bytes and kB 1000.

    >>> bytes_of("2GiB"), bytes_of("1.5 MB"), bytes_of("64")
    (2147483648, 1500000, 64)
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise SettingsError(f"{text!r} is no amount of memory; write it as in 2GiB or 500MB")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** _UNITS[found[2].upper()])


def written(count: int) -> str:
    """The size as people write it.

    >>> written(3 << 29)
    '1.5 GiB'
    """
    for unit, power in reversed(_UNITS.items()):
        if power and count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}iB"
    return f"{count} bytes"
