"""t-SNE, here or in a process of its own, which can be killed.

scikit-learn cannot be interrupted, so the server starts `python -m fivestar.analysis.tsne`: it
reads the rows as an array in the format of NumPy from its input and writes the points to its
output. This module imports nothing else, so that the process starts quickly.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile

import numpy as np
import numpy.typing as npt

from fivestar.cancellation import check_cancelled
from fivestar.errors import FivestarError
from fivestar.extras import require

Points = npt.NDArray[np.float64]
# Seconds between two looks at whether the result is still wanted.
_INTERVAL = 0.1
# How much lower the priority of the process is.
_NICENESS = 5


def project(rows: Points, seed: int = 0) -> Points:
    """Project rows (n, D) to points (n, 2) by t-SNE.

    Raises:
        MissingExtra: if scikit-learn is not installed.
    """
    manifold = require("sklearn.manifold", "plots", "a t-SNE map")
    perplexity = min(30.0, (len(rows) - 1) / 3)
    tsne = manifold.TSNE(init="pca", perplexity=perplexity, random_state=seed)
    points: Points = tsne.fit_transform(rows).astype(np.float64)
    return points


def project_in_process(rows: Points, seed: int = 0) -> Points:
    """Do the same in a process of low priority that is killed when the computation is cancelled.

    Raises:
        Cancelled: see `fivestar.cancellation`.
        MissingExtra: if scikit-learn is not installed.
    """
    require("sklearn", "plots", "a t-SNE map")
    # -P: nothing is imported from the working folder.
    command = [sys.executable, "-P", "-m", "fivestar.analysis.tsne", str(seed)]
    threads = str(max(1, (os.cpu_count() or 1) - 1))
    # The rows come from a file, not through a pipe: after a timeout, Popen.communicate does not
    # write the rest of its input.
    with tempfile.TemporaryFile() as file:
        np.save(file, rows, allow_pickle=False)
        file.seek(0)
        process = subprocess.Popen(  # noqa: S603
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            env={"OMP_NUM_THREADS": threads} | os.environ,
        )
    with process:
        try:
            output = _output(process)
        finally:
            process.kill()
    if process.returncode:
        raise FivestarError(f"t-SNE ended with code {process.returncode}; see its messages")
    return _from_bytes(output)


def _output(process: subprocess.Popen[bytes]) -> bytes:
    while True:
        try:
            return process.communicate(timeout=_INTERVAL)[0]
        except subprocess.TimeoutExpired:  # the next call continues where this one has stopped
            check_cancelled()


def _to_bytes(array: Points) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _from_bytes(content: bytes) -> Points:
    array: Points = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def main() -> None:
    """Project the rows from the input."""
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    points = project(_from_bytes(sys.stdin.buffer.read()), int(sys.argv[1]))
    sys.stdout.buffer.write(_to_bytes(points))


if __name__ == "__main__":
    main()
