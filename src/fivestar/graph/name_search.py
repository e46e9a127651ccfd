"""Finding things while a name is being typed: by its beginning, by a word in it, or nearly so."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fivestar.graph.vocabulary import Vocabulary

Ids = npt.NDArray[np.int64]
# Matches of a beginning that are put in order, at most: one letter begins very many names.
_MOST_MATCHES = 5000
# The share of trigrams (Dice) that names nearly alike have in common.
_ALIKE = 0.45
# Characters of a name that are looked at; the rest tells nothing to somebody who types.
_LONGEST = 200


class NameSearch:
    """Finds names and labels in upper or lower case; what is prepared for it is kept.

    Those that begin with the text come first, then those with a word that does, then those spelled
    alike. Within each, `importance` (the number of facts, say) decides.
    """

    def __init__(self, vocabulary: Vocabulary, importance: npt.NDArray[np.integer]) -> None:
        self.vocabulary = vocabulary
        self.importance = importance

    def find(self, text: str, most: int = 10) -> list[int]:
        """The ids that are meant, best first; of no text at all, the most important ones.

        >>> names = Vocabulary("entity", ["New York", "York", "Old Yorkshire", "Cork"])
        >>> NameSearch(names, np.array([9, 5, 1, 1])).find("york")
        [1, 0, 2]
        >>> NameSearch(names, np.array([9, 5, 1, 1])).find("Yorrk")
        [1]
        """
        wanted = _folded(text.strip())
        if not wanted:
            best: list[int] = self._by_importance[:most].tolist()
            return best
        found = self._beginning(wanted, most)
        if len(found) < most:
            found += [number for number in self._alike(wanted, most) if number not in found]
        return found[:most]

    @cached_property
    def _by_importance(self) -> Ids:
        return np.argsort(-np.asarray(self.importance), kind="stable")

    @cached_property
    def _texts(self) -> list[tuple[str, int]]:
        """Every name and label in lower case, with its id."""
        numbers = range(len(self.vocabulary))
        names = [_folded(name) for name in self.vocabulary]
        labels = [_folded(label) for label in self.vocabulary.labels_of(numbers)]
        both = [*zip(names, numbers, strict=True), *zip(labels, numbers, strict=True)]
        return list(dict.fromkeys(both))

    @cached_property
    def _from_each_word(self) -> list[tuple[str, bool, int]]:
        """What each text is from each of its words on, in order; whether a word stands before."""
        rests = []
        for text, number in self._texts:
            rests.append((text, False, number))
            rests += [(text[at:], True, number) for at in _word_starts(text)]
        rests.sort()
        return rests

    def _beginning(self, text: str, most: int) -> list[int]:
        rests = self._from_each_word
        best: dict[int, tuple[bool, bool, int, int]] = {}
        for place in range(bisect_left(rests, (text,)), len(rests)):
            rest, inside, number = rests[place]
            if not rest.startswith(text) or len(best) >= _MOST_MATCHES:
                break
            order = (inside, rest != text, -int(self.importance[number]), len(rest))
            best[number] = min(order, best.get(number, order))
        return sorted(best, key=best.__getitem__)[:most]

    @cached_property
    def _trigrams(self) -> tuple[dict[str, Ids], Ids]:
        """Where in `_texts` each trigram occurs, and how many each text has."""
        places: dict[str, list[int]] = defaultdict(list)
        sizes = np.zeros(len(self._texts), np.int64)
        for place, (text, _) in enumerate(self._texts):
            own = _trigrams(text)
            sizes[place] = len(own)
            for trigram in own:
                places[trigram].append(place)
        return {trigram: np.array(found) for trigram, found in places.items()}, sizes

    def _alike(self, text: str, most: int) -> list[int]:
        places, sizes = self._trigrams
        own = _trigrams(text)
        held = [places[trigram] for trigram in own if trigram in places]
        if not held:
            return []
        where, common = np.unique(np.concatenate(held), return_counts=True)
        share = 2 * common / (len(own) + sizes[where])
        near = share >= _ALIKE
        order = np.argsort(-share[near], kind="stable")
        numbers = (self._texts[place][1] for place in where[near][order].tolist())
        return list(dict.fromkeys(numbers))[:most]


def _folded(text: str) -> str:
    return text[:_LONGEST].casefold()


def _word_starts(text: str) -> list[int]:
    """Where words begin, the first left out; underscores and other signs part words, too."""
    return [at for at in range(1, len(text)) if text[at].isalnum() and not text[at - 1].isalnum()]


def _trigrams(text: str) -> set[str]:
    padded = f"  {text} "
    return {padded[at : at + 3] for at in range(len(padded) - 2)}
