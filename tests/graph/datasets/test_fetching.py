"""Datasets are downloaded completely and verified, or not at all."""

from __future__ import annotations

import gzip
import hashlib
import io
import multiprocessing
import tarfile
from functools import partial

import pytest
from tests.graph.datasets.faulty_server import faulty_server
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import DamagedDataset, DownloadFailed, SourceNotFound
from fivestar.graph.datasets import catalog as catalog_module
from fivestar.graph.datasets import data_folder
from fivestar.graph.datasets import download as download_module
from fivestar.graph.datasets.catalog import (
    Dataset,
    Source,
    SplitFile,
    fetch,
    find_dataset,
    load_catalog,
    verify,
)
from fivestar.graph.datasets.layouts import LAYOUTS

FILES = {
    "train.txt": b"".join(b"a%d\tr\tb%d\n" % (i, i % 7) for i in range(3000)),
    "valid.txt": b"a1\tr\tb2\n",
    "test.txt": b"a2\tr\tb3\n",
}
QUICK = download_module.RetryPolicy(attempts=4, pause=0.01, timeout=0.5)


def published(content):
    digest = hashlib.sha256(content).hexdigest()
    return SplitFile(lines=content.count(b"\n"), bytes=len(content), sha256=digest)


def dataset(*sources):
    splits = {name.removesuffix(".txt"): published(content) for name, content in FILES.items()}
    about = {"title": "t", "license": "l", "citation": "c", "entities": 3007, "relations": 1}
    return Dataset(name="tiny", sources=sources, **about, **splits)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("FIVESTAR_OFFLINE")
    monkeypatch.setattr(catalog_module, "download", partial(download_module.download, policy=QUICK))
    with faulty_server() as state:
        for name, content in FILES.items():
            state.files[f"/good/{name}"] = content
        yield state


def folder_of(server, name="good"):
    return Source(folder=f"{server.address}/{name}")


def assert_whole(folder):
    assert {path.name: path.read_bytes() for path in (folder / "tiny").iterdir()} == FILES
    assert [path.name for path in folder.iterdir() if path.name != ".tiny.lock"] == ["tiny"]


def test_a_dataset_is_downloaded_once(server, tmp_path):
    seen = []
    place = fetch(dataset(folder_of(server)), tmp_path, progress=lambda *at: seen.append(at))
    assert_whole(tmp_path)
    whole = sum(map(len, FILES.values()))
    assert seen[-1] == (whole, whole)
    assert seen == sorted(seen)
    verify(dataset(), place)
    before = len(server.asked)
    assert fetch(dataset(folder_of(server)), tmp_path) == place
    assert len(server.asked) == before


@pytest.mark.parametrize(
    "faults",
    [
        ["cut", "none"],
        ["cut", "cut", "none"],
        ["500", "503", "none"],
        ["429", "none"],
        ["no length"],
        ["cut", "no range"],
        ["silent", "none"],
        ["cut", "wrong range", "none"],
    ],
    ids=" ".join,
)
def test_temporary_faults_are_retried(server, tmp_path, faults):
    server.faults["/good/train.txt"] = list(faults)
    fetch(dataset(folder_of(server)), tmp_path)
    assert_whole(tmp_path)
    ranges = [wanted for path, wanted in server.asked if path == "/good/train.txt"]
    assert len(ranges) == len(faults)
    if faults[0] == "cut":
        assert ranges[1] == f"bytes={len(FILES['train.txt']) // 2}-"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("404", "404 Not Found"),
        ("403", "403 Forbidden"),
        ("500", "500 Internal Server Error"),
        ("silent", "timed out"),
        ("redirect file:///etc/passwd", "302 Found - Redirection"),
        ("redirect ftp://127.0.0.1/x", "302 Found"),
        ("redirect http://127.0.0.1:1/x", "refused"),
    ],
)
def test_permanent_faults_are_errors(server, tmp_path, fault, message):
    server.files["/good/test.txt"] = FILES["test.txt"] * 3 if fault == "silent" else b"x"
    server.faults["/good/train.txt"] = [fault]
    with pytest.raises(DownloadFailed, match="tiny cannot be downloaded") as failed:
        fetch(dataset(folder_of(server)), tmp_path)
    assert message in str(failed.value)
    assert "mirror='URL'" in str(failed.value)
    assert not (tmp_path / "tiny").exists()


def test_a_slow_server_is_an_error(server, tmp_path, monkeypatch):
    slow = download_module.RetryPolicy(attempts=2, pause=0.01, timeout=0.3, min_rate=5000)
    monkeypatch.setattr(catalog_module, "download", partial(download_module.download, policy=slow))
    server.faults["/good/train.txt"] = ["drip"]
    with pytest.raises(DownloadFailed, match="slower than 5,000 bytes per second"):
        fetch(dataset(folder_of(server)), tmp_path)


