"""The arrays of a file of `torch.save`, read without unpickling it.

The splits of the Open Graph Benchmark are pickled dictionaries of one-dimensional integer arrays
and lists of strings. Unpickling a file that somebody else has written may run anything; here the
opcodes are read one by one, the four names that numpy's arrays need are tags and never imported,
and every other name is refused. Two-dimensional arrays (sampled negatives: gigabytes) are skipped.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fivestar.errors import DownloadFailed

Arrays = dict[str, NDArray[np.int64] | list[str]]

_MAGIC = 0x1950A86A20F9469CFC6C  # of torch.save before its zip format
_ARRAY, _NDARRAY, _DTYPE, _ENCODE = "array", "ndarray", "dtype", "encode"
_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _ARRAY,
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("_codecs", "encode"): _ENCODE,
}
_MARK = object()
_SKIPPED = object()
# Larger pieces are skipped if they belong to an array of more than one dimension.
_LARGE = 1 << 16
_CHUNK = 1 << 20


class _Tag(str):
    """One of the allowed names; not to be confused with a string of the file."""

    __slots__ = ()


class _Value:
    """An array or type while it is built."""

    def __init__(self, kind: str, code: str = "") -> None:
        self.kind, self.code = kind, code
        self.state: tuple[Any, ...] = ()


def read_arrays(path: Path) -> Arrays:
    """Return the integer arrays and lists of strings of a file of `torch.save`, by name.

    Args:
        path: the file, in the zip format of torch 1.6 and later or the one before.

    Raises:
        DownloadFailed: if it is damaged, or holds anything but a dictionary of arrays and lists.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
                (name,) = names
                with archive.open(name) as stream:
                    return _as_arrays(_Pickle(stream).load())
        with path.open("rb") as stream:
            if _Pickle(stream).load() != _MAGIC:
                raise ValueError("it does not begin like one")
            _Pickle(stream).load()  # the version of the format
            _Pickle(stream).load()  # the machine it was written on
            return _as_arrays(_Pickle(stream).load())
    except (
        *(ValueError, IndexError, KeyError, TypeError, AttributeError, MemoryError),
        *(OverflowError, EOFError, NotImplementedError, struct.error, zipfile.BadZipFile),
    ) as error:
        raise DownloadFailed(
            f"{path.name}: is not a readable file of torch.save ({error})"
        ) from None


def _as_arrays(loaded: Any) -> Arrays:
    if not isinstance(loaded, dict):
        raise ValueError("it holds no dictionary")  # noqa: TRY004  (not an error of the caller)
    arrays: Arrays = {}
    for name, value in loaded.items():
        if isinstance(value, _Value) and value.kind == _ARRAY:
            array = _as_array(value)
            if array is not None:
                arrays[name] = array
        elif isinstance(value, list) and all(type(item) is str for item in value):
            arrays[name] = value
        else:
            raise ValueError(f"{name!r} is neither an array nor a list of strings")
    return arrays


def _as_array(value: _Value) -> NDArray[np.int64] | None:
    """Return the array, or None if it was skipped."""
    shape, dtype, is_fortran, data = value.state[-4:]
    if data is _SKIPPED or len(shape) != 1:
        return None
    order = dtype.state[1]
    if (
        dtype.code not in {"i8", "i4"}
        or order not in {"<", "=", "|", ">"}
        or is_fortran not in (0, 1)
    ):
        raise ValueError("an array is not one of integers")
    kind = np.dtype(dtype.code).newbyteorder(order)
    if len(data) != math.prod(shape) * kind.itemsize:
        raise ValueError("an array is shorter or longer than it says")
    return np.frombuffer(data, kind).astype(np.int64)


