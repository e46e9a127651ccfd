"""`fivestar geometry`: the Möbius maps of a trained 5★E."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

import fivestar
from fivestar.cli.run_argument import RunFolder, with_local_runs
from fivestar.cli.tables import name_column, named, print_table, prose_column
from fivestar.cli.terminal import out, warn

if TYPE_CHECKING:
    from fivestar.analysis.relations import RelationGeometry, SharedClasses
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.prediction.predictions import Named

EXAMPLE = "Example: fivestar geometry my_run --relation capital_of"
_FIGURES = {
    "expansion": "log |k|",
    "rotation": "|arg k|",
    "relative_determinant": "2|det|/‖m‖²",
    "translation": "|f(h) − h|",
    "local_rotation": "|arg f′|",
    "local_expansion": "|log |f′||",
    "distortion": "spread of log |f′|",
}


@with_local_runs
def geometry(
    run: RunFolder,
    *,
    relation: Annotated[
        str | None, typer.Option(help="Only this relation, in full.", show_default=False)
    ] = None,
    tolerance: Annotated[
        float, typer.Option(help="Tolerance when classifying a map.", min=0)
    ] = 0.05,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Classify the Möbius maps of each relation and measure their rotation and expansion.

    Compared with the same model before training.
    """
    from fivestar.analysis import relations  # noqa: PLC0415  (slow to import)

    loaded = fivestar.load(run)
    numbers = None if relation is None else [loaded.graph.relations.find(relation)]
    found = relations.relation_geometry(loaded, tolerance, numbers)
    before = relations.relation_geometry(relations.untrained_run(loaded), tolerance, numbers)
    form = loaded.settings.model.options["denominator"]
    if form != "mobius":
        warn(f"this run has denominator {form}: the results describe the matrix, not the map")
    if as_json:
        pairs = zip(found, before, strict=True)
        listed = [one.as_json() | {"untrained": other.as_json()} for one, other in pairs]
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
    elif relation is not None:
        _show_one(named(loaded.graph.relations, found[0].name).label, found[0], before[0])
    else:
        _show_all(loaded.graph.relations, found, before)
        if form == "mobius":
            _show_inverse_pairs(relations.inverse_pair_classes(loaded, tolerance))


def _show_all(
    relations: Vocabulary, found: list[RelationGeometry], before: list[RelationGeometry]
) -> None:
    shown = ("expansion", "rotation", "distortion")
    rows: list[tuple[str | Named, ...]] = []
    for one in sorted(found, key=lambda each: -each.facts):
        figures = [f"{getattr(one, key).median:.2f}" for key in shown]
        cells = _kinds(one.classes), *figures, f"{one.near_pole:.1%}"
        rows.append((named(relations, one.name), f"{one.facts:,}", *cells))
    kinds = {kind: _mean([each.classes[kind] for each in before]) for kind in before[0].classes}
    figures = [f"{_mean([getattr(each, key).median for each in before]):.2f}" for key in shown]
    near = _mean([each.near_pole for each in before])
    rows.append(("(untrained)", "", _kinds(kinds), *figures, f"{near:.1%}"))
    columns = (name_column("relation"), "facts", prose_column("classes (%)"), *shown)
    print_table([*columns, "near a pole"], rows)
    legend = ", ".join(f"{kind[:3]} {kind}" for kind in found[0].classes)
    out.print(f"Shares of dimensions ({legend}); medians over dimensions. More: --relation NAME")


def _show_inverse_pairs(found: dict[str, SharedClasses]) -> None:
    inverse, other = found["inverse"], found["other"]
    if inverse.pairs:
        baseline = f"; other pairs of these relations: {other.share:.1%}" if other.pairs else ""
        out.print(
            f"Inverse pairs of relations: {inverse.pairs}, "
            f"with maps of the same class in {inverse.share:.1%} of the dimensions{baseline}.",
            markup=False,
        )


def _kinds(shares: dict[str, float]) -> str:
    """Return the classes that occur, the most frequent first."""
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return " ".join(f"{kind[:3]} {100 * share:.0f}" for kind, share in ordered if share)


def _show_one(relation: str, found: RelationGeometry, before: RelationGeometry) -> None:
    out.print(f"{relation}: {found.facts:,} facts in train", markup=False)
    shares = [
        (kind, f"{share:.1%}", f"{before.classes[kind]:.1%}")
        for kind, share in found.classes.items()
        if share or before.classes[kind]
    ]
    shares.append(("(heads) near a pole", f"{found.near_pole:.1%}", f"{before.near_pole:.1%}"))
    print_table([prose_column("share of dimensions"), "trained", "untrained"], shares)
    rows = [
        (key, *(_quartiles(getattr(each, key)) for each in (found, before))) for key in _FIGURES
    ]
    legend = ", ".join(f"{key} {meaning}" for key, meaning in _FIGURES.items())
    print_table(["quartiles over dimensions", "trained", "untrained"], rows, caption=legend)


def _quartiles(spread: Any) -> str:
    return " ".join(f"{value:.3f}" for value in spread)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
