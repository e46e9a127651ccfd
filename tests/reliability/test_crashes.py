"""Whatever happens at whichever file operation of a command: old, new or resumable, never a third.

See crash_points.py for how, and docs/reliability.md for the table.
"""

from __future__ import annotations

import pytest
from tests.reliability.crash_points import Disk
from tests.reliability.crash_table import COMMANDS, PAGE, SAMPLE, driver, page, why_impossible

POINTS: dict[str, int] = {}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    if reason := why_impossible():
        pytest.skip(reason)
    with driver(tmp_path_factory.mktemp("crashes")) as started:
        assert started.commands == list(COMMANDS)
        yield started


def check(running, command, limit):
    rows = running.points(command, limit)["rows"]
    failures = [f"{row['action']} {each}" for row in rows for each in row["failures"]]
    assert not failures, "\n".join(failures)
    return sum(row["points"] for row in rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_crash_leaves_the_old_or_the_new_state_or_a_resumable_run(running, command):
    POINTS[command] = check(running, command, SAMPLE)


def test_there_are_at_least_2000_points():
    if set(POINTS) != set(COMMANDS):
        pytest.skip("not all commands were tested")
    assert sum(POINTS.values()) >= 2000


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_single_operation(running, command):
    check(running, command, None)


def test_the_page_shows_what_was_recorded():
    assert page() == PAGE.read_text(encoding="utf-8")


# The model of a disk that loses power.


def test_only_what_was_synced_survives(tmp_path):
    root = tmp_path
    disk = Disk(root, ({"old": b"before"}, frozenset()))
    for line in (
        ("C", f"{root}/.draft", "", None),
        ("W", f"{root}/.draft", "", None),
        ("R", f"{root}/.draft", f"{root}/old", None),
    ):
        disk.apply(*line)
    # An unsynced rename: the old name leads to the old file, or the new one to nothing.
    assert disk.after_power_loss(names_kept=False)[0] == {"old": b"before"}
    assert disk.after_power_loss(names_kept=True)[0] == {"old": b""}
    disk.apply("S", f"{root}/old", "", b"after")
    assert disk.after_power_loss(names_kept=False)[0] == {"old": b"before"}
    assert disk.after_power_loss(names_kept=True)[0] == {"old": b"after"}
    disk.apply("D", f"{root}", "", None)
    assert disk.after_power_loss(names_kept=False)[0] == {"old": b"after"}


def test_a_folder_whose_parent_was_not_synced_is_lost(tmp_path):
    disk = Disk(tmp_path, ({}, frozenset()))
    disk.apply("M", f"{tmp_path}/new", "", None)
    disk.apply("C", f"{tmp_path}/new/file", "", None)
    disk.apply("S", f"{tmp_path}/new/file", "", b"text")
    disk.apply("D", f"{tmp_path}/new", "", None)
    assert disk.after_power_loss(names_kept=False) == ({}, frozenset())
    disk.apply("D", f"{tmp_path}", "", None)
    assert disk.after_power_loss(names_kept=False)[0] == {"new/file": b"text"}
