"""Small graphs that several tests train on."""

from __future__ import annotations

import fivestar


def people_graph(valid=0.1, test=0.1):
    """A graph with a pattern: people, their countries, and who knows whom."""
    people = [(f"p{i}", "lives_in", f"c{i % 7}") for i in range(60)]
    knows = [(f"p{i}", "knows", f"p{(i + 7) % 60}") for i in range(60)]
    return fivestar.split_graph(fivestar.read_graph(people + knows), valid=valid, test=test)
