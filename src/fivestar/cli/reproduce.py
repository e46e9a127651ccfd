"""`fivestar reproduce`: the tables and experiments of the paper."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, nullcontext
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE
from rich.table import Column, Table

from fivestar.cli import reproduce_tables as tables
from fivestar.cli.reproduce_figures import FIGURES, add_figure
from fivestar.cli.tables import print_table, prose_column
from fivestar.cli.terminal import counting_progress, resumable, warn
from fivestar.cli.terminal import out as screen

if TYPE_CHECKING:
    from fivestar.experiments.path_loop import PathLoopResult
    from fivestar.runs.run import Run

app = typer.Typer(
    help="Reproduce the tables, figures and experiments of the paper.",
    epilog="Example: fivestar reproduce table-mobius",
    invoke_without_command=True,
)

# What is not a table of results, and how long it takes on two cores.
_SMALL = {
    "table-transformations": "transformations that each model can express: seconds",
    "table-mobius": "classes of Möbius maps: seconds",
    "path-beside-loop": "ranks of five models on a path beside a loop: minutes",
    "structures": "paths and loops embedded into the plane: a minute",
    "compare": "paired comparison of two models by the recorded ranks: seconds",
    "record": "add a run to the ledger: as long as ranking its test split takes",
    "results": "the results page, from the ledger: seconds",
}
_TABLES = {
    "table-fb15k237-wn18rr": "Fill the paper's table of FB15k-237 and WN18RR.",
    "table-nell": "Fill the paper's table of NELL-995-h100, -h75, -h50 and -h25.",
    "table-wn18-fb15k": "Fill the paper's table of WN18 and FB15k.",
}

Markdown = Annotated[bool, typer.Option("--markdown", help="Print as Markdown.")]


@app.callback()
def listed(context: typer.Context) -> None:
    """List what can be reproduced and how long it takes."""
    if context.invoked_subcommand is not None:
        return
    from fivestar.experiments.tables import published_table  # noqa: PLC0415  (slow to import)

    rows = []
    for name in _TABLES:
        found = published_table(name)
        rows.append((name, f"{found.title}; {found.duration}"))
    for name, explained in FIGURES.items():
        rows.append((name, f"{explained.removeprefix('Plot ').rstrip('.')}: trains first"))
    rows += _SMALL.items()
    print_table(("fivestar reproduce …", prose_column("what, and how long it takes")), rows)


def _add_table(name: str, explained: str) -> None:
    """Add the command of a results table; all of them take the same options."""

    def command(  # noqa: PLR0913
        *,
        minutes: tables.Minutes = 0,
        run_minutes: tables.RunMinutes = 0,
        dim: tables.Dims = None,
        models: tables.Models = None,
        graphs: tables.Graphs = None,
        seeds: tables.Seeds = 1,
        settings: tables.SettingsFiles = None,
        budget: tables.Budget = None,
        search_on: tables.SearchOn = None,
        clock: tables.BudgetClock = "wall",
        precision: tables.Precision = None,
        threads: tables.Threads = 0,
        out: tables.Out = None,
        ledger: tables.Ledger = None,
        runs: tables.Runs = Path("runs"),
    ) -> None:
        tables.run_table(
            tables.Wanted(
                name,
                minutes,
                run_minutes,
                dim,
                models,
                graphs,
                seeds,
                settings,
                budget,
                search_on,
                clock,
                precision,
                threads,
                out,
                ledger,
                runs,
            )
        )

    command.__doc__ = (
        f"{explained}\n\n    Our metrics beside the published ones. Run again to resume."
    )
    example = f"Example: fivestar reproduce {name} --models fivestar --minutes 60 --out tables"
    app.command(name, epilog=example)(command)


for _name, _explained in _TABLES.items():
    _add_table(_name, _explained)
for _name, _explained in FIGURES.items():
    add_figure(app, _name, _explained)
app.command("compare", epilog="Example: fivestar reproduce compare fivestar complex")(
    tables.compare
)
app.command("results", epilog="Example: fivestar reproduce results --out docs/results.md")(
    tables.results
)
app.command("record", epilog="Example: fivestar reproduce record my_run --note 'a GPU'")(
    tables.record
)


@app.command(
    "table-transformations", epilog="Example: fivestar reproduce table-transformations --markdown"
)
def table_transformations(*, markdown: Markdown = False) -> None:
    """Show which transformations each model can express, measured on the models."""
    from fivestar.experiments.geometry_tables import transformations_table  # noqa: PLC0415

    _print(transformations_table(), markdown=markdown)


@app.command("table-mobius", epilog="Example: fivestar reproduce table-mobius --markdown")
def table_mobius(*, markdown: Markdown = False) -> None:
    """Show the classes of Möbius maps, their conditions and canonical forms."""
    from fivestar.experiments.geometry_tables import mobius_classes_table  # noqa: PLC0415

    _print(mobius_classes_table(), markdown=markdown)


@app.command(
    "path-beside-loop",
    epilog="Example: fivestar reproduce path-beside-loop --regularizer n3 --reg-weight 0.1",
)
def path_beside_loop(  # noqa: PLR0913
    *,
    regularizer: Annotated[str, typer.Option(help="Regularizer of all models.")] = "n3",
    reg_weight: Annotated[
        float | None,
        typer.Option(help="Regularization weight. (default: 0.1)", min=0, show_default=False),
    ] = None,
    denominator: Annotated[
        list[str],
        typer.Option(help="Denominator of 5★E: mobius, phase or none (repeatable)."),
    ] = ["mobius"],  # noqa: B006  (typer copies it)
    pairing: Annotated[
        list[str], typer.Option(help="Pairing of 5★E: hermitian or bilinear (repeatable).")
    ] = ["hermitian"],  # noqa: B006
    score: Annotated[
        list[str], typer.Option(help="Score of 5★E: inner or distance (repeatable).")
    ] = ["inner", "distance"],  # noqa: B006
    init: Annotated[
        Literal["rotation", "identity", "small"] | None,
        typer.Option(
            help="Initialization of 5★E. (default: identity; with denominator phase: small)",
            show_default=False,
        ),
    ] = None,
    off_diagonal_lr: Annotated[
        float | None,
        typer.Option(
            help="Learning rate of b and c of 5★E relative to lr. (default: 1)",
            min=0,
            max=1,
            show_default=False,
        ),
    ] = None,
    rivals: Annotated[
        bool,
        typer.Option("--rivals/--no-rivals", help="Train TransE, RotatE, ComplEx and QuatE too."),
    ] = True,
    seeds: Annotated[int, typer.Option(help="Number of seeds per model.", min=1)] = 5,
    dim: Annotated[int, typer.Option(help="Embedding dimension.", min=1)] = 20,
    epochs: Annotated[int, typer.Option(help="Training epochs.", min=1)] = 300,
    record: Annotated[
        Path | None,
        typer.Option(
            help="Append the ranks to this file of JSON lines; what it has is not trained again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Plot all ranks to this .png, .svg or .pdf file.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Train models on a path beside a loop and rank the facts that close them.

    Once with the closing fact of the loop held out, once with it in train.
    """
    from fivestar.experiments import path_loop as experiment  # noqa: PLC0415  (slow)

    if out is not None:
        from fivestar.analysis.plots.style import check_figure_path  # noqa: PLC0415

        check_figure_path(out)
    given = {"init": init, "off_diagonal_lr": off_diagonal_lr}
    options = {name: value for name, value in given.items() if value is not None}
    models = {
        **(experiment.RIVALS if rivals else {}),
        **experiment.fivestar_forms(denominator, pairing, score, options),
    }
    training = experiment.Training(regularizer, reg_weight, dim, epochs, seeds)
    outcomes = []
    again: AbstractContextManager[None] = nullcontext()
    if record is not None:
        again = resumable(f"run the same command again to resume: what is done is in {record}")
    with again, counting_progress("training") as progress:
        done = 0

        def count(trained: int) -> None:
            nonlocal done
            done += trained
            progress(done, len(experiment.CLOSINGS) * len(models) * seeds)

        for closing in reversed(experiment.CLOSINGS):
            found = experiment.path_beside_loop(closing, models, training, record, count)
            outcomes.append(found)
    if as_json:
        listed = [each.as_json() for each in outcomes]
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
    else:
        for each in outcomes:
            _show(each)
    if out is not None:
        _draw_ranks(outcomes, out)


