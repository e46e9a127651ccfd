"""Artificial ledger lines."""

from __future__ import annotations

from fivestar.experiments.ledger import Entry
from fivestar.runs.identity import learned_settings, settings_hash
from fivestar.runs.settings import make_settings


def metrics(mrr):
    return {"mrr": mrr, "hits@1": mrr / 2, "hits@3": mrr, "hits@10": min(1, mrr * 1.5)}


def entry(data="wn18rr", model="fivestar", dim=100, seed=0, reg=0.1, valid=0.4, test=0.3, **more):
    settings = make_settings(
        {"defaults": 1, "model": {"name": model, "dim": dim}, "training": {"reg_weight": reg}}
    )
    line = {
        "experiment": "artificial",
        "model": model,
        "data": data,
        "dim": dim,
        "settings": settings_hash(settings),
        "settings_values": learned_settings(settings),
        "seed": seed,
        "epochs": 30,
        "best_epoch": 20,
        "minutes": 1.5,
        "machine": "a machine",
        "commit": "abc",
        "date": "2026-01-01",
        "valid": metrics(valid),
        "test": metrics(test),
        **more,
    }
    return Entry.model_validate(line)
