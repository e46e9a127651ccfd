"""What a run promises: nothing is overwritten, misread, or written outside of its folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from tests.graphs import people_graph
from typer.testing import CliRunner

import fivestar
from fivestar import files
from fivestar.cli.main import app
from fivestar.errors import (
    DamagedCheckpoint,
    DamagedRun,
    Diverged,
    OutputError,
    Paused,
    SettingsError,
)
from fivestar.runs.manifest import MANIFEST
from fivestar.runs.run import CHECKPOINT, load_run, run_lock, write_tensors
from fivestar.training.checkpoint import FORMAT

SETTINGS = {"model": {"dim": 4}, "training": {"epochs": 4, "evaluate_every": 2, "batch_size": 20}}


def contents(folder):
    """Return every visible file of a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(".")
    }


@pytest.fixture(scope="module")
def graph():
    return people_graph()


@pytest.fixture(scope="module")
def complete(graph, tmp_path_factory):
    folder = tmp_path_factory.mktemp("complete") / "run"
    fivestar.train(graph, SETTINGS, folder)
    return folder


@pytest.fixture
def begun(graph, tmp_path):
    """A run that was interrupted after its second epoch."""

    def pause(line):
        if line["epoch"] == 2:
            raise Paused("enough")

    with pytest.raises(Paused):
        fivestar.train(graph, SETTINGS, tmp_path / "begun", on_epoch=pause)
    return tmp_path / "begun"


# A finished run is never overwritten.


def test_resuming_a_complete_run_changes_nothing(complete):
    before = contents(complete)
    assert fivestar.resume(complete).metrics == fivestar.load(complete).metrics
    shown = CliRunner().invoke(app, ["train", "--resume", str(complete)])
    assert shown.exit_code == 0
    assert "is complete: there is nothing to resume" in shown.output
    assert contents(complete) == before


def test_resuming_a_complete_run_without_a_checkpoint_does_not_retrain(complete, tmp_path):
    """A folded-in, converted or copied run has no checkpoint."""
    saved = tmp_path / "saved"
    run = load_run(complete)
    run.save(saved)
    assert not (saved / CHECKPOINT).exists()
    before = contents(saved)
    fivestar.resume(saved)
    assert contents(saved) == before


def test_a_damaged_complete_run_is_refused_instead_of_retrained(complete, tmp_path):
    folder = shutil.copytree(complete, tmp_path / "run")
    (folder / "model.safetensors").write_bytes(b"")
    before = contents(folder)
    with pytest.raises(DamagedRun, match="has changed since it was written"):
        fivestar.resume(folder)
    assert contents(folder) == before


# A warm start that is interrupted at once begins from its source, not from nothing.


def test_a_warm_start_has_its_beginning_before_it_is_visible(complete, graph, tmp_path):
    def pause(_):
        raise Paused("before the first step ends")

    warm = {**SETTINGS, "training": {**SETTINGS["training"], "epochs": 2}}
    whole = fivestar.train(graph, warm, tmp_path / "whole", warm_start=complete)
    with pytest.raises(Paused):
        fivestar.train(graph, warm, tmp_path / "cut", warm_start=complete, on_step=pause)
    resumed = fivestar.resume(tmp_path / "cut")
    for mine, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_full_disk_before_the_first_checkpoint_leaves_no_run(
    complete, graph, tmp_path, monkeypatch
):
    real = write_tensors

    def fails(path, *more):
        if path.name == CHECKPOINT:
            raise OutputError("No space left on device")
        real(path, *more)

    monkeypatch.setattr("fivestar.training.checkpoint.write_tensors", fails)
    with pytest.raises(OutputError):
        fivestar.train(graph, SETTINGS, tmp_path / "run", warm_start=complete)
    assert list(tmp_path.iterdir()) == []


# A checkpoint is used only if it is whole and belongs to the run.


def test_every_flipped_byte_of_a_checkpoint_is_noticed(begun):
    path = begun / CHECKPOINT
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    header = int.from_bytes(whole[:8], "little") + 8
    places = [*rng.integers(0, header, 60), *rng.integers(header, len(whole), 60)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(0, 8))
        path.write_bytes(damaged)
        try:
            resumed = fivestar.resume(begun)
        except DamagedCheckpoint:
            continue
        # Only white space of the header may differ without a consequence.
        assert place < header, f"byte {place} of {len(whole)}"
        assert resumed.metrics["epochs"] == 4
        pytest.fail(f"a flipped bit in byte {place} of the header was not noticed")


