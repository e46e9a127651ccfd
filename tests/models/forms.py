"""Every model in every form, small, with random parameters."""

from __future__ import annotations

import torch

from fivestar.models.registry import make_model

FORMS = {
    "distmult": ("distmult", {}),
    "complex": ("complex", {}),
    "cp": ("cp", {}),
    "simple": ("simple", {}),
    "rescal": ("rescal", {}),
    "quate": ("quate", {}),
    "tucker": ("tucker", {"relation_dim": 3}),
    "conve": ("conve", {}),
    "transe l1": ("transe", {"norm": "l1"}),
    "transe l2": ("transe", {"norm": "l2"}),
    "mure": ("mure", {}),
    "murp": ("murp", {}),
    "rotate": ("rotate", {}),
    "rotate l2": ("rotate", {"norm": "l2"}),
    "protate l1": ("protate", {"norm": "l1"}),
    "protate l2": ("protate", {"norm": "l2"}),
    "fivestar mobius hermitian l1": ("fivestar", {"score": "distance", "norm": "l1"}),
    "fivestar mobius hermitian modulus": ("fivestar", {"score": "distance", "norm": "modulus"}),
    **{
        f"fivestar {denominator} {pairing} {score}": (
            "fivestar",
            {"denominator": denominator, "pairing": pairing, "score": score},
        )
        for denominator in ("mobius", "phase", "none")
        for pairing in ("hermitian", "bilinear")
        for score in ("inner", "distance")
    },
}


def made(form, entities=7, relations=3, dim=4, dtype=torch.float64, scale=1.0, **more):
    name, options = FORMS[form]
    model = make_model(name, entities, relations, dim, **{**options, **more}).to(dtype)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for table in model.parameters():
            table.copy_(torch.randn(table.shape, generator=generator, dtype=dtype) * scale)
        for point in model.manifold_parameters(model.entities, model.relations):
            point.mul_(0.2 / scale)  # inside the ball
    return model.eval()
