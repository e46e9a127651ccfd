"""Durations and amounts of memory as people write them: 1h30m, 2GiB."""

from __future__ import annotations

import datetime as dt
import math
import re

from fivestar.errors import SettingsError

_PARTS = re.compile(
    r"(?:(?P<hours>\d+(?:\.\d+)?)h)?(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)
_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
# More than any machine has.
_MAX_BYTES = 2.0**63
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(I?)B?", re.IGNORECASE)


def parse_duration(duration: str | dt.timedelta) -> float:
    """Return a duration in seconds.

    Args:
        duration: Hours, minutes and seconds with their units, as in `1h30m`; or a timedelta. A
            number without a unit is refused.

    Returns:
        Seconds, above 0.

    Raises:
        SettingsError: The text is not a duration.

    >>> parse_duration("90s"), parse_duration("1h30m"), parse_duration("1.5h")
    (90.0, 5400.0, 5400.0)
    """
    if isinstance(duration, dt.timedelta):
        seconds = duration.total_seconds()
    else:
        match = _PARTS.fullmatch(str(duration).strip().lower().replace(" ", ""))
        parts = {unit: float(n) for unit, n in match.groupdict().items() if n} if match else {}
        seconds = dt.timedelta(**parts).total_seconds()
    if seconds <= 0:
        raise SettingsError(
            f"{duration!r} is not a duration: give hours, minutes or seconds with their "
            "unit, as in 90s, 10m or 1h30m"
        )
    return seconds


def format_duration(seconds: float) -> str:
    """Return seconds as minutes and seconds, with hours if there are any.

    >>> format_duration(65), format_duration(3723)
    ('1:05', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def parse_bytes(text: str) -> int:
    """Return an amount of memory in bytes; a KiB has 1024 bytes and a kB 1000.

    Raises:
        SettingsError: The text is not an amount of memory.

    >>> parse_bytes("2GiB"), parse_bytes("1.5 MB"), parse_bytes("64")
    (2147483648, 1500000, 64)
    """
    match = _SIZE.fullmatch(text.strip())
    size = math.inf
    if match is not None:
        size = float(match[1]) * (1024 if match[3] else 1000) ** _UNITS[match[2].upper()]
    if not 1 <= size < _MAX_BYTES:
        raise SettingsError(f"{text!r} is not an amount of memory; write it as in 2GiB or 500MB")
    return int(size)


def format_bytes(count: int) -> str:
    """Return bytes in the largest fitting unit.

    >>> format_bytes(3 << 29)
    '1.5 GiB'
    """
    for unit, power in reversed(_UNITS.items()):
        if power and count >= 1024**power:
            return f"{count / 1024**power:.3g} {unit}iB"
    return f"{count} bytes"
