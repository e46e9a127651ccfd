"""A trained run in the formats of others. Each is a new folder that appears whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from fivestar.errors import ExportImpossible
from fivestar.files import atomic_folder
from fivestar.graph.arrow import to_arrow
from fivestar.prediction.scorer import torch_program, write_onnx
from fivestar.prediction.tables import (
    NamedRows,
    as_text,
    entity_rows,
    reciprocal_rows,
    relation_rows,
    word_of,
    write_lines,
    write_names,
)
from fivestar.prediction.vectors import candidate_vectors
from fivestar.runs.run import MANIFEST, Run, verified_files

PathLike = str | os.PathLike[str]


@contextmanager
def _new_export(out: PathLike) -> Iterator[Path]:
    """A new folder whose files are on the disk before it appears."""
    with atomic_folder(out) as draft:
        yield draft
        for path in draft.rglob("*"):
            if path.is_file():
                with path.open("rb+") as file:
                    os.fsync(file.fileno())


def export_parquet(run: Run, out: PathLike) -> None:
    """entities.parquet and relations.parquet: id, name, label, vector."""
    with _new_export(out) as draft:
        entities = entity_rows(run)
        _write_parquet(draft / "entities.parquet", entities, {})
        tails, heads = relation_rows(run), reciprocal_rows(run)
        asks = ["tail"] * len(tails.names) + ["head"] * len(heads.names)
        every = NamedRows(
            np.concatenate([tails.rows, heads.rows]),
            tails.names + heads.names,
            tails.labels + heads.labels,
        )
        _write_parquet(draft / "relations.parquet", every, {"asks": pa.array(asks, pa.string())})


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
    """entities.npy and relations.npy, and the names of their rows in .tsv files."""
    with _new_export(out) as draft:
        tables = {"entities": run.model.entities, "relations": run.model.relations}
        for name, table in tables.items():
            np.save(draft / f"{name}.npy", table.detach().float().cpu().numpy())
        write_names(draft, run)


def export_word2vec(run: Run, out: PathLike) -> None:
    """entities.txt and relations.txt in the text format of word2vec, names as single words."""
    with _new_export(out) as draft:
        for file, table in (("entities", entity_rows(run)), ("relations", relation_rows(run))):
            size = f"{table.rows.shape[0]} {table.rows.shape[1]}"
            words = map(word_of, table.names)
            numbers = zip(words, as_text(table.rows, " "), strict=True)
            write_lines(draft / f"{file}.txt", (size, *map(" ".join, numbers)))


def export_projector(run: Run, out: PathLike) -> None:
    """Entities and relations for the embedding projector of TensorBoard."""
    types = run.graph.types
    kinds = [", ".join(types.of(n)) if types else "" for n in range(len(run.graph.entities))]
    tables = {
        "entities": ("", entity_rows(run), kinds),
        "relations": ("relation_", relation_rows(run), ["relation"] * len(run.graph.relations)),
    }
    config: list[str] = []
    with _new_export(out) as draft:
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
    """The projector knows no quotes, and shows these texts only."""
    return " ".join(text.split())


def export_vectors(run: Run, out: PathLike) -> None:
    """Candidates for a search by largest inner product, and how to ask them."""
    vectors = candidate_vectors(run)
    with _new_export(out) as draft:
        np.save(draft / "candidates.npy", vectors)
        write_names(draft, run)
        text = _SEARCH.format(graph=run.graph.name, model=run.settings.model.name)
        write_lines(draft / "README.md", [text])


_SEARCH = """\
# Vectors of a {model} on {graph}

Row i of candidates.npy belongs to id i of entities.tsv. Those with the largest inner product with a
query vector are the answers that the model ranks first, in its order. Query vectors come from the
run:

```python
import faiss
import numpy as np
import fivestar

run = fivestar.load("RUN")
candidates = np.load("candidates.npy")
index = faiss.IndexFlatIP(candidates.shape[1])
index.add(candidates)
head, relation = 0, 0  # ids, as in entities.tsv and relations.tsv
query = fivestar.query_vectors(run, [head], [relation])
products, ids = index.search(query, 10)
```

A relation that asks for heads in relations.tsv is given with a tail in the place of the head."""


def export_torch(run: Run, out: PathLike) -> None:
    """scorer.pt2, a program of `torch.export`: (heads, relations) → scores of all entities."""
    with _new_export(out) as draft:
        torch.export.save(torch_program(run.model), draft / "scorer.pt2")
        write_names(draft, run)


def export_onnx(run: Run, out: PathLike) -> None:
    """scorer.onnx: (heads, relations) → scores of all entities."""
    with _new_export(out) as draft:
        write_onnx(run.model, draft / "scorer.onnx")
        write_names(draft, run)


def export_huggingface(folder: PathLike, out: PathLike) -> None:
    """A copy of a run's folder to upload as it is: what its manifest lists, and nothing else."""
    source = Path(folder)
    files = verified_files(source)
    _check_card(source / "README.md")
    with _new_export(out) as draft:
        for name in (*files, MANIFEST):
            (draft / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, draft / name)


def _check_card(card: Path) -> None:
    """Hugging Face reads what stands between two lines of --- at the top of the card."""
    lines = card.read_text(encoding="utf-8").splitlines() if card.is_file() else []
    end = lines.index("---", 1) if "---" in lines[1:] else 0
    top = lines[1:end]
    if lines[:1] != ["---"] or not any(line.startswith("library_name: ") for line in top):
        raise ExportImpossible(
            f"{card}: has no front matter with a library_name; save the run anew (Run.save)"
        )


# What takes a loaded run; export_huggingface takes the folder itself.
OF_A_RUN: dict[str, Callable[[Run, PathLike], None]] = {
    "parquet": export_parquet,
    "numpy": export_numpy,
    "word2vec": export_word2vec,
    "projector": export_projector,
    "vectors": export_vectors,
    "torch": export_torch,
    "onnx": export_onnx,
}
