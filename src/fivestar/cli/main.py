"""The command `fivestar`: one module per command, imported without torch."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import rich.console
import typer
from typer.core import TyperGroup

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
    doctor,
    evaluate,
    explain,
    export,
    fold_in,
    geometry,
    graph_convert,
    graph_generate,
    graph_info,
    graph_split,
    models,
    patterns,
    plot,
    push,
    reproduce,
    search,
    serve,
    shapes,
    similar,
    train,
)
from fivestar.cli.budget import count_from
from fivestar.cli.model_options import ModelOptionsCommand
from fivestar.cli.processes import begin
from fivestar.cli.terminal import print_error, warn
from fivestar.errors import FivestarError


def _leave_quietly(*_: object) -> None:
    """Exit with 0: the reader of the output (head, less) has closed the pipe."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    raise SystemExit(0)


@contextmanager
def _ends_well() -> Iterator[None]:
    """Handle Ctrl-C and a closed pipe, which typer would end without a word and with 1."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()
    except KeyboardInterrupt as stopped:
        print_error("; ".join(["interrupted", *map(str, stopped.args)]))
        raise SystemExit(130) from None


class _Root(TyperGroup):
    def make_context(self, *arguments: Any, **named: Any) -> Any:
        with _ends_well():
            return super().make_context(*arguments, **named)

    def invoke(self, ctx: Any) -> Any:
        with _ends_well():
            return super().invoke(ctx)


app = typer.Typer(
    name="fivestar",
    cls=_Root,
    help="Find the missing links of a knowledge graph with 5★E and 13 other embedding models.",
    epilog="Example: fivestar graph info",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
graph_app = typer.Typer(
    help="Inspect, split, convert and generate graphs.",
    epilog="Example: fivestar graph info my_graph.tsv",
    no_args_is_help=True,
)
# The order is that of `fivestar --help`, which shows one panel per group.
app.add_typer(graph_app, name="graph", rich_help_panel="Graph")
app.add_typer(datasets.app, name="datasets", rich_help_panel="Graph")
app.command("train", cls=ModelOptionsCommand, epilog=train.EXAMPLE, rich_help_panel="Train")(
    train.train
)
app.command("search", epilog=search.EXAMPLE, rich_help_panel="Train")(search.search)
app.command("evaluate", epilog=evaluate.EXAMPLE, rich_help_panel="Train")(evaluate.evaluate)
app.command("models", epilog=models.EXAMPLE, rich_help_panel="Train")(models.models)
app.command("convert", epilog=convert.EXAMPLE, rich_help_panel="Train")(convert.convert)
app.command("fold-in", epilog=fold_in.EXAMPLE, rich_help_panel="Train")(fold_in.fold_in)
app.command("demo", epilog=demo.EXAMPLE, rich_help_panel="Train")(demo.demo)
app.command("ask", epilog=ask.EXAMPLE, rich_help_panel="Predict")(ask.ask)
app.command("explain", epilog=explain.EXAMPLE, rich_help_panel="Predict")(explain.explain)
app.command("similar", epilog=similar.EXAMPLE, rich_help_panel="Predict")(similar.similar)
app.command("complete", epilog=complete.EXAMPLE, rich_help_panel="Predict")(complete.complete)
app.command("calibration", epilog=calibration.EXAMPLE, rich_help_panel="Predict")(
    calibration.calibration
)
app.command("export", epilog=export.EXAMPLE, rich_help_panel="Predict")(export.export)
app.command("geometry", epilog=geometry.EXAMPLE, rich_help_panel="Analyze")(geometry.geometry)
app.command("patterns", epilog=patterns.EXAMPLE, rich_help_panel="Analyze")(patterns.patterns)
app.command("shapes", epilog=shapes.EXAMPLE, rich_help_panel="Analyze")(shapes.shapes)
app.command("cluster", epilog=cluster.EXAMPLE, rich_help_panel="Analyze")(cluster.cluster)
app.add_typer(plot.app, name="plot", rich_help_panel="Analyze")
app.command("serve", epilog=serve.EXAMPLE, rich_help_panel="Serve")(serve.serve)
app.command("push", epilog=push.EXAMPLE, rich_help_panel="Serve")(push.push)
app.command("doctor", epilog=doctor.EXAMPLE, rich_help_panel="Serve")(doctor.doctor)
app.add_typer(reproduce.app, name="reproduce", rich_help_panel="Reproduce")
graph_app.command("info", epilog=graph_info.EXAMPLE)(graph_info.graph_info)
graph_app.command("convert", epilog=graph_convert.EXAMPLE)(graph_convert.graph_convert)
graph_app.command("generate", epilog=graph_generate.EXAMPLE)(graph_generate.graph_generate)
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
            help="Print the version and exit.",
            is_eager=True,
            callback=lambda wanted: _print_version(wanted=wanted),
        ),
    ] = False,
) -> None:
    pass


def _refused(error: Exception) -> str | None:
    """Return what the operating system has refused, or None if the error is not of that kind."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return f"{where}{error.strerror[:1].lower()}{error.strerror[1:]}"
    text = str(error)
    if isinstance(error, MemoryError) or "can't allocate memory" in text:
        return (
            "there is not enough memory; give a smaller --memory, --batch-size or --dim, or use a "
            "machine with more"
        )
    if text.startswith("Symlink loop"):
        return f"{text.removeprefix('Symlink loop from ')}: is a link that leads to itself"
    return None


def main() -> None:
    """Run the command line; a FivestarError prints one message and exits with code 1."""
    # Print one line per warning, without our source location.
    warnings.showwarning = lambda message, *_: warn(str(message))
    # Consoles, also those of typer's help, exit with 1 by default.
    setattr(rich.console.Console, "on_broken_pipe", _leave_quietly)  # noqa: B010  (a method)
    count_from(CALLED_AT)
    try:
        begin()
        app()
    except FivestarError as error:
        print_error(str(error))
        sys.exit(1)
    except (OSError, MemoryError, RuntimeError) as error:
        # What the operating system refuses is not an error of the program.
        message = _refused(error)
        if message is None:
            raise
        print_error(message)
        sys.exit(1)
    finally:
        count_from(None)
