"""The test ranks of the runs in a ledger, saved so that models can be compared in a paired test.

Ranks are stored as small compressed integers, about a byte per rank. The mean of a run says how
good it is; whether another one is better depends on the queries on which they differ.
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
from fivestar.files import make_folder, write_atomic
from fivestar.graph.triples import Triples

FOLDER = "ranks"


@dataclass(frozen=True)
class SavedRanks:
    """Reciprocal realistic ranks (triples, 2): of the tail and of the head of each test triple."""

    reciprocal: npt.NDArray[np.float64]
    # Equal for two runs if and only if they ranked the same test triples in the same order.
    triples_hash: str


def save_ranks(evaluation: Evaluation, key: tuple[str, str, int], folder: Path) -> str:
    """Save the ranks of a run beside the ledger and return the name of the file.

    Args:
        evaluation: The evaluation on test.
        key: Dataset, hash of the settings, and seed.
        folder: The folder of the ledger.
    """
    data, settings, seed = key
    name = re.sub(r"[^\w.-]", "_", f"{data}-{settings}-{seed}") + ".npz"
    ranks = evaluation.tail_ranks + evaluation.head_ranks
    packed = io.BytesIO()
    np.savez_compressed(
        packed,
        optimistic=_smallest_dtype(ranks.optimistic),
        ties=_smallest_dtype(ranks.pessimistic - ranks.optimistic),
        questions=np.array(_hash(evaluation.triples)),
    )
    make_folder(folder / FOLDER)
    write_atomic(folder / FOLDER / name, packed.getvalue())
    return name


def load_ranks(name: str, folder: Path) -> SavedRanks:
    """Load the ranks of a ledger line.

    Args:
        name: The name of the file, from the line.
        folder: The folder of the ledger.

    Raises:
        DamagedLedger: The file is missing or damaged.
    """
    path = folder / FOLDER / Path(name).name
    try:
        with np.load(path) as arrays:
            realistic = arrays["optimistic"] + arrays["ties"] / 2
            return SavedRanks(1 / realistic.reshape(2, -1).T, str(arrays["questions"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DamagedLedger(f"{path}: cannot be read: {error}; restore it") from error


def _smallest_dtype(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.unsignedinteger]:
    dtype = np.min_scalar_type(int(numbers.max(initial=0)))
    small: npt.NDArray[np.unsignedinteger] = numbers.astype(dtype)
    return small


def _hash(triples: Triples) -> str:
    columns = np.stack([triples.heads, triples.relations, triples.tails]).astype("<i8")
    return hashlib.sha256(columns.tobytes()).hexdigest()[:16]
