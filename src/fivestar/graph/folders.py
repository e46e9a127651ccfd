"""Folders and files that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fivestar.errors import OutputError


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A draft folder that becomes `folder` when all went well and vanishes when not."""
    target = Path(folder)
    if target.exists():
        raise OutputError(f"{target} exists already; choose another folder or remove it first")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror}") from error
    try:
        yield draft
        draft.chmod(0o755)
        draft.rename(target)
    except OSError as error:
        raise OutputError(f"{target}: cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and see to it that it is on the disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file as a whole, or leave it as it was."""
    with replacement(path) as draft:
        draft.write_bytes(content)


@contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """A draft to write that takes the place of a file when all went well."""
    draft = path.with_name(f".{path.name}.new")
    try:
        yield draft
        with draft.open("rb+") as file:
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        raise OutputError(
            f"{path}: cannot be written: {error.strerror or error}; "
            "what was written before is intact"
        ) from error
    finally:
        draft.unlink(missing_ok=True)
