"""Pages of text with generated parts: tables and numbers from `results/`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_PART = re.compile(r"<!--\s+([A-Z][A-Z_]*)((?:\s+\S+)*?)\s+-->")


def fill(text: str, parts: Mapping[str, Callable[..., str]]) -> str:
    """Replace each `<!-- NAME argument … -->` by what the function of that name returns.

    Names have capitals only; other comments are left alone.

    Args:
        text: the page.
        parts: the function of each name. It is called with the arguments in the text.

    Returns:
        The page with all parts.

    Raises:
        KeyError: a part has no function.

    >>> fill("<!-- a note --><!-- SUM 1 2 --> apples", {"SUM": lambda *n: str(sum(map(int, n)))})
    '<!-- a note -->3 apples'
    """
    return _PART.sub(lambda match: parts[match[1]](*match[2].split()), text)
