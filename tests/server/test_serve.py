"""The command itself: it starts, tells its address, answers, and stops when reported to."""

from __future__ import annotations

import re
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from tests.server.serving import started
from typer.testing import CliRunner

from fivestar.cli.main import app
from fivestar.server.settings import Limits, ServerSettings


def ask(address):
    body = {"head": "Lyon", "relation": "in_country", "top": 3}
    return httpx.post(f"{address}/api/predict/tails", json=body, timeout=60)


def test_one_process(served_runs):
    with started(*map(str, served_runs), "--log-requests") as (process, address):
        assert len(ask(address).json()["answers"]) == 3
        process.send_signal(signal.SIGTERM)
        rest = process.stdout.read()
        # uvicorn ends as the signal says, once everything is closed.
        assert process.wait(30) in {0, -signal.SIGTERM}
        assert '"POST /api/predict/tails HTTP/1.1" 200' in rest
        assert "Traceback" not in rest


def test_workers_share_parameters(served_runs):
    with started(str(served_runs[0]), "--workers", "2") as (process, address):
        _wait_for_workers(process.pid, 2)
        for _ in range(20):
            assert ask(address).status_code == 200
        children = _children(process.pid)
        mapped = [pid for pid in children if "model.safetensors" in _maps(pid)]
        assert len(mapped) == 2
        text = httpx.get(f"{address}/metrics").text
        count = re.search(r'route="/api/predict/tails",status="200"} (\d+)', text)
        assert int(count[1]) == 20
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in {0, -signal.SIGTERM}
        assert "Traceback" not in process.stdout.read()


def _wait_for_workers(pid, count):
    for _ in range(600):
        if sum("model.safetensors" in _maps(child) for child in _children(pid)) == count:
            return
        time.sleep(0.1)


def _children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def _maps(pid):
    try:
        return Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("words", [["--token-file", "nothing"], []])
def test_invalid_runs_and_tokens(tmp_path, words):
    found = CliRunner().invoke(app, ["serve", str(tmp_path / "nothing"), *words, "--port", "0"])
    assert found.exit_code == 1
    reported = "cannot read the token" if words else "no folder"
    assert reported in str(found.exception)


@pytest.mark.parametrize(
    ("more", "reported"), [((), "give token_file"), (("--workers", "2"), "use workers=1")]
)
def test_fold_in_needs_a_token_and_one_worker(served_runs, tmp_path, more, reported):
    (tmp_path / "token").write_text("a-token-that-nobody-guesses")
    token = ("--token-file", str(tmp_path / "token")) if more else ()
    words = ["serve", str(served_runs[0]), "--allow-fold-in", *token, *more]
    assert reported in str(CliRunner().invoke(app, words).exception)


def test_port_in_use(served_runs):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        found = CliRunner().invoke(app, ["serve", str(served_runs[0]), "--port", port])
    assert "choose another host or port" in str(found.exception)


def test_warnings(served_runs):
    words = ["serve", str(served_runs[0]), "--host", "256.1.1.1", "--port", "0"]
    found = CliRunner().invoke(app, words)
    assert "use --token-file to require a token" in found.output
    assert "cannot listen at 256.1.1.1" in str(found.exception)


def test_all_options_are_passed_on(served_runs, tmp_path, monkeypatch):
    seen = {}

    def run_server(settings, port, *, log_requests, on_start):
        seen.update(settings=settings, port=port, log_requests=log_requests)
        on_start("http://there")

    monkeypatch.setattr("fivestar.server.serve.run_server", run_server)
    words = {
        "--host": "::1",
        "--port": "81",
        "--workers": "3",
        "--token-file": str(tmp_path / "token"),
        "--cors-origin": "https://friend.example",
        "--allowed-host": "graphs.example",
        "--max-top": "5",
        "--max-batch": "6",
        "--max-answers": "9",
        "--max-work": "1e10",
        "--max-connections": "11",
        "--max-body": "7",
        "--time-limit": "8",
        "--log-format": "json",
        "--reload-interval": "2.5",
    }
    flags = ["--log-requests", "--allow-fold-in", "--trace"]
    given = [word for pair in words.items() for word in pair]
    shown = CliRunner().invoke(app, ["serve", str(served_runs[0]), *given, *flags])
    assert shown.exit_code == 0, shown.output
    assert "http://there" in shown.output
    assert (seen["port"], seen["log_requests"]) == (81, True)
    assert seen["settings"] == ServerSettings(
        runs=[served_runs[0]],
        host="::1",
        workers=3,
        token_file=tmp_path / "token",
        cors_origins=["https://friend.example"],
        allowed_hosts=["graphs.example"],
        log_format="json",
        reload_interval=2.5,
        fold_in=True,
        trace=True,
        limits=Limits(
            top=5,
            batch=6,
            answers=9,
            work=1e10,
            client_connections=11,
            body_bytes=7,
            seconds=8,
        ),
    )
    assert seen["settings"].hosts() == {"graphs.example"}
