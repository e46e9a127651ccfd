"""Case-folded names and labels as Arrow columns, searched by scanning.

A scan needs no index and hardly any memory: with 5 million names an exact match takes 25 ms, a
prefix 15 ms, the beginning of a later word 0.3 s and similar spellings a second (one core). Sorted
suffixes in Python took 8 s and 700 MB for one million names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.cancellation import check_cancelled
from fivestar.graph.arrow import from_arrow, to_arrow, to_text, to_texts

Ids = npt.NDArray[np.int64]
# Spellings are compared by their first characters only.
MAX_LENGTH = 200
# Names compared at once; rapidfuzz holds the interpreter meanwhile.
_CHUNK = 8192


class FoldedTexts:
    """The names, and the labels that differ from them, without regard to case.

    Args:
        names: the names (n).
        labels: a label or null for each name.
    """

    def __init__(self, names: pa.Array, labels: pa.Array | None = None) -> None:
        self.columns = [casefolded(names)]
        if labels is not None:
            folded = casefolded(labels)
            same = pc.equal(folded, self.columns[0])
            self.columns.append(pc.if_else(same, to_texts([None])[0], folded))

    def equal_to(self, text: str) -> Ids:
        """Return the ids whose name or label is a text, in order."""
        wanted = to_text(well_formed(text).casefold())
        found = [ids for ids, _ in self.matches(lambda texts: pc.equal(texts, wanted))]
        return np.unique(np.concatenate(found))

    def beginning_with(self, text: str) -> Iterator[tuple[Ids, pa.Array]]:
        """Yield the ids and texts that begin with a folded text, column by column."""
        return self.matches(lambda texts: pc.starts_with(texts, well_formed(text)))

    def with_later_word(self, text: str) -> Iterator[tuple[Ids, pa.Array]]:
        """Yield the ids and texts where a word after the first begins with a folded text.

        Underscores and other signs separate words.
        """
        if not text[:1].isalnum():
            return iter(())
        pattern = rf"[^\pL\pN]{_escaped(well_formed(text))}"
        return self.matches(lambda texts: pc.match_substring_regex(texts, pattern))

    def containing_word(self, text: str) -> Iterator[tuple[Ids, pa.Array]]:
        """Yield the ids and texts that contain a text as a whole word, and more."""
        word = well_formed(text).casefold()
        pattern = rf"(?:^|[^\pL\pN_]){_escaped(word)}(?:$|[^\pL\pN_])"
        for ids, texts in self.matches(lambda column: pc.match_substring_regex(column, pattern)):
            longer = pc.greater(pc.utf8_length(texts), len(word))
            yield ids[from_arrow(pc.indices_nonzero(longer))], texts.filter(longer)

    def similar_to(
        self, text: str, limit: int, min_similarity: float
    ) -> list[tuple[float, int, int]]:
        """Return (−similarity in percent, id, column) of similar spellings, the best first.

        Args:
            text: a folded text.
            limit: the maximum number from each piece of the names.
            min_similarity: in percent.
        """
        from rapidfuzz import fuzz, process  # noqa: PLC0415  (30 ms to import)

        # The similarity is at most that of two texts of which one begins with the other.
        share = min_similarity / (200 - min_similarity)
        longest = min(len(text) / share, MAX_LENGTH) if share else MAX_LENGTH
        found: list[tuple[float, int, int]] = []
        for number, column in enumerate(self.columns):
            for first in range(0, len(column), 16 * _CHUNK):
                check_cancelled()
                texts = pc.utf8_slice_codeunits(column.slice(first, 16 * _CHUNK), 0, MAX_LENGTH)
                length = pc.utf8_length(texts)
                fits = pc.and_(
                    pc.greater_equal(length, len(text) * share), pc.less_equal(length, longest)
                )
                rows = from_arrow(pc.indices_nonzero(pc.fill_null(fits, False))).astype(np.int64)  # noqa: FBT003
                for start in range(0, len(rows), _CHUNK):
                    check_cancelled()
                    some = rows[start : start + _CHUNK]
                    matches = process.extract(
                        text,
                        texts.take(to_arrow(some)).to_pylist(),
                        scorer=fuzz.ratio,
                        limit=limit,
                        score_cutoff=min_similarity,
                    )
                    found += [(-score, first + int(some[row]), number) for _, score, row in matches]
        return sorted(found)

    def matches(self, condition: Callable[[pa.Array], pa.Array]) -> Iterator[tuple[Ids, pa.Array]]:
        """Yield for each column the ids and texts that satisfy a condition."""
        for texts in self.columns:
            check_cancelled()
            rows = pc.indices_nonzero(condition(texts))
            yield from_arrow(rows).astype(np.int64), texts.take(rows)


def well_formed(text: str) -> str:
    """Return a text with U+FFFD for lone surrogates, which no name contains."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped(text: str) -> str:
    """Return a text as a pattern of RE2, which does not know all escapes of Python."""
    return "".join(f"\\x{{{ord(c):x}}}" if not c.isalnum() else c for c in text)


def casefolded(texts: pa.Array) -> pa.Array:
    """Return texts in the form of `str.casefold`.

    >>> casefolded(pa.array(["PARIS", "Weiß", None], pa.large_string())).to_pylist()
    ['paris', 'weiss', None]
    """
    lower = pc.ascii_lower(texts)
    others = pc.invert(pc.fill_null(pc.string_is_ascii(texts), True))  # noqa: FBT003
    if not pc.any(others).as_py():
        return lower
    folded = to_texts([text.casefold() for text in texts.filter(others).to_pylist()])
    return pc.replace_with_mask(lower, others, folded)
