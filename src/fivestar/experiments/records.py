"""Measurements as JSON lines in `results/`: one line per measurement, with its provenance."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fivestar.errors import DamagedLedger, OutputError
from fivestar.experiments.ledger import provenance


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read all lines of a file; none if it does not exist.

    Raises:
        DamagedLedger: A line is not a JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DamagedLedger(f"{path}, line {number}: is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise DamagedLedger(f"{path}, line {number}: is not a JSON object")
        records.append(record)
    return records


def append_record(path: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Append a line, with commit, machine and date, sync it to disk and return it.

    Raises:
        OutputError: The file cannot be written.
    """
    line = {**record, **provenance()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {error.strerror}") from error
    return line
