"""Nothing but `datasets get` uses the network: every command runs with sockets forbidden."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

# Forbids sockets before anything of the package is imported, then runs each command in turn.
PROGRAM = """
import contextlib, io, socket, sys

class Forbidden(socket.socket):
    def __init__(self, family=socket.AF_INET, *more, **named):
        if family != socket.AF_UNIX:
            raise AssertionError("the network was used")
        super().__init__(family, *more, **named)

def forbidden(*_, **__):
    raise AssertionError("the network was used")

socket.socket = Forbidden
for name in ("create_connection", "getaddrinfo", "gethostbyname"):
    setattr(socket, name, forbidden)

from fivestar.cli.main import main

for line in sys.argv[1].splitlines():
    sys.argv = ["fivestar", *line.split()]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as end:
        if end.code:
            sys.exit(f"{line}: exit code {end.code}")
"""
COMMANDS = """
    graph info
    models
    train --model complex --dim 4 --epochs 2 --threads 1 --out run
    evaluate run
    ask run Paris in_country _
    similar run Paris
    explain run Paris in_country France
    complete run --top 3 --out new.tsv
    calibration run
    convert run star --to fivestar
    geometry star
    export run --to numpy --out vectors
    export run --to huggingface --out hub
    graph convert demo graph.parquet
"""


def run(lines, folder):
    command = [sys.executable, "-c", PROGRAM, textwrap.dedent(lines).strip()]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_no_command_uses_the_network(tmp_path):
    done = run(COMMANDS, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_guard_would_notice(tmp_path, monkeypatch):
    monkeypatch.delenv("FIVESTAR_OFFLINE", raising=False)
    done = run("datasets get wn18rr --mirror http://127.0.0.1:9/", tmp_path)
    assert done.returncode != 0
    assert "the network was used" in done.stderr


@pytest.mark.parametrize("module", ["fivestar", "fivestar.server.app", "fivestar.analysis"])
def test_no_import_uses_the_network(module):
    program = PROGRAM.partition("from fivestar.cli")[0] + f"import {module}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
