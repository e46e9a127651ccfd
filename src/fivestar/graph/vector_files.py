"""Files of vectors by name: Parquet, NumPy, word2vec and safetensors.

parquet          columns `name` and `vector` (a list of numbers), as `fivestar export` writes them
npz              arrays `names` and `vectors`
npy, safetensors one table; the names of its rows are in the file of the same name that ends in .tsv
                 (with a column `name`) or .names.txt (one per line), or in the metadata `names`
txt, vec         word2vec as text, with or without the line of sizes; names may be percent-encoded
bin              word2vec as binary

Nothing is unpickled, sizes are checked before memory is allocated, and every value must be finite.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fivestar.errors import BadSource, SettingsError, SourceNotFound
from fivestar.graph.arrow import from_arrow

Vectors = npt.NDArray[np.float32]
# Vectors are hardly compressible: what unpacks to more than this many times its size is no such.
_MAX_RATIO = 100
_MAX_NAME_BYTES = 1 << 16
_MAX_DIM = 1 << 20


@dataclass(frozen=True)
class NamedVectors:
    """Vectors (n, k) with the name of each row, and where they come from.

    Raises:
        BadSource: The vectors are not finite or of different lengths, or a name occurs twice.
    """

    names: Sequence[str]
    vectors: Vectors
    source: str
    sha256: str | None = None

    def __post_init__(self) -> None:
        vectors = _table(self.vectors, self.source)
        object.__setattr__(self, "vectors", vectors)
        if len(self.names) != len(vectors):
            raise BadSource(
                f"{self.source}: {len(self.names):,} names for {len(vectors):,} vectors; give one "
                "name per vector"
            )
        if len(set(self.names)) < len(self.names):
            name, count = Counter(self.names).most_common(1)[0]
            raise BadSource(
                f"{self.source}: {name!r} has {count} vectors; keep one vector per name"
            )
        is_bad = ~np.isfinite(vectors).all(axis=1)
        if is_bad.any():
            row = int(np.flatnonzero(is_bad)[0])
            raise BadSource(
                f"{self.source}: {int(is_bad.sum()):,} vectors hold values that are not finite in "
                f"single precision, the first that of {self.names[row]!r}; remove or repair them"
            )


def read_vectors(path: str | Path) -> NamedVectors:
    """Read a file of vectors; its ending says in which format.

    Raises:
        SourceNotFound: There is no such file.
        BadSource: It is damaged, of another format, or holds values that are not finite.
        SettingsError: The ending is unknown.
    """
    path = Path(path)
    if not path.is_file():
        raise SourceNotFound(f"there is no file {path} of entity vectors")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise SettingsError(f"{path}: the ending must be one of {', '.join(READERS)}")
    try:
        names, vectors = reader(path)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadSource(f"{path}: cannot be read: {error.strerror or error}") from error
    except (pa.ArrowException, zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadSource(
            f"{path}: is damaged or not a file of vectors ({reason}); write or download it again"
        ) from error
    return NamedVectors(names, vectors, str(path), digest)


def vectors_of(given: Mapping[str, Any]) -> NamedVectors:
    """Return vectors that are given as a mapping from names."""
    values = [np.asarray(vector) for vector in given.values()]
    lengths = {vector.shape for vector in values}
    if len(lengths) > 1:
        raise BadSource(f"entity_vectors: vectors of different shapes: {sorted(lengths)[:3]}")
    return NamedVectors(list(given), np.array(values), "entity_vectors")


def _table(values: Any, source: str) -> Vectors:
    """Return a table of numbers in single precision."""
    table = np.asarray(values)
    if table.ndim != 2 or 0 in table.shape:
        raise BadSource(
            f"{source}: the vectors have the shape {table.shape}; expected (names, dimension), "
            "neither of them 0"
        )
    if table.dtype.kind not in "fiu":
        raise BadSource(f"{source}: the vectors are of type {table.dtype}; expected real numbers")
    with np.errstate(over="ignore"):  # infinite values are refused
        return np.ascontiguousarray(table, dtype=np.float32)


def _read_parquet(path: Path) -> tuple[list[str], Any]:
    with pq.ParquetFile(path) as file:
        missing = {"name", "vector"} - set(file.schema_arrow.names)
        if missing:
            raise ValueError(f"it has no column {' and '.join(sorted(missing))}")
        table = file.read(["name", "vector"]).combine_chunks()
    table.validate(full=True)
    if not table.num_rows:
        raise ValueError("it has no rows")
    column = table["vector"].chunk(0)
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not is_list and not pa.types.is_fixed_size_list(column.type):
        raise ValueError(f"the column vector holds {column.type}, not lists of numbers")
    if column.null_count or table["name"].null_count:
        raise ValueError("a name or vector is missing")
    lengths = set(pc.unique(pc.list_value_length(column)).to_pylist())
    if len(lengths) > 1:
        raise ValueError(f"its vectors have different lengths: {sorted(lengths)[:3]}")
    numbers = column.flatten()
    if numbers.null_count or not (
        pa.types.is_floating(numbers.type) or pa.types.is_integer(numbers.type)
    ):
        raise ValueError("the vectors hold something else than numbers")
    names = table["name"].cast(pa.large_string()).to_pylist()
    return names, from_arrow(numbers.cast(pa.float32(), safe=False)).reshape(len(names), -1)


def _read_npz(path: Path) -> tuple[list[str], Any]:
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: part for part in archive.infolist()}
        missing = {"names.npy", "vectors.npy"} - set(parts)
        if missing:
            raise ValueError("it must hold the arrays names and vectors")
        for part in parts.values():
            if part.file_size > _MAX_RATIO * max(part.compress_size, 1 << 10):
                raise ValueError(f"{part.filename} unpacks to {part.file_size:,} bytes")
        names, vectors = (
            _array(BytesIO(archive.read(f"{name}.npy")), parts[f"{name}.npy"].file_size)
            for name in ("names", "vectors")
        )
    if names.ndim != 1 or names.dtype.kind not in "US":
        raise ValueError("names must be a list of strings")
    texts = names.astype("U") if names.dtype.kind == "U" else np.char.decode(names, "utf-8")
    return texts.tolist(), vectors


def _array(file: BinaryIO, size: int) -> npt.NDArray[Any]:
    """Read an array after checking that it is as large as it says."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
        version, np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never unpickled; save plain arrays")
    if file.tell() + int(np.prod([int(n) for n in shape], dtype=object)) * dtype.itemsize > size:
        raise ValueError("it is cut short")
    file.seek(0)
    array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _read_npy(path: Path) -> tuple[list[str], Any]:
    with path.open("rb") as file:
        vectors = _array(file, path.stat().st_size)
    return _names_beside(path), vectors


