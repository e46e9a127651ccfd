"""`fivestar doctor`: what is installed, for bug reports."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from fivestar.cli.tables import print_table, prose_column
from fivestar.cli.terminal import out

EXAMPLE = "Example: fivestar doctor"


def doctor(
    *, as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False
) -> None:
    """Show versions, device, threads, extras and folders, for bug reports.

    Exit code 1 if something keeps fivestar from working; missing extras do not.
    """
    from fivestar.environment import describe_environment  # noqa: PLC0415

    found = describe_environment()
    if as_json:
        typer.echo(json.dumps(found, indent=1, ensure_ascii=False))
    else:
        _show(found)
    if found["problems"]:
        raise typer.Exit(1)


def _show(found: dict[str, Any]) -> None:
    torch = found["torch"]
    lines = {
        "fivestar": f"{found['fivestar']['version']}, {found['fivestar']['folder']}",
        "Python": f"{found['python']}, {found['platform']}",
        "torch": torch["error"]
        or f"{found['versions']['torch']}, {torch['device']}, {torch['threads']} threads of "
        f"{found['cpus']} CPUs, BLAS: {torch['blas']}",
        "page": "there" if found["page"] else "missing: make web builds it",
    }
    for name, folder in found["folders"].items():
        state = "writable" if folder["writable"] else "not writable"
        lines[name] = f"{folder['path']} ({state if folder['exists'] else 'not created yet'})"
    lines |= found["variables"]
    lines["packages"] = ", ".join(
        f"{name} {version or 'missing'}" for name, version in found["versions"].items()
    )
    for name, text in lines.items():
        out.print(Text(f"{name + ':':16} {text}"), soft_wrap=True)
    rows = []
    for name, extra in found["extras"].items():
        state = "yes" if extra["installed"] else f"pip install 'fivestar-kge[{name}]'"
        rows.append((name, state, extra["purpose"]))
    print_table(("extra", "installed", prose_column("for")), rows)
    for problem in found["problems"]:
        out.print(Text(f"Problem: {problem}"), soft_wrap=True)
    if not found["problems"]:
        out.print("No problems found.")
