"""Libraries that only some users need: loaded when used, and asked for politely."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from fivestar.errors import MissingExtra


def needs(module: str, extra: str, purpose: str) -> Any:
    """A module of an extra, or an error that says how to install it.

    >>> needs("matploblib", "plots", "a picture")
    Traceback (most recent call last):
    fivestar.errors.MissingExtra: a picture needs matploblib: pip install 'fivestar-kge[plots]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingExtra(
            f"{purpose} needs {name}: pip install 'fivestar-kge[{extra}]'"
        ) from error
