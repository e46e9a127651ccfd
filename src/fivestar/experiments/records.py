"""Measurements as JSON lines in `results/`: one line per measurement, with its provenance."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fivestar.errors import DamagedLedger
from fivestar.experiments.ledger import provenance
from fivestar.files import file_lock, make_folder, output_errors, write_atomic


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
    """Add a line, with commit, machine and date, and return it.

    Raises:
        OutputError: The file cannot be written.
    """
    line = {**record, **provenance()}
    make_folder(path.parent)
    with file_lock(path.with_name(f".{path.name}.lock")), output_errors(path):
        before = path.read_bytes() if path.exists() else b""
        write_atomic(path, before + json.dumps(line, ensure_ascii=False).encode() + b"\n")
    return line
