"""Does a warm start of 5★E from a trained ComplEx help? Equal time for all arms, on validation.

    FIVESTAR_DATA=... python experiments/warm_start/from_complex.py nell-995-h100 --minutes 4

Arms: 5★E from scratch (with either pairing), ComplEx, and ComplEx for the first third of the time,
converted and trained further as a 5★E. All use the same regularizer, which is the best on
validation for each of them (docs/decisions/0005). Writes the curves to results/warm_start.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import fivestar
from fivestar.experiments.ledger import provenance

OUT = Path(__file__).parents[2] / "results" / "warm_start.json"
FIVESTAR = {"name": "fivestar", "denominator": "mobius"}
ARMS: dict[str, dict[str, Any]] = {
    "5★E, hermitian": FIVESTAR,
    "5★E, bilinear": FIVESTAR | {"pairing": "bilinear"},
    "ComplEx": {"name": "complex"},
}


def train(arguments: argparse.Namespace, model: dict[str, Any], minutes: float, **more: Any) -> Any:
    """Train a model for some minutes."""
    training = {
        "objective": "softmax",
        "regularizer": "n3-transformed",
        "reg_weight": 0.1,
        "lr": more.pop("lr", 0.1),
        "epochs": 1000,
        "evaluate_every": 2,
        "max_minutes": minutes,
        "seed": arguments.seed,
    }
    settings = {"defaults": 1, "model": {"dim": arguments.dim, **model}, "training": training}
    return fivestar.train(fivestar.read_graph(arguments.graph), settings, **more)


def curve(run: fivestar.TrainedModel, before: float = 0.0) -> list[tuple[float, float]]:
    """Return the validation curve as (minutes, MRR)."""
    return [
        (round(before + line["seconds"] / 60, 2), round(line["valid_mrr"], 4))
        for line in run.history
        if "valid_mrr" in line
    ]


def main() -> None:
    """Train all arms, one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("graph", nargs="?", default="nell-995-h100")
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--dim", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1 / 3, help="share of the time for ComplEx")
    arguments = parser.parse_args()
    curves = {name: curve(train(arguments, m, arguments.minutes)) for name, m in ARMS.items()}
    with tempfile.TemporaryDirectory() as folder:
        first, second = Path(folder) / "complex", Path(folder) / "fivestar"
        complex_run = train(
            arguments, ARMS["ComplEx"], arguments.share * arguments.minutes, out=first
        )
        fivestar.load(first).to_fivestar().save(second)
        spent = complex_run.metrics["seconds"] / 60
        for lr in (0.1, 0.03):
            further = train(
                arguments, FIVESTAR, arguments.minutes - spent, lr=lr, warm_start=second
            )
            curves[f"ComplEx → 5★E, lr {lr}"] = curve(complex_run) + curve(further, spent)
    whole = {"settings": vars(arguments), "provenance": provenance(), "curves": curves}
    OUT.write_text(json.dumps(whole, ensure_ascii=False, indent=1))
    for name, points in curves.items():
        print(name, *(f"{minutes}:{mrr:.4f}" for minutes, mrr in points))


if __name__ == "__main__":
    main()
