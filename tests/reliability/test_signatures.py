"""The recipe for signed runs of docs/reliability.md."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import fivestar
from fivestar.errors import DamagedRun

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
SIGN, VERIFY = re.findall(
    r"^    (ssh-keygen -Y .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")


def execute(line, folder):
    """Run a line of the page; return whether it succeeded."""
    command, _, source = line.partition(" < ")
    stdin = (folder / source).read_bytes() if source else b""
    done = subprocess.run(
        shlex.split(command), cwd=folder, input=stdin, capture_output=True, check=False
    )
    return done.returncode == 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signatures") / "run"
    facts = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
    settings = {"model": "complex", "dim": 4, "epochs": 1, "threads": 1, "progress": False}
    fivestar.train(facts, out=folder, **settings)
    return folder


@pytest.fixture
def signed(run, tmp_path):
    """A folder with a key, those whom we trust, and a signed run."""
    shutil.copytree(run, tmp_path / "my_run")
    assert execute("ssh-keygen -q -t ed25519 -N '' -f KEY", tmp_path)
    public = (tmp_path / "KEY.pub").read_text()
    (tmp_path / "ALLOWED_SIGNERS").write_text(f"NAME {public}")
    assert execute(SIGN, tmp_path)
    return tmp_path


def test_a_signed_run_verifies_and_loads(signed):
    assert execute(VERIFY, signed)
    fivestar.load(signed / "my_run").evaluate("train")


def test_another_key_does_not_verify(signed):
    assert execute("ssh-keygen -q -t ed25519 -N '' -f OTHER", signed)
    (signed / "ALLOWED_SIGNERS").write_text(f"NAME {(signed / 'OTHER.pub').read_text()}")
    assert not execute(VERIFY, signed)


def test_a_changed_manifest_does_not_verify(signed):
    manifest = signed / "my_run" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b"\n")
    assert not execute(VERIFY, signed)


def test_a_changed_file_does_not_load(signed):
    weights = signed / "my_run" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert execute(VERIFY, signed)
    with pytest.raises(DamagedRun, match="has changed"):
        fivestar.load(signed / "my_run")
