"""The errors of fivestar.

Messages say what is wrong, where, and what to do; they name Python arguments. Catch `FivestarError`
to catch all of them::

    FivestarError
    ├── SettingsError          a setting or argument is unknown or invalid
    ├── RegistrationError      a third-party model, regularizer, reader … cannot be used
    ├── MissingExtra           an optional dependency is not installed
    ├── OutputError            a file or folder cannot be written, or a run not be pushed
    ├── Diverged               the loss became NaN or infinite
    ├── NonFiniteScore         a score is NaN, so there is no rank
    ├── DamagedRun             a run folder does not match its manifest
    ├── DamagedCheckpoint      a checkpoint cannot be resumed
    ├── DamagedLedger          the ledger of results has an invalid line
    ├── TrackingFailed         a tracker of a training cannot start
    ├── Paused                 a callback stopped the training; it can be resumed
    ├── ProcessLost            one of several processes has ended before the others
    ├── Cancelled              nobody waits for the result of a computation any more
    ├── ConversionImpossible   a model cannot be converted exactly
    ├── ExportImpossible       a model cannot be exported to the format
    ├── ServerError            a server cannot be reached or refuses a request (see `Client`)
    └── GraphError             a graph cannot be read or used
        ├── SourceNotFound     no such file, folder or dataset
        ├── BadSource          a file, folder or table cannot be read
        │   └── BadLine        one line of it is invalid
        ├── DamagedGraph       a saved graph does not match its manifest
        ├── UnknownName        a name is not in the graph
        ├── AmbiguousName      several entities have the same label
        ├── DownloadFailed     a dataset or run cannot be downloaded
        ├── DamagedDataset     the files of a dataset do not match their checksums
        └── SplitImpossible    no split has the requested properties

    GraphWarning               valid but suspicious input (a UserWarning)
    TrackingWarning            a tracker has failed; training continues (a UserWarning)
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = [
    "AmbiguousName",
    "BadLine",
    "BadSource",
    "Cancelled",
    "ConversionImpossible",
    "DamagedCheckpoint",
    "DamagedDataset",
    "DamagedGraph",
    "DamagedLedger",
    "DamagedRun",
    "Diverged",
    "DownloadFailed",
    "ExportImpossible",
    "FivestarError",
    "GraphError",
    "GraphWarning",
    "MissingExtra",
    "NonFiniteScore",
    "OutputError",
    "Paused",
    "ProcessLost",
    "RegistrationError",
    "ServerError",
    "SettingsError",
    "SourceNotFound",
    "SplitImpossible",
    "TrackingFailed",
    "TrackingWarning",
    "UnknownName",
]


class FivestarError(Exception):
    """Base class of all errors of fivestar."""


class SettingsError(FivestarError, ValueError):
    """A setting or argument is unknown or invalid."""


class RegistrationError(FivestarError):
    """A third-party model, regularizer or reader cannot be used, or its name is taken."""


class MissingExtra(FivestarError):  # noqa: N818
    """An optional dependency is not installed."""


class OutputError(FivestarError):
    """A file or folder cannot be written."""


class Diverged(FivestarError):  # noqa: N818
    """The loss became NaN or infinite during training."""


class NonFiniteScore(FivestarError):  # noqa: N818
    """A score is NaN, so there is no rank."""


class DamagedRun(FivestarError):  # noqa: N818
    """A run folder does not match its manifest, or its training has not finished."""


class DamagedCheckpoint(FivestarError):  # noqa: N818
    """A checkpoint cannot be resumed."""


class DamagedLedger(FivestarError):  # noqa: N818
    """The ledger of results has an invalid line."""


class TrackingFailed(FivestarError):  # noqa: N818
    """A tracker of a training cannot start."""


class Paused(FivestarError):  # noqa: N818
    """A callback stopped the training; raise it from a callback. The run can be resumed."""


class ProcessLost(FivestarError):  # noqa: N818
    """One of several processes that compute together has ended, or cannot be reached."""


class Cancelled(FivestarError):  # noqa: N818
    """Nobody waits for the result of a computation any more (see `fivestar.cancellation`)."""


class ConversionImpossible(FivestarError):  # noqa: N818
    """A model cannot be converted exactly."""


class ExportImpossible(FivestarError):  # noqa: N818
    """A model cannot be exported to the format."""


class ServerError(FivestarError):
    """A server cannot be reached or refuses a request; `status` and `code` are its response's."""

    def __init__(self, message: str, *, status: int | None = None, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class GraphError(FivestarError):
    """A graph cannot be read or used."""


class SourceNotFound(GraphError):  # noqa: N818
    """There is no such file, folder or dataset."""


class BadSource(GraphError):  # noqa: N818
    """A file, folder or table cannot be read."""


class BadLine(BadSource):
    """One line (row, item) of a source is invalid; `source` and `line` say which."""

    def __init__(self, message: str, *, source: str, line: int) -> None:
        super().__init__(message)
        self.source = source
        self.line = line


class DamagedGraph(GraphError):  # noqa: N818
    """A saved graph does not match its manifest."""


class UnknownName(GraphError, LookupError):  # noqa: N818
    """A name is not in the graph; `suggestions` are similar names, if any."""

    def __init__(self, message: str, suggestions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.suggestions = list(suggestions)


class AmbiguousName(GraphError, LookupError):  # noqa: N818
    """Several entities have the same label; `candidates` are some of them, as (name, label)."""

    def __init__(self, message: str, candidates: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.candidates = list(candidates)


class DownloadFailed(GraphError):  # noqa: N818
    """A dataset or run cannot be downloaded."""


class DamagedDataset(GraphError):  # noqa: N818
    """The files of a dataset do not match their checksums."""


class SplitImpossible(GraphError):  # noqa: N818
    """No split has the requested properties."""


class TrackingWarning(UserWarning):
    """A tracker has failed during a training, which continues without it."""


class GraphWarning(UserWarning):
    """Valid but suspicious input: check it before you rely on the result."""
