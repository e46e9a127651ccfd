"""Models with layers: batch normalization and dropout around a shared core or a convolution."""

from __future__ import annotations

from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from fivestar.models.base import Model
from fivestar.models.products import trained_product
from fivestar.models.similarity import Biased, InnerProduct

_CHANNELS = 32
_KERNEL = 3

InputDropout = Annotated[float, Field(ge=0, lt=1, description="Dropout rate of the input.")]
FeatureDropout = Annotated[
    float,
    Field(ge=0, lt=1, description="Dropout rate of the feature maps or of the relation matrix."),
]
HiddenDropout = Annotated[
    float, Field(ge=0, lt=1, description="Dropout rate of the transformed head.")
]
RelationDim = Annotated[
    int | None, Field(ge=1, description="Dimensions of a relation. (default: dim)")
]


class TuckER(Model):
    """s = W ×₁ h ×₂ r ×₃ t (Balažević et al., EMNLP 2019).

    d reals per entity, d_r per relation (`relation_dim`, by default d), and a shared core W of
    d · d_r · d. Every linear map, a mixture of those in the core; all relation patterns but the
    translation. Batch normalization and dropout as published: of the head, of the relation matrix
    and of the transformed head.
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        dim: int,
        *,
        relation_dim: RelationDim = None,
        input_dropout: InputDropout = 0.3,
        feature_dropout: FeatureDropout = 0.4,
        hidden_dropout: HiddenDropout = 0.5,
    ) -> None:
        width = relation_dim or dim
        super().__init__(num_entities, num_relations, dim, width, InnerProduct())
        self.core = nn.Parameter(torch.empty(width, dim, dim))
        self.head_norm = nn.BatchNorm1d(dim)
        self.moved_norm = nn.BatchNorm1d(dim)  # saved runs have it under this name
        self.head_dropout = nn.Dropout(input_dropout)
        self.matrix_dropout = nn.Dropout(feature_dropout)
        self.query_dropout = nn.Dropout(hidden_dropout)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the tables normal, the core uniform."""
        for table in (self.entities, self.relations):
            _init_xavier_normal(table, generator)
        with torch.no_grad():
            self.core.uniform_(-1, 1, generator=generator)

    @property
    def scratch_per_query(self) -> int:
        """The matrix of the relation, its dropout, and their gradients."""
        return super().scratch_per_query + 8 * self.entities.shape[1] ** 2

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return hᵀ (W ×₂ r)."""
        dim = head.shape[-1]
        matrix = trained_product(relation, self.core.flatten(1)).view(-1, dim, dim)
        row = self.head_dropout(_batch_norm(self.head_norm, head))
        query = torch.bmm(row[:, None], _drop_out(self.matrix_dropout, matrix)).squeeze(1)
        dropped: Tensor = self.query_dropout(_batch_norm(self.moved_norm, query))
        return dropped


class ConvE(Model):
    """s = relu(vec(relu([h; r] * ω)) W) · t + b_t (Dettmers et al., AAAI 2018).

    d + 1 reals per entity ([t | b_t]), d per relation; besides, 32 filters of 3 × 3 and a dense
    layer of (2 height − 2)(width − 2) 32 × d, where height · width = d. A network, with no
    geometric reading. Dropout as published: of the image, of the feature maps and of the
    transformed head.
    """

    def __init__(
        self,
        num_entities: int,
        num_relations: int,
        dim: int,
        *,
        input_dropout: InputDropout = 0.2,
        feature_dropout: FeatureDropout = 0.2,
        hidden_dropout: HiddenDropout = 0.3,
    ) -> None:
        super().__init__(num_entities, num_relations, dim + 1, dim, Biased(InnerProduct()))
        self.height, self.width = _image_shape(dim)
        self.picture_norm = nn.BatchNorm2d(1)  # saved runs have it under this name
        self.image_dropout = nn.Dropout(input_dropout)
        self.convolution = nn.Conv2d(1, _CHANNELS, _KERNEL, padding=_padding(self.width))
        self.feature_norm = nn.BatchNorm2d(_CHANNELS)
        self.feature_dropout = nn.Dropout2d(feature_dropout)
        shape = self.convolution(torch.zeros(1, 1, 2 * self.height, self.width)).shape
        self.dense = nn.Linear(shape[1:].numel(), dim)
        self.query_dropout = nn.Dropout(hidden_dropout)
        self.moved_norm = nn.BatchNorm1d(dim)  # saved runs have it under this name

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialize the tables normal, the biases 0, the layers uniform."""
        for table in (self.entities[:, :-1], self.relations):
            _init_xavier_normal(table.detach(), generator)
        with torch.no_grad():
            self.entities[:, -1] = 0
        for layer in (self.convolution, self.dense):
            _init_uniform(layer.weight, layer.bias, generator)

    @property
    def scratch_per_query(self) -> int:
        """The feature maps after each layer, and their gradients."""
        return super().scratch_per_query + 16 * self.dense.in_features

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """Return the output of the network, and a bias of 0."""
        images = [x.reshape(-1, 1, self.height, self.width) for x in (head[..., :-1], relation)]
        x = self.image_dropout(_batch_norm(self.picture_norm, torch.cat(images, dim=2)))
        x = _batch_norm(self.feature_norm, self.convolution(x)).relu()
        x = self.feature_dropout(x).flatten(1)
        x = self.query_dropout(trained_product(x, self.dense.weight.T) + self.dense.bias)
        x = _batch_norm(self.moved_norm, x).relu()
        # Not len(x): torch.export would fix the batch size to that of its example.
        return torch.cat([x, x.new_zeros(x.shape[0], 1)], dim=1)

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Return squares, without the bias."""
        return head[..., :-1].square()

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Return squares, without the bias."""
        return points[..., :-1].square()


