"""Published graphs come whole and verified, or not at all, whatever servers do."""

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
from fivestar.graph.catalog import data_folder
from fivestar.graph.datasets import archives, fetching, transfer
from fivestar.graph.datasets.entries import Dataset, Source, SplitFile, datasets, find_dataset
from fivestar.graph.datasets.fetching import check, fetch

FILES = {
    "train.txt": b"".join(b"a%d\tr\tb%d\n" % (i, i % 7) for i in range(3000)),
    "valid.txt": b"a1\tr\tb2\n",
    "test.txt": b"a2\tr\tb3\n",
}
QUICK = transfer.Patience(attempts=4, pause=0.01, silence=0.5)


def published(content):
    digest = hashlib.sha256(content).hexdigest()
    return SplitFile(lines=content.count(b"\n"), bytes=len(content), sha256=digest)


def dataset(*sources):
    splits = {name.removesuffix(".txt"): published(content) for name, content in FILES.items()}
    about = {"title": "t", "licence": "l", "citation": "c", "entities": 3007, "relations": 1}
    return Dataset(name="tiny", sources=sources, **about, **splits)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("FIVESTAR_OFFLINE")
    monkeypatch.setattr(fetching, "transfer", partial(transfer.transfer, patience=QUICK))
    with faulty_server() as state:
        for name, content in FILES.items():
            state.files[f"/good/{name}"] = content
        yield state


def folder_of(server, name="good"):
    return Source(folder=f"{server.address}/{name}")


def assert_whole(folder):
    assert {path.name: path.read_bytes() for path in (folder / "tiny").iterdir()} == FILES
    assert [path.name for path in folder.iterdir() if path.name != ".tiny.lock"] == ["tiny"]


def test_it_comes_whole_and_is_found_again(server, tmp_path):
    seen = []
    place = fetch(dataset(folder_of(server)), tmp_path, progress=lambda *at: seen.append(at))
    assert_whole(tmp_path)
    whole = sum(map(len, FILES.values()))
    assert seen[-1] == (whole, whole)
    assert seen == sorted(seen)
    check(dataset(), place)
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
def test_faults_that_pass(server, tmp_path, faults):
    server.faults["/good/train.txt"] = list(faults)
    fetch(dataset(folder_of(server)), tmp_path)
    assert_whole(tmp_path)
    ranges = [wanted for path, wanted in server.asked if path == "/good/train.txt"]
    assert len(ranges) == len(faults)
    if faults[0] == "cut":
        assert ranges[1] == f"bytes={len(FILES['train.txt']) // 2}-"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("404", "404 Not Found"),
        ("403", "403 Forbidden"),
        ("500", "500 Internal Server Error"),
        ("silent", "timed out"),
        ("redirect file:///etc/passwd", "redirect"),
        ("redirect ftp://127.0.0.1/x", "302 Found"),
        ("redirect http://127.0.0.1:1/x", "refused"),
    ],
)
def test_faults_that_stay(server, tmp_path, fault, told):
    server.files["/good/test.txt"] = FILES["test.txt"] * 3 if fault == "silent" else b"x"
    server.faults["/good/train.txt"] = [fault]
    with pytest.raises(DownloadFailed, match="tiny cannot be fetched") as failed:
        fetch(dataset(folder_of(server)), tmp_path)
    assert told in str(failed.value)
    assert "--mirror" in str(failed.value)
    assert not (tmp_path / "tiny").exists()


def test_a_server_that_only_drips(server, tmp_path, monkeypatch):
    slow = transfer.Patience(attempts=2, pause=0.01, silence=0.3, slowest=5000)
    monkeypatch.setattr(fetching, "transfer", partial(transfer.transfer, patience=slow))
    server.faults["/good/train.txt"] = ["drip"]
    with pytest.raises(DownloadFailed, match="slower than 5,000 bytes a second"):
        fetch(dataset(folder_of(server)), tmp_path)


def test_a_later_attempt_goes_on_where_the_last_ended(server, tmp_path):
    server.faults["/good/train.txt"] = ["cut", "404"]
    with pytest.raises(DownloadFailed):
        fetch(dataset(folder_of(server)), tmp_path)
    assert not (tmp_path / "tiny").exists()
    server.faults["/good/train.txt"] = ["none"]
    server.asked.clear()
    fetch(dataset(folder_of(server)), tmp_path)
    assert server.asked[0] == ("/good/train.txt", f"bytes={len(FILES['train.txt']) // 2}-")
    assert_whole(tmp_path)


def test_a_part_that_belongs_to_something_else(server, tmp_path):
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
def test_other_bytes_are_refused_and_the_next_place_is_asked(server, tmp_path, change):
    for name, content in FILES.items():
        server.files[f"/bad/{name}"] = change + content[len(change) % 6 :]
    fetch(dataset(folder_of(server, "bad"), folder_of(server)), tmp_path)
    assert_whole(tmp_path)
    if change:
        with pytest.raises(DownloadFailed, match=r"SHA-256 differs|expected"):
            fetch(dataset(folder_of(server, "bad")), tmp_path / "other")
        assert not list((tmp_path / "other").rglob("train*"))