def test_a_checkpoint_of_another_run_of_the_same_shape_is_refused(begun, graph, tmp_path):
    def pause(line):
        raise Paused("enough")

    other = {**SETTINGS, "training": {**SETTINGS["training"], "seed": 1}}
    with pytest.raises(Paused):
        fivestar.train(graph, other, tmp_path / "other", on_epoch=pause)
    shutil.copy(tmp_path / "other" / CHECKPOINT, begun / CHECKPOINT)
    with pytest.raises(DamagedCheckpoint, match="another graph, settings or seed"):
        fivestar.resume(begun)


def notes_of(path):
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size])["__metadata__"]


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("optimizer.0.sum", lambda t: t[:1], "has the shape"),
        ("optimizer.0.sum", lambda t: t.to(torch.float64).fill_(torch.nan), "not finite"),
        ("model.entities", lambda t: t.fill_(torch.inf), "not finite"),
        ("model.entities", lambda t: t[:, :1], "has the shape"),
        ("best.relations", lambda t: t.T.contiguous(), "has the shape"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_even_without_a_hash(begun, name, change, problem):
    """As in a checkpoint of version 1, which had no hash."""
    path = begun / CHECKPOINT
    tensors = load_file(path)
    tensors[name] = change(tensors[name].clone())
    write_tensors(path, tensors, {"progress": notes_of(path)["progress"]})
    with pytest.raises(DamagedCheckpoint, match=problem):
        fivestar.resume(begun)


def test_a_checkpoint_of_version_1_is_read(begun, graph):
    path = begun / CHECKPOINT
    write_tensors(path, load_file(path), {"progress": notes_of(path)["progress"]})
    resumed, whole = fivestar.resume(begun), fivestar.train(graph, SETTINGS)
    for mine, theirs in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize(
    "change",
    [
        {"version": "3"},
        {"format": "another-checkpoint"},
        {"progress": "[]"},
        {"progress": '{"epoch": "many"}'},
        {"progress": "[" * 100_000},
        {"hash": None},
        {"run": None},
    ],
)
def test_a_checkpoint_with_another_header_is_refused(begun, change):
    path = begun / CHECKPOINT
    notes = {k: v for k, v in {**notes_of(path), **change}.items() if v is not None}
    assert notes["format"] in (FORMAT, "another-checkpoint")
    write_tensors(path, load_file(path), notes)
    with pytest.raises(DamagedCheckpoint, match="cannot be resumed from"):
        fivestar.resume(begun)


# Nothing is written or read through a link.


@pytest.mark.parametrize("place", ["snapshots", "history.jsonl", ".lock", "search", "graph/x"])
@pytest.mark.parametrize("kind", ["link to a folder", "link to a file", "broken link", "pipe"])
def test_links_and_pipes_in_a_run_are_refused(begun, tmp_path, place, kind):
    outside = tmp_path / "outside"
    path = begun / place
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        if kind == "link to a folder":
            outside.mkdir()
        elif kind == "link to a file":
            outside.write_text("precious")
        path.symlink_to(outside)
    with pytest.raises(DamagedRun, match="a run holds plain files only"):
        fivestar.resume(begun)
    if kind == "link to a folder":
        assert list(outside.iterdir()) == []
    elif kind == "link to a file":
        assert outside.read_text() == "precious"
    else:
        assert not outside.exists()


def test_a_complete_run_with_a_link_is_refused(complete, tmp_path):
    folder = shutil.copytree(complete, tmp_path / "run")
    weights = (folder / "model.safetensors").rename(tmp_path / "weights")
    (folder / "model.safetensors").symlink_to(weights)
    with pytest.raises(DamagedRun, match="is a link"):
        fivestar.load(folder)


def test_a_folder_that_is_itself_reached_by_a_link_is_fine(complete, tmp_path):
    (tmp_path / "link").symlink_to(complete)
    assert fivestar.load(tmp_path / "link").metrics["epochs"] == 4


# One process at a time.


def test_a_second_process_is_named_and_changes_nothing(begun):
    code = (
        "import sys, time; from pathlib import Path; from fivestar.runs.run import run_lock\n"
        "with run_lock(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(begun)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout.readline() == b"held\n"
            before = contents(begun)
            with pytest.raises(OutputError, match=f"process {other.pid} on .* writes to this run"):
                fivestar.resume(begun)
            assert contents(begun) == before
        finally:
            other.kill()
    assert fivestar.resume(begun).metrics["epochs"] == 4, "the lock of a killed process is free"


def test_a_lock_within_one_process_is_exclusive_too(begun):
    with run_lock(begun), pytest.raises(OutputError, match="writes to this run"), run_lock(begun):
        pass


# Settings that cannot be saved and read back are refused before anything is written.


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize(
    "name",
    ["lr", "reg_weight", "margin", "warmup", "clip", "max_minutes", "checkpoint_minutes"],
)
def test_settings_are_finite(name, value):
    with pytest.raises(SettingsError, match=name):
        fivestar.make_settings({"training": {name: value}})


@pytest.mark.parametrize("value", ["inf", "nan"])
def test_model_options_are_finite(value, tmp_path):
    with pytest.raises(SettingsError, match="finite"):
        fivestar.make_settings({"model": {"epsilon": float(value)}})
    words = ["train", "--epsilon", value, "--out", str(tmp_path / "run")]
    assert CliRunner().invoke(app, words).exit_code != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("threads", 10_000), ("epochs", 2**31), ("batch_size", 2**63), ("patience", 10**30)],
)
def test_whole_numbers_have_an_upper_bound(name, value):
    with pytest.raises(SettingsError, match=name):
        fivestar.make_settings({"training": {name: value}})


