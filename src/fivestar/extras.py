"""Optional dependencies, imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fivestar.errors import MissingExtra


def require(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional dependency.

    Args:
        module: the name of the module.
        extra: the extra of this package that installs it.
        purpose: what needs it; the subject of the error message.

    Returns:
        The module.

    Raises:
        MissingExtra: if it is not installed. The message says how to install it.

    >>> require("matploblib", "plots", "a plot")
    Traceback (most recent call last):
    fivestar.errors.MissingExtra: a plot needs matploblib: pip install 'fivestar-kge[plots]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingExtra(
            f"{purpose} needs {name}: pip install 'fivestar-kge[{extra}]'"
        ) from error
