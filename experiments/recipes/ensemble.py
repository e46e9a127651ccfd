"""Several runs of one model as one: their scores are added. Validation only.

    python experiments/recipes/ensemble.py runs/wn18rr/fivestar-d100-*-seed?

Where a score is a sum over dimensions, the sum of the scores of three runs of dimension 100 is the
score of one model of dimension 300 whose tables are theirs side by side. So it is no figure of
dimension 100, and stands apart from the tables.
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


def joined(runs: list[Run]) -> Model:
    """One model with the tables of all, each of whose blocks of `dim` columns grows by theirs."""
    settings = [run.settings for run in runs]
    kinds = {one.model.model_copy(update={"dim": 1}).model_dump_json() for one in settings}
    graphs = {run.graph.name for run in runs}
    model = runs[0].model
    if len(kinds) > 1 or len(graphs) > 1:
        raise SettingsError("the runs are of different models or graphs; give runs of one")
    if not model.broadcasts or type(model.similarity) is not InnerProduct:
        raise SettingsError("the score of this model is no sum over its dimensions")
    dims = [one.model.dim for one in settings]
    changes = settings[0].model_dump(exclude_none=True)
    changes["model"]["dim"] = sum(dims)
    together = build_model(runs[0].graph, make_settings(changes))
    tables = [run.model.state_dict() for run in runs]
    together.load_state_dict(
        {
            name: torch.cat(
                [table[name].unflatten(1, (-1, d)) for table, d in zip(tables, dims, strict=True)],
                dim=2,
            ).flatten(1)
            for name in tables[0]
        }
    )
    return together


def main() -> None:
    """Rank the validation triples by each run, and by all together."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("runs", nargs="+", type=Path)
    folders = arguments.parse_args().runs
    runs = [load_run(folder) for folder in folders]
    graph = runs[0].graph
    names = [*(folder.name for folder in folders), "together"]
    for name, model in zip(names, [*(run.model for run in runs), joined(runs)], strict=True):
        found = evaluate(model, graph, graph.valid).figures()
        print(f"{name}: valid MRR {found['mrr']:.4f}, H@10 {found['hits@10']:.4f}")


if __name__ == "__main__":
    main()
