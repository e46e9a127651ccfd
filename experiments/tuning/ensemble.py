"""Ensemble several runs of a model by adding their scores. Validation only.

    python experiments/tuning/ensemble.py runs/wn18rr/fivestar-d100-*-seed?

If a score is a sum over dimensions, the sum of the scores of three runs of dimension 100 is the
score of one model of dimension 300 with concatenated tables. So it is not a result of dimension 100
and not in the tables. Each ensemble is one line of results/ensembles.jsonl.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from fivestar.errors import SettingsError
from fivestar.evaluation.report import evaluate
from fivestar.experiments.records import append_record
from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct
from fivestar.runs.identity import learned_settings
from fivestar.runs.run import Run, build_model, load_run
from fivestar.runs.settings import make_settings

RESULTS = Path(__file__).parents[2] / "results" / "ensembles.jsonl"


def concatenated(runs: list[Run]) -> Model:
    """Return one model with the concatenated tables of all runs, block by block of `dim` columns.

    Raises:
        SettingsError: The runs differ in model or graph, or the score is not a sum over dimensions.
    """
    settings = [run.settings for run in runs]
    variants = {one.model.model_copy(update={"dim": 1}).model_dump_json() for one in settings}
    graphs = {run.graph.name for run in runs}
    model = runs[0].model
    if len(variants) > 1 or len(graphs) > 1:
        raise SettingsError("the runs are of different models or graphs; all must be equal")
    if not model.broadcasts or type(model.similarity) is not InnerProduct:
        raise SettingsError("the score of this model is not a sum over its dimensions")
    dims = [one.model.dim for one in settings]
    changes = settings[0].model_dump(exclude_none=True)
    changes["model"]["dim"] = sum(dims)
    ensemble = build_model(runs[0].graph, make_settings(changes))
    tables = [run.model.state_dict() for run in runs]
    ensemble.load_state_dict(
        {
            name: torch.cat(
                [table[name].unflatten(1, (-1, d)) for table, d in zip(tables, dims, strict=True)],
                dim=2,
            ).flatten(1)
            for name in tables[0]
        }
    )
    return ensemble


def main() -> None:
    """Evaluate each run and the ensemble on validation."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", type=Path)
    arguments.add_argument("--out", type=Path, default=RESULTS)
    given = arguments.parse_args()
    runs = [load_run(folder) for folder in given.runs]
    graph = runs[0].graph
    metrics = [
        {key: evaluate(model, graph, graph.valid).metrics()[key] for key in ("mrr", "hits@10")}
        for model in [*(run.model for run in runs), concatenated(runs)]
    ]
    line = {
        "data": graph.name,
        "seeds": [run.settings.training.seed for run in runs],
        "settings_values": learned_settings(runs[0].settings),
        "minutes": [round(run.metrics["seconds"] / 60, 2) for run in runs],
        "valid_of_runs": metrics[:-1],
        "valid_of_ensemble": metrics[-1],
    }
    append_record(given.out, line)
    for name, one in zip([*(f.name for f in given.runs), "ensemble"], metrics, strict=True):
        print(f"{name}: valid MRR {one['mrr']:.4f}, H@10 {one['hits@10']:.4f}")


if __name__ == "__main__":
    main()
