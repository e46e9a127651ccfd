"""Suggestions for words that are not known."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known words spelled most like this one, best first.

    >>> nearest("Pariss", ["Lima", "paris", "Parma"])
    ['paris']
    """
    # The comparison is quadratic in the length of a word and there may be millions of words,
    # so those whose length alone rules them out are dropped first.
    slack = max(2, len(word) // 3)
    close = [k for k in known if abs(len(k) - len(word)) <= slack]
    same_case = {k.casefold(): k for k in close}
    found = difflib.get_close_matches(word.casefold(), same_case, n=most, cutoff=0.7)
    return [same_case[match] for match in found]


def containing(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The shortest of the known texts that hold this word, but are not it.

    >>> containing("dog", ["sea dog", "dogma", "the old dog", "Dog"])
    ['sea dog', 'the old dog']
    """
    pattern = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)", re.IGNORECASE)
    found = (text for text in known if len(text) > len(word) and pattern.search(text))
    return sorted(found, key=len)[:most]
