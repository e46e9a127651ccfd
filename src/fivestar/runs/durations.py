"""Lengths of time in a user's words."""

from __future__ import annotations

import datetime as dt
import re

from fivestar.errors import SettingsError

_PARTS = re.compile(
    r"(?:(?P<hours>\d+(?:\.\d+)?)h)?(?:(?P<minutes>\d+(?:\.\d+)?)m)?(?:(?P<seconds>\d+(?:\.\d+)?)s)?"
)


def seconds_of(duration: str | dt.timedelta) -> float:
    """Return a length of time in seconds.

    Args:
        duration: hours, minutes and seconds with their units, as in `1h30m`; or a timedelta. A
            number without a unit is refused.

    Returns:
        Seconds, above 0.

    >>> seconds_of("90s"), seconds_of("10m"), seconds_of("1h30m"), seconds_of("1.5h")
    (90.0, 600.0, 5400.0, 5400.0)
    """
    if isinstance(duration, dt.timedelta):
        seconds = duration.total_seconds()
    else:
        found = _PARTS.fullmatch(str(duration).strip().lower().replace(" ", ""))
        parts = {unit: float(n) for unit, n in found.groupdict().items() if n} if found else {}
        seconds = dt.timedelta(**parts).total_seconds()
    if seconds <= 0:
        raise SettingsError(
            f"{duration!r} is not a length of time: give hours, minutes or seconds with their "
            "unit, as in 90s, 10m or 1h30m"
        )
    return seconds


def duration_text(seconds: float) -> str:
    """Return seconds as minutes and seconds, with hours if there are any.

    >>> duration_text(65), duration_text(3723)
    ('1:05', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
