"""A convolution over head and relation, laid out as a picture."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fivestar.models.base import Model
from fivestar.models.layers import init_uniform_, init_xavier_normal_, normalised
from fivestar.models.similarity import Biased, InnerProduct

_CHANNELS = 32
_KERNEL = 3


class ConvE(Model):
    """s = relu(vec(relu([h; r] * ω)) W) · t + b_t (Dettmers et al., AAAI 2018).

    d + 1 reals an entity ([t | b_t]), d a relation; besides, 32 filters of 3 × 3 and a dense layer
    of (2 height − 2)(width − 2) 32 × d, where height · width = d. No transformation of the plane: a
    network. Dropout as published: of the picture, of the feature maps and of the moved head.
    """

    def __init__(
        self,
        entities: int,
        relations: int,
        dim: int,
        *,
        input_dropout: float = 0.2,
        feature_dropout: float = 0.2,
        hidden_dropout: float = 0.3,
    ) -> None:
        super().__init__(entities, relations, dim + 1, dim, Biased(InnerProduct()))
        self.height, self.width = _picture(dim)
        self.picture_norm = nn.BatchNorm2d(1)
        self.picture_dropout = nn.Dropout(input_dropout)
        self.convolution = nn.Conv2d(1, _CHANNELS, _KERNEL, padding=_padding(self.width))
        self.feature_norm = nn.BatchNorm2d(_CHANNELS)
        self.feature_dropout = nn.Dropout2d(feature_dropout)
        shape = self.convolution(torch.zeros(1, 1, 2 * self.height, self.width)).shape
        self.dense = nn.Linear(shape[1:].numel(), dim)
        self.moved_dropout = nn.Dropout(hidden_dropout)
        self.moved_norm = nn.BatchNorm1d(dim)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Normal tables without biases, uniform layers."""
        for table in (self.entities[:, :-1], self.relations):
            init_xavier_normal_(table.detach(), generator)
        with torch.no_grad():
            self.entities[:, -1] = 0
        for layer in (self.convolution, self.dense):
            init_uniform_(layer.weight, layer.bias, generator)

    @property
    def scratch_per_query(self) -> int:
        """The feature maps after each layer, and their gradients."""
        return super().scratch_per_query + 16 * self.dense.in_features

    def transform(self, head: Tensor, relation: Tensor) -> Tensor:
        """The network, and a bias of 0."""
        pictures = [x.reshape(-1, 1, self.height, self.width) for x in (head[..., :-1], relation)]
        x = self.picture_dropout(normalised(self.picture_norm, torch.cat(pictures, dim=2)))
        x = normalised(self.feature_norm, self.convolution(x)).relu()
        x = self.moved_dropout(self.dense(self.feature_dropout(x).flatten(1)))
        x = normalised(self.moved_norm, x).relu()
        # Not len(x): torch.export would take the batch of its example for the only one.
        return torch.cat([x, x.new_zeros(x.shape[0], 1)], dim=1)

    def head_squared_moduli(self, head: Tensor) -> Tensor:
        """Squares, without the bias."""
        return head[..., :-1].square()

    def squared_moduli(self, points: Tensor) -> Tensor:
        """Squares, without the bias."""
        return points[..., :-1].square()


def _picture(dim: int) -> tuple[int, int]:
    """Height and width of d numbers, the width as near to √d as it can be.

    >>> _picture(200), _picture(100), _picture(7)
    ((20, 10), (10, 10), (7, 1))
    """
    width = max(w for w in range(1, int(dim**0.5) + 1) if dim % w == 0)
    return dim // width, width


def _padding(width: int) -> int:
    """A picture narrower than the filter is given a margin."""
    return 0 if width >= _KERNEL else 1
