"""Ensemble several runs of a model by adding their scores. Validation only.

    python experiments/tuning/ensemble.py runs/wn18rr/fivestar-d100-*-seed?

If a score is a sum over dimensions, the sum of the scores of three runs of dimension 100 is the
score of one model of dimension 300 with concatenated tables. So it is not a result of dimension 100
and not in the tables.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from fivestar.errors import SettingsError
from fivestar.evaluation.report import evaluate
from fivestar.models.base import Model
from fivestar.models.similarity import InnerProduct
from fivestar.runs.run import Run, build_model, load_run
from fivestar.runs.settings import make_settings


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
    folders = arguments.parse_args().runs
    runs = [load_run(folder) for folder in folders]
    graph = runs[0].graph
    names = [*(folder.name for folder in folders), "ensemble"]
    for name, model in zip(names, [*(run.model for run in runs), concatenated(runs)], strict=True):
        metrics = evaluate(model, graph, graph.valid).metrics()
        print(f"{name}: valid MRR {metrics['mrr']:.4f}, H@10 {metrics['hits@10']:.4f}")


if __name__ == "__main__":
    main()
