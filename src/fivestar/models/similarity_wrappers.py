"""Similarities made of another one."""

from __future__ import annotations

from torch import Tensor

from fivestar.models.similarity import Similarity


class Biased(Similarity):
    """A similarity plus the last column of the query plus the last column of the candidate."""

    def __init__(self, inner: Similarity) -> None:
        self.inner = inner

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """The score and both biases."""
        self.inner.forward(query[:, :-1], candidates[:, :-1], out, scale)
        out.add_(query[:, -1:], alpha=scale).add_(candidates[:, -1], alpha=scale)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """Nothing to do: the inner gradients need other slopes than the biases."""

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """That of the inner one, and sums."""
        into[:, -1] += slopes.sum(dim=1)
        inner = slopes.clone()
        self.inner.prepare(query[:, :-1], candidates[:, :-1], inner)
        self.inner.add_query_gradient(query[:, :-1], candidates[:, :-1], inner, into[:, :-1])

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """That of the inner one, and sums."""
        into[:, -1] += slopes.T @ weight
        inner = slopes.clone()
        self.inner.prepare(query[:, :-1], candidates[:, :-1], inner)
        self.inner.add_candidate_gradient(
            query[:, :-1], weight, candidates[:, :-1], inner, into[:, :-1]
        )

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return self.inner.rows(query[..., :-1], tails[..., :-1]) + query[..., -1] + tails[..., -1]


class Swapped(Similarity):
    """A similarity with its sides exchanged: queries are tails, candidates are moved heads."""

    def __init__(self, inner: Similarity) -> None:
        self.inner = inner

    def forward(self, query: Tensor, candidates: Tensor, out: Tensor, scale: float = 1.0) -> None:
        """The transpose."""
        scores = out.new_empty(len(candidates), len(query))
        self.inner.forward(candidates, query, scores, scale)
        out.copy_(scores.T)

    def prepare(self, query: Tensor, candidates: Tensor, slopes: Tensor) -> None:
        """The transpose."""
        turned = slopes.T.contiguous()
        self.inner.prepare(candidates, query, turned)
        slopes.copy_(turned.T)

    def add_query_gradient(
        self, query: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """That of the inner candidates."""
        once = slopes.new_ones(len(candidates))
        self.inner.add_candidate_gradient(candidates, once, query, slopes.T.contiguous(), into)

    def add_candidate_gradient(
        self, query: Tensor, weight: Tensor, candidates: Tensor, slopes: Tensor, into: Tensor
    ) -> None:
        """That of the inner queries."""
        weighted = (slopes * weight[:, None]).T.contiguous()
        self.inner.add_query_gradient(candidates, query, weighted, into)

    def rows(self, query: Tensor, tails: Tensor) -> Tensor:
        """Row by row."""
        return self.inner.rows(tails, query)
