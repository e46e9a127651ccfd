"""Every error that fivestar raises on purpose.

Each message says what is wrong, where, and what to do about it::

    FivestarError
    ├── SettingsError          an option has a value that cannot be used
    ├── RegistrationError      a model, regularizer or reader from outside cannot be used
    ├── MissingExtra           a library that only some users need is not installed
    ├── OutputError            something cannot be written where it should go
    ├── Diverged               training has produced something that is not a number
    ├── NonFiniteScore         a score is not a number, so no rank can be given
    ├── DamagedRun             the folder of a run is not what its manifest says
    ├── DamagedCheckpoint      a checkpoint cannot be resumed from
    ├── DamagedLedger          the ledger of results has a line that cannot be used
    ├── Paused                 training was told to stop, and can go on later
    ├── ConversionImpossible   a model has no equal of the wanted kind
    ├── ExportImpossible       a run has no equal in the wanted format
    └── GraphError             a graph cannot be used as asked
        ├── SourceNotFound     no such file, folder or known graph
        ├── BadSource          a file, folder or table as a whole cannot be read
        │   └── BadLine        one line of it cannot be read
        ├── DamagedGraph       a saved graph is not what its manifest says
        ├── UnknownName        a name that the graph does not hold
        ├── AmbiguousName      a name that several things have
        ├── DownloadFailed     a published graph cannot be fetched
        ├── DamagedDataset     the files of a published graph are not as published
        └── SplitImpossible    no split with the wanted properties exists

    GraphWarning               legal, but suspicious (a UserWarning)
"""

from __future__ import annotations

from collections.abc import Sequence


class FivestarError(Exception):
    """The root: catch this to catch all of ours and nothing else."""


class SettingsError(FivestarError, ValueError):
    """An option has a value that cannot be used."""


class RegistrationError(FivestarError):
    """A model, regularizer or reader from outside cannot be used, or its name is taken."""


class MissingExtra(FivestarError):  # noqa: N818
    """A library that only some users need is not installed."""


class OutputError(FivestarError):
    """Something cannot be written where it should go."""


class Diverged(FivestarError):  # noqa: N818
    """Training has produced something that is not a number."""


class NonFiniteScore(FivestarError):  # noqa: N818
    """A score is not a number, so no rank can be given."""


class DamagedRun(FivestarError):  # noqa: N818
    """The folder of a run is not what its manifest says."""


class DamagedCheckpoint(FivestarError):  # noqa: N818
    """A checkpoint cannot be resumed from."""


class DamagedLedger(FivestarError):  # noqa: N818
    """The ledger of results has a line that cannot be used."""


class Paused(FivestarError):  # noqa: N818
    """Training was told to stop by a callback; its folder holds where it goes on."""


class ConversionImpossible(FivestarError):  # noqa: N818
    """A model has no equal of the wanted kind."""


class ExportImpossible(FivestarError):  # noqa: N818
    """A run has no equal in the wanted format."""


class GraphError(FivestarError):
    """A graph cannot be used as asked."""


class SourceNotFound(GraphError):  # noqa: N818  (it reads better at the call site)
    """No file, folder or known graph has this name."""


class BadSource(GraphError):  # noqa: N818
    """A file, folder or table as a whole cannot be read."""


class BadLine(BadSource):
    """One line (or row, or item) of a source cannot be read."""

    def __init__(self, message: str, *, source: str, line: int) -> None:
        super().__init__(message)
        self.source = source
        self.line = line


class DamagedGraph(GraphError):  # noqa: N818
    """A saved graph is not what its manifest says."""


class UnknownName(GraphError, LookupError):  # noqa: N818
    """A name that the graph does not hold; `nearest` are spelled alike, if they were sought."""

    def __init__(self, message: str, nearest: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.nearest = list(nearest)


class AmbiguousName(GraphError, LookupError):  # noqa: N818
    """A name or label that several things have; `candidates` are some of them, (name, label)."""

    def __init__(self, message: str, candidates: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.candidates = list(candidates)


class DownloadFailed(GraphError):  # noqa: N818
    """A published graph cannot be fetched, or is not what was published."""


class DamagedDataset(GraphError):  # noqa: N818
    """The files of a published graph are not as they were published."""


class SplitImpossible(GraphError):  # noqa: N818
    """No split with the wanted properties exists."""


class GraphWarning(UserWarning):
    """Legal, but suspicious: look at it before you rely on the result."""
