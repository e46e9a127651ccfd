"""Only `datasets get`, `serve` and addresses of runs (hf://, s3://, gs://) use the network.

Commands run with sockets forbidden: in Python and, where there is a C compiler, below it
(network_shim.c).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import fivestar
from fivestar.runs.remote.address import parse_address
from fivestar.runs.remote.cache import cached_run
from fivestar.runs.remote.object_store import ObjectStore

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
if found := {"huggingface_hub", "s3fs", "gcsfs", "botocore", "httpx2"} & sys.modules.keys():
    sys.exit(f"imported: {found}")
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
    graph split graph.parquet --out split
    train --resume run
    search demo --model complex --trials 1 --trial-minutes 0.02
    fold-in run facts.tsv --out folded --epochs 1
    patterns star
    shapes star
    cluster run
    push run file://share/run
    ask file://share/run Paris in_country _
    doctor
"""


EVERY_MODULE = """
import importlib, pkgutil, fivestar
for module in pkgutil.walk_packages(fivestar.__path__, "fivestar."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""
NATIVE = "import ctypes; ctypes.CDLL(None).socket(2, 1, 0)"


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The environment of a process that cannot use the network."""
    if sys.platform != "linux" or not shutil.which("cc"):
        return dict(os.environ)
    shim = tmp_path_factory.mktemp("network") / "shim.so"
    source = Path(__file__).with_name("network_shim.c")
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, "-o", shim, source, "-ldl"], check=True)  # noqa: S607
    return os.environ | {"LD_PRELOAD": str(shim)}


def run(program, environment, folder, *words):
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_command_uses_the_network(environment, tmp_path):
    (tmp_path / "facts.tsv").write_text("Newtown\tin_country\tFrance\n")
    environment = environment | {"FIVESTAR_CACHE": str(tmp_path / "cache")}
    done = run(PROGRAM, environment, tmp_path, textwrap.dedent(COMMANDS).strip())
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_cached_run_needs_no_network(environment, tmp_path, monkeypatch):
    monkeypatch.setenv("FIVESTAR_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FIVESTAR_OFFLINE")
    facts = [(f"p{i}", "knows", f"p{(i + 1) % 9}") for i in range(9)]
    fivestar.train(facts, out=tmp_path / "run", dim=2, epochs=1, threads=1)
    fivestar.push(tmp_path / "run", f"file://{tmp_path}/share")
    share = ObjectStore(parse_address(f"file://{tmp_path}/share"))
    cached_run(parse_address("hf://me/people"), lambda _: share)
    offline = {"FIVESTAR_CACHE": str(tmp_path / "cache"), "FIVESTAR_OFFLINE": "1"}
    environment = environment | offline
    done = run(PROGRAM, environment, tmp_path, "ask hf://me/people p1 knows _")
    assert done.returncode == 0, done.stderr[-2000:]
    done = run(PROGRAM, environment, tmp_path, "ask hf://me/other p1 knows _")
    assert done.returncode != 0
    assert "FIVESTAR_OFFLINE forbids to download it" in done.stderr


def test_the_guard_would_notice_an_address(tmp_path, environment):
    pytest.importorskip("huggingface_hub")
    environment = {name: v for name, v in environment.items() if name != "FIVESTAR_OFFLINE"}
    environment["FIVESTAR_CACHE"] = str(tmp_path / "cache")
    done = run(PROGRAM, environment, tmp_path, "ask hf://me/people p1 knows _")
    assert done.returncode != 0
    assert "the network was used" in done.stderr


def test_the_guard_would_notice(tmp_path, environment):
    # With the data there, nothing would be downloaded.
    local = ("FIVESTAR_OFFLINE", "FIVESTAR_DATA")
    environment = {name: v for name, v in environment.items() if name not in local}
    line = "datasets get wn18rr --mirror http://127.0.0.1:9/"
    done = run(PROGRAM, environment, tmp_path, line)
    assert done.returncode != 0
    assert "the network was used" in done.stderr


def test_the_guard_would_notice_a_native_library(tmp_path, environment):
    if "LD_PRELOAD" not in environment:
        pytest.skip("needs Linux and a C compiler")
    done = run(NATIVE, environment, tmp_path)
    assert (done.returncode, done.stderr) == (97, "the network was used, below Python\n")


def test_no_import_uses_the_network(environment, tmp_path):
    guard = PROGRAM.partition("from fivestar.cli")[0]
    done = run(guard + EVERY_MODULE, environment, tmp_path)
    assert done.returncode == 0, done.stderr
