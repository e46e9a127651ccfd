"""Search-as-you-type over names and labels: by prefix, by word prefix, then by similarity."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fivestar.graph.arrow import from_arrow, to_mask, to_text
from fivestar.graph.folded_texts import MAX_LENGTH, Ids, well_formed
from fivestar.graph.vocabulary import Vocabulary

# Similarity (in percent) from which a name is a match.
_MIN_SIMILARITY = 78


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
        query = well_formed(text.strip()[:MAX_LENGTH]).casefold()
        if not query:
            most_important: list[int] = self._by_importance[:limit].tolist()
            return most_important
        ids = self._beginnings(query, limit)
        for more in (self._later_words, self._similar):
            if len(ids) < limit:
                ids += [
                    number for number in more(query, limit, min_similarity) if number not in ids
                ]
        return ids[:limit]

    @cached_property
    def _by_importance(self) -> Ids:
        return np.argsort(-np.asarray(self.importance), kind="stable")

    def _beginnings(self, query: str, limit: int) -> list[int]:
        matches = self.vocabulary.folded.beginning_with(query)
        return self._ranked(
            ((ids, texts, pc.equal(texts, to_text(query))) for ids, texts in matches), limit
        )

    def _later_words(self, query: str, limit: int, _: float) -> list[int]:
        matches = self.vocabulary.folded.with_later_word(query)
        return self._ranked(
            ((ids, texts, pc.ends_with(texts, query)) for ids, texts in matches), 2 * limit
        )

    def _ranked(self, matches: Iterable[tuple[Ids, pa.Array, pa.Array]], limit: int) -> list[int]:
        """Return the best ids: whole matches first, then by importance and length."""
        found = list(matches)
        if not found:
            return []
        ids = np.concatenate([each for each, _, _ in found])
        lengths = np.concatenate([from_arrow(pc.utf8_length(texts)) for _, texts, _ in found])
        whole = np.concatenate([to_mask(is_whole) for _, _, is_whole in found])
        order = np.lexsort((lengths, -np.asarray(self.importance)[ids], ~whole))
        best: list[int] = ids[order[: 2 * limit]].tolist()  # a name and its label may both match
        return list(dict.fromkeys(best))[:limit]

    def _similar(self, query: str, limit: int, min_similarity: float) -> list[int]:
        found = self.vocabulary.folded.similar_to(query, 2 * limit, min_similarity)
        return list(dict.fromkeys(number for _, number, _ in found))
