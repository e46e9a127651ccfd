"""Search-as-you-type over names and labels: by prefix, by word prefix, then by similarity.

Similar names are found by rapidfuzz, which compares the text with all names: 13 ms for 40,000
names and 0.16 s for a million. An index of trigrams answers in 1 and 20 ms, but takes 0.4 and 17 s
to build.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fivestar.cancellation import check_cancelled
from fivestar.graph.vocabulary import Vocabulary

Ids = npt.NDArray[np.int64]
# Maximum number of prefix matches that are ranked: very many names begin with the same letter.
_MAX_MATCHES = 5000
# Similarity (in percent) from which a name is a match.
_MIN_SIMILARITY = 78
# Names are compared by their first characters only.
_MAX_LENGTH = 200
# Names compared at once; rapidfuzz holds the interpreter meanwhile.
_CHUNK = 8192


class NameSearch:
    """Search the names and labels of a vocabulary, ignoring case.

    Matches of a prefix come first, then those where a later word begins with the text, then
    similarly spelled ones. Within the first two, more important entities come first.

    Args:
        vocabulary: the names and labels to search.
        importance: for each id a number, for example the number of its facts.
    """

    def __init__(self, vocabulary: Vocabulary, importance: npt.NDArray[np.integer]) -> None:
        self.vocabulary = vocabulary
        self.importance = importance

    def find(
        self, text: str, limit: int = 10, min_similarity: float = _MIN_SIMILARITY
    ) -> list[int]:
        """Return the ids that match a text.

        Args:
            text: the beginning of a name, of a word in it, or a misspelled name. For an empty text
                the most important ids are returned.
            limit: the maximum number of ids.
            min_similarity: similarity (in percent) from which another spelling is a match.

        Returns:
            At most `limit` distinct ids, the best match first.

        >>> names = Vocabulary("entity", ["New York", "York", "Old Yorkshire", "Cork"])
        >>> NameSearch(names, np.array([9, 5, 1, 1])).find("york")
        [1, 0, 2]
        >>> NameSearch(names, np.array([9, 5, 1, 1])).find("Yorrk")
        [1]
        """
        query = _folded(text.strip())
        if not query:
            most_important: list[int] = self._by_importance[:limit].tolist()
            return most_important
        ids = self._prefix_matches(query, limit)
        if len(ids) < limit:
            similar = self._similar(query, limit, min_similarity)
            ids += [number for number in similar if number not in ids]
        return ids[:limit]

    @cached_property
    def _by_importance(self) -> Ids:
        return np.argsort(-np.asarray(self.importance), kind="stable")

    @cached_property
    def _texts(self) -> tuple[list[str], list[int]]:
        """All distinct case-folded names and labels, and their ids."""
        ids = range(len(self.vocabulary))
        names = [_folded(name) for name in self.vocabulary]
        labels = [_folded(label) for label in self.vocabulary.labels_of(ids)]
        pairs = dict.fromkeys([*zip(names, ids, strict=True), *zip(labels, ids, strict=True)])
        return [text for text, _ in pairs], [number for _, number in pairs]

    @cached_property
    def _suffixes(self) -> list[tuple[str, bool, int]]:
        """Every text from each of its words on, sorted: (suffix, is a later word, id)."""
        suffixes = []
        for text, number in zip(*self._texts, strict=True):
            suffixes.append((text, False, number))
            suffixes += [(text[start:], True, number) for start in _later_word_starts(text)]
        suffixes.sort()
        return suffixes

    def _prefix_matches(self, query: str, limit: int) -> list[int]:
        suffixes = self._suffixes
        best: dict[int, tuple[bool, bool, int, int]] = {}
        for index in range(bisect_left(suffixes, (query,)), len(suffixes)):
            suffix, is_later_word, number = suffixes[index]
            if not suffix.startswith(query) or len(best) >= _MAX_MATCHES:
                break
            key = (is_later_word, suffix != query, -int(self.importance[number]), len(suffix))
            best[number] = min(key, best.get(number, key))
        return sorted(best, key=best.__getitem__)[:limit]

    def _similar(self, query: str, limit: int, min_similarity: float) -> list[int]:
        from rapidfuzz import fuzz, process  # noqa: PLC0415  (30 ms to import)

        texts, ids = self._texts
        matches: list[tuple[float, int]] = []
        for first in range(0, len(texts), _CHUNK):
            check_cancelled()
            chunk = process.extract(
                query,
                texts[first : first + _CHUNK],
                scorer=fuzz.ratio,
                limit=2 * limit,  # a name and its label may both match
                score_cutoff=min_similarity,
            )
            matches += [(-similarity, first + index) for _, similarity, index in chunk]
        return list(dict.fromkeys(ids[index] for _, index in sorted(matches)))[:limit]


def _folded(text: str) -> str:
    return text[:_MAX_LENGTH].casefold()


def _later_word_starts(text: str) -> list[int]:
    """Return where words begin, except the first; underscores and other signs separate words."""
    return [
        start
        for start in range(1, len(text))
        if text[start].isalnum() and not text[start - 1].isalnum()
    ]
