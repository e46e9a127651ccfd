"""The command line in several processes that share the entity table."""

from __future__ import annotations

import json
import os
import shutil
import signal
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
    with subprocess.Popen([sys.executable, "-m", "fivestar", *options]) as job:
        _kill_one_process(job, run, "checkpoint*")
        assert job.wait(300) == 1
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


@pytest.mark.slow
@NEEDS_PROC
def test_a_killed_process_ends_the_training_and_a_restart_resumes_it(tmp_path):
    run, launch = tmp_path / "run", [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*TRAIN, "--epochs", "200", "--checkpoint-every", "1", "--patience", "0"]
    options = ["--nproc-per-node", "2", "--max-restarts", "1", "-m", "fivestar", *words]
    with subprocess.Popen([*launch, *options, "--out", str(run)]) as job:
        _kill_one_process(job, run, "checkpoint-[1-9]*")
        assert job.wait(300) == 0
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in history] == list(range(1, 201))
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