@settings(max_examples=60)
@given(
    lr=st.floats(1e-300, 1e300),
    reg=st.floats(0, 1e300),
    clip=st.floats(0, 1e-300),
    seed=st.integers(0, 2**31 - 1),
    memory=st.sampled_from([None, "2GiB", "0.5GB"]),
)
def test_what_is_written_is_read_back(lr, reg, clip, seed, memory):
    training = {"lr": lr, "reg_weight": reg, "clip": clip, "seed": seed, "memory": memory}
    made = fivestar.make_settings({"training": training})
    import tomllib  # noqa: PLC0415

    assert fivestar.make_settings(tomllib.loads(made.as_toml())) == made


# Weights that are not finite are never a model.


def test_weights_that_are_not_finite_are_refused_with_a_right_hash(complete, tmp_path):
    run = load_run(complete)
    with torch.no_grad():
        run.model.entities[0, 0] = torch.nan
    run.save(tmp_path / "run")
    with pytest.raises(DamagedRun, match="not finite"):
        load_run(tmp_path / "run")
    for command in (["score", "p1", "knows", "p2"], ["similar", "p1"], ["geometry"]):
        shown = CliRunner().invoke(app, [command[0], str(tmp_path / "run"), *command[1:]])
        assert shown.exit_code != 0, command
        assert not isinstance(shown.exception, AttributeError | TypeError)


def test_the_last_update_is_checked_too(graph, tmp_path, monkeypatch):
    from fivestar.training.optimizers import Optimizer  # noqa: PLC0415

    real = Optimizer.step

    def breaks(self, epochs_done):
        real(self, epochs_done)
        with torch.no_grad():
            self.model.entities[0, 0] = torch.inf

    monkeypatch.setattr(Optimizer, "step", breaks)
    training = {"epochs": 1, "batch_size": 10_000, "evaluate_every": 0}
    with pytest.raises(Diverged, match="not finite"):
        fivestar.train(graph, {**SETTINGS, "training": training}, tmp_path / "run")
    assert not (tmp_path / "run" / MANIFEST).exists()


# Leftovers of killed processes.


def test_abandoned_leftovers_are_removed_and_others_kept(tmp_path):
    old = time.time() - 3600
    abandoned = tmp_path / ".out.0123456789ab.partial"
    (abandoned / "inside").mkdir(parents=True)
    os.utime(abandoned, (old, old))
    young = tmp_path / ".out.ba9876543210.partial"
    young.mkdir()
    unrelated = tmp_path / ".other.0123456789ab.partial"
    unrelated.mkdir()
    os.utime(unrelated, (old, old))
    with files.atomic_folder(tmp_path / "out") as draft:
        os.utime(draft, (old, old))
        files.remove_leftovers(tmp_path, "out")
        assert draft.exists(), "a draft that is being written is locked"
    assert not abandoned.exists()
    assert young.exists()
    assert unrelated.exists()


def test_a_leftover_that_is_a_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("kept")
    link = tmp_path / ".out.0123456789ab.partial"
    link.symlink_to(precious)
    os.utime(link, (0, 0), follow_symlinks=False)
    with files.atomic_folder(tmp_path / "out"):
        pass
    assert (precious / "file").read_text() == "kept"


def test_folders_follow_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        with files.atomic_folder(tmp_path / "out"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
