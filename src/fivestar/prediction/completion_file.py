"""Write the completion of a graph to a file; an interrupted completion resumes.

Of processes that share the entity table, the first one writes, and the others read its parts.

RDF output (N-Triples) holds each triple and a reified `rdf:Statement` with its confidence, which
every tool reads. Names that are IRIs stay as they are, others become IRIs.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fivestar.errors import OutputError
from fivestar.extras import require
from fivestar.files import (
    atomic_folder,
    check_plain_folder,
    make_folder,
    output_errors,
    remove_folder,
    try_file_lock,
    write_atomic,
)
from fivestar.graph.rdf_terms import RDF, name_as_iri
from fivestar.graph.vocabulary import NAME_TYPE
from fivestar.notebook import html_table
from fivestar.prediction.completion import FLOORS, NO_TRIPLES, Completer, Goal, NewTriples

if TYPE_CHECKING:
    from fivestar.prediction.trained_model import TrainedModel

# Called with (queries answered, queries in all).
Progress = Callable[[int, int], None]
_TRIPLE = ("head", "relation", "tail")
FORMATS = (".nt", ".tsv", ".parquet")
_DECIMAL = "http://www.w3.org/2001/XMLSchema#decimal"
CONFIDENCE = "urn:fivestar:confidence"
_MAX_HTML_ROWS = 50
_MAX_TEXT_ROWS = 10


@dataclass(frozen=True)
class Completion:
    """New triples, most probable first.

    Attributes:
        new: the triples by id.
        table: head, relation, tail, head_label, tail_label and, if calibrated, probability.
    """

    new: NewTriples
    table: pa.Table

    @classmethod
    def of(cls, new: NewTriples, trained: TrainedModel) -> Completion:
        """Name new triples."""
        graph, triples = trained.graph, new.triples
        table = graph.named(triples)
        for column, ids in (("head_label", triples.heads), ("tail_label", triples.tails)):
            table = table.append_column(column, pa.array(graph.entities.labels_of(ids), NAME_TYPE))
        if trained.calibration is not None:
            table = table.append_column("probability", pa.array(new.probabilities))
        return cls(new, table)

    def __len__(self) -> int:
        return len(self.new)

    def __repr__(self) -> str:
        lines = [f"{len(self):,} new triples"]
        for row in self.table.slice(0, _MAX_TEXT_ROWS).to_pylist():
            probability = f"{row['probability']:6.1%}  " if "probability" in row else ""
            names = row["head_label"], row["relation"], row["tail_label"]
            lines.append(f"  {probability}{'  '.join(names)}")
        if len(self) > _MAX_TEXT_ROWS:
            lines.append("  …")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            [f"{value:.1%}" if isinstance(value, float) else str(value) for value in row.values()]
            for row in self.table.slice(0, _MAX_HTML_ROWS).to_pylist()
        ]
        return html_table(self.table.column_names, rows, f"{len(self):,} new triples")

    def to_pandas(self) -> Any:
        """Return a DataFrame with one row per triple."""
        require("pandas", "pandas", "to_pandas")
        return self.table.to_pandas()


def complete(
    trained: TrainedModel,
    goal: Goal,
    relations: Sequence[int] | None = None,
    progress: Progress | None = None,
    parts: Path | None = None,
) -> NewTriples:
    """Return the most probable new triples of all relations, or of some by id.

    With `parts`, a folder, each finished relation is written there and not computed again.
    """
    chosen = list(range(len(trained.graph.relations)) if relations is None else relations)
    best, skipped = NO_TRIPLES, 0
    # A second search would answer as many queries again.
    floors = FLOORS if goal.max_queries is None else FLOORS[:1]
    for floor in floors:
        completer = Completer(trained, goal, floor)
        answered, needed = completer.limit_queries(chosen)
        skipped = int((needed - answered).sum())
        place = None if parts is None else parts / f"{floor:g}"
        best = _complete(completer, chosen, int(answered.sum()), progress, place)
        if completer.is_exact(best):
            return replace(best, skipped=skipped)
    return replace(best, floor=floors[-1], skipped=skipped)


def _complete(
    completer: Completer,
    relations: Sequence[int],
    total: int,
    progress: Progress | None,
    parts: Path | None,
) -> NewTriples:
    best, done, shard = NO_TRIPLES, 0, completer.model.shard
    if parts is not None and shard.is_first:
        make_folder(parts)

    def count(queries: int) -> None:
        nonlocal done
        done += queries
        if progress is not None:
            progress(done, total)

    for number in relations:
        part = None if parts is None else parts / f"{number}.parquet"
        new = None if part is None else _read_part(part)
        # Either all processes compute a relation, or none.
        if shard.from_first(float(new is not None)):
            if new is None:
                raise OutputError(f"{part}: cannot be read; all processes need the same folder")
            count(completer.num_queries(number))
        else:
            new = completer.complete_relation(number, best, count)
            if part is not None and shard.is_first:
                write_atomic(part, _parquet(new.as_arrow()))
        best = (best + new).best(completer.goal)
    return best


def _read_part(path: Path) -> NewTriples | None:
    """Read what an interrupted completion has found; None if there is nothing or it is damaged."""
    try:
        return NewTriples.from_arrow(pq.read_table(path))
    except (OSError, KeyError, pa.ArrowException):
        return None


def complete_to_file(
    out: str | os.PathLike[str],
    trained: TrainedModel,
    goal: Goal,
    relations: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> NewTriples:
    """Write the most probable new triples to a new file; an interrupted call can be repeated."""
    path, shard = check_file(out, trained), trained.model.shard
    parts = path.with_name(f".{path.name}.parts")
    state = json.dumps({"of": _fingerprint(trained, relations), **asdict(goal)}, sort_keys=True)
    state_file = parts / "goal.json"
    if not shard.is_first:
        shard.wait()  # until the first process has the lock
        new = complete(trained, goal, relations, progress, parts)
        shard.wait()  # until the file is complete
        return new
    if not parts.exists():
        with atomic_folder(parts) as draft:
            write_atomic(draft / state_file.name, state.encode())
    check_plain_folder(parts)
    with output_errors(path), try_file_lock(parts / ".lock") as is_free:
        if not is_free:
            raise OutputError(f"{path}: another process writes this completion; wait for it")
        if not state_file.is_file() or state_file.read_text() != state:
            raise OutputError(
                f"{parts} holds the partial results of another completion; finish that one with "
                "its own settings, or remove the folder"
            )
        shard.wait()
        new = complete(trained, goal, relations, progress, parts)
        write_atomic(path, _encoded(Completion.of(new, trained).table, path.suffix.lower()))
        remove_folder(parts)
    shard.wait()
    return new


def check_file(out: str | os.PathLike[str], trained: TrainedModel | None = None) -> Path:
    """Check that new triples can be written to `out` before minutes are spent on finding them."""
    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise OutputError(f"{path}: new triples are written as {', '.join(FORMATS)}; name it so")
    if path.exists():
        raise OutputError(f"{path} exists already; choose another name or remove it first")
    if not path.parent.is_dir():
        raise OutputError(f"{path}: there is no folder {path.parent}; make it first")
    if trained is not None and path.suffix.lower() == ".tsv":
        for vocabulary in (trained.graph.entities, trained.graph.relations):
            if pc.any(pc.match_substring_regex(vocabulary.names, "[\t\r\n]")).as_py():
                raise OutputError(f"{path}: some names contain tabs or newlines; write .parquet")
    return path


def iri(name: str, kind: str) -> str:
    """Return a name as an IRI; angle brackets around an IRI in a text file are removed.

    >>> iri("<http://example.org/x>", "entity"), iri("New York", "entity")
    ('http://example.org/x', 'urn:fivestar:entity:New%20York')
    """
    bare = name.removeprefix("<").removesuffix(">")
    return bare if name_as_iri(bare, kind) == bare else name_as_iri(name, kind)


def as_statements(table: pa.Table) -> str:
    """Return N-Triples for a table of head, relation, tail and optionally probability."""
    lines = []
    for number, row in enumerate(table.to_pylist()):
        kinds = (("head", "entity"), ("relation", "relation"), ("tail", "entity"))
        s, p, o = (f"<{iri(row[column], kind)}>" for column, kind in kinds)
        lines.append(f"{s} {p} {o} .\n")
        if "probability" not in row:
            continue
        statement = f"_:statement{number}"
        properties = {
            f"{RDF}type": f"<{RDF}Statement>",
            f"{RDF}subject": s,
            f"{RDF}predicate": p,
            f"{RDF}object": o,
            CONFIDENCE: f'"{row["probability"]:.6f}"^^<{_DECIMAL}>',
        }
        lines += [f"{statement} <{key}> {value} .\n" for key, value in properties.items()]
    return "".join(lines)


def _encoded(table: pa.Table, suffix: str) -> bytes:
    if suffix == ".parquet":
        return _parquet(table)
    if suffix == ".nt":
        return as_statements(table).encode()
    # Unquoted, as our reader and all public datasets have it. Labels are for people only.
    rows = [[" ".join(str(value).split()) for value in row.values()] for row in table.to_pylist()]
    names = zip(*(table[column].to_pylist() for column in _TRIPLE), strict=True)
    lines = ("\t".join((*name, *row[3:])) for name, row in zip(names, rows, strict=True))
    return "".join(f"{line}\n" for line in ("\t".join(table.column_names), *lines)).encode()


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def _fingerprint(trained: TrainedModel, relations: Sequence[int] | None) -> str:
    """Return a hash of all that a completion depends on: settings, graph and weights."""
    text = f"{trained.settings.as_toml()}{trained.graph.facts.array.shape}{relations}"
    digest = hashlib.blake2b(text.encode(), digest_size=32)
    digest.update(trained.graph.facts.array.tobytes())
    if trained.calibration is not None:
        digest.update(json.dumps(trained.calibration.as_json()).encode())
    model = trained.model
    for name, table in sorted(model.state_dict().items()):
        digest.update(name.encode())
        is_shared = name == "entities" and not model.shard.is_whole
        for part in model.shard.parts(table) if is_shared else [table]:
            digest.update(part.detach().cpu().contiguous().numpy().data)
    return digest.hexdigest()
