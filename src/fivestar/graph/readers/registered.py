"""File readers from outside: functions by file extension, registered by a call or by a package."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast, overload

from fivestar.errors import BadSource, FivestarError, RegistrationError
from fivestar.graph.readers.base import Formats, ReadOptions, Tally, TripleColumns
from fivestar.plugins import Registry

FileReader = Callable[[Path], object]


def _check_reader(extension: str, reader: Any) -> None:
    from fivestar.graph.readers import BUILT_IN_EXTENSIONS  # noqa: PLC0415  (it imports this module)

    if extension in BUILT_IN_EXTENSIONS:
        raise RegistrationError(f"files that end in .{extension} have a built-in reader")
    if not callable(reader):
        raise RegistrationError(
            f"the reader of .{extension} files must be a function of a path, not {reader!r}"
        )


FILE_READERS: Registry[FileReader] = Registry("file reader", "fivestar.readers", {}, _check_reader)


@overload
def register_reader(extension: str) -> Callable[[FileReader], FileReader]: ...
@overload
def register_reader(extension: str, reader: FileReader) -> FileReader: ...
def register_reader(extension: str, reader: FileReader | None = None) -> Any:
    """Register a function that reads files with an extension, by a call or as a decorator.

    For the command line, declare it as an entry point of the group `fivestar.readers`, under the
    extension as its name.

    Args:
        extension: The file extension in lower case, without the dot.
        reader: Takes a `pathlib.Path` and returns anything that `read_graph` reads from memory: an
            iterable of (head, relation, tail), a DataFrame, a graph of NetworkX.

    Returns:
        The function, or a decorator if none is given.

    Raises:
        RegistrationError: The extension is taken, or the object cannot be called.

    Example::

        @fivestar.register_reader("gexf")
        def read_gexf(path):
            return [(h, d["label"], t) for h, t, d in networkx.read_gexf(path).edges(data=True)]
    """
    if reader is None:
        return lambda decorated: FILE_READERS.register(extension, decorated)
    return FILE_READERS.register(extension, reader)


class RegisteredReader:
    """Reads files by the functions that are registered for their extensions."""

    @property
    def formats(self) -> Formats:
        """The registered extensions; a function is loaded only when a file of its kind is read."""
        return cast("Formats", {extension: (f".{extension}",) for extension in FILE_READERS})

    def accepts(self, source: object) -> bool:
        """Return whether this is a file with a registered extension that has no built-in reader."""
        from fivestar.graph.readers import BUILT_IN_EXTENSIONS  # noqa: PLC0415

        if not isinstance(source, Path):
            return False
        extension = _extension(source)
        return extension not in BUILT_IN_EXTENSIONS and extension in FILE_READERS

    def read(self, source: object, options: ReadOptions, tally: Tally) -> Iterator[TripleColumns]:
        """Yield the triples of what the function returns."""
        from fivestar.graph.readers import reader_for  # noqa: PLC0415

        path = Path(str(source))
        load = FILE_READERS[_extension(path)]
        try:
            loaded = load(path)
        except FivestarError:
            raise
        except Exception as error:
            by = FILE_READERS.package(_extension(path)) or "the registered function"
            raise BadSource(
                f"{path}: the reader of {by} failed ({type(error).__name__}: {error})"
            ) from error
        if isinstance(loaded, str | Path):
            raise BadSource(f"{path}: its reader returned a path, not triples")
        yield from reader_for(loaded).read(loaded, options, tally)


def _extension(path: Path) -> str:
    return path.suffix.casefold().removeprefix(".")