def _image_shape(dim: int) -> tuple[int, int]:
    """Return height and width of an image of d numbers, the width as near to √d as possible.

    >>> _image_shape(200), _image_shape(100), _image_shape(7)
    ((20, 10), (10, 10), (7, 1))
    """
    width = max(w for w in range(1, int(dim**0.5) + 1) if dim % w == 0)
    return dim // width, width


def _padding(width: int) -> int:
    """Return the padding: 1 for an image narrower than the filter."""
    return 0 if width >= _KERNEL else 1


def _batch_norm(layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor) -> Tensor:
    """Apply batch normalization; a single row has no variance and uses the running statistics."""
    if layer.training and len(x) > 1:
        normalized: Tensor = layer(x)
        return normalized
    return nn.functional.batch_norm(
        x, layer.running_mean, layer.running_var, layer.weight, layer.bias, eps=layer.eps
    )


def _drop_out(layer: nn.Dropout, x: Tensor) -> Tensor:
    """Apply dropout to a large tensor.

    On a CPU from 16 random bits per number, which takes a fifth of the time of torch's own
    dropout; the rate is exact to 2⁻¹⁶.
    """
    if not layer.training or not layer.p or x.device.type != "cpu":
        dropped: Tensor = layer(x)
        return dropped
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    dropped_values = min(round(layer.p * 2**16), 2**16 - 1)
    is_kept = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped_values - 2**15
    return x * is_kept.mul(2**16 / (2**16 - dropped_values))


def _init_uniform(weight: Tensor, bias: Tensor | None, generator: torch.Generator) -> None:
    """Initialize a layer as torch does by default, but from the given generator."""
    bound = weight[0].numel() ** -0.5
    with torch.no_grad():
        weight.uniform_(-bound, bound, generator=generator)
        if bias is not None:
            bias.uniform_(-bound, bound, generator=generator)


def _init_xavier_normal(table: Tensor, generator: torch.Generator) -> None:
    """Initialize a table as normal with the variance of Glorot and Bengio (2010)."""
    with torch.no_grad():
        table.normal_(generator=generator).mul_((2 / sum(table.shape)) ** 0.5)