def _read_safetensors(path: Path) -> tuple[list[str], Any]:
    from safetensors import SafetensorError, safe_open  # noqa: PLC0415  (with torch: slow)

    try:
        with safe_open(path, framework="pt") as file:
            tensors = list(file.keys())
            name = next((n for n in ("vectors", "entities") if n in tensors), tensors[0])
            if len(tensors) > 1 and name == tensors[0] and name not in ("vectors", "entities"):
                raise ValueError(f"it holds {len(tensors)} tensors; call that of vectors vectors")
            vectors = file.get_tensor(name).float().numpy()
            listed = (file.metadata() or {}).get("names")
    except (SafetensorError, IndexError) as error:
        raise ValueError(str(error)) from error
    if listed is None:
        return _names_beside(path), vectors
    names = json.loads(listed)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("the metadata names must be a list of strings as JSON")
    return names, vectors


def _names_beside(path: Path) -> list[str]:
    """Return the names of the rows of a table from the file beside it."""
    lines, table = path.with_suffix(".names.txt"), path.with_suffix(".tsv")
    if lines.is_file():
        return lines.read_text(encoding="utf-8").splitlines()
    if table.is_file():
        import csv  # noqa: PLC0415

        with table.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t")
            if "name" not in (rows.fieldnames or ()):
                raise ValueError(f"{table} has no column name")
            return [row["name"] or "" for row in rows]
    raise ValueError(
        f"the names of its rows are missing; write them to {lines}, one per line, or save names "
        "and vectors as an .npz file"
    )


def _read_text(path: Path) -> tuple[list[str], Any]:
    names: list[str] = []
    rows: list[Vectors] = []
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            fields = line.decode("utf-8").rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(f.isdecimal() for f in fields):
                continue  # the sizes
            if not line.strip():
                continue
            try:
                values = np.array(fields[1:], dtype=np.float32)
            except ValueError:
                raise ValueError(f"line {number} is not a name and numbers") from None
            if rows and len(values) != len(rows[0]):
                raise ValueError(
                    f"line {number} has {len(values)} numbers where {len(rows[0])} are expected"
                )
            names.append(fields[0])
            rows.append(values)
    return _decoded(names), np.array(rows, dtype=np.float32)


def _read_binary(path: Path) -> tuple[list[str], Any]:
    size = path.stat().st_size
    with path.open("rb") as file:
        header = file.readline(64).split()
        if len(header) != 2 or not all(field.isdigit() for field in header):
            raise ValueError("its first line must hold two numbers")
        count, dim = int(header[0]), int(header[1])
        if not 0 < dim <= _MAX_DIM or count * (4 * dim + 2) > size:
            raise ValueError("it is cut short")
        vectors = np.empty((count, dim), np.float32)
        names = []
        for row in range(count):
            names.append(_word(file).decode("utf-8"))
            values = file.read(4 * dim)
            if len(values) < 4 * dim:
                raise ValueError("it is cut short")
            vectors[row] = np.frombuffer(values, "<f4")
    return _decoded(names), vectors


def _word(file: BinaryIO) -> bytes:
    """Read a name up to the blank behind it."""
    word = bytearray()
    while (byte := file.read(1)) != b" ":
        if not byte or len(word) > _MAX_NAME_BYTES:
            raise ValueError("it is cut short")
        if byte != b"\n" or word:  # some writers end a vector with a newline
            word += byte
    return bytes(word)


def _decoded(words: list[str]) -> list[str]:
    """Return the names of percent-encoded words, as `fivestar export --to word2vec` writes them."""
    names = ["" if word == "%" else unquote(word) for word in words]
    return names if len(set(names)) == len(names) else words


READERS: dict[str, Callable[[Path], tuple[list[str], Any]]] = {
    ".parquet": _read_parquet,
    ".npz": _read_npz,
    ".npy": _read_npy,
    ".safetensors": _read_safetensors,
    ".txt": _read_text,
    ".vec": _read_text,
    ".bin": _read_binary,
}
