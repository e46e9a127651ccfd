"""The ranks behind a line of the ledger, kept so that two models can be compared in pairs.

About a byte a rank: whole numbers, packed. The mean of a run says how good it is; whether another
one is better is a matter of the questions on which they differ, and no mean remembers those.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fivestar.errors import DamagedLedger
from fivestar.evaluation.report import Evaluation
from fivestar.files import write_atomic
from fivestar.graph.triples import Triples

FOLDER = "ranks"


@dataclass(frozen=True)
class KeptRanks:
    """Reciprocal realistic ranks, a row a test triple: of its tail and of its head."""

    reciprocal: npt.NDArray[np.float64]
    # The same for two runs if and only if they were asked the same questions in the same order.
    questions: str


def save_ranks(found: Evaluation, key: tuple[str, str, int], folder: Path) -> str:
    """Write the ranks of a run beside the ledger; the name of the file."""
    data, settings, seed = key
    name = re.sub(r"[^\w.-]", "_", f"{data}-{settings}-{seed}") + ".npz"
    both = found.tail_ranks + found.head_ranks
    packed = io.BytesIO()
    np.savez_compressed(
        packed,
        optimistic=_small(both.optimistic),
        ties=_small(both.pessimistic - both.optimistic),
        questions=np.array(_digest(found.triples)),
    )
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    write_atomic(folder / FOLDER / name, packed.getvalue())
    return name


def load_ranks(name: str, folder: Path) -> KeptRanks:
    """The ranks of a line of the ledger in this folder."""
    path = folder / FOLDER / Path(name).name
    try:
        with np.load(path) as arrays:
            realistic = arrays["optimistic"] + arrays["ties"] / 2
            return KeptRanks(1 / realistic.reshape(2, -1).T, str(arrays["questions"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DamagedLedger(f"{path}: cannot be read: {error}; restore it") from error


def _small(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.unsignedinteger]:
    smallest = np.min_scalar_type(int(numbers.max(initial=0)))
    found: npt.NDArray[np.unsignedinteger] = numbers.astype(smallest)
    return found


def _digest(triples: Triples) -> str:
    columns = np.stack([triples.heads, triples.relations, triples.tails]).astype("<i8")
    return hashlib.sha256(columns.tobytes()).hexdigest()[:16]
