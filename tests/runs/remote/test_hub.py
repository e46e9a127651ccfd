"""Runs on the Hugging Face Hub, against a local server with its routes (fake_hub.py).

The Xet protocol of large uploads is not part of that server; they take the LFS routes here.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys

import pytest
from tests.runs.remote.fake_hub import fake_hub
from tests.runs.remote.test_cache import contents, published
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import DamagedRun, DownloadFailed, OutputError, SourceNotFound
from fivestar.runs.remote import locate_run

huggingface_hub = pytest.importorskip("huggingface_hub")

HUB = "hf://me/people"
# huggingface_hub itself, in its LFS uploads.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=")


@pytest.fixture
def hub(cache, monkeypatch, tmp_path):
    with fake_hub() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        monkeypatch.setenv("HF_TOKEN", server.token)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
        yield server
        huggingface_hub.close_session()


def test_a_run_comes_back_as_it_was(hub, run, cache):
    done = fivestar.push(run, HUB)
    assert done.is_new
    assert hub.files("me/people") == published(run)
    assert hub.objects.keys() >= {
        json.loads((run / "manifest.json").read_text())["files"]["model.safetensors"]
    }
    folder = locate_run(HUB)
    assert contents(folder) == published(run)
    assert folder.name == "people"
    assert fivestar.load(HUB).predict_tails("p1", "lives_in").as_json()
    assert "me/people" not in hub.private


def test_a_push_is_one_commit(hub, runs):
    one, two = runs
    fivestar.push(two, HUB)
    fivestar.push(one, HUB)
    # The first commit of a repository is empty here; the last one has removed the snapshot.
    assert [len(files) for files in hub.repositories["me/people"]["main"]] == [
        0,
        len(published(two)),
        len(published(one)),
    ]
    assert hub.files("me/people") == published(one)
    commits = [path for method, path in hub.asked if path.endswith("/commit/main")]
    assert len(commits) == 2
    assert not fivestar.push(one, HUB).is_new
    assert len(hub.repositories["me/people"]["main"]) == 3


@pytest.mark.slow
def test_a_push_that_fails_changes_nothing(hub, runs):
    one, two = runs
    fivestar.push(one, HUB)
    for route in ("PUT /upload", "POST .*/commit/"):
        hub.faults = {route: 400}
        with pytest.raises(OutputError, match="hf://me/people: "):
            fivestar.push(two, HUB)
        hub.faults = {}
        assert hub.files("me/people") == published(one)
        assert contents(locate_run(HUB)) == published(one)
    fivestar.push(two, HUB)
    assert contents(locate_run(HUB)) == published(two)


def test_files_of_others_stay(hub, run):
    hub.repository("me/people")["main"].append({".gitattributes": b"*.x lfs", "notes.md": b"hello"})
    fivestar.push(run, HUB)
    assert hub.files("me/people") == published(run) | {
        ".gitattributes": b"*.x lfs",
        "notes.md": b"hello",
    }
    # Only what the manifest lists is downloaded.
    assert contents(locate_run(HUB)) == published(run)


@pytest.mark.slow
def test_a_signature_goes_with_the_run(hub, runs, tmp_path):
    one, two = runs
    signed = tmp_path / "signed"
    shutil.copytree(one, signed)
    fivestar.push(signed, HUB)
    (signed / "manifest.json.sig").write_bytes(b"signature")
    fivestar.push(signed, HUB)
    assert contents(locate_run(HUB)) == published(one) | {"manifest.json.sig": b"signature"}
    fivestar.push(two, HUB)
    assert hub.files("me/people") == published(two)


@pytest.mark.slow
def test_revisions(hub, runs):
    one, two = runs
    first = fivestar.push(one, HUB).revision
    fivestar.push(two, f"{HUB}@v2")
    assert contents(locate_run(HUB)) == published(one)
    assert contents(locate_run(f"{HUB}@v2")) == published(two)
    fivestar.push(two, HUB)
    fixed = f"{HUB}@{first}"
    assert contents(locate_run(fixed)) == published(one)
    # A commit never changes: a second load asks for nothing.
    hub.asked.clear()
    assert contents(locate_run(fixed)) == published(one)
    assert hub.asked == []
    with pytest.raises(OutputError, match="a commit cannot be changed; name a branch"):
        fivestar.push(two, fixed)
    with pytest.raises(SourceNotFound, match="me/people has no revision 'v9'"):
        fivestar.load(f"{HUB}@v9")


def test_private_repositories(hub, run, monkeypatch):
    fivestar.push(run, HUB, private=True)
    assert "me/people" in hub.private
    locate_run(HUB)
    monkeypatch.setenv("FIVESTAR_CACHE", os.environ["FIVESTAR_CACHE"] + "-2")
    monkeypatch.setenv("HF_TOKEN", "hf_anothertokenanother")
    with pytest.raises(SourceNotFound, match=r"or you may not see it.*HF_TOKEN"):
        fivestar.load(HUB)
    with pytest.raises(OutputError, match=r"not allowed; log in with `hf auth login`"):
        fivestar.push(run, "hf://me/other")


def test_clear_errors(hub, run, cache):
    with pytest.raises(SourceNotFound, match="there is no repository nobody/nothing"):
        fivestar.load("hf://nobody/nothing")
    hub.repository("me/text")["main"].append({"README.md": b"hello"})
    with pytest.raises(SourceNotFound, match="is not a run of fivestar: it has no manifest"):
        fivestar.load("hf://me/text")
    fivestar.push(run, HUB)
    hub.gated.add("me/people")
    with pytest.raises(DownloadFailed, match="not allowed: ask for access on its page"):
        fivestar.load(HUB)
    hub.gated.clear()
    files = hub.files("me/people")
    whole = dict(files)
    files["metrics.json"] = b"{}"
    with pytest.raises(DamagedRun, match=r"metrics\.json is not the file that its manifest"):
        fivestar.load(HUB)
    del files["metrics.json"]
    with pytest.raises(DamagedRun, match=r"metrics\.json is missing"):
        fivestar.load(HUB)
    files["manifest.json"] = b"[]"
    with pytest.raises(DamagedRun, match="is not the manifest of a run"):
        fivestar.load(HUB)
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]
    files |= whole
    assert contents(locate_run(HUB)) == published(run)


@pytest.mark.parametrize("name", ["../../evil", ".cache/evil"])
def test_hostile_names_are_refused(hub, run, tmp_path, name):
    fivestar.push(run, HUB)
    files = hub.files("me/people")
    manifest = json.loads(files["manifest.json"])
    manifest["files"][name] = "0" * 64
    files["manifest.json"] = json.dumps(manifest).encode()
    files[name] = b"evil"
    with pytest.raises(DamagedRun, match="names a file that is refused"):
        fivestar.load(HUB)
    assert not list(tmp_path.rglob("*evil*"))


def test_without_network(hub, run, monkeypatch):
    fivestar.push(run, HUB)
    folder = locate_run(HUB)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.warns(UserWarning, match="the Hub does not respond; check the network; using the"):
        assert locate_run(HUB) == folder
    with pytest.raises(DownloadFailed, match="the Hub does not respond"):
        locate_run("hf://me/other")
    with pytest.raises(OutputError, match="the Hub does not respond"):
        fivestar.push(run, HUB)
    monkeypatch.setenv("FIVESTAR_OFFLINE", "1")
    assert locate_run(HUB) == folder


@pytest.mark.parametrize(
    "status",
    [403, *(pytest.param(code, marks=pytest.mark.slow) for code in (400, 401, 404, 429, 500))],
)
def test_tokens_are_never_shown(hub, run, capfd, caplog, status, monkeypatch):
    """The server repeats the token in its answers."""
    monkeypatch.setattr("time.sleep", lambda _: None)  # between attempts
    caplog.set_level(logging.DEBUG, "fivestar")
    shown = []
    fivestar.push(run, HUB)
    for route in ("GET /api/models", "GET /me/people", "POST .*/commit/", "PUT /upload"):
        hub.faults = {route: status}
        for call in (lambda: fivestar.load(HUB), lambda: fivestar.push(run, "hf://me/new")):
            try:
                call()
            except fivestar.FivestarError as error:
                shown += [str(error), str(error.__cause__)]
        shown.append(CliRunner().invoke(app, ["ask", HUB, "p1", "lives_in", "_"]).output)
    assert any(HUB in text for text in shown)
    records = [record.getMessage() for record in caplog.records if record.name[:8] == "fivestar"]
    for text in (*shown, *capfd.readouterr(), *records):
        assert hub.token not in text


def test_the_card_is_one_that_the_hub_reads(run):
    card = huggingface_hub.ModelCard.load(run / "README.md")
    assert card.data.library_name == "fivestar-kge"
    assert card.data.pipeline_tag == "graph-ml"
    results = {result.metric_type: result for result in card.data.eval_results}
    assert results.keys() == {"mrr", "hits@1", "hits@3", "hits@10"}
    metrics = json.loads((run / "metrics.json").read_text())["valid"]
    assert results["mrr"].metric_value == pytest.approx(metrics["mrr"], abs=5e-5)
    assert results["mrr"].dataset_split == "valid"


def test_the_commands(hub, run):
    def execute(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    done = execute("push", run, HUB, "--private", "--message", "First try")
    assert done.exit_code == 0, done.output
    assert "files, " in done.output
    assert f"pushed to {HUB} (commit " in done.output
    asked = execute("ask", HUB, "p1", "lives_in", "_", "--json")
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)


def test_imports_stay_light():
    """Neither `import fivestar` nor loading a local run imports the packages of the stores."""
    program = (
        "import sys, fivestar, fivestar.cli.main, fivestar.runs.remote\n"
        "from fivestar.runs.remote import hub, object_store\n"
        "names = {'huggingface_hub', 's3fs', 'gcsfs', 'botocore', 'aiohttp'} & sys.modules.keys()\n"
        "sys.exit(str(names) if names else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
