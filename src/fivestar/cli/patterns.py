"""`fivestar patterns`: relation patterns of a trained 5★E and of its graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import named, print_table, prose_column, shorten
from fivestar.cli.terminal import out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fivestar.analysis.inference import Inference
    from fivestar.analysis.patterns import LearnedPatterns
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.runs.run import Run

EXAMPLE = "Example: fivestar patterns my_run"
# Width of a relation in a table; two or three of them make a pattern.
_LONGEST = 32


@with_local_runs
def patterns(
    run: RunFolder,
    *,
    top: Annotated[int, typer.Option(help="Number of patterns to show.", min=1)] = 30,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Append the counts to this file of JSON lines.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Find symmetric, inverse, composed and reflexive relations in the model's matrices.

    Compared with the patterns in the graph; and how often positive premises give a positive
    conclusion.
    """
    from fivestar.analysis.inference import inference  # noqa: PLC0415  (slow to import)
    from fivestar.analysis.patterns import learned_patterns  # noqa: PLC0415

    model = fivestar.load(run)
    found = learned_patterns(model)
    # A negative distance is never positive.
    is_inner = model.settings.model.options["score"] == "inner"
    inferred = inference(model) if is_inner else []
    if record is not None:
        _record(model, found, inferred, record)
    if as_json:
        listed = {**found.as_json(), "inference": [one.as_json() for one in inferred]}
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
        return
    _show(model.graph.relations, found, top)
    if inferred:
        _show_inference(inferred)


def _record(run: Run, found: LearnedPatterns, inferred: Sequence[Inference], record: Path) -> None:
    from fivestar.experiments.records import append_record  # noqa: PLC0415  (slow to import)
    from fivestar.runs.identity import learned_settings  # noqa: PLC0415

    counts = found.as_json()
    del counts["findings"]
    metrics = run.metrics
    line = {
        "data": run.graph.name,
        "seed": run.settings.training.seed,
        "settings_values": learned_settings(run.settings),
        "epochs": metrics.get("epochs"),
        "minutes": round(metrics.get("seconds", 0.0) / 60, 2),
        "valid_mrr": metrics.get("valid", {}).get("mrr"),
        **counts,
        "inference": [one.as_json() for one in inferred],
    }
    append_record(record, line)


def _show_inference(inferred: Sequence[Inference]) -> None:
    out.print("Positive premises → positive conclusion:", markup=False)
    rows = [
        (
            *(one.pattern, one.map, one.source, f"{one.num_premises:,}"),
            *(f"{share:.1%}" for share in (one.premises, one.conclusions, one.baseline)),
        )
        for one in inferred
    ]
    columns = ("pattern", "map", "premises", "number", "positive", "conclusion positive")
    print_table([*columns, "permuted"], rows)


def _show(relations: Vocabulary, found: LearnedPatterns, top: int) -> None:
    control = found.control
    out.print(
        f"Control: the inverse map of a relation has distance {control.own:.2f} to its own "
        f"reciprocal and {control.others:.2f} to those of other relations (medians; its own is "
        f"closer in {control.auc:.1%} of the cases). Learned: closer than usual by "
        f"{control.threshold:.2f}.",
        markup=False,
    )
    shown = [finding for finding in found.findings if finding.learned or finding.true]
    shown.sort(key=lambda finding: (finding.p_value, finding.distance))
    rows = []
    for one in shown[:top]:
        marks = ("yes" if one.learned else "no", "yes" if one.true else "no")
        separator = " then " if one.pattern == "composed" else ", "
        labels = [shorten(named(relations, name).label, _LONGEST) for name in one.relations]
        names = separator.join(labels[:2]) + "".join(f" = {label}" for label in labels[2:])
        nearer = "" if one.proximity is None else f"{one.proximity:.2f}"
        figures = f"{one.distance:.2f}", nearer, f"{one.p_value:.3f}"
        rows.append((one.pattern, names, *figures, *marks))
    columns = ("distance", "closer by", "p", "learned", "true")
    print_table(["pattern", prose_column("relations"), *columns], rows)
    if len(shown) > top:
        out.print(f"… and {len(shown) - top} more: --top or --json")
    counts, shares = ("learned", "true", "both"), ("precision", "recall")
    scores = [
        (
            pattern,
            *(str(score[key]) for key in counts),
            *("–" if score[key] is None else f"{score[key]:.2f}" for key in shares),
        )
        for pattern, score in found.scores().items()
    ]
    print_table(["pattern", *counts, *shares], scores)
    for note in found.untested:
        out.print(f"Not tested: {note}", markup=False)
