"""The model card of a run: its README.md, with the front matter that the Hugging Face Hub reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fivestar.runs.run import Run

_HITS = ("hits@1", "hits@3", "hits@10")
_HOW_TO_LOAD = (
    '`fivestar.load("RUN")` loads it (`pip install fivestar-kge`), from its folder or its address '
    "(`hf://owner/name`)."
)


def model_card(run: Run, trials: list[dict[str, Any]]) -> str:
    """Return the README.md of a run, in the format of Hugging Face model cards.

    Args:
        run: The trained run.
        trials: The lines of trials.jsonl; empty without a time budget.
    """
    model, graph = run.settings.model, run.graph
    size = (
        f"{len(graph.entities):,} entities, {len(graph.relations):,} relations, "
        f"{len(graph.train):,} training triples. {run.metrics.get('epochs', 0)} epochs in "
        f"{run.metrics.get('seconds', 0) / 60:.1f} minutes."
    )
    lines = [
        *_front_matter(run),
        f"# {model.name}, dimension {model.dim}, on {graph.name}",
        "",
        size,
        "",
        _HOW_TO_LOAD,
        "",
    ]
    if "entity_vectors" in run.metrics:
        used = run.metrics["entity_vectors"]
        text = (
            f"Given vectors of {used['entities']:,} entities ({used['use']}; {used['source']}, "
            f"SHA-256 {used['sha256'] or 'none'}); {used['filled']:,} entities without a training "
            "triple got predicted embeddings."
        )
        lines += [text, ""]
    if "valid" in run.metrics:
        scores = [f"{run.metrics['valid'][key]:.3f}" for key in ("mrr", *_HITS)]
        lines += [
            *_validation_notes(run.metrics),
            "| split | MRR | H@1 | H@3 | H@10 |",
            "|---|---|---|---|---|",
            f"| valid | {' | '.join(scores)} |",
            "",
        ]
        rate = run.metrics["valid"].get("self_answer_rate")
        if rate is not None:  # runs of older versions have none
            meaning = "queries whose own entity outranks the target"
            lines += [f"Self-answer rate on valid: {rate:.1%} ({meaning}).", ""]
    if "budget" in run.metrics and trials:
        lines += _trials_table(trials)
    return "\n".join([*lines, "```toml", run.settings.as_toml(), "```", ""])


def _front_matter(run: Run) -> list[str]:
    """Return what the Hub shows beside the card and in its search: YAML, its values in JSON."""
    model, graph = run.settings.model.name, run.graph.name
    lines = [
        "---",
        "library_name: fivestar-kge",
        "pipeline_tag: graph-ml",
        f"tags: [knowledge-graph-embeddings, link-prediction, {_quoted(model)}]",
    ]
    if "valid" in run.metrics:
        named = zip(("mrr", *_HITS), ("MRR", "Hits@1", "Hits@3", "Hits@10"), strict=True)
        lines += [
            "model-index:",
            f"- name: {_quoted(f'{model} on {graph}')}",
            "  results:",
            "  - task: {type: graph-ml, name: Link prediction}",
            f"    dataset: {{type: {_quoted(graph)}, name: {_quoted(graph)}, split: valid}}",
            "    metrics:",
            *(
                f"    - {{type: {_quoted(key)}, name: {_quoted(f'{name} (filtered)')}, "
                f"value: {run.metrics['valid'][key]:.4f}}}"
                for key, name in named
            ),
        ]
    return [*lines, "---"]


def _quoted(text: str) -> str:
    """Return a text as JSON, which YAML reads whatever the text contains."""
    return json.dumps(text)


def _trials_table(trials: list[dict[str, Any]]) -> list[str]:
    """Return the settings that were compared within a time budget, as a table."""
    lines = [
        "## Trials",
        "",
        "| trial | model | settings | rung | epochs | minutes | valid MRR | |",
    ]
    lines.append("|---|---|---|---|---|---|---|---|")
    for trial in trials:
        settings = ", ".join(
            f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in trial["settings"].items()
        )
        mrr = trial.get("valid_mrr")
        cells = [trial["trial"], trial["model"], settings, trial["rung"], trial["epochs"]]
        cells += [trial.get("minutes", ""), "" if mrr is None else f"{mrr:.4f}", trial["state"]]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return [*lines, ""]


def _validation_notes(metrics: dict[str, Any]) -> list[str]:
    """Return notes on the validation metrics: a sample of the triples, or a refit."""
    notes = []
    size = metrics.get("validation", {})
    if size.get("ranked") != size.get("triples"):
        notes += [f"Ranked: {size['ranked']:,} of {size['triples']:,} validation triples.", ""]
    if "refit" in metrics:
        refit = metrics["refit"]
        text = (
            f"Refit on {refit['train_triples']:,} triples (train and valid) for {refit['epochs']} "
            "epochs; the metrics are those of the model before the refit, which was not trained on "
            "the validation triples."
        )
        notes += [text, ""]
    return notes
