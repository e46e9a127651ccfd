"""`fivestar ask`: predict the missing head, relation or tail of a triple."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import fivestar
from fivestar.cli.run_argument import HELP, SERVER, local_folder, path
from fivestar.cli.tables import name_column, print_table
from fivestar.cli.terminal import counting_progress, out
from fivestar.errors import SettingsError
from fivestar.graph.choices import CandidateChoice

if TYPE_CHECKING:
    from fivestar.client import Client
    from fivestar.evaluation.topk import Which
    from fivestar.prediction.predictions import Predictions, Query
    from fivestar.prediction.trained_model import TrainedModel

    Predict = Callable[[Sequence[Query]], list[Predictions]]

EXAMPLE = "Example: fivestar ask my_run Paris capital_of _"
_SLOT = "Name or label, or _ for the missing part."
# Queries of a file that are answered per batch.
_AT_ONCE = 2048


def ask(  # noqa: PLR0913
    run: Annotated[
        Path,
        typer.Argument(
            help=f"{HELP} Also http:// of a server, which answers without loading a model.",
            parser=path,
        ),
    ],
    head: Annotated[str | None, typer.Argument(help=_SLOT, show_default=False)] = None,
    relation: Annotated[str | None, typer.Argument(help=_SLOT, show_default=False)] = None,
    tail: Annotated[str | None, typer.Argument(help=_SLOT, show_default=False)] = None,
    *,
    top: Annotated[int, typer.Option(help="Number of answers.", min=1)] = 10,
    exclude_known: Annotated[
        bool,
        typer.Option("--exclude-known", help="Exclude facts that are in the graph (any split)."),
    ] = False,
    only_known: Annotated[
        bool, typer.Option("--only-known", help="Only facts that are in the graph (any split).")
    ] = False,
    types: Annotated[
        list[str] | None,
        typer.Option(help="Only entities of this type (repeatable).", show_default=False),
    ] = None,
    candidates: Annotated[
        CandidateChoice,
        typer.Option(
            help="Only entities observed on that side of the relation in train, or that share a "
            "type with one observed."
        ),
    ] = "all",
    queries: Annotated[
        Path | None,
        typer.Option(
            help="File of queries, one per line: head, relation and tail separated by tabs.",
            show_default=False,
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="With http://: file with the bearer token of the server.", show_default=False
        ),
    ] = None,
    served_run: Annotated[
        str | None,
        typer.Option(
            help="With http://: name of the run. (default: the first that is served)",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Predict the missing head, relation or tail of a triple, written as _ (or a quoted ?).

    Without a triple, a prompt that answers a query per line; also from a pipe.
    """
    if exclude_known and only_known:
        raise SettingsError(
            "--exclude-known and --only-known exclude each other; pass only one of them"
        )
    which: Which = "new" if exclude_known else "known" if only_known else "all"
    slots = [slot for slot in (head, relation, tail) if slot is not None]
    if (queries is not None and slots) or len(slots) not in (0, 3):
        raise SettingsError(
            "pass either HEAD RELATION TAIL with one of them as _, or a file with --queries, or "
            "neither for a prompt"
        )
    if str(run).startswith(SERVER):
        if len(slots) != 3:
            raise SettingsError(
                "--queries and the prompt need the run itself; pass HEAD RELATION TAIL with one of "
                "them as _"
            )
        if candidates != "all":
            raise SettingsError("--candidates needs the run itself; a server ranks all entities")
        with _client(str(run), token_file, served_run) as client:
            (found,) = client.predict([(slots[0], slots[1], slots[2])], top, which, types or [])
        _print(found, as_json=as_json)
        return
    if token_file is not None or served_run is not None:
        raise SettingsError(
            "--token-file and --served-run are for servers; pass the address of one as RUN, as in "
            "http://localhost:8005"
        )
    model = fivestar.load(local_folder(run))
    predict = partial(model.predict, top=top, which=which, types=types or [], candidates=candidates)
    if queries is not None:
        _answer_file(model, predict, queries, as_json=as_json)
        return
    if not slots:
        _answer_lines(model, predict, as_json=as_json)
        return
    (found,) = predict([(slots[0], slots[1], slots[2])])
    _print(found, as_json=as_json)


def _client(address: str, token_file: Path | None, run: str | None) -> Client:
    """Return a client, which needs no torch."""
    from fivestar.server.settings import read_token  # noqa: PLC0415  (only for servers)

    token = None if token_file is None else read_token(token_file).decode("ascii")
    return fivestar.Client(address, token=token, run=run)


def _print(found: Predictions, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False))
    else:
        _show(found)


def _answer_lines(model: TrainedModel, predict: Predict, *, as_json: bool) -> None:
    """Answer queries from the prompt or a pipe; exit with 1 if one from a pipe failed."""
    from fivestar.cli.ask_prompt import answer_lines  # noqa: PLC0415  (only for the prompt)

    def answer(query: Query) -> None:
        (found,) = predict([query])
        if as_json:
            typer.echo(_as_line(found))
        else:
            _show(found)

    # The first query would wait for these.
    _ = model.known_answers, model.held_out_keys
    if answer_lines(model.graph, answer) and not sys.stdin.isatty():
        raise typer.Exit(1)


def _show(found: Predictions) -> None:
    from fivestar.prediction.predictions import Named  # noqa: PLC0415  (slow to import)

    rows = [
        (
            str(answer.rank),
            Named(answer.id, answer.label),
            f"{answer.score:.3f}",
            "" if answer.probability is None else f"{answer.probability:.1%}",
            answer.state_text,
        )
        for answer in found
    ]
    columns = ("", name_column("answer"), "score", "probability", "fact")
    print_table(columns, rows, title="  ".join(found.query))
    if not found:
        out.print("no matching answers")


def _answer_file(model: TrainedModel, predict: Predict, path: Path, *, as_json: bool) -> None:
    """Print one line per answer (tab-separated) or one JSON object per query."""
    from fivestar.prediction.predictions import read_queries  # noqa: PLC0415  (slow to import)

    queries = read_queries(path, model.graph)
    if not as_json:
        typer.echo("head\trelation\ttail\trank\tid\tlabel\tscore\tprobability\tsplit\tstate")
    with counting_progress("answering") as progress:
        for start in range(0, len(queries), _AT_ONCE):
            batch = queries[start : start + _AT_ONCE]
            for found in predict(batch):
                typer.echo(_as_line(found) if as_json else _as_rows(found), nl=as_json)
            progress(start + len(batch), len(queries))


def _as_line(found: Predictions) -> str:
    line = {"query": list(found.query), "answers": found.as_json()}
    return json.dumps(line, ensure_ascii=False)


def _as_rows(found: Predictions) -> str:
    lines = []
    for a in found:
        likely = "" if a.probability is None else f"{a.probability:.6g}"
        answer = (a.rank, a.id, a.label, f"{a.score:.6g}", likely, a.split or "", a.state)
        lines.append("\t".join(map(str, (*found.query, *answer))) + "\n")
    return "".join(lines)
