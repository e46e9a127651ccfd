"""Labels of runs in figures."""

from __future__ import annotations

import pytest

import fivestar
from fivestar.analysis.labels import model_label, run_labels
from fivestar.models.registry import MODELS
from fivestar.runs.run import Run, build_model

GRAPH = fivestar.read_graph([("a", "r", "b"), ("b", "r", "c")])


def run_of(name, *, seed=0, lr=0.1, **options):
    model = {"name": name, "dim": 2, **options}
    settings = fivestar.make_settings({"model": model, "training": {"seed": seed, "lr": lr}})
    return Run(GRAPH, settings, build_model(GRAPH, settings))


def test_models_are_written_as_in_papers():
    labels = {name: model_label(name) for name in MODELS.usable()[0]}
    assert labels["fivestar"] == "5★E"
    assert labels["protate"] == "pRotatE"
    # Its name is only written differently.
    assert all(label.lower() == name for name, label in labels.items() if name != "fivestar")


@pytest.mark.parametrize(
    ("runs", "labels"),
    [
        ([run_of("fivestar", denominator="phase")], ["5★E"]),
        ([run_of("fivestar"), run_of("complex"), run_of("rotate")], ["5★E", "ComplEx", "RotatE"]),
        (
            [run_of("fivestar"), run_of("complex"), run_of("fivestar", denominator="phase", lr=1)],
            ["5★E (mobius)", "ComplEx", "5★E (phase)"],
        ),
        (
            [
                run_of("fivestar", denominator=denominator, pairing=pairing)
                for denominator, pairing in (
                    ("mobius", "hermitian"),
                    ("phase", "hermitian"),
                    ("phase", "bilinear"),
                )
            ],
            ["5★E (mobius, hermitian)", "5★E (phase, hermitian)", "5★E (phase, bilinear)"],
        ),
        ([run_of("quate", seed=n) for n in (0, 1)], ["QuatE (seed 0)", "QuatE (seed 1)"]),
        ([run_of("complex", lr=n) for n in (0.1, 0.5)], ["ComplEx (lr 0.1)", "ComplEx (lr 0.5)"]),
        ([run_of("cp"), run_of("cp")], ["CP (1)", "CP (2)"]),
    ],
)
def test_labels_are_as_short_as_they_can_be_different(runs, labels):
    assert run_labels(runs) == labels
