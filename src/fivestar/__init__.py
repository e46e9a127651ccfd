"""fivestar: knowledge graph embeddings with projective transformations (5★E).

`train`, `load` and `from_pykeen` return a `TrainedModel`, which predicts, evaluates, explains,
completes and exports. Names are imported when first used, so that `import fivestar` is fast. Errors
are in `fivestar.errors`, bridges to other libraries in `fivestar.integrations`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fivestar.version import __version__

if TYPE_CHECKING:
    from fivestar.client import Client
    from fivestar.errors import FivestarError, GraphWarning
    from fivestar.graph.file_conversion import convert_graph
    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.graph.readers.registered import register_reader
    from fivestar.graph.reading import read_graph
    from fivestar.graph.splitting import split_graph
    from fivestar.graph.statistics import profile_graph
    from fivestar.graph.storage import load_graph, save_graph
    from fivestar.graph.triples import Triples
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.graph.writing import write_graph
    from fivestar.integrations.sklearn import LinkPredictor
    from fivestar.models.base import Model
    from fivestar.models.registry import register_model
    from fivestar.models.similarity import AutogradSimilarity, InnerProduct
    from fivestar.prediction.train import evaluate, resume, search, train
    from fivestar.prediction.trained_model import TrainedModel, from_pykeen, load
    from fivestar.prediction.vectors import candidate_vectors, query_vectors
    from fivestar.runs.remote import push
    from fivestar.runs.settings import Settings, make_settings
    from fivestar.server.serve import serve
    from fivestar.training.objectives import Objective, register_objective
    from fivestar.training.regularizers import Regularizer, register_regularizer
    from fivestar.training.trackers.base import TrackedRun, Tracker, register_tracker

_HOME = {
    "Client": "fivestar.client",
    "FivestarError": "fivestar.errors",
    "GraphWarning": "fivestar.errors",
    "KnowledgeGraph": "fivestar.graph.knowledge_graph",
    "Triples": "fivestar.graph.triples",
    "Vocabulary": "fivestar.graph.vocabulary",
    "convert_graph": "fivestar.graph.file_conversion",
    "load_graph": "fivestar.graph.storage",
    "profile_graph": "fivestar.graph.statistics",
    "read_graph": "fivestar.graph.reading",
    "save_graph": "fivestar.graph.storage",
    "split_graph": "fivestar.graph.splitting",
    "write_graph": "fivestar.graph.writing",
    "LinkPredictor": "fivestar.integrations.sklearn",
    "AutogradSimilarity": "fivestar.models.similarity",
    "InnerProduct": "fivestar.models.similarity",
    "Model": "fivestar.models.base",
    "register_model": "fivestar.models.registry",
    "Regularizer": "fivestar.training.regularizers",
    "Objective": "fivestar.training.objectives",
    "register_objective": "fivestar.training.objectives",
    "register_reader": "fivestar.graph.readers.registered",
    "register_regularizer": "fivestar.training.regularizers",
    "TrackedRun": "fivestar.training.trackers.base",
    "Tracker": "fivestar.training.trackers.base",
    "register_tracker": "fivestar.training.trackers.base",
    "TrainedModel": "fivestar.prediction.trained_model",
    "from_pykeen": "fivestar.prediction.trained_model",
    "load": "fivestar.prediction.trained_model",
    "evaluate": "fivestar.prediction.train",
    "resume": "fivestar.prediction.train",
    "search": "fivestar.prediction.train",
    "train": "fivestar.prediction.train",
    "candidate_vectors": "fivestar.prediction.vectors",
    "query_vectors": "fivestar.prediction.vectors",
    "push": "fivestar.runs.remote",
    "Settings": "fivestar.runs.settings",
    "make_settings": "fivestar.runs.settings",
    "serve": "fivestar.server.serve",
}

__all__ = [
    "AutogradSimilarity",
    "Client",
    "FivestarError",
    "GraphWarning",
    "InnerProduct",
    "KnowledgeGraph",
    "LinkPredictor",
    "Model",
    "Objective",
    "Regularizer",
    "Settings",
    "TrackedRun",
    "Tracker",
    "TrainedModel",
    "Triples",
    "Vocabulary",
    "__version__",
    "candidate_vectors",
    "convert_graph",
    "evaluate",
    "from_pykeen",
    "load",
    "load_graph",
    "make_settings",
    "profile_graph",
    "push",
    "query_vectors",
    "read_graph",
    "register_model",
    "register_objective",
    "register_reader",
    "register_regularizer",
    "register_tracker",
    "resume",
    "save_graph",
    "search",
    "serve",
    "split_graph",
    "train",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'fivestar' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
