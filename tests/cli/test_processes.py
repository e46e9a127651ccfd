"""The command line in several processes that share the entity table."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fivestar.cli.main import app
from fivestar.cli.processes import begin
from fivestar.errors import SettingsError

IP = shutil.which("ip") or ""
TRAIN = ("train", "--dim", "6", "--epochs", "4", "--threads", "1", "--evaluate-every", "2")

NEEDS_PROC = pytest.mark.skipif(
    not Path("/proc").exists(), reason="the processes are found in /proc"
)


def command(*words, **environment):
    return subprocess.run(
        [sys.executable, "-m", "fivestar", *map(str, words)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _kill_one_process(job, run, checkpoints):
    """Kill the last process of a job once it has written a checkpoint."""
    while not list(run.glob(checkpoints)):
        time.sleep(0.05)
        assert job.poll() is None
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)


def test_processes_train_the_same_run(tmp_path):
    assert CliRunner().invoke(app, [*TRAIN, "--out", str(tmp_path / "one")]).exit_code == 0
    done = command(*TRAIN, "--out", tmp_path / "two", "--processes", 2)
    assert done.returncode == 0, done.stderr
    # Only the first process prints.
    assert done.stdout.count("4 epochs in") == 1
    assert done.stderr.count("epoch 4/4  loss") == 1
    one, two = (
        json.loads((tmp_path / name / "metrics.json").read_text())["valid"]["mrr"]
        for name in ("one", "two")
    )
    assert two == pytest.approx(one, abs=1e-3)
    # The run is an ordinary one.
    result = CliRunner().invoke(app, ["evaluate", str(tmp_path / "two"), "--json"])
    assert result.exit_code == 0, result.output


@pytest.mark.slow
@NEEDS_PROC
def test_query_groups_are_resumed_in_one_process(tmp_path):
    """Killed in two groups of one process each; one process continues."""
    run, one = tmp_path / "run", tmp_path / "one"
    words = [*TRAIN, "--epochs", "12", "--checkpoint-every", "1"]
    assert CliRunner().invoke(app, [*words, "--out", str(one)]).exit_code == 0
    options = [*words, "--processes", "2", "--query-groups", "2", "--out", str(run)]
    begin = [sys.executable, "-m", "fivestar", *options]
    with subprocess.Popen(begin, stderr=subprocess.PIPE, text=True) as job:
        _kill_one_process(job, run, "checkpoint*")
        printed = job.communicate(timeout=300)[1]
    assert job.returncode == 1
    assert "Traceback" not in printed
    assert "process 1 of 2 was killed (SIGKILL): resume with fivestar train --resume RUN" in printed
    resumed = command("train", "--resume", run)
    assert resumed.returncode == 0, resumed.stderr
    first, second = (
        json.loads((folder / "metrics.json").read_text())["valid"]["mrr"] for folder in (one, run)
    )
    assert second == pytest.approx(first, abs=1e-3)


@pytest.mark.slow
def test_groups_that_do_not_divide_the_processes_are_refused(tmp_path):
    done = command(*TRAIN, "--processes", 3, "--query-groups", 2, "--out", tmp_path / "run")
    assert done.returncode == 1
    assert "query-groups is 2, which does not divide the number of processes" in done.stderr
    assert "Traceback" not in done.stderr


def test_commands_that_need_the_whole_table_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(sys, "argv", ["fivestar", "similar", "run", "Lyon"])
    with pytest.raises(SettingsError, match="fivestar similar runs in one process"):
        begin()


def test_a_budget_is_refused(tmp_path):
    done = command(*TRAIN, "--budget", "1m", "--processes", 2, "--out", tmp_path / "run")
    assert done.returncode != 0
    assert "--budget compares settings in one process" in done.stderr
    assert not (tmp_path / "run").exists()


DIES = Path(__file__).with_name("dying_process.py")
KILLED = [*TRAIN, "--epochs", "8", "--checkpoint-every", "1"]


@pytest.mark.parametrize("dying", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_the_others_say_that_a_process_has_died(dying, tmp_path):
    """Without torchrun, which ends the others on its machine, sometimes before they say it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    address |= {"WORLD_SIZE": "2", "DYING": str(dying)}
    words, run = [sys.executable, str(DIES), *KILLED], tmp_path / "run"
    jobs = [
        subprocess.Popen(
            [*words, "--out", str(run)],
            env={**os.environ, **address, "RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    jobs[dying].communicate(timeout=300)
    assert jobs[dying].returncode == -signal.SIGKILL
    _, printed = jobs[1 - dying].communicate(timeout=30)
    assert jobs[1 - dying].returncode == 1
    assert "Traceback" not in printed
    (error,) = (line for line in printed.splitlines() if "error" in line)
    assert error.startswith(f"error: process {1 - dying} of 2 lost contact with another one (")
    assert error.endswith(f"resume with: fivestar train --resume {run}")
    assert "GLHF" not in error


def test_a_restart_resumes_after_a_process_has_died(tmp_path):
    run, launch = tmp_path / "run", [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    options = ["--nproc-per-node", "2", "--max-restarts", "1", DIES, *KILLED, "--patience", "0"]
    done = subprocess.run(
        [*map(str, [*launch, *options]), "--out", str(run)],
        env={**os.environ, "DYING": "1"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "epoch 3/8" in done.stderr
    assert done.stderr.count("epoch 1/8") == 1
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == list(range(1, 9))
    assert (run / "manifest.json").exists()


@pytest.fixture
def two_networks():
    """Two network namespaces that are connected by one wire, as two machines would be."""
    if not IP or os.geteuid() != 0:
        pytest.skip("needs the command ip, and root")
    names = [f"fivestar-{os.getpid()}-{number}" for number in range(2)]
    ends = ["wire0", "wire1"]
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", ends[0], "netns", names[0], "type", "veth", "peer", "name", ends[1])
        ip("link", "set", ends[1], "netns", names[1])
        for number, (name, end) in enumerate(zip(names, ends, strict=True), start=1):
            ip("-n", name, "address", "add", f"10.99.0.{number}/24", "dev", end)
            ip("-n", name, "link", "set", end, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield list(zip(names, ends, strict=True))
    finally:
        for name in names:
            subprocess.run([IP, "netns", "delete", name], check=False, capture_output=True)


def ip(*words):
    done = subprocess.run([IP, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no network namespaces: {done.stderr.strip()}")


@pytest.mark.slow
def test_two_machines_train_the_same_run(tmp_path, two_networks):
    jobs = []
    for rank, (name, end) in enumerate(two_networks):
        launch = [IP, "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
        where = ["--master-addr", "10.99.0.1", "--master-port", "29511", "--node-rank", str(rank)]
        options = ["--nnodes", "2", "--nproc-per-node", "1", *where, "-m", "fivestar", *TRAIN]
        jobs.append(
            subprocess.Popen(
                [*launch, *options, "--out", str(tmp_path / "two")],
                env={**os.environ, "GLOO_SOCKET_IFNAME": end},
            )
        )
    assert [job.wait(300) for job in jobs] == [0, 0]
    for name, end in two_networks:
        shown = subprocess.check_output([IP, "-n", name, "-s", "-j", "link", "show", end])
        assert json.loads(shown)[0]["stats64"]["rx"]["bytes"] > 100_000, "over the wire"
    done = command(*TRAIN, "--out", tmp_path / "one")
    assert done.returncode == 0, done.stderr
    one, two = (
        json.loads((tmp_path / name / "metrics.json").read_text())["valid"]["mrr"]
        for name in ("one", "two")
    )
    assert two == pytest.approx(one, abs=1e-3)