def test_a_later_attempt_resumes_the_download(server, tmp_path):
    server.faults["/good/train.txt"] = ["cut", "404"]
    with pytest.raises(DownloadFailed):
        fetch(dataset(folder_of(server)), tmp_path)
    assert not (tmp_path / "tiny").exists()
    server.faults["/good/train.txt"] = ["none"]
    server.asked.clear()
    fetch(dataset(folder_of(server)), tmp_path)
    assert server.asked[0] == ("/good/train.txt", f"bytes={len(FILES['train.txt']) // 2}-")
    assert_whole(tmp_path)


def test_a_part_of_another_file_is_replaced(server, tmp_path):
    source = folder_of(server)
    for junk in (b"junk" * 10, FILES["train.txt"][:-1] + b"x"):
        server.faults["/good/train.txt"] = ["404"]
        with pytest.raises(DownloadFailed):
            fetch(dataset(source), tmp_path)
        (draft,) = tmp_path.glob(".tiny-*.part")
        (draft / "train.part").write_bytes(junk)
        server.faults["/good/train.txt"] = ["none"]
        fetch(dataset(source), tmp_path)
        assert_whole(tmp_path)
        for file in (tmp_path / "tiny").iterdir():
            file.unlink()
        (tmp_path / "tiny").rmdir()


@pytest.mark.parametrize("change", [b"x", b"", b"longer"])
def test_other_content_is_refused_and_the_next_source_is_tried(server, tmp_path, change):
    for name, content in FILES.items():
        server.files[f"/bad/{name}"] = change + content[len(change) % 6 :]
    fetch(dataset(folder_of(server, "bad"), folder_of(server)), tmp_path)
    assert_whole(tmp_path)
    if change:
        with pytest.raises(DownloadFailed, match=r"SHA-256 differs|expected"):
            fetch(dataset(folder_of(server, "bad")), tmp_path / "other")
        assert not list((tmp_path / "other").rglob("train*"))


def test_downloads_are_limited_to_the_expected_size(server, tmp_path):
    server.files["/good/valid.txt"] = b"a\tr\tb\n" * 1_000_000
    for fault in ("none", "no length"):
        server.faults["/good/valid.txt"] = [fault]
        with pytest.raises(DownloadFailed, match="expected"):
            fetch(dataset(folder_of(server)), tmp_path / fault)
        assert all(file.stat().st_size < 100_000 for file in (tmp_path / fault).rglob("*.part"))


