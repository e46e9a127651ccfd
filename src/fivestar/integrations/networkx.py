"""Predicted links and entity vectors in graphs of NetworkX.

`fivestar.read_graph` reads graphs of NetworkX, and `KnowledgeGraph.to_networkx` makes them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from fivestar.errors import SettingsError
from fivestar.integrations.links import Found, links_of
from fivestar.prediction.export import entity_rows
from fivestar.runs.run import Run


def add_links(graph: Any, found: Found) -> int:
    """Add predicted links to a graph as edges with the attributes `probability` and `predicted`.

    The key of an edge is its relation, which is the attribute `relation` as well. Edges that exist
    stay as they are. The probability is None if the model has no calibration.

    Args:
        graph: a MultiDiGraph; it is changed.
        found: what `complete`, `predict` or `predict_tails` of a trained model returns.

    Returns:
        The number of new edges.

    Raises:
        SettingsError: if the graph cannot hold several directed edges between two nodes, or two
            nodes have the same name.

    >>> import fivestar, networkx
    >>> graph = networkx.MultiDiGraph()
    >>> for a, b in [(1, 2), (2, 3), (1, 3), (1, 4), (2, 4)]:
    ...     _ = graph.add_edge(a, b, "less")
    >>> model = fivestar.train(graph, dim=4, epochs=2, valid=1)
    >>> add_links(graph, model.predict_tails("3", "less", top=1, which="new"))
    1
    """
    if not (getattr(graph, "is_multigraph", bool)() and graph.is_directed()):
        raise SettingsError(
            f"predicted links are directed, and several may join the same nodes: "
            f"{type(graph).__name__} cannot hold them; pass networkx.MultiDiGraph(graph)"
        )
    node_of = _nodes_by_name(graph)
    before = graph.number_of_edges()
    for link in links_of(found):
        head, tail = (node_of.get(name, name) for name in (link.head, link.tail))
        if not graph.has_edge(head, tail, link.relation):
            attributes = {"probability": link.probability, "predicted": True}
            graph.add_edge(head, tail, link.relation, relation=link.relation, **attributes)
    return int(graph.number_of_edges() - before)


def set_vectors(graph: Any, run: Run, attribute: str = "vector") -> int:
    """Store the embedding of each entity as an attribute of its node.

    Args:
        graph: a graph of NetworkX; it is changed. Nodes that the model does not know stay as they
            are.
        run: a trained model, as `fivestar.train` and `fivestar.load` return it.
        attribute: the name of the attribute; its values are float32 arrays (D,), in the layout that
            `fivestar models` describes.

    Returns:
        The number of nodes with an embedding.

    Raises:
        SettingsError: if two nodes have the same name.

    >>> import fivestar, networkx
    >>> edges = ["ab", "bc", "cd", "da", "ac"]
    >>> graph = networkx.DiGraph([(a, b, {"relation": "next"}) for a, b in edges])
    >>> set_vectors(graph, fivestar.train(graph, dim=4, epochs=1))
    4
    >>> graph.nodes["a"]["vector"].shape
    (8,)
    """
    run.model.shard.require_whole()
    node_of = _nodes_by_name(graph)
    entities = entity_rows(run)
    count = 0
    for name, row in zip(entities.names, entities.rows, strict=True):
        if name in node_of:
            graph.nodes[node_of[name]][attribute] = row.copy()
            count += 1
    return count


def _nodes_by_name(graph: Any) -> dict[str, Hashable]:
    """Return the nodes by the names that `read_graph` gives them: 7 is '7'."""
    node_of: dict[str, Hashable] = {}
    for node in graph:
        if node_of.setdefault(str(node), node) != node:
            raise SettingsError(
                f"the nodes {node_of[str(node)]!r} and {node!r} have the same name; relabel one, "
                "as with networkx.relabel_nodes"
            )
    return node_of
