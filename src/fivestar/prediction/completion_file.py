"""Completion of a graph into a file: what is done is kept, so that it can be stopped and go on."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from fivestar.errors import OutputError
from fivestar.files import write_atomic
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.prediction.completion import NOTHING, Completer, Found, Goal
from fivestar.prediction.predictor import Predictor
from fivestar.prediction.statements import as_statements

# Called with (questions answered, questions in all).
Progress = Callable[[int, int], None]
_TRIPLE = ("head", "relation", "tail")
FORMATS = (".nt", ".tsv", ".parquet")


def complete(
    predictor: Predictor,
    goal: Goal,
    relations: Sequence[int] | None = None,
    progress: Progress | None = None,
    parts: Path | None = None,
) -> Found:
    """The likeliest new triples of all relations, or of some by id.

    With `parts`, a folder, each relation is written there when it is done, and not done again.
    """
    chosen = list(range(len(predictor.graph.relations)) if relations is None else relations)
    completer, best, done = Completer(predictor, goal), NOTHING, 0
    total = sum(completer.questions(number) for number in chosen)

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        if progress is not None:
            progress(done, total)

    for number in chosen:
        kept = None if parts is None else parts / f"{number}.parquet"
        if kept is not None and kept.exists():
            found = Found.from_arrow(pq.read_table(kept))
            count(completer.questions(number))
        else:
            found = completer.relation(number, best, count)
            if kept is not None:
                write_atomic(kept, _parquet(found.as_arrow()))
        best = (best + found).best(goal)
    return best


def complete_into(
    out: str | os.PathLike[str],
    predictor: Predictor,
    goal: Goal,
    relations: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> Found:
    """The same into a new file; stopped, by whatever, it goes on where it was."""
    place = check_file(out, predictor)
    parts = place.with_name(f".{place.name}.parts")
    begun = json.dumps({"of": _fingerprint(predictor, relations), **asdict(goal)}, sort_keys=True)
    note = parts / "goal.json"
    if parts.exists() and (not note.exists() or note.read_text() != begun):
        raise OutputError(
            f"{parts} holds what another completion has found so far; finish that one with its "
            "own settings, or remove the folder"
        )
    parts.mkdir(exist_ok=True)
    write_atomic(note, begun.encode())
    found = complete(predictor, goal, relations, progress, parts)
    write_atomic(place, _written(found, predictor, place.suffix.lower()))
    shutil.rmtree(parts)
    return found


def check_file(out: str | os.PathLike[str], predictor: Predictor | None = None) -> Path:
    """Where new triples can be written: before they are searched for, which may take minutes."""
    place = Path(out)
    if place.suffix.lower() not in FORMATS:
        raise OutputError(f"{place}: new triples are written as {', '.join(FORMATS)}; name it so")
    if place.exists():
        raise OutputError(f"{place} exists already; choose another name or remove it first")
    if not place.parent.is_dir():
        raise OutputError(f"{place}: there is no folder {place.parent}; make it first")
    if predictor is not None and place.suffix.lower() == ".tsv":
        for vocabulary in (predictor.graph.entities, predictor.graph.relations):
            if pc.any(pc.match_substring_regex(vocabulary.names, "[\t\r\n]")).as_py():
                raise OutputError(f"{place}: some names hold tabs or line ends; write .parquet")
    return place


def named(found: Found, predictor: Predictor) -> pa.Table:
    """New triples by name, with their labels and probabilities."""
    graph, triples = predictor.graph, found.triples
    table = graph.named(triples)
    for column, ids in (("head_label", triples.heads), ("tail_label", triples.tails)):
        table = table.append_column(column, pa.array(graph.entities.labels_of(ids), NAME_TYPE))
    if predictor.calibration is not None:
        table = table.append_column("probability", pa.array(found.probabilities))
    return table


def _written(found: Found, predictor: Predictor, suffix: str) -> bytes:
    table = named(found, predictor)
    if suffix == ".parquet":
        return _parquet(table)
    if suffix == ".nt":
        return as_statements(table).encode()
    # Unquoted, as our reader and all published graphs have it. Labels are for people only.
    rows = [[" ".join(str(value).split()) for value in row.values()] for row in table.to_pylist()]
    names = zip(*(table[column].to_pylist() for column in _TRIPLE), strict=True)
    lines = ("\t".join((*name, *row[3:])) for name, row in zip(names, rows, strict=True))
    return "".join(f"{line}\n" for line in ("\t".join(table.column_names), *lines)).encode()


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _fingerprint(predictor: Predictor, relations: Sequence[int] | None) -> str:
    """Tells runs apart: by their settings and some of their numbers."""
    run = predictor.run
    some = torch.cat([run.model.entities[:1000].flatten(), run.model.relations.flatten()])
    told = f"{run.settings.as_toml()}{len(run.graph.facts)}{relations}"
    return hashlib.sha256(told.encode() + some.detach().cpu().numpy().tobytes()).hexdigest()
