from __future__ import annotations

from dataclasses import replace

import torch
import yaml
from tests.graphs import people_graph

from fivestar.runs.model_card import model_card
from fivestar.runs.run import Run, build_model
from fivestar.runs.settings import make_settings

VALID = {"mrr": 0.51234, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 1.0}


def card(metrics, trials=()):
    graph = people_graph()
    settings = make_settings({"model": {"name": "complex", "dim": 3}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    run = Run(graph, settings, model, metrics=metrics)
    lines = model_card(run, list(trials)).splitlines()
    end = lines.index("---", 1)
    # The front matter apart, and from the heading on.
    return lines[end - 3 :] if "valid" not in metrics else ["---"] * 4 + lines[end + 1 :], run


def front_matter(metrics, name="people"):
    graph = replace(people_graph(), name=name)
    settings = make_settings({"model": {"name": "complex", "dim": 3}})
    run = Run(graph, settings, build_model(graph, settings), metrics=metrics)
    _, top, _ = model_card(run, []).split("---\n", 2)
    return yaml.safe_load(top)


def test_the_front_matter_of_the_hub():
    top = front_matter({})
    assert top["library_name"] == "fivestar-kge"
    assert top["pipeline_tag"] == "graph-ml"
    assert top["tags"] == ["knowledge-graph-embeddings", "link-prediction", "complex"]
    assert "model-index" not in top
    for name in ("people", 'a "b": {c}\n--- #d', "– ★"):
        (entry,) = front_matter({"valid": VALID}, name)["model-index"]
        assert entry["name"] == f"complex on {name}"
        (result,) = entry["results"]
        assert result["task"]["type"] == "graph-ml"
        assert result["dataset"] == {"type": name, "name": name, "split": "valid"}
        values = {metric["type"]: metric["value"] for metric in result["metrics"]}
        assert values == {**VALID, "mrr": 0.5123}


def test_a_run_without_validation():
    lines, run = card({"epochs": 3, "seconds": 90})
    graph = run.graph
    assert lines[:4] == [
        "library_name: fivestar-kge",
        "pipeline_tag: graph-ml",
        'tags: [knowledge-graph-embeddings, link-prediction, "complex"]',
        "---",
    ]
    assert lines[4] == f"# complex, dimension 3, on {graph.name}"
    assert lines[6] == (
        f"{len(graph.entities)} entities, 2 relations, {len(graph.train)} training triples. "
        "3 epochs in 1.5 minutes."
    )
    assert lines[5] == lines[7] == lines[9] == ""
    assert lines[8].startswith('`fivestar.load("RUN")` loads it')
    assert lines[10] == "```toml"
    assert "\n".join(lines[11:-1]) == run.settings.as_toml()
    assert lines[-1] == "```"


def test_a_run_that_was_not_trained():
    assert card({})[0][6].endswith("triples. 0 epochs in 0.0 minutes.")


def test_validation_metrics():
    lines, _ = card({"valid": VALID, "validation": {"triples": 12, "ranked": 12}})
    assert lines[10:15] == [
        "| split | MRR | H@1 | H@3 | H@10 |",
        "|---|---|---|---|---|",
        "| valid | 0.512 | 0.250 | 0.500 | 1.000 |",
        "",
        "```toml",
    ]
    lines, _ = card({"valid": {**VALID, "self_answer_rate": 0.0}})
    assert lines[14:16] == [
        "Self-answer rate on valid: 0.0% (queries whose own entity outranks the target).",
        "",
    ]


def test_notes_on_a_sample_and_a_refit():
    sample = {"triples": 12_000, "ranked": 1_500}
    lines, _ = card(
        {"valid": VALID, "validation": sample, "refit": {"train_triples": 2_000, "epochs": 7}}
    )
    assert lines[10:12] == ["Ranked: 1,500 of 12,000 validation triples.", ""]
    assert lines[12].startswith(
        "Refit on 2,000 triples (train and valid) for 7 epochs; the metrics"
    )
    assert lines[13:15] == ["", "| split | MRR | H@1 | H@3 | H@10 |"]


def test_trials_of_a_time_budget():
    trial = {
        "trial": 0,
        "model": "complex",
        "settings": {"lr": 0.123456, "dim": 4, "decay": "linear"},
        "rung": 1,
        "epochs": 5,
        "minutes": 0.5,
        "valid_mrr": 0.25,
        "state": "best",
    }
    unfinished = {**trial, "trial": 1, "settings": {}, "state": "stopped"}
    del unfinished["minutes"], unfinished["valid_mrr"]
    lines, _ = card({"budget": {"seconds": 60}}, [trial, unfinished])
    start = lines.index("## Trials")
    assert lines[start + 1 : start + 7] == [
        "",
        "| trial | model | settings | rung | epochs | minutes | valid MRR | |",
        "|---|---|---|---|---|---|---|---|",
        "| 0 | complex | lr 0.123, dim 4, decay linear | 1 | 5 | 0.5 | 0.2500 | best |",
        "| 1 | complex |  | 1 | 5 |  |  | stopped |",
        "",
    ]
    assert "## Trials" not in card({"budget": {"seconds": 60}})[0]
    assert "## Trials" not in card({}, [trial])[0]
