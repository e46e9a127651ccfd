"""Runs that come from other runs, or from other toolkits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fivestar.models import conversion
from fivestar.models.fivestar import Denominator
from fivestar.runs.run import Run
from fivestar.runs.settings import ModelSettings, Settings, TrainingSettings


def to_fivestar(
    run: Run, score: conversion.Score | None = None, denominator: Denominator = "mobius"
) -> Run:
    """The same run as a 5★E, with the same scores or (pRotatE) the same ranks.

    Its settings say how the model was trained; its metrics say what it was before.
    """
    found = conversion.to_fivestar(run.model, score, denominator)
    model = ModelSettings(name="fivestar", dim=found.dim, **found.options)
    settings = Settings(model=model, training=run.settings.training)
    origin = {
        "converted_from": run.settings.model.model_dump(exclude_none=True),
        "score_scale": found.scale,
        "score_shift": found.shift,
    }
    keys = ["epochs", "seconds"]
    if "refit" in run.metrics:  # it was trained on the validation facts, so they are not ranked
        keys += ["best_epoch", "valid", "refit"]
    kept = {key: run.metrics[key] for key in keys if key in run.metrics}
    return replace(run, settings=settings, model=found.model, metrics=kept | origin)


def from_pykeen(model: Any, triples_factory: Any) -> Run:
    """A run of a TransE, RotatE, DistMult or ComplEx that was trained in PyKEEN."""
    found = conversion.from_pykeen(model, triples_factory)
    training = TrainingSettings(objective="softmax", reciprocals=found.reciprocals)
    settings = Settings(
        model=ModelSettings(name=found.name, dim=found.dim, **found.options), training=training
    )
    return Run(found.graph, settings, found.model, {"from": "pykeen"})
