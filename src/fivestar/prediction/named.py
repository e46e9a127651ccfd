"""Things as people and programs want them: the label to read, the name to look up."""

from __future__ import annotations

from dataclasses import dataclass

from fivestar.graph.vocabulary import Vocabulary


@dataclass(frozen=True)
class Named:
    """An entity or relation by name and label."""

    name: str
    label: str

    @classmethod
    def of(cls, vocabulary: Vocabulary, number: int) -> Named:
        """What an id stands for."""
        return cls(vocabulary.name_of(number), vocabulary.label_of(number))

    def __str__(self) -> str:
        return self.name if self.name == self.label else f"{self.label} ({self.name})"
