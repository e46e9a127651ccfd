"""fivestar: knowledge graph embeddings with projective transformations (5★E).

The names below are the whole public library; they are loaded when first used, so that importing
fivestar (and `fivestar --help`) costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fivestar.version import __version__

if TYPE_CHECKING:
    from fivestar.errors import FivestarError, GraphWarning
    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.graph.reading import read_graph
    from fivestar.graph.splitting import split_graph
    from fivestar.graph.statistics import profile_graph
    from fivestar.graph.storage import load_graph, save_graph
    from fivestar.graph.triples import Triples
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.graph.writing import write_graph
    from fivestar.prediction.explanation import explain
    from fivestar.prediction.neighbours import similar
    from fivestar.prediction.predictor import predict_heads, predict_relations, predict_tails
    from fivestar.runs.conversion import from_pykeen, to_fivestar
    from fivestar.runs.run import Run
    from fivestar.runs.run import load_run as load
    from fivestar.runs.settings import Settings, make_settings
    from fivestar.training.loop import resume, train

_HOME = {
    "FivestarError": "fivestar.errors",
    "GraphWarning": "fivestar.errors",
    "KnowledgeGraph": "fivestar.graph.knowledge_graph",
    "Triples": "fivestar.graph.triples",
    "Vocabulary": "fivestar.graph.vocabulary",
    "load_graph": "fivestar.graph.storage",
    "profile_graph": "fivestar.graph.statistics",
    "read_graph": "fivestar.graph.reading",
    "save_graph": "fivestar.graph.storage",
    "split_graph": "fivestar.graph.splitting",
    "write_graph": "fivestar.graph.writing",
    "explain": "fivestar.prediction.explanation",
    "similar": "fivestar.prediction.neighbours",
    "predict_heads": "fivestar.prediction.predictor",
    "predict_relations": "fivestar.prediction.predictor",
    "predict_tails": "fivestar.prediction.predictor",
    "Run": "fivestar.runs.run",
    "from_pykeen": "fivestar.runs.conversion",
    "to_fivestar": "fivestar.runs.conversion",
    "load": "fivestar.runs.run:load_run",
    "Settings": "fivestar.runs.settings",
    "make_settings": "fivestar.runs.settings",
    "resume": "fivestar.training.loop",
    "train": "fivestar.training.loop",
}

__all__ = [
    "FivestarError",
    "GraphWarning",
    "KnowledgeGraph",
    "Run",
    "Settings",
    "Triples",
    "Vocabulary",
    "__version__",
    "explain",
    "from_pykeen",
    "load",
    "load_graph",
    "make_settings",
    "predict_heads",
    "predict_relations",
    "predict_tails",
    "profile_graph",
    "read_graph",
    "resume",
    "save_graph",
    "similar",
    "split_graph",
    "to_fivestar",
    "train",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        module, _, other_name = _HOME[name].partition(":")
        return getattr(import_module(module), other_name or name)
    raise AttributeError(f"module 'fivestar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
