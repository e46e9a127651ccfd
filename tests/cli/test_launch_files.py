"""The files of deploy/ that train on a cluster are valid, and name options that exist."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml
from torch.distributed.run import parse_args

from fivestar.cli.main import app
from fivestar.runs.run import load_run

DEPLOY = Path(__file__).parents[2] / "deploy"
SLURM, KUBERNETES = DEPLOY / "train.sbatch", DEPLOY / "pytorchjob.yaml"
BASH = shutil.which("bash") or ""
pytestmark = pytest.mark.skipif(not BASH, reason="needs bash")

# Of sbatch, as far as the example uses them.
SBATCH_OPTIONS = {
    *("job-name", "nodes", "ntasks-per-node", "cpus-per-task", "mem", "time"),
    *("requeue", "open-mode"),
}


def check_launch(words):
    """Parse a torchrun command as torchrun and fivestar do; return the options of both."""
    assert words[0] == "torchrun"
    launch = parse_args(words[1:])
    assert launch.module
    assert launch.training_script == "fivestar"
    name, *options = launch.training_script_args
    command = typer.main.get_command(app).commands["train"]
    assert name == command.name == "train"
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in options if word.startswith("--")} <= known
    return launch, command.make_context("train", options, resilient_parsing=True).params


@pytest.fixture
def slurm(tmp_path):
    """Return a function that runs the Slurm script with stand-ins for the commands of Slurm."""
    programs = tmp_path / "bin"
    programs.mkdir()
    # The first task is run here; what Slurm passes to it is written to a file.
    for name, body in {
        "scontrol": 'printf "localhost\\nother\\n"',
        "srun": f'shift; printf "%s\\n" "$@" > {tmp_path}/task; [[ -n ${{DRY:-}} ]] || "$@"',
        "torchrun": f'exec {sys.executable} -m torch.distributed.run "$@"',
    }.items():
        (programs / name).write_text(f"#!{BASH}\n{body}\n")
        (programs / name).chmod(0o755)

    def run(*words, nodes=1, **environment):
        environment |= {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n", "SLURM_NNODES": str(nodes)}
        environment |= {"SLURM_CPUS_PER_TASK": "2", "PATH": f"{programs}:{os.environ['PATH']}"}
        done = subprocess.run(
            [BASH, str(SLURM), *map(str, words)],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return (tmp_path / "task").read_text().splitlines(), done

    return run


def test_the_syntax_of_the_slurm_script():
    subprocess.run([BASH, "-n", str(SLURM)], check=True)
    options = re.findall(r"^#SBATCH --([\w-]+)", SLURM.read_text(), re.MULTILINE)
    assert set(options) == SBATCH_OPTIONS
    assert len(options) == SLURM.read_text().count("#SBATCH")


def test_the_command_of_the_slurm_script(slurm, tmp_path):
    run = tmp_path / "run"
    task, _ = slurm("graph.tsv", run, "--dim", 6, nodes=4, DRY="1")
    launch, train = check_launch(task)
    assert (launch.nnodes, launch.nproc_per_node) == ("4", "2")
    assert launch.rdzv_endpoint == "localhost:29500"
    assert (train["source"], train["to"], train["dim"]) == ("graph.tsv", run, 6)
    assert 8 % train["query_groups"] == 0
    run.mkdir()
    (run / "settings.toml").touch()
    _, train = check_launch(slurm("graph.tsv", run, nodes=4, DRY="1")[0])
    assert train["resume_from"] == run
    assert train["source"] is None


@pytest.mark.slow
def test_the_slurm_script_trains_and_a_second_job_finds_the_run(slurm, tmp_path):
    words = ["demo", tmp_path / "run", "--dim", 4, "--epochs", 1]
    slurm(*words)
    assert load_run(tmp_path / "run").settings.model.dim == 4
    assert "is complete: there is nothing to resume" in slurm(*words)[1].stderr


def test_the_command_of_the_kubernetes_job():
    job = yaml.safe_load(KUBERNETES.read_text())
    assert (job["apiVersion"], job["kind"]) == ("kubeflow.org/v1", "PyTorchJob")
    policy, worker = job["spec"]["elasticPolicy"], job["spec"]["pytorchReplicaSpecs"]["Worker"]
    # The number of processes must not change while they share a table.
    assert policy["minReplicas"] == policy["maxReplicas"] == worker["replicas"]
    pod = worker["template"]["spec"]
    (container,) = pod["containers"]
    assert container["name"] == "pytorch"
    assert all(isinstance(word, str) for word in container["command"])
    launch, train = check_launch(container["command"])
    processes = worker["replicas"] * int(launch.nproc_per_node)
    assert processes % train["query_groups"] == 0
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounted) == {volume["name"] for volume in pod["volumes"]}
    assert all(path.startswith(mounted["shared"]) for path in (train["source"], str(train["to"])))
    # As in the image.
    assert (
        f"USER {pod['securityContext']['runAsUser']}" in (DEPLOY.parent / "Dockerfile").read_text()
    )
