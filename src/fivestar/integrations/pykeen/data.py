"""Graphs as datasets and triples factories of PyKEEN, with the same ids."""

from __future__ import annotations

import torch
from pykeen.datasets.base import EagerDataset
from pykeen.triples import TriplesFactory

from fivestar.errors import SettingsError
from fivestar.graph.knowledge_graph import KnowledgeGraph


def triples_factory(
    graph: KnowledgeGraph, split: str = "train", *, create_inverse_triples: bool = False
) -> TriplesFactory:
    """Return one split of a graph as a triples factory of PyKEEN; all ids stay the same.

    Args:
        graph: the graph.
        split: "train", "valid" or "test".
        create_inverse_triples: train on reciprocal relations, too, as fivestar does by default.

    Raises:
        SettingsError: if there is no such split.
    """
    return TriplesFactory(
        torch.as_tensor(graph.split(split).array.astype("int64")),
        entity_to_id={name: number for number, name in enumerate(graph.entities)},
        relation_to_id={name: number for number, name in enumerate(graph.relations)},
        create_inverse_triples=create_inverse_triples,
        metadata={"name": graph.name, "split": split},
    )


def dataset(graph: KnowledgeGraph, *, create_inverse_triples: bool = False) -> EagerDataset:
    """Return a graph as a dataset of PyKEEN; all ids stay the same.

    Args:
        graph: a graph with test triples, and with validation triples for early stopping.
        create_inverse_triples: train on reciprocal relations, too, as fivestar does by default.

    Raises:
        SettingsError: if the graph has no test triples, which every dataset of PyKEEN has.
    """
    if not len(graph.test):
        raise SettingsError(
            f"{graph.name} has no test triples, which a dataset of PyKEEN needs; split it with "
            "fivestar.split_graph, or use triples_factory for each split"
        )
    inverse = create_inverse_triples
    return EagerDataset(
        training=triples_factory(graph, create_inverse_triples=inverse),
        testing=triples_factory(graph, "test"),
        validation=triples_factory(graph, "valid") if len(graph.valid) else None,
        metadata={"name": graph.name},
    )
