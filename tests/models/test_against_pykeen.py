"""The same weights give the same scores as PyKEEN's interaction functions."""

from __future__ import annotations

import pytest
import torch
from tests.models.forms import made

pytestmark = [pytest.mark.pykeen, pytest.mark.filterwarnings("ignore")]

DIM = 12


def halves(rows):
    return rows.chunk(2, dim=-1)


def as_complex(rows):
    return torch.complex(*halves(rows))


def quaternions(rows):
    return torch.stack(rows.chunk(4, dim=-1), dim=-1)


def transe(nn, model, h, r, t, p):
    return nn.TransEInteraction(p=p, power_norm=False)(h, r, t)


def rotate(nn, model, h, r, t):
    rotation = torch.polar(torch.ones_like(r), r)
    return nn.RotatEInteraction()(as_complex(h), rotation, as_complex(t))


def simple(nn, model, h, r, t):
    (h1, h2), (t1, t2) = halves(h), halves(t)
    return nn.SimplEInteraction()((h1, h2), halves(r), (t2, t1))


def mure(nn, model, h, r, t):
    scale, shift = halves(r)
    theirs = nn.MuREInteraction(p=2, power_norm=True)
    return theirs((h[:, :-2], h[:, -1]), (-shift, scale), (t[:, :-2], t[:, -2]))


def quate(nn, model, h, r, t):
    direction = quaternions(r)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    # PyKEEN's score is the paper's times −1 (a comment in its code asks why).
    return -nn.QuatEInteraction().double()(quaternions(h), direction, quaternions(t))


def rescal(nn, model, h, r, t):
    return nn.RESCALInteraction()(h, r.view(-1, DIM, DIM), t)


def tucker(nn, model, h, r, t):
    theirs = nn.TuckERInteraction(
        embedding_dim=DIM, relation_dim=3, head_dropout=0, relation_dropout=0,
        head_relation_dropout=0, apply_batch_normalization=True,
    ).double()  # fmt: skip
    with torch.no_grad():
        theirs.core_tensor.copy_(model.core.transpose(0, 1))
        for mine, other in (
            (model.head_norm, theirs.head_batch_norm),
            (model.moved_norm, theirs.head_relation_batch_norm),
        ):
            other.load_state_dict(mine.state_dict())
    return theirs.eval()(h, r, t)


def conve(nn, model, h, r, t):
    theirs = nn.ConvEInteraction(
        embedding_dim=DIM, embedding_height=model.height,
        input_channels=1, output_channels=32, kernel_height=3, kernel_width=3, input_dropout=0,
        feature_map_dropout=0, output_dropout=0, apply_batch_normalization=True,
    ).double()  # fmt: skip
    layers = [m for m in theirs.modules() if not list(m.children()) and list(m.parameters())]
    ours = [
        model.picture_norm,
        model.convolution,
        model.feature_norm,
        model.dense,
        model.moved_norm,
    ]
    assert len(layers) == len(ours)
    for layer, mine in zip(layers, ours, strict=True):
        layer.load_state_dict(mine.state_dict())
    return theirs.eval()(h[:, :-1], r, (t[:, :-1], t[:, -1]))


THEIRS = {
    "transe l1": lambda *rest: transe(*rest, p=1),
    "transe l2": lambda *rest: transe(*rest, p=2),
    "rotate l2": rotate,
    "distmult": lambda nn, model, h, r, t: nn.DistMultInteraction()(h, r, t),
    "complex": lambda nn, model, h, r, t: nn.ComplExInteraction()(*map(as_complex, (h, r, t))),
    "simple": simple,
    "tucker": tucker,
    "quate": quate,
    "rescal": rescal,
    "conve": conve,
    "mure": mure,
}


@pytest.mark.parametrize("form", THEIRS)
def test_scores_equal_those_of_pykeen(form):
    nn = pytest.importorskip("pykeen.nn.modules")
    model = made(form, entities=9, relations=3, dim=DIM)
    h, r, t = (torch.arange(n) % m for n, m in ((9, 9), (9, 3), (9, 9)))
    t = t.flip(0)
    with torch.no_grad():
        expected = THEIRS[form](nn, model, model.entities[h], model.relations[r], model.entities[t])
        scores = model.score(h, r, t)
    torch.testing.assert_close(scores, expected.view(-1), rtol=1e-6, atol=1e-9)
