from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import SettingsError
from fivestar.runs.units import format_bytes, format_duration, parse_bytes, parse_duration


@given(st.integers(0, 99), st.integers(0, 99), st.integers(1, 99))
def test_durations_are_sums_of_their_parts(hours, minutes, seconds):
    wanted = 3600 * hours + 60 * minutes + seconds
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == wanted
    assert parse_duration(f" {hours}H {minutes}m {seconds}.0S ") == wanted
    assert parse_duration(dt.timedelta(seconds=wanted)) == wanted


@pytest.mark.parametrize(
    "text", ["", "0s", "10", "-5s", "5s3m", "1h30", "1d", "s", dt.timedelta(0)]
)
def test_what_is_not_a_duration_is_refused(text):
    with pytest.raises(SettingsError, match="is not a duration"):
        parse_duration(text)


@given(st.integers(0, 10**6))
def test_a_formatted_duration_reads_back(seconds):
    *hours, minutes, rest = map(int, format_duration(seconds).split(":"))
    assert 3600 * sum(hours) + 60 * minutes + rest == seconds
    assert rest < 60
    assert hours != [0]
    assert minutes < 60
    assert len(format_duration(seconds).rsplit(":", 1)[1]) == 2


def test_durations_are_rounded():
    assert format_duration(59.6) == "1:00"
    assert format_duration(3600) == "1:00:00"
    assert format_duration(3599) == "59:59"


@pytest.mark.parametrize(("unit", "power"), [("", 0), ("k", 1), ("M", 2), ("G", 3), ("T", 4)])
@pytest.mark.parametrize("number", ["1", "3", "2.5"])
def test_units_of_memory(unit, power, number):
    assert parse_bytes(f"{number}{unit}B") == int(float(number) * 1000**power)
    assert parse_bytes(f" {number} {unit}iB") == int(float(number) * 1024**power)


@pytest.mark.parametrize("text", ["", "0", "0.5", "-1MB", "2 XB", "GiB", f"{2**63}", "9000000 TiB"])
def test_what_is_not_an_amount_of_memory_is_refused(text):
    with pytest.raises(SettingsError, match="is not an amount of memory"):
        parse_bytes(text)


def test_the_smallest_and_the_largest_amount():
    assert parse_bytes("1") == 1
    assert parse_bytes(f"{2**62}") == 2**62


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5 MiB"),
        (1 << 30, "1 GiB"),
        (3 << 40, "3 TiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(count, text):
    assert format_bytes(count) == text
