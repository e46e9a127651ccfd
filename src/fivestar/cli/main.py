"""The command `fivestar`. Each command is a file of its own that loads what it needs itself."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated

import typer

import fivestar
from fivestar.cli import (
    CALLED_AT,
    ask,
    calibration,
    cluster,
    complete,
    convert,
    datasets,
    demo,
    evaluate,
    explain,
    export,
    fold_in,
    geometry,
    graph_convert,
    graph_info,
    graph_split,
    models,
    patterns,
    plot,
    reproduce,
    search,
    serve,
    shapes,
    similar,
    train,
)
from fivestar.cli.budget import count_from
from fivestar.cli.model_options import ModelOptionsCommand
from fivestar.cli.terminal import complain, warn
from fivestar.errors import FivestarError

app = typer.Typer(
    name="fivestar",
    help="Find the missing links of a knowledge graph, with 5★E and friends.",
    epilog="Example: fivestar graph info",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
graph_app = typer.Typer(
    help="Look at a graph, cut it into train, valid and test, or write it as another format.",
    epilog="Example: fivestar graph info my_graph.tsv",
    no_args_is_help=True,
)
app.add_typer(graph_app, name="graph")
app.command("train", cls=ModelOptionsCommand, epilog=train.EXAMPLE)(train.train)
app.command("search", epilog=search.EXAMPLE)(search.search)
app.command("ask", epilog=ask.EXAMPLE)(ask.ask)
app.command("explain", epilog=explain.EXAMPLE)(explain.explain)
app.command("similar", epilog=similar.EXAMPLE)(similar.similar)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo)
app.command("models", epilog=models.EXAMPLE)(models.models)
app.command("convert", epilog=convert.EXAMPLE)(convert.convert)
app.command("export", epilog=export.EXAMPLE)(export.export)
app.command("geometry", epilog=geometry.EXAMPLE)(geometry.geometry)
app.command("patterns", epilog=patterns.EXAMPLE)(patterns.patterns)
app.command("shapes", epilog=shapes.EXAMPLE)(shapes.shapes)
app.command("fold-in", epilog=fold_in.EXAMPLE)(fold_in.fold_in)
app.command("calibration", epilog=calibration.EXAMPLE)(calibration.calibration)
app.command("complete", epilog=complete.EXAMPLE)(complete.complete)
app.command("cluster", epilog=cluster.EXAMPLE)(cluster.cluster)
app.add_typer(datasets.app, name="datasets")
app.add_typer(plot.app, name="plot")
app.add_typer(reproduce.app, name="reproduce")
app.command("evaluate", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
graph_app.command("info", epilog=graph_info.EXAMPLE)(graph_info.graph_info)
graph_app.command("convert", epilog=graph_convert.EXAMPLE)(graph_convert.graph_convert)
graph_app.command("split", epilog=graph_split.EXAMPLE)(graph_split.graph_split)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"fivestar {fivestar.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and stop.",
            is_eager=True,
            callback=lambda wanted: _print_version(wanted=wanted),
        ),
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors of ours are one message and exit code 1."""
    # One line each, without the place in our code where it was found out.
    warnings.showwarning = lambda message, *_: warn(str(message))
    count_from(CALLED_AT)
    try:
        app()
    except FivestarError as error:
        complain(str(error))
        sys.exit(1)
    except KeyboardInterrupt:
        complain("stopped")
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output (head, less) has had enough.
        sys.stderr.close()
        sys.exit(0)
    finally:
        count_from(None)
