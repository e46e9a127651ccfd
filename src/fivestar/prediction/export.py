"""Export a trained model for other tools. Each export is a new folder, written atomically."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from fivestar.errors import ExportImpossible
from fivestar.files import atomic_folder
from fivestar.graph.arrow import to_arrow
from fivestar.graph.vocabulary import Vocabulary
from fivestar.prediction.scorer import torch_program, write_onnx
from fivestar.prediction.vectors import candidate_vectors
from fivestar.runs.manifest import MANIFEST, verified_files
from fivestar.runs.run import Run

PathLike = str | os.PathLike[str]
Format = Literal[
    "parquet", "numpy", "word2vec", "projector", "vectors", "torch", "onnx", "huggingface"
]
# Numbers formatted at once.
_NUMBERS_PER_CHUNK = 1 << 20
# The empty name: no other name gives a % without two digits behind it.
_EMPTY = "%"


def export_parquet(run: Run, out: PathLike) -> None:
    """Write entities.parquet and relations.parquet: id, name, label, vector."""
    with atomic_folder(out) as draft:
        entities = entity_rows(run)
        _write_parquet(draft / "entities.parquet", entities, {})
        tails, heads = relation_rows(run), reciprocal_rows(run)
        predicts = ["tail"] * len(tails.names) + ["head"] * len(heads.names)
        relations = NamedRows(
            np.concatenate([tails.rows, heads.rows]),
            tails.names + heads.names,
            tails.labels + heads.labels,
        )
        side = {"predicts": pa.array(predicts, pa.string())}
        _write_parquet(draft / "relations.parquet", relations, side)


def _write_parquet(path: Path, table: NamedRows, more: dict[str, pa.Array]) -> None:
    rows = table.rows
    vectors = pa.FixedSizeListArray.from_arrays(to_arrow(rows.ravel()), rows.shape[1])
    columns = {
        "id": to_arrow(np.arange(len(rows), dtype=np.int32)),
        "name": pa.array(table.names, pa.large_string()),
        "label": pa.array(table.labels, pa.large_string()),
        **more,
        "vector": vectors,
    }
    pq.write_table(pa.table(columns), path)


def export_numpy(run: Run, out: PathLike) -> None:
    """Write entities.npy and relations.npy, and the names of their rows in .tsv files."""
    with atomic_folder(out) as draft:
        tables = {"entities": run.model.entities, "relations": run.model.relations}
        for name, table in tables.items():
            np.save(draft / f"{name}.npy", table.detach().float().cpu().numpy())
        write_names(draft, run)


def export_word2vec(run: Run, out: PathLike) -> None:
    """Write entities.txt and relations.txt in the text format of word2vec."""
    with atomic_folder(out) as draft:
        for file, table in (("entities", entity_rows(run)), ("relations", relation_rows(run))):
            size = f"{table.rows.shape[0]} {table.rows.shape[1]}"
            words = map(word_of, table.names)
            numbers = zip(words, as_text(table.rows, " "), strict=True)
            write_lines(draft / f"{file}.txt", (size, *map(" ".join, numbers)))


def export_projector(run: Run, out: PathLike) -> None:
    """Write entities and relations for the embedding projector of TensorBoard."""
    types = run.graph.types
    kinds = [", ".join(types.of(n)) if types else "" for n in range(len(run.graph.entities))]
    tables = {
        "entities": ("", entity_rows(run), kinds),
        "relations": ("relation_", relation_rows(run), ["relation"] * len(run.graph.relations)),
    }
    config: list[str] = []
    with atomic_folder(out) as draft:
        for tensor, (prefix, table, kind) in tables.items():
            numbers, texts = f"{prefix}tensors.tsv", f"{prefix}metadata.tsv"
            write_lines(draft / numbers, as_text(table.rows, "\t"))
            rows = zip(table.names, table.labels, kind, strict=True)
            shown = ("\t".join(map(_on_one_line, row)) for row in rows)
            write_lines(draft / texts, ("name\tlabel\ttype", *shown))
            config += [
                "embeddings {",
                f'  tensor_name: "{tensor}"',
                f'  tensor_path: "{numbers}"',
                f'  metadata_path: "{texts}"',
                "}",
            ]
        write_lines(draft / "projector_config.pbtxt", config)


def _on_one_line(text: str) -> str:
    """Collapse whitespace: the projector has no quoting."""
    return " ".join(text.split())


def export_vectors(run: Run, out: PathLike) -> None:
    """Write candidate vectors for maximum inner product search, and how to query them."""
    vectors = candidate_vectors(run)
    with atomic_folder(out) as draft:
        np.save(draft / "candidates.npy", vectors)
        write_names(draft, run)
        text = _SEARCH.format(graph=run.graph.name, model=run.settings.model.name)
        write_lines(draft / "README.md", [text])


_SEARCH = """\
# Vectors of a {model} on {graph}

Row i of candidates.npy belongs to id i of entities.tsv. The candidates with the largest inner
product with a query vector are the answers that the model ranks first, in its order. Query vectors
come from the trained model:

```python
import faiss
import numpy as np
import fivestar

model = fivestar.load("RUN")
candidates = np.load("candidates.npy")
index = faiss.IndexFlatIP(candidates.shape[1])
index.add(candidates)
head, relation = 0, 0  # ids, as in entities.tsv and relations.tsv
query = fivestar.query_vectors(model, [head], [relation])
products, ids = index.search(query, 10)
```

