"""Runs in stores are loaded complete and verified, or not at all; so is the cache filled."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import (
    DamagedRun,
    DownloadFailed,
    MissingExtra,
    OutputError,
    SettingsError,
    SourceNotFound,
)
from fivestar.runs.remote import locate_run
from fivestar.runs.remote import object_store as object_store_module
from fivestar.runs.remote.address import SCHEMES, Address, parse_address, redact
from fivestar.runs.remote.object_store import ObjectStore
from fivestar.runs.remote.store import NoNetwork, check_names


@pytest.fixture(params=["memory", "file"])
def address(request, tmp_path, cache):
    """An address at which there is nothing yet."""
    if request.param == "file":
        yield f"file://{tmp_path}/a share@[home]/my_run"
        return
    yield MEMORY
    _empty_memory()


MEMORY = "memory://bucket/my_run"


def _empty_memory():
    memory = fsspec.filesystem("memory")
    if memory.exists("/bucket"):
        memory.rm("/bucket", recursive=True)


@pytest.fixture
def memory(cache):
    yield fsspec.filesystem("memory")
    _empty_memory()


@pytest.fixture
def share(tmp_path, cache):
    """An address that other processes see, too."""
    return f"file://{tmp_path}/share/my_run"


def contents(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def published(run):
    """The files of a run that are published."""
    names = json.loads((run / "manifest.json").read_text())["files"]
    return {name: (run / name).read_bytes() for name in (*names, "manifest.json")}


def test_a_run_comes_back_as_it_was(address, run, cache):
    done = fivestar.push(run, address)
    files = published(run)
    assert (done.files, done.bytes) == (len(files), sum(map(len, files.values())))
    folder = locate_run(address)
    assert contents(folder) == files
    assert folder.name == "my_run"
    assert folder.is_relative_to(cache)
    before, after = fivestar.load(run), fivestar.load(address)
    queries = ("p1", "lives_in")
    assert before.predict_tails(*queries).as_json() == after.predict_tails(*queries).as_json()
    # Checkpoints and locks stay at home.
    assert "checkpoint.safetensors" not in files
    assert (run / "checkpoint.safetensors").exists()


def test_a_second_load_downloads_nothing(address, run, monkeypatch):
    fivestar.push(run, address)
    said = []
    folder = locate_run(address, announce=said.append)
    size = sum(map(len, published(run).values()))
    assert said[0].startswith(f"downloading {address}: {len(published(run))} files, ")
    assert f"{size / 1000:.1f} kB" in said[0]
    assert said[1].startswith("the cache of runs, ")
    monkeypatch.setattr(ObjectStore, "download", None)
    assert locate_run(address, announce=said.append) == folder
    assert len(said) == 2


def test_a_new_version_is_found_and_the_old_one_stays(address, runs):
    one, two = runs
    fivestar.push(one, address)
    first = locate_run(address)
    with pytest.raises(OutputError, match="another run is there; pass existing='replace'"):
        fivestar.push(two, address)
    fivestar.push(two, address, existing="replace")
    second = locate_run(address)
    assert contents(first) == published(one)
    assert contents(second) == published(two)
    assert any(name.startswith("snapshots/") for name in contents(second))
    assert not fivestar.push(two, address).is_new
    # What the new run does not have is removed.
    fivestar.push(one, address, existing="replace")
    store = ObjectStore(parse_address(address))
    assert not store.files.exists(f"{store.address.path}/snapshots/epoch-1.safetensors")
    assert contents(locate_run(address)) == published(one)


def test_a_push_that_did_not_end_is_no_run(address, runs, monkeypatch):
    one, two = runs
    fivestar.push(one, address)
    first = locate_run(address)
    names = []

    class Cut(ObjectStore):
        def __init__(self, where):
            super().__init__(where)
            real = self.files.put_file

            def put_file(source, target):
                names.append(target)
                if len(names) == 4:
                    raise ConnectionError("cut")
                real(source, target)

            self.files.put_file = put_file

    monkeypatch.setattr(object_store_module, "ObjectStore", Cut)
    with pytest.raises(OutputError, match="does not respond"):
        fivestar.push(two, address, existing="replace")
    with pytest.raises(SourceNotFound, match="if a push to it did not end"):
        locate_run(address)
    assert contents(first) == published(one)
    monkeypatch.undo()
    monkeypatch.setenv("FIVESTAR_CACHE", str(first.parents[3]))
    monkeypatch.delenv("FIVESTAR_OFFLINE", raising=False)
    fivestar.push(two, address)
    assert contents(locate_run(address)) == published(two)
    assert not any(name.endswith("my_run/manifest.json") for name in names)


def test_a_signature_goes_with_the_run(address, runs, tmp_path):
    one, two = runs
    signed = tmp_path / "signed"
    shutil.copytree(one, signed)
    fivestar.push(signed, address)
    assert "manifest.json.sig" not in contents(locate_run(address))
    (signed / "manifest.json.sig").write_bytes(b"signature")
    fivestar.push(signed, address)  # the run is there already
    folder = locate_run(address)
    assert contents(folder) == published(one) | {"manifest.json.sig": b"signature"}
    fivestar.push(two, address, existing="replace")
    assert contents(locate_run(address)) == published(two)


def test_a_license_is_named_in_the_card(memory, run, tmp_path):
    before = published(run)
    fivestar.push(run, MEMORY, license="cc-by-4.0")
    found = contents(locate_run(MEMORY))
    changed = {name for name in found if found[name] != before[name]}
    assert changed == {"README.md", "manifest.json"}
    assert found["README.md"].decode().splitlines()[:2] == ["---", "license: cc-by-4.0"]
    assert found["README.md"].replace(b"license: cc-by-4.0\n", b"") == before["README.md"]
    assert published(run) == before
    assert not fivestar.push(run, MEMORY, license="cc-by-4.0").is_new
    with pytest.raises(SettingsError, match="an identifier of the Hub"):
        fivestar.push(run, MEMORY, license="my own\nlicense")
    signed = tmp_path / "signed"
    shutil.copytree(run, signed)
    (signed / "manifest.json.sig").write_bytes(b"signature")
    with pytest.raises(SettingsError, match="whose signature would no longer be valid"):
        fivestar.push(signed, MEMORY, license="mit")


def test_the_manifest_is_written_last(memory, run):
    order = []
    store = ObjectStore(parse_address(MEMORY))
    real = store.files.put_file
    store.files.put_file = lambda source, target: (order.append(target), real(source, target))
    files = {name: run / name for name in published(run)}
    store.push(run, files, private=False, existing="fail", message="")
    assert order[-1].endswith("/manifest.json")
    assert len(order) == len(files)


def test_damage_in_the_store_is_noticed(memory, run, cache):
    fivestar.push(run, MEMORY)
    name = "/bucket/my_run/model.safetensors"
    content = memory.cat_file(name)
    memory.pipe_file(name, content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DamagedRun, match=r"model\.safetensors is not the file that its manifest"):
        fivestar.load(MEMORY)
    memory.rm_file(name)
    with pytest.raises(DamagedRun, match=r"my_run/model\.safetensors: is missing"):
        fivestar.load(MEMORY)
    # Nothing of it is in the cache.
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]
    memory.pipe_file(name, content)
    assert contents(locate_run(MEMORY)) == published(run)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{}", "is not the manifest of a run"),
        (b"[", "is not the manifest of a run"),
        (b'{"format": "other", "version": 1, "files": {}}', "this fivestar reads"),
        (b" " * ((16 << 20) + 1), "too large for a run"),
    ],
    ids=["empty", "broken", "other", "large"],
)
def test_other_manifests_are_refused(memory, content, message):
    memory.pipe_file("/bucket/my_run/manifest.json", content)
    with pytest.raises(DamagedRun, match=message):
        fivestar.load(MEMORY)


def test_other_folders_are_refused(address):
    with pytest.raises(SourceNotFound, match="there is no run: it has no manifest"):
        fivestar.load(address)


HOSTILE = [
    *("../evil", "a/../../evil", "/etc/passwd", "..", "a//b", "a/", "", ".hidden", "a/.b"),
    *("a\\b", "C:evil", "a\nb", "a\0b", "manifest.json", "x" * 201, "con*", "a.", "a ", "~/x\x1b"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_refused(memory, run, cache, tmp_path, name):
    fivestar.push(run, MEMORY)
    manifest = json.loads(memory.cat_file("/bucket/my_run/manifest.json"))
    manifest["files"][name] = hashlib.sha256(b"evil").hexdigest()
    memory.pipe_file("/bucket/my_run/manifest.json", json.dumps(manifest).encode())
    with pytest.raises(DamagedRun, match="names a file that is refused"):
        fivestar.load(MEMORY)
    assert not list(tmp_path.rglob("*evil*"))


def test_names_that_clash_are_refused():
    with pytest.raises(DamagedRun, match="refused"):
        check_names(["Graph", "graph"], "here")
    with pytest.raises(DamagedRun, match="a file and a folder 'graph'"):
        check_names(["graph", "graph/train"], "here")
    check_names(["graph/train.parquet", "graph/valid.parquet", "a-b_c.1"], "here")


@given(st.text(max_size=30))
def test_safe_names_stay_in_their_folder(name):
    try:
        check_names([name], "here")
    except DamagedRun:
        return
    folder = Path("/somewhere/folder")
    assert Path(os.path.normpath(folder / name)).is_relative_to(folder)
    assert (folder / name).relative_to(folder).as_posix() == name


def test_offline_use(address, run, cache, monkeypatch):
    with monkeypatch.context() as offline:
        offline.setenv("FIVESTAR_OFFLINE", "1")
        with pytest.raises(SourceNotFound, match="there is no run"):
            fivestar.load(address)  # folders are read: no network is needed
    monkeypatch.setattr(Address, "is_local", False)
    with monkeypatch.context() as offline:
        offline.setenv("FIVESTAR_OFFLINE", "1")
        with pytest.raises(
            DownloadFailed, match=r"is not in the cache .* \$FIVESTAR_OFFLINE forbids"
        ):
            fivestar.load(address)
    fivestar.push(run, address)
    folder = locate_run(address)
    monkeypatch.setattr(ObjectStore, "look", None)
    for variable in ("FIVESTAR_OFFLINE", "HF_HUB_OFFLINE"):
        with monkeypatch.context() as offline:
            offline.setenv(variable, "1")
            assert locate_run(address) == folder


def test_without_network_the_last_version_is_used(address, run, monkeypatch):
    fivestar.push(run, address)
    folder = locate_run(address)

    def unreachable(self):
        raise NoNetwork(f"{self.address}: the store does not respond; check the network")

    monkeypatch.setattr(ObjectStore, "look", unreachable)
    with pytest.warns(UserWarning, match="does not respond; check the network; using the copy of"):
        assert locate_run(address) == folder
    shutil.rmtree(folder)
    with pytest.raises(DownloadFailed, match="does not respond"):
        locate_run(address)


def test_a_damaged_copy_is_downloaded_again(address, run, monkeypatch):
    fivestar.push(run, address)
    folder = locate_run(address)
    (folder / "metrics.json").write_bytes(b"{}")
    with monkeypatch.context() as offline:
        offline.setenv("FIVESTAR_OFFLINE", "1")
        offline.setattr(Address, "is_local", False)
        with pytest.raises(DownloadFailed, match="is not in the cache"):
            locate_run(address)
    assert locate_run(address) == folder
    assert contents(folder) == published(run)


def test_a_download_that_is_killed_leaves_no_run(share, run, cache, monkeypatch):
    fivestar.push(run, share)
    real, done = ObjectStore.download, []

    def die(self, version, name, folder):
        done.append(name)
        if len(done) == 5:
            os._exit(9)
        real(self, version, name, folder)

    monkeypatch.setattr(ObjectStore, "download", die)
    process = multiprocessing.get_context("fork").Process(target=locate_run, args=(share,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    monkeypatch.setattr(ObjectStore, "download", real)
    assert not [path for path in cache.rglob("my_run") if path.is_dir()]
    with monkeypatch.context() as offline:
        offline.setenv("FIVESTAR_OFFLINE", "1")
        offline.setattr(Address, "is_local", False)
        with pytest.raises(DownloadFailed, match="not in the cache"):
            locate_run(share)
    assert contents(locate_run(share)) == published(run)


def _locate(address, results):
    results.put(str(locate_run(address)))


def test_two_processes_download_once(share, run, tmp_path, monkeypatch):
    fivestar.push(run, share)
    real, log = ObjectStore.download, tmp_path / "log"

    def logged(self, version, name, folder):
        with log.open("a") as file:
            file.write(f"{name}\n")
        real(self, version, name, folder)

    monkeypatch.setattr(ObjectStore, "download", logged)
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    both = [fork.Process(target=_locate, args=(share, results)) for _ in range(2)]
    for process in both:
        process.start()
    assert len({results.get(timeout=60) for _ in both}) == 1
    for process in both:
        process.join()
    assert len(log.read_text().splitlines()) == len(published(run)) - 1


def test_a_full_disk(memory, run, monkeypatch):
    fivestar.push(run, MEMORY)
    usage = shutil.disk_usage(".")._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OutputError, match=r"has 1\d\.\d kB, and .* has room for 100 bytes"):
        locate_run(MEMORY)


def test_only_complete_runs_are_pushed(address, run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "metrics.json").write_bytes(b"{}")
    with pytest.raises(DamagedRun, match="has changed"):
        fivestar.push(copy, address)
    with pytest.raises(SourceNotFound, match="no folder"):
        fivestar.push(tmp_path / "none", address)
    with pytest.raises(SettingsError, match="choose 'fail' or 'replace'"):
        fivestar.push(run, address, existing="maybe")
    with pytest.raises(SettingsError, match="private"):
        fivestar.push(run, address, private=True)
    with pytest.raises(SourceNotFound, match="there is no run"):
        locate_run(address)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hf://name", "hf://owner/name"),
        ("hf://owner/name/more", "hf://owner/name"),
        ("hf://../name", "hf://owner/name"),
        ("hf://owner/na me", "hf://owner/name"),
        ("s3://", "s3://bucket/path"),
        ("s3://bucket/../other", "s3://bucket/path"),
        ("s3://bucket/a::file:///etc", "s3://bucket/path"),
        ("s3://bucket/*", "s3://bucket/path"),
        ("s3://key:secret@bucket/path", "credentials do not belong"),
        ("hf:/owner/name", "pass it as a string"),
        ("s3:/bucket", "pass it as a string"),
    ],
)
def test_other_addresses_are_refused(text, message, cache):
    with pytest.raises(SourceNotFound, match=message) as refused:
        fivestar.load(Path(text) if text.count("/") == 1 or ":/o" in text else text)
    assert "secret" not in str(refused.value)


def test_other_schemes_are_paths_or_errors(run):
    with pytest.raises(SourceNotFound, match="no folder"):
        fivestar.load("https://example.org/run")
    with pytest.raises(SourceNotFound, match="is not the address of a run"):
        fivestar.push(run, "ftp://example.org/run")


@given(st.sampled_from(SCHEMES), st.text(max_size=40))
def test_addresses_are_parsed_or_refused(scheme, rest):
    try:
        address = parse_address(f"{scheme}://{rest}")
    except SourceNotFound:
        return
    assert parse_address(str(address)) == address
    for name in (address.name, address.key):
        assert name == Path(name).name
        assert name.isascii()
        assert name not in {"", ".", ".."}


def test_addresses():
    assert str(parse_address("file://a/b")) == f"file://{Path.cwd()}/a/b"
    assert parse_address("hf://a/b@refs/pr/1") == Address("hf", "a/b", "refs/pr/1")
    assert parse_address("hf://a/b").key != parse_address("hf://a/b@v1").key
    assert parse_address(f"hf://a/b@{'0' * 40}").is_fixed
    assert not parse_address("hf://a/b@main").is_fixed
    assert parse_address("s3://bucket/a/run/").name == "run"


def test_secrets_are_redacted():
    text = redact("https://u:p@x.org/a?token=1 hf_abcdefghijk AKIAABCDEFGHIJKL me", "me")
    assert text == "https://***@x.org/a *** *** ***"


def test_an_extra_that_is_not_installed(run, cache, monkeypatch):
    for module in ("s3fs", "gcsfs", "huggingface_hub"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    for address, extra in (("s3://b/x", "s3"), ("gs://b/x", "gs"), ("hf://a/b", "hub")):
        with pytest.raises(MissingExtra, match=rf"pip install 'fivestar-kge\[{extra}\]'"):
            fivestar.load(address)
        with pytest.raises(MissingExtra):
            fivestar.push(run, address)


def test_the_commands(address, run, cache):
    def execute(*words):
        return CliRunner().invoke(app, [str(word) for word in words])

    pushed = execute("push", run, address)
    assert pushed.exit_code == 0, pushed.output
    assert f"pushed to {address}" in pushed.output
    assert f"unchanged at {address}" in execute("push", run, address).output
    asked = execute("ask", address, "p1", "lives_in", "_", "--json")
    assert asked.exit_code == 0, asked.output
    assert "downloading" in asked.stderr
    local = execute("ask", run, "p1", "lives_in", "_", "--json")
    assert json.loads(asked.stdout) == json.loads(local.stdout)
    assert execute("similar", address, "p1").exit_code == 0


def test_commands_with_folders_of_their_own(memory, run, tmp_path):
    fivestar.push(run, MEMORY)
    small = ["--model", "complex", "--dim", "4", "--epochs", "1", "--threads", "1"]
    for words in (
        ["evaluate", MEMORY],
        ["export", MEMORY, "--to", "huggingface", "--out", tmp_path / "hub"],
        ["train", run / "graph", "--from", MEMORY, "--out", tmp_path / "warm", *small],
    ):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
    assert contents(tmp_path / "hub") == published(run)
    assert fivestar.load(tmp_path / "warm").metrics["started_from"]
    again = fivestar.train(run / "graph", warm_start=MEMORY, epochs=1, threads=1)
    assert again.metrics["started_from"]["entities"]["new"] == 0
