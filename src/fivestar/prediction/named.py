"""Things as people and programs want them: the label to read, the id to look up."""

from __future__ import annotations

from dataclasses import dataclass

from fivestar.graph.vocabulary import Vocabulary


@dataclass(frozen=True)
class Named:
    """An entity or relation by id (its name in the graph) and label."""

    id: str
    label: str

    @classmethod
    def of(cls, vocabulary: Vocabulary, number: int) -> Named:
        """What an id stands for."""
        return cls(vocabulary.name_of(number), vocabulary.label_of(number))

    def __str__(self) -> str:
        return self.id if self.id == self.label else f"{self.label} ({self.id})"
