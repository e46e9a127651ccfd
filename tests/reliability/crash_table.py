"""Start the process of crash_points.py, and show its points as a table.

python -m tests.reliability.crash_table [COMMAND …]

records the commands (default: all) in results/crashes.jsonl and writes the table of
docs/reliability.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.reliability.crash_points import EXPORTS

import fivestar
from fivestar.experiments.records import append_record, read_records
from fivestar.experiments.results import markdown_table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECORDS = ROOT / "results" / "crashes.jsonl"
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- crashes: generated from results/crashes.jsonl -->\n", "<!-- end of crashes -->\n"
COMMANDS = (
    *("train", "train --resume", "train --from", "train --refit", "train --from --refit"),
    *("fold-in", "convert", "train --budget"),
    *(f"export --to {to}" for to in EXPORTS),
    *(f"complete {name}" for name in ("out.tsv", "out.nt", "out.parquet")),
    *(f"graph convert {name}" for name in ("out.csv", "out.nt.gz", "out.tsv.zst", "out.parquet")),
    *("graph convert --force", "graph convert folder", "graph split", "ledger record"),
)
# Points per action that are tried without -m slow; losses of power are always tried at all points.
SAMPLE = 6


class Driver:
    """The process that forks a child per point."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.commands: list[str] = self._answer()

    def points(self, command: str, limit: int | None) -> dict[str, Any]:
        """Test a command; return its CPU seconds and a row per action."""
        self._process.stdin.write(json.dumps({"command": command, "limit": limit}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process has ended: {self._process.stderr.read()[-4000:]}")
        return json.loads(line)


def why_impossible() -> str | None:
    """Return why there can be no crash tests here, if so."""
    if sys.platform != "linux":
        return "crash tests need LD_PRELOAD and /proc of Linux"
    return None if shutil.which("cc") else "crash tests need a C compiler (cc) for their shim"


@contextmanager
def driver(folder: Path) -> Iterator[Driver]:
    """Compile the shim into a folder, and start the process with it."""
    shim = folder / "crash_shim.so"
    source = HERE / "crash_shim.c"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", shim, source, "-ldl"], check=True)  # noqa: S607
    package = Path(fivestar.__file__).parents[1]
    environment = {
        **os.environ,
        "LD_PRELOAD": os.fspath(shim),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(map(os.fspath, (ROOT, package))),
    }
    command = [sys.executable, HERE / "crash_points.py", shim, folder / "work"]
    with (
        (folder / "errors").open("w+") as errors,
        subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        process.stderr = errors
        try:
            yield Driver(process)
        finally:
            process.kill()


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return points per command and action; where not all were survived, how many were."""
    actions = [row["action"] for row in records[0]["rows"]]
    lines = [["command", *actions, "all"]]
    for record in records:
        rows = record["rows"]
        lines.append([f"`{record['command']}`", *map(_cell, rows), _cell(_sum(rows))])
    sums = [_sum([record["rows"][n] for record in records]) for n in range(len(actions))]
    lines.append(["all", *map(_cell, sums), _cell(_sum(sums))])
    return markdown_table(lines)


def _sum(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {key: sum(row[key] for row in rows) for key in ("points", "failed")}


def _cell(row: Mapping[str, Any]) -> str:
    if not row["failed"]:
        return f"{row['points']:,}"
    return f"{row['points'] - row['failed']:,} of {row['points']:,}"


def as_record(command: str, limit: int | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is kept of an answer."""
    rows = [
        {
            "action": row["action"],
            "points": row["points"],
            "failed": len(row["failures"]),
            "states": row["states"],
        }
        for row in answer["rows"]
    ]
    return {"command": command, "limit": limit, "cpu_seconds": answer["seconds"], "rows": rows}


def page() -> str:
    """Return docs/reliability.md with the table of the last record of each command."""
    last = {record["command"]: record for record in read_records(RECORDS)}
    records = [last[command] for command in COMMANDS if command in last]
    minutes = sum(record["cpu_seconds"] for record in records) / 60
    commits = ", ".join(dict.fromkeys(record["commit"] for record in records))
    dates = sorted({record["date"] for record in records})
    text = (
        f"{table(records)}\n\nUp to {SAMPLE} operations per command and action, all for losses of "
        f"power (`train --budget`: {SAMPLE // 2} each); {minutes:.1f} minutes of one core "
        f"(commit {commits}, {records[0]['machine']}, {dates[-1]}).\n"
    )
    if missing := [f"`{command}`" for command in COMMANDS if command not in last]:
        text += f"Part of the suite, but not recorded yet: {', '.join(missing)}.\n"
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + text + "\n" + END + after


def _record(commands: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, driver(Path(folder)) as running:
        for command in commands or running.commands:
            answer = running.points(command, SAMPLE)
            append_record(RECORDS, as_record(command, SAMPLE, answer))
            for row in answer["rows"]:
                for failure in row["failures"]:
                    print(f"{command}, {row['action']}, {failure}", file=sys.stderr)  # noqa: T201
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    _record(sys.argv[1:])