def tar_gz(members):
    """Return a .tar.gz of (name or TarInfo, content)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, content in members:
            info = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def special(name, kind, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


GOOD = [(f"Tiny/text/{name}", content) for name, content in FILES.items()]


def fetch_archive(server, tmp_path, content):
    server.files["/tiny.tar.gz"] = content
    return fetch(dataset(Source(archive=f"{server.address}/tiny.tar.gz")), tmp_path)


def test_an_archive(server, tmp_path):
    server.faults["/tiny.tar.gz"] = ["cut", "none"]
    others = [("Tiny/README", b"hello"), (special("Tiny", tarfile.DIRTYPE), b"")]
    fetch_archive(server, tmp_path, tar_gz([*others, *GOOD]))
    assert_whole(tmp_path)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../train.txt", b"x"), *GOOD], "outside of it: '../train.txt'"),
        ([("a/../../train.txt", b"x"), *GOOD], "outside of it"),
        ([("/etc/train.txt", b"x"), *GOOD], "outside of it"),
        ([("..\\train.txt", b"x"), *GOOD], "outside of it"),
        ([(special("train.txt", tarfile.SYMTYPE, "/etc/passwd"), b""), *GOOD], "is a link"),
        ([(special("x", tarfile.LNKTYPE, "train.txt"), b""), *GOOD], "is a link"),
        ([(special("x", tarfile.CHRTYPE), b""), *GOOD], "a device"),
        ([(special("x", tarfile.FIFOTYPE), b""), *GOOD], "a device"),
        ([*GOOD, ("other/train.txt", b"x")], "contains train.txt twice"),
        (GOOD[:2], "does not contain test.txt"),
        ([], "does not contain test.txt, train.txt, valid.txt"),
        ([("train.txt", FILES["train.txt"] + b"x"), *GOOD[1:]], "expected"),
        ([("train.txt", b"other"), *GOOD[1:]], "SHA-256 differs"),
    ],
)
def test_malicious_archives_are_refused(server, tmp_path, members, message):
    with pytest.raises(DownloadFailed) as failed:
        fetch_archive(server, tmp_path, tar_gz(members))
    assert message in str(failed.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


@pytest.mark.parametrize("content", [b"", b"no archive", tar_gz(GOOD)[:-20], tar_gz(GOOD)[:300]])
def test_unreadable_archives_are_refused(server, tmp_path, content):
    with pytest.raises(DownloadFailed, match="not a readable archive"):
        fetch_archive(server, tmp_path, content)
    assert not (tmp_path / "tiny").exists()


def test_decompression_bombs_are_refused(server, tmp_path, monkeypatch):
    """Ten gigabytes in ten megabytes are not extracted."""
    info = tarfile.TarInfo("filler")
    info.size = 10 << 30
    nothing = gzip.compress(b"\0" * (1 << 20)) * 200
    bomb = gzip.compress(info.tobuf()) + nothing
    monkeypatch.setattr(download_module, "MAX_EXTRACTED_BYTES", 50 << 20)
    with pytest.raises(DownloadFailed, match="unpacks to more than"):
        fetch_archive(server, tmp_path, bomb)
    lying = tarfile.TarInfo("train.txt")
    lying.size = 10 << 30
    with pytest.raises(DownloadFailed, match="10,737,418,240 bytes, expected"):
        fetch_archive(server, tmp_path / "other", gzip.compress(lying.tobuf()) + nothing)


def _fetch_elsewhere(address, folder, results):
    try:
        fetch(dataset(Source(folder=f"{address}/good")), folder)
        results.put("fetched")
    except Exception as error:
        results.put(repr(error))


def test_two_processes_download_once(server, tmp_path):
    fork = multiprocessing.get_context("fork")
    results = fork.Queue()
    both = [
        fork.Process(target=_fetch_elsewhere, args=(server.address, tmp_path, results))
        for _ in range(2)
    ]
    for process in both:
        process.start()
    assert [results.get(timeout=60) for _ in both] == ["fetched", "fetched"]
    for process in both:
        process.join()
    assert_whole(tmp_path)
    assert len([path for path, _ in server.asked if path == "/good/train.txt"]) == 1


def test_changed_files_are_detected(server, tmp_path):
    place = fetch(dataset(folder_of(server)), tmp_path)
    (place / "valid.txt").write_bytes(b"other")
    with pytest.raises(DamagedDataset, match="differs from the published file"):
        verify(dataset(), place)
    (place / "valid.txt").unlink()
    with pytest.raises(DamagedDataset, match="missing"):
        verify(dataset(), place)


def test_the_catalog():
    hashed = {
        *("wn18rr", "wn18", "fb15k-237", "fb15k", "umls", "kinships", "nations"),
        *(f"nell-995-h{share}" for share in (25, 50, 75, 100)),
    }
    large = {"yago3-10", "wikidata5m", "hetionet", "openbiolink", "primekg"}
    assert set(load_catalog()) == {*hashed, *large, "ogbl-wikikg2", "ogbl-biokg"}
    for entry in load_catalog().values():
        assert entry.title
        assert entry.license
        assert entry.citation
        assert all(source.url.startswith("https://") for source in entry.sources)
        assert entry.is_hashed == (entry.name in hashed)
        assert entry.is_hashed or entry.max_bytes >= (entry.download_bytes or 0)
        # What could not be compared with anything published says so.
        assert entry.verification != "counts" or "No checksum is known" in entry.note
        assert all(source.file is None or entry.layout in LAYOUTS for source in entry.sources)
        for published in (*entry.splits.values(), *entry.sources):
            assert published.sha256 is None or len(published.sha256) == 64
            assert published.md5 is None or len(published.md5) == 32
    for written in ("WN18RR", "wn18rr", "WN18-RR"):
        assert find_dataset(written).name == "wn18rr"
    assert find_dataset("FB15k237").name == "fb15k-237"
    assert find_dataset("fb15") is None


@pytest.fixture
def tiny(server, tmp_path, monkeypatch):
    """A catalog with one dataset, and an empty data folder."""
    one = dataset(folder_of(server))
    for module in ("fivestar.graph.datasets.catalog", "fivestar.graph.datasets"):
        monkeypatch.setattr(f"{module}.load_catalog", lambda: {"tiny": one})
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "data"))
    return server


def test_datasets_are_read_by_name(tiny, tmp_path, monkeypatch):
    graph = fivestar.read_graph("Tiny")
    assert (len(graph.train), graph.name) == (3000, "tiny")
    monkeypatch.setenv("FIVESTAR_OFFLINE", "1")
    assert fivestar.read_graph("tiny") == graph
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "none"))
    with pytest.raises(DownloadFailed, match="FIVESTAR_OFFLINE forbids"):
        fivestar.read_graph("tiny")
    with pytest.raises(SourceNotFound, match="did you mean 'tiny'"):
        fivestar.read_graph("tinyy")


def test_the_commands(tiny, tmp_path, monkeypatch):
    def run(*words):
        return CliRunner().invoke(app, ["datasets", *words])

    assert "tiny" in run().output
    for name, content in FILES.items():
        tiny.files[f"/mirror/tiny/{name}"] = content
    shown = run("get", "TINY", "--mirror", f"{tiny.address}/mirror/")
    assert shown.exit_code == 0, shown.output
    assert "verified" in shown.output
    assert all(path.startswith("/mirror") for path, _ in tiny.asked)
    assert '"here": true' in run("--json").output
    assert "tiny: verified" in run("get", "--all").output
    assert "did you mean tiny" in str(run("get", "tinny").exception)
    assert "one or more of" in str(run("get").exception)
    (tmp_path / "data" / "tiny" / "test.txt").write_bytes(b"x")
    assert "differs from the published file" in str(run("get", "tiny").exception)


@pytest.mark.data
def test_the_published_files():
    for name, entry in load_catalog().items():
        if entry.is_hashed or (data_folder() / name).is_dir():
            verify(entry, data_folder() / name)
