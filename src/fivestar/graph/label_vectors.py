"""Vectors of labels: character n-grams, weighted by TF-IDF, reduced by a truncated SVD.

Labels with common parts ("New York", "New York City") get similar vectors. Nothing is downloaded,
and no n-gram is hashed: each is a number in the base of the alphabet, so none collides.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fivestar.errors import SettingsError
from fivestar.graph.vector_files import NamedVectors
from fivestar.graph.vocabulary import Vocabulary

LENGTHS = (3, 4, 5)
# Of an alphabet of at most this many characters, 5-grams are numbers of less than 63 bits.
_MAX_ALPHABET = 4096
# n-grams of fewer labels say nothing about other labels, and those of most labels neither.
_MIN_LABELS, _MAX_SHARE = 2, 0.5
# Of the randomized SVD (Halko et al. 2011).
_OVERSAMPLING, _ITERATIONS = 20, 4

Ints = npt.NDArray[np.int64]


def label_vectors(entities: Vocabulary, dim: int) -> NamedVectors:
    """Return vectors of the labels of entities; of the names, where there are no labels.

    Args:
        entities: the entities.
        dim: the dimension; less if the labels have fewer n-grams.

    Raises:
        SettingsError: No two labels have an n-gram in common.

    >>> entities = Vocabulary("entity", ["New York", "New York City", "Paris", "Paris, Texas"])
    >>> vectors = label_vectors(entities, 2).vectors
    >>> bool(vectors[0] @ vectors[1] > 0.5 > abs(vectors[0] @ vectors[2]))
    True
    """
    texts = entities.labels_of(np.arange(len(entities)))
    rows, columns, counts = count_ngrams(texts)
    found = np.bincount(columns) if len(columns) else np.zeros(0, np.int64)
    is_kept = (found >= _MIN_LABELS) & (found <= max(_MIN_LABELS, _MAX_SHARE * len(texts)))
    if not is_kept.any():
        raise SettingsError("the labels have nothing in common: give a file of entity vectors")
    new_column = np.cumsum(is_kept) - 1
    kept = is_kept[columns]
    rows, columns, counts = rows[kept], columns[kept], counts[kept]
    weights = (1 + np.log(counts)) * (1 + np.log(len(texts) / found[columns]))
    norms = np.sqrt(np.bincount(rows, weights**2, minlength=len(texts)))
    matrix = torch.sparse_coo_tensor(
        torch.tensor(np.stack([rows, new_column[columns]])),
        torch.tensor((weights / norms[rows]).astype(np.float32)),
        (len(texts), int(is_kept.sum())),
        check_invariants=True,
    )
    names = [str(name) for name in entities]
    return NamedVectors(names, _truncated_svd(matrix, dim).numpy(), "labels")


def count_ngrams(texts: list[str]) -> tuple[Ints, Ints, Ints]:
    """Return the n-grams of texts as (text, n-gram, count), n-grams numbered from 0.

    Case does not count, and everything that is no letter or digit separates words.
    """
    plain = [f" {' '.join(_words(text))} " for text in texts]
    owner = np.repeat(np.arange(len(plain)), [len(text) for text in plain])
    points = np.frombuffer("".join(plain).encode("utf-32-le"), np.uint32)
    letters, numbers, frequency = np.unique(points, return_inverse=True, return_counts=True)
    if len(letters) > _MAX_ALPHABET:  # all rare characters count as one
        rare = np.argsort(-frequency, kind="stable")[_MAX_ALPHABET - 1 :]
        rank = np.arange(len(letters))
        rank[rare] = rare[0]
        numbers = np.unique(rank, return_inverse=True)[1][numbers]
    base = min(len(letters), _MAX_ALPHABET)
    owners, columns, first = [], [], 0
    for length in LENGTHS:
        codes = np.zeros(max(0, len(numbers) - length + 1), np.int64)
        for offset in range(length):
            codes = codes * base + numbers[offset : offset + len(codes)]
        is_within = owner[: len(codes)] == owner[length - 1 : length - 1 + len(codes)]
        distinct, column = np.unique(codes[is_within], return_inverse=True)
        owners.append(owner[: len(codes)][is_within])
        columns.append(column + first)
        first += len(distinct)
    pairs = np.concatenate(owners) * max(first, 1) + np.concatenate(columns)
    pairs, counts = np.unique(pairs, return_counts=True)
    return pairs // max(first, 1), pairs % max(first, 1), counts


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


def _truncated_svd(matrix: Tensor, dim: int) -> Tensor:
    """Return the rows of a sparse matrix in the space of its first singular vectors."""
    matrix, turned = matrix.coalesce(), matrix.t().coalesce()
    width = min(dim + _OVERSAMPLING, *matrix.shape)
    start = torch.randn(matrix.shape[1], width, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr(torch.sparse.mm(matrix, start))[0]
    for _ in range(_ITERATIONS):
        basis = torch.linalg.qr(torch.sparse.mm(turned, basis))[0]
        basis = torch.linalg.qr(torch.sparse.mm(matrix, basis))[0]
    small = torch.sparse.mm(turned, basis).double()  # (n-grams, width)
    squares, left = torch.linalg.eigh(small.T @ small)
    first = squares.argsort(descending=True)[:dim]
    reduced: Tensor = (basis @ left[:, first].float()) * squares[first].clamp(min=0).sqrt().float()
    return reduced