@app.command("structures", epilog="Example: fivestar reproduce structures --out structures.png")
def structures(
    *,
    nodes: Annotated[int, typer.Option(help="Nodes per path and loop.", min=3, max=50)] = 6,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    out: Annotated[Path, typer.Option(help="Output file: .png, .svg or .pdf.", show_default=False)],
) -> None:
    """Embed paths and loops side by side into the plane, with a 5★E of dimension 1."""
    from fivestar.analysis.plots.structures import structures as draw  # noqa: PLC0415  (slow)
    from fivestar.analysis.plots.style import check_figure_path, save_figure  # noqa: PLC0415
    from fivestar.experiments.structures import SHAPES, embed_in_plane, training_mrr  # noqa: PLC0415

    check_figure_path(out)
    runs: dict[str, Run] = {}
    with counting_progress("training") as progress:
        for heads, tails in product(SHAPES, SHAPES):
            progress(len(runs), len(SHAPES) ** 2)
            runs[f"{heads} beside {tails}"] = embed_in_plane(heads, tails, nodes, seed)
    for name, run in runs.items():
        found = training_mrr(run)
        screen.print(f"{name}: mean reciprocal rank of its facts {found:.3f}", markup=False)
        if found < 1:
            warn(f"{name} is not learned completely; try another --seed")
    save_figure(draw(runs), out)
    screen.print(f"saved {out}", markup=False, soft_wrap=True)


