"""The examples of deploy/ are valid, and name options that the command has."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer
import yaml

from fivestar.cli.main import app

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT, COMPOSE = DEPLOY / "fivestar.service", DEPLOY / "docker-compose.yml"
# Of the Compose specification: what a service, its build and its health check may have, as far as
# the example uses them.
SERVICE_KEYS = {
    *("build", "cap_drop", "command", "healthcheck", "image", "ports", "read_only", "restart"),
    *("secrets", "security_opt", "stop_grace_period", "tmpfs", "volumes"),
}
HEALTH_KEYS = {"interval", "retries", "start_period", "test", "timeout"}


def check_command(words):
    """Parse the words after `fivestar` as the command does."""
    command = typer.main.get_command(app).commands["serve"]
    assert words[0] == "serve"
    context = command.make_context("serve", [*words[1:], "--help"], resilient_parsing=True)
    assert context.params["reload_interval"] == 10
    assert context.params["log_format"] == "json"
    known = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def unit_text():
    return re.sub(r"\\\n\s+", "", UNIT.read_text())


def test_the_command_of_the_unit():
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read_string(unit_text())
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/fivestar")
    check_command(words)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze")
@pytest.mark.parametrize("is_broken", [False, True])
def test_the_unit_is_valid(tmp_path, is_broken):
    # The program of the unit is not installed here.
    text = UNIT.read_text().replace("/opt/fivestar/bin/fivestar", sys.executable)
    if is_broken:
        text = text.replace("ProtectSystem=", "ProtectSistem=")
    (tmp_path / "fivestar.service").write_text(text)
    words = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no"]
    done = subprocess.run(
        [*words, str(tmp_path / "fivestar.service")], capture_output=True, text=True, check=False
    )
    reported = [line for line in done.stderr.splitlines() if "fivestar.service" in line]
    assert bool(reported) == is_broken, done.stderr


def test_the_compose_file():
    document = yaml.safe_load(COMPOSE.read_text())
    assert set(document) == {"name", "services", "secrets"}
    service = document["services"]["fivestar"]
    assert set(service) <= SERVICE_KEYS
    assert set(service["healthcheck"]) <= HEALTH_KEYS
    assert service["healthcheck"]["test"][0] == "CMD"
    assert all(isinstance(word, str) for word in service["command"])
    check_command(service["command"])
    assert (COMPOSE.parent / service["build"] / "Dockerfile").is_file()
    assert set(service["secrets"]) == set(document["secrets"])
    # Reachable from this machine only, unless somebody decides otherwise.
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
