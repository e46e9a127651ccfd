"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable

# Similarity (in percent) from which a name is suggested.
_MIN_SIMILARITY = 70


def closest_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Return the known names that are spelled most like a name, ignoring case.

    Args:
        name: the misspelled name.
        known: the names to choose from. A million take about a second.
        limit: the maximum number of suggestions.

    Returns:
        At most `limit` names, the most similar first.

    >>> closest_names("Pariss", ["Lima", "paris", "Parma"])
    ['paris']
    """
    from rapidfuzz import fuzz, process  # noqa: PLC0415  (30 ms to import)

    by_folded = {other.casefold(): other for other in known}
    matches = process.extract(
        name.casefold(),
        by_folded.keys(),
        scorer=fuzz.ratio,
        limit=limit,
        score_cutoff=_MIN_SIMILARITY,
    )
    return [by_folded[folded] for folded, _, _ in matches]


def did_you_mean(suggestions: Iterable[str]) -> str:
    """Return the end of an error message, or an empty string without suggestions.

    >>> did_you_mean(["Paris", "Parma"]), did_you_mean([])
    ("; did you mean 'Paris' or 'Parma'?", '')
    """
    quoted = " or ".join(map(repr, suggestions))
    return f"; did you mean {quoted}?" if quoted else ""