class _Pickle:
    """A pickle, as far as dictionaries of arrays need it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Read up to the end of one pickle, and return its value."""
        while (opcode := self._stream.read(1)) != b".":
            action = _ACTIONS.get(opcode)
            if action is None:
                raise ValueError(f"opcode {opcode!r}" if opcode else "it ends too early")
            action(self)
        (value,) = self._stack
        return value

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        data = b"".join(iter(self._pieces(size)))
        if len(data) != size:
            raise EOFError("it ends too early")
        return data

    def _pieces(self, size: int) -> Any:
        # Never more than there is: the size of a damaged file may be anything.
        while size and (piece := self._stream.read(min(size, _CHUNK))):
            size -= len(piece)
            yield piece

    def integer(self, code: str) -> int:
        """Return the next integer in a format of `struct`."""
        (value,) = struct.unpack(f"<{code}", self.read(struct.calcsize(code)))
        return int(value)

    def push(self, value: Any) -> None:
        """Put a value on the stack."""
        self._stack.append(value)

    def blob(self, code: str, decode: Callable[[bytes], Any]) -> None:
        """Push bytes or text with its length in front; skip it in a two-dimensional array."""
        size = self.integer(code)
        if size > _LARGE and self._is_in_matrix():
            if sum(map(len, self._pieces(size))) != size:
                raise EOFError("it ends too early")
            self.push(_SKIPPED)
        else:
            self.push(decode(self.read(size)))

    def _is_in_matrix(self) -> bool:
        """Return whether the shape just read, part of the state of an array, has two dimensions."""
        shapes = [item for item in self._stack[-4:] if type(item) is tuple and len(item) >= 2]
        return any(all(type(size) is int for size in shape) for shape in shapes)

    def since_mark(self) -> list[Any]:
        """Remove and return everything above the last mark."""
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
            if at < 0:
                raise ValueError("a mark is missing")
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def pack(self, size: int) -> None:
        """Make a tuple of the last values."""
        if size > len(self._stack):
            raise ValueError("a value is missing")
        items = tuple(self._stack[len(self._stack) - size :])
        del self._stack[len(self._stack) - size :]
        self.push(items)

    def set_items(self, items: list[Any]) -> None:
        """Put keys and values into the dictionary on the stack."""
        target = self._stack[-1]
        if type(target) is not dict or not all(type(key) is str for key in items[::2]):
            raise ValueError("a key is not a string")
        target.update(zip(items[::2], items[1::2], strict=True))

    def append(self, items: list[Any]) -> None:
        """Append to the list on the stack."""
        if type(self._stack[-1]) is not list:
            raise ValueError("a list is missing")
        self._stack[-1].extend(items)

    def memoize(self, at: int) -> None:
        """Remember the last value."""
        self._memo[at] = self._stack[-1]

    def name(self, module: Any, name: Any) -> None:
        """Push the tag of an allowed name."""
        if (module, name) not in _NAMES:
            raise ValueError(f"it asks for {module}.{name}, which is not data")
        self.push(_Tag(_NAMES[module, name]))

    def line(self) -> str:
        """Return the next line of a protocol 0 argument."""
        return self._stream.readline(1_000).decode("ascii").removesuffix("\n")

    def reduce(self) -> None:
        """Replace a name and its arguments by what it would build."""
        arguments, tag = self._stack.pop(), self._stack.pop()
        if type(tag) is not _Tag or type(arguments) is not tuple:
            raise ValueError("it calls something")
        if tag == _ENCODE:
            text, encoding = arguments
            if encoding not in {"latin1", "latin-1"}:
                raise ValueError(f"encoding {encoding!r}")
            self.push(text if text is _SKIPPED else text.encode("latin-1"))
        elif tag == _ARRAY:
            self.push(_Value(_ARRAY))
        elif tag == _DTYPE:
            self.push(_Value(_DTYPE, str(arguments[0])))
        else:
            raise ValueError("it calls something")

    def build(self) -> None:
        """Give the last array or type its state."""
        state = self._stack.pop()
        value = self._stack[-1]
        if type(value) is not _Value or type(state) is not tuple:
            raise ValueError("it sets the state of something")
        value.state = state


def _text(data: bytes) -> str:
    return data.decode("utf-8")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


_ACTIONS: dict[bytes, Callable[[_Pickle], Any]] = {
    b"\x80": lambda p: p.read(1),  # PROTO
    b"\x95": lambda p: p.read(8),  # FRAME
    b"(": lambda p: p.push(_MARK),
    b"}": lambda p: p.push({}),
    b"]": lambda p: p.push([]),
    b")": lambda p: p.push(()),
    b"N": lambda p: p.push(None),
    b"\x88": lambda p: p.push(True),  # noqa: FBT003
    b"\x89": lambda p: p.push(False),  # noqa: FBT003
    b"J": lambda p: p.push(p.integer("i")),
    b"K": lambda p: p.push(p.integer("B")),
    b"M": lambda p: p.push(p.integer("H")),
    b"\x8a": lambda p: p.push(_little(p.read(p.integer("B")))),  # LONG1
    b"X": lambda p: p.blob("I", _text),
    b"\x8c": lambda p: p.blob("B", _text),
    b"\x8d": lambda p: p.blob("Q", _text),
    b"B": lambda p: p.blob("I", bytes),
    b"C": lambda p: p.blob("B", bytes),
    b"\x8e": lambda p: p.blob("Q", bytes),
    b"q": lambda p: p.memoize(p.integer("B")),
    b"r": lambda p: p.memoize(p.integer("I")),
    b"\x94": lambda p: p.memoize(len(p._memo)),  # noqa: SLF001  (MEMOIZE)
    b"h": lambda p: p.push(p._memo[p.integer("B")]),  # noqa: SLF001
    b"j": lambda p: p.push(p._memo[p.integer("I")]),  # noqa: SLF001
    b"s": lambda p: p.set_items([p._stack.pop(-2), p._stack.pop()]),  # noqa: SLF001
    b"u": lambda p: p.set_items(p.since_mark()),
    b"a": lambda p: p.append([p._stack.pop()]),  # noqa: SLF001
    b"e": lambda p: p.append(p.since_mark()),
    b"t": lambda p: p.push(tuple(p.since_mark())),
    b"\x85": lambda p: p.pack(1),
    b"\x86": lambda p: p.pack(2),
    b"\x87": lambda p: p.pack(3),
    b"c": lambda p: p.name(p.line(), p.line()),  # GLOBAL
    b"\x93": lambda p: p.name(p._stack.pop(-2), p._stack.pop()),  # noqa: SLF001
    b"R": lambda p: p.reduce(),
    b"b": lambda p: p.build(),
}
