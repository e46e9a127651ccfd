"""What is installed and where fivestar reads and writes, for bug reports."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from fivestar.version import __version__


class Extra(NamedTuple):
    """An optional dependency of this package: the modules it installs, and what they are for."""

    modules: tuple[str, ...]
    purpose: str


EXTRAS = {
    "pandas": Extra(("pandas",), "predictions and graphs as DataFrames"),
    "networkx": Extra(("networkx",), "graphs from and to NetworkX"),
    "rdf": Extra(("pyoxigraph",), "RDF files: N-Triples, Turtle, RDF/XML, JSON-LD …"),
    "plots": Extra(("matplotlib", "sklearn"), "fivestar plot, the map of entities (t-SNE)"),
    "search": Extra(("optuna",), "fivestar search"),
    "tensorboard": Extra(("tensorboard",), "fivestar train --track tensorboard"),
    "mlflow": Extra(("alembic", "mlflow", "sqlalchemy"), "fivestar train --track mlflow"),
    "wandb": Extra(("wandb",), "fivestar train --track wandb"),
    "serve": Extra(
        ("fastapi", "httptools", "orjson", "uvicorn"), "fivestar serve: HTTP service and page"
    ),
    "otel": Extra(("opentelemetry",), "fivestar serve --trace"),
    "client": Extra(("urllib3",), "fivestar.Client"),
    "rdflib": Extra(("rdflib",), "graphs and predicted links for rdflib"),
    "pykeen": Extra(("pykeen",), "5★E inside PyKEEN"),
    "sklearn": Extra(("sklearn",), "fivestar.LinkPredictor"),
    "hub": Extra(("huggingface_hub",), "runs on the Hugging Face Hub (hf://)"),
    "s3": Extra(("s3fs",), "runs in S3 (s3://)"),
    "gs": Extra(("gcsfs",), "runs in Google Cloud Storage (gs://)"),
    "faiss": Extra(("faiss",), "search in exported vectors"),
    "onnx": Extra(("onnx", "onnxscript"), "fivestar export --to onnx"),
}
DEPENDENCIES = (
    *("filelock", "numpy", "platformdirs", "pyarrow", "pydantic", "rapidfuzz", "rich"),
    *("safetensors", "tomli-w", "torch", "typer"),
)
VARIABLES = (
    *("FIVESTAR_DATA", "FIVESTAR_CACHE", "FIVESTAR_OFFLINE"),
    *("OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
)


def describe_environment() -> dict[str, Any]:
    """Describe this installation: versions, device, threads, extras and folders.

    Works without the optional dependencies, and if torch is missing or broken.

    Returns:
        A dictionary for JSON; `problems` lists what keeps fivestar from working.

    >>> describe_environment()["fivestar"]["version"] == __version__
    True
    """
    versions = {name: _version(name) for name in DEPENDENCIES}
    torch = _describe_torch()
    folders = _describe_folders()
    problems = [f"{name} is not installed" for name, version in versions.items() if not version]
    if versions["torch"] and torch["error"]:
        problems.append(f"torch cannot be imported: {torch['error']}")
    problems += [
        f"{folder['path']} ({name}) is not writable"
        for name, folder in folders.items()
        if not folder["writable"]
    ]
    return {
        "fivestar": {"version": __version__, "folder": str(Path(__file__).parent)},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "torch": torch,
        "versions": versions,
        "extras": {name: _describe_extra(extra) for name, extra in EXTRAS.items()},
        "page": (Path(__file__).parent / "server/static/index.html").is_file(),
        "folders": folders,
        "variables": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "problems": problems,
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _describe_torch() -> dict[str, Any]:
    try:
        import torch  # noqa: PLC0415  (slow to import, and it may be broken)
    except (ImportError, OSError) as error:
        return {"device": None, "threads": None, "blas": None, "error": str(error)}
    cuda = torch.cuda.is_available()
    has_mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return {
        "device": torch.cuda.get_device_name(0) if cuda else "CPU",
        "threads": torch.get_num_threads(),
        "blas": f"{'MKL' if has_mkl else 'other'}, {torch.backends.cpu.get_cpu_capability()}",
        "error": None,
    }


def _describe_extra(extra: Extra) -> dict[str, Any]:
    missing = [name for name in extra.modules if find_spec(name) is None]
    return {"installed": not missing, "missing": missing, "purpose": extra.purpose}


def _describe_folders() -> dict[str, dict[str, Any]]:
    from fivestar.graph.datasets import data_folder  # noqa: PLC0415

    folders = {"datasets": data_folder(), "current folder": Path.cwd()}
    return {
        name: {"path": str(path), "exists": path.is_dir(), "writable": _is_writable(path)}
        for name, path in folders.items()
    }


def _is_writable(folder: Path) -> bool:
    """Return whether files can be created in a folder, or in the first parent that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False