def test_more_than_expected_is_not_read(server, tmp_path):
    server.files["/good/valid.txt"] = b"a\tr\tb\n" * 1_000_000
    for fault in ("none", "no length"):
        server.faults["/good/valid.txt"] = [fault]
        with pytest.raises(DownloadFailed, match="expected"):
            fetch(dataset(folder_of(server)), tmp_path / fault)
        assert all(file.stat().st_size < 100_000 for file in (tmp_path / fault).rglob("*.part"))


def packed(members):
    """A .tar.gz of (name or TarInfo, content)."""
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
    fetch_archive(server, tmp_path, packed([*others, *GOOD]))
    assert_whole(tmp_path)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([("../train.txt", b"x"), *GOOD], "outside of it: '../train.txt'"),
        ([("a/../../train.txt", b"x"), *GOOD], "outside of it"),
        ([("/etc/train.txt", b"x"), *GOOD], "outside of it"),
        ([("..\\train.txt", b"x"), *GOOD], "outside of it"),
        ([(special("train.txt", tarfile.SYMTYPE, "/etc/passwd"), b""), *GOOD], "is a link"),
        ([(special("x", tarfile.LNKTYPE, "train.txt"), b""), *GOOD], "is a link"),
        ([(special("x", tarfile.CHRTYPE), b""), *GOOD], "a device"),
        ([(special("x", tarfile.FIFOTYPE), b""), *GOOD], "a device"),
        ([*GOOD, ("other/train.txt", b"x")], "holds train.txt twice"),
        (GOOD[:2], "holds no test.txt"),
        ([], "holds no test.txt, train.txt, valid.txt"),
        ([("train.txt", FILES["train.txt"] + b"x"), *GOOD[1:]], "expected"),
        ([("train.txt", b"other"), *GOOD[1:]], "SHA-256 differs"),
    ],
)
def test_archives_that_try_tricks(server, tmp_path, members, told):
    with pytest.raises(DownloadFailed) as failed:
        fetch_archive(server, tmp_path, packed(members))
    assert told in str(failed.value)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


@pytest.mark.parametrize("content", [b"", b"no archive", packed(GOOD)[:-20], packed(GOOD)[:300]])
def test_archives_that_cannot_be_read(server, tmp_path, content):
    with pytest.raises(DownloadFailed, match="no archive that can be read"):
        fetch_archive(server, tmp_path, content)
    assert not (tmp_path / "tiny").exists()


def test_a_bomb(server, tmp_path, monkeypatch):
    """Ten gigabytes of nothing in ten megabytes are not unpacked to the end."""
    info = tarfile.TarInfo("filler")
    info.size = 10 << 30
    nothing = gzip.compress(b"\0" * (1 << 20)) * 200
    bomb = gzip.compress(info.tobuf()) + nothing
    monkeypatch.setattr(archives, "MOST_UNPACKED", 50 << 20)
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


def test_two_processes_at_once(server, tmp_path):
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


def test_files_that_changed(server, tmp_path):
    place = fetch(dataset(folder_of(server)), tmp_path)
    (place / "valid.txt").write_bytes(b"other")
    with pytest.raises(DamagedDataset, match="not as published"):
        check(dataset(), place)
    (place / "valid.txt").unlink()
    with pytest.raises(DamagedDataset, match="missing"):
        check(dataset(), place)


def test_the_catalog():
    assert set(datasets()) == {
        *("wn18rr", "wn18", "fb15k-237", "fb15k", "umls", "kinships", "nations"),
        *(f"nell-995-h{share}" for share in (25, 50, 75, 100)),
    }
    for entry in datasets().values():
        assert entry.title
        assert entry.licence
        assert entry.citation
        assert all(source.address.startswith("https://") for source in entry.sources)
        assert all(len(split.sha256) == 64 for split in entry.splits.values())
    for written in ("WN18RR", "wn18rr", "WN18-RR"):
        assert find_dataset(written).name == "wn18rr"
    assert find_dataset("FB15k237").name == "fb15k-237"
    assert find_dataset("fb15") is None


@pytest.fixture
def tiny(server, tmp_path, monkeypatch):
    """A catalog of one, and an empty folder of data sets."""
    one = dataset(folder_of(server))
    for module in ("fivestar.graph.datasets.entries", "fivestar.graph.catalog"):
        monkeypatch.setattr(f"{module}.datasets", lambda: {"tiny": one})
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "data"))
    return server


def test_by_name(tiny, tmp_path, monkeypatch):
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
    assert "as published" in shown.output
    assert all(path.startswith("/mirror") for path, _ in tiny.asked)
    assert '"here": true' in run("--json").output
    assert "tiny: as published" in run("get", "--all").output
    assert "did you mean tiny" in str(run("get", "tinny").exception)
    assert "name some of" in str(run("get").exception)
    (tmp_path / "data" / "tiny" / "test.txt").write_bytes(b"x")
    assert "not as published" in str(run("get", "tiny").exception)


@pytest.mark.data
def test_the_published_files():
    for name, entry in datasets().items():
        check(entry, data_folder() / name)