A relation of relations.tsv that predicts heads is given with a tail in the place of the head."""


def export_torch(run: Run, out: PathLike) -> None:
    """Write scorer.pt2, a `torch.export` program: (heads, relations) → scores of all entities."""
    with atomic_folder(out) as draft:
        # In memory: the native writer of torch has its own errors for a full disk.
        program = io.BytesIO()
        torch.export.save(torch_program(run.model), program)
        (draft / "scorer.pt2").write_bytes(program.getvalue())
        write_names(draft, run)


def export_onnx(run: Run, out: PathLike) -> None:
    """Write scorer.onnx: (heads, relations) → scores of all entities."""
    with atomic_folder(out) as draft:
        write_onnx(run.model, draft / "scorer.onnx")
        write_names(draft, run)


def export_huggingface(folder: PathLike, out: PathLike) -> None:
    """Copy the files of a run that its manifest lists, ready to upload to Hugging Face."""
    source = Path(folder)
    files = verified_files(source)
    _check_card(source / "README.md")
    with atomic_folder(out) as draft:
        for name in (*files, MANIFEST):
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, draft / name)


def _check_card(card: Path) -> None:
    """Check the front matter, which Hugging Face reads."""
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    end = lines.index("---", 1) if "---" in lines[1:] else 0
    top = lines[1:end]
    if lines[:1] != ["---"] or not any(line.startswith("library_name: ") for line in top):
        raise ExportImpossible(
            f"{card}: has no front matter with a library_name; save the run again"
        )


# Formats of a loaded run; export_huggingface takes its folder.
EXPORTERS: dict[str, Callable[[Run, PathLike], None]] = {
    "parquet": export_parquet,
    "numpy": export_numpy,
    "word2vec": export_word2vec,
    "projector": export_projector,
    "vectors": export_vectors,
    "torch": export_torch,
    "onnx": export_onnx,
}


@dataclass(frozen=True)
class NamedRows:
    """Embeddings (n, D) with the name and label of each row."""

    rows: npt.NDArray[np.float32]
    names: list[str]
    labels: list[str]


def entity_rows(run: Run) -> NamedRows:
    """Return the entity table of the model, in the layout that `fivestar models` describes."""
    return _named(run.model.entities.detach().float().cpu().numpy(), run.graph.entities)


def relation_rows(run: Run) -> NamedRows:
    """Return the relation rows of tail queries (h, r, ?)."""
    table = run.model.relations.detach().float().cpu().numpy()
    return _named(table[: len(run.graph.relations)], run.graph.relations)


def reciprocal_rows(run: Run) -> NamedRows:
    """Return the reciprocal rows of head queries (?, r, t); none without reciprocals."""
    table = run.model.relations.detach().float().cpu().numpy()
    return _named(table[len(run.graph.relations) :], run.graph.relations)


def _named(rows: npt.NDArray[np.float32], vocabulary: Vocabulary) -> NamedRows:
    names = vocabulary.names[: len(rows)].to_pylist()
    return NamedRows(rows, names, vocabulary.labels_of(np.arange(len(rows))))


def as_text(rows: npt.NDArray[np.float32], separator: str) -> Iterator[str]:
    """Yield each row as text that reads back to the same bits."""
    width = rows.shape[1]
    for block in np.array_split(rows, max(1, -(-rows.size // _NUMBERS_PER_CHUNK))):
        numbers = to_arrow(block.ravel()).cast(pa.string())
        starts = to_arrow(np.arange(len(block) + 1, dtype=np.int32) * np.int32(width))
        yield from pc.binary_join(pa.ListArray.from_arrays(starts, numbers), separator).to_pylist()


def word_of(name: str) -> str:
    """Return a name as one word: whitespace, control characters and % are percent-encoded.

    >>> word_of("New York"), word_of("100%"), word_of("")
    ('New%20York', '100%25', '%')
    """
    return "".join(quote(c, safe="") if _splits(c) else c for c in name) or _EMPTY


def name_of(word: str) -> str:
    """Decode a word of `word_of`.

    >>> name_of("New%20York")
    'New York'
    """
    return "" if word == _EMPTY else unquote(word)


def _splits(character: str) -> bool:
    return character.isspace() or character == "%" or not character.isprintable()


def tsv_line(fields: Iterable[str]) -> str:
    """Join fields by tabs, quoted as in CSV where needed."""
    return "\t".join(
        '"' + field.replace('"', '""') + '"' if set(field) & set('\t\n\r"') else field
        for field in fields
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines of text, the same on every system."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(line + "\n" for line in lines)


def write_names(folder: Path, run: Run) -> None:
    """Write entities.tsv and relations.tsv: the id, name and label of each row.

    A relation is listed once per side that its rows predict.
    """
    entities, tails, heads = entity_rows(run), relation_rows(run), reciprocal_rows(run)
    lines = [
        (str(number), name, label)
        for number, (name, label) in enumerate(zip(entities.names, entities.labels, strict=True))
    ]
    _write_table(folder / "entities.tsv", ("id", "name", "label"), lines)
    relations = [
        (name, label, side)
        for table, side in ((tails, "tail"), (heads, "head"))
        for name, label in zip(table.names, table.labels, strict=True)
    ]
    rows = [(str(number), *fields) for number, fields in enumerate(relations)]
    _write_table(folder / "relations.tsv", ("id", "name", "label", "predicts"), rows)


def _write_table(path: Path, header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    write_lines(path, map(tsv_line, [header, *rows]))