def _show(outcome: PathLoopResult) -> None:
    from fivestar.experiments.path_loop import PUBLISHED_RANKS  # noqa: PLC0415  (slow)

    marked = outcome.triples[-3:]
    seeds = len(next(iter(outcome.ranks.values())))
    rows = []
    for name in outcome.ranks:
        cells = [f"{left:g} / {right:g}" for left, right in outcome.median(name)[-3:]]
        separated = " / ".join(map(str, outcome.separated(name)))
        rows.append((name, f"{outcome.fit(name):.3f}", *cells, separated))
    for name, ranks in PUBLISHED_RANKS.items():
        cells = [f"{left} / {right}" for left, right in ranks]
        rows.append((f"{name}, published", "", *cells, "", ""))
    screen.print(f"The fact that closes the loop, {marked[0]}, is {outcome.closing}.", markup=False)
    print_table((prose_column("model"), "MRR", *marked, "separated"), rows)
    screen.print(
        f"MRR of the trained facts; median left / right ranks, of 1 to 20, over {seeds} seeds; "
        "separated: seeds in which the loop is closed and the path is open by r3 / by r1.\n",
        markup=False,
    )


def _draw_ranks(outcomes: list[PathLoopResult], out: Path) -> None:
    from fivestar.analysis.plots.structures import rank_maps  # noqa: PLC0415  (slow to import)
    from fivestar.analysis.plots.style import save_figure  # noqa: PLC0415
    from fivestar.experiments.path_loop import NODES  # noqa: PLC0415

    titles = {f"closing fact {each.closing}": each for each in outcomes}
    figure = rank_maps(
        {title: each.triples for title, each in titles.items()},
        {t: {name: each.median(name) for name in each.ranks} for t, each in titles.items()},
        outcomes[0].triples[-3:],
        2 * NODES,
    )
    save_figure(figure, out)
    screen.print(f"saved {out}", markup=False, soft_wrap=True)


def _print(rows: list[list[str]], *, markdown: bool) -> None:
    if markdown:
        from fivestar.experiments.results import markdown_table  # noqa: PLC0415  (slow to import)

        typer.echo(markdown_table(rows))
        return
    # No column is narrower than its longest word, so that no word is cut.
    columns = zip(*rows, strict=True)
    widths = [max(len(word) for cell in column for word in cell.split()) for column in columns]
    headers = [
        Column(name, overflow="fold", min_width=width)
        for name, width in zip(rows[0], widths, strict=True)
    ]
    table = Table(*headers, box=SIMPLE, pad_edge=False, collapse_padding=True)
    for row in rows[1:]:
        table.add_row(*row)
    screen.print(table, markup=False)
