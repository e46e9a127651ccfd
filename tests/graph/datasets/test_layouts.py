"""The larger graphs: each layout is read, a first download is pinned, a later one compared."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import pickle
import shutil
import zipfile
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graph.datasets import published_files
from tests.graph.datasets.faulty_server import faulty_server
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import DamagedDataset, DownloadFailed
from fivestar.graph.datasets import catalog as catalog_module
from fivestar.graph.datasets import download as download_module
from fivestar.graph.datasets import layouts, pickled_arrays
from fivestar.graph.datasets.catalog import Dataset, Source, SplitFile, fetch, load_catalog, verify
from fivestar.graph.datasets.pickled_arrays import read_arrays

QUICK = download_module.RetryPolicy(attempts=2, pause=0.01, timeout=0.5)
# Per layout: the file, entities, relations, and what the splits hold.
GRAPHS = {
    "wikidata5m": (
        published_files.wikidata5m,
        (4, 2),
        {
            "train": "Q22686\tP39\tQ11696\nQ1\tP31\tQ2\n",
            "valid": "Q2\tP31\tQ1\n",
            "test": "Q1\tP39\tQ2\n",
        },
    ),
    "hetionet": (
        published_files.hetionet,
        (6, 3),
        {
            "train": "Gene::9021\tGpBP\tBiological Process::GO:0071357\n"
            "Anatomy::UBERON:0002081\tAeG\tGene::8519\nGene::2063\tGr>G\tGene::7846\n"
        },
    ),
    "openbiolink": (
        published_files.openbiolink,
        (3, 2),
        {
            "train": "GO:0006915\tIS_A\tGO:0012501\nNCBIGENE:1\tGENE_GO\tGO:0006915\n",
            "valid": "NCBIGENE:1\tGENE_GO\tGO:0012501\n",
            "test": "GO:0012501\tIS_A\tGO:0006915\n",
        },
    ),
    "primekg": (
        published_files.primekg,
        (4, 2),
        {
            "train": "gene/protein::9796\tprotein_protein\tgene/protein::56992\n"
            "drug::DB00001\tindication\tdisease::13924_12592\n"
            "gene/protein::56992\tprotein_protein\tgene/protein::9796\n"
        },
    ),
    "ogbl-wikikg2": (
        published_files.wikikg2,
        (3, 2),
        {
            "train": "Q42\tP31\tQ5\nQ8\tP50\tQ42\nQ5\tP50\tQ8\n",
            "valid": "Q42\tP50\tQ8\n",
            "test": "Q8\tP31\tQ5\n",
        },
    ),
    "ogbl-biokg": (
        published_files.biokg,
        (6, 2),
        {
            "train": "drug:CID000000085\tdrug-disease\tdisease:C0000737\n"
            "protein:10\tprotein-function\tfunction:GO:0000002\n",
            "valid": "drug:CID000000119\tdrug-disease\tdisease:C0000737\n",
            "test": "drug:CID000000119\tdrug-disease\tsideeffect:C0000729\n",
        },
    ),
}


def entry(name, source, **changes):
    """An entry of the catalog for the small file."""
    _, (entities, relations), splits = GRAPHS[name]
    lines = {split: SplitFile(lines=text.count("\n")) for split, text in splits.items()}
    about = {"title": "t", "license": "l", "citation": "c", "layout": name}
    counts = {"entities": entities, "relations": relations}
    return Dataset(name=name, sources=[source], **(about | counts | lines | changes))


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("FIVESTAR_OFFLINE")
    monkeypatch.setattr(catalog_module, "download", partial(download_module.download, policy=QUICK))
    with faulty_server() as state:
        for name, (file, *_) in GRAPHS.items():
            state.files[f"/{name}"] = file()
        yield state


def file_of(server, name, **known):
    return Source(file=f"{server.address}/{name}", **known)


@pytest.mark.parametrize("name", GRAPHS)
def test_every_layout_is_read(server, tmp_path, name):
    _, (entities, relations), splits = GRAPHS[name]
    dataset = entry(name, file_of(server, name))
    place = fetch(dataset, tmp_path)
    found = {path.stem: path.read_text() for path in place.glob("*.txt")}
    assert found == splits
    assert {path.suffix for path in place.iterdir()} <= {".txt", ".tsv"}
    graph = fivestar.read_graph(place)
    assert (len(graph.entities), len(graph.relations)) == (entities, relations)
    assert len(graph.train) == splits["train"].count("\n")
    verify(dataset, place)
    # The entry of the real catalog has the same splits and the same layout.
    real = load_catalog()[name]
    assert real.splits.keys() == splits.keys()
    assert real.layout == name
    assert [path.name for path in tmp_path.iterdir() if path.name[0] != "."] == [name]


def test_labels_and_types_come_with_the_graph(server, tmp_path):
    graph = fivestar.read_graph(fetch(entry("primekg", file_of(server, "primekg")), tmp_path))
    drug = graph.entities.names.to_pylist().index("drug::DB00001")
    assert graph.entities.labels[drug].as_py() == 'Lepirudin, "x"'
    for name, types in {
        "primekg": ["gene/protein", "drug", "disease"],
        "hetionet": ["Gene", "Biological Process", "Anatomy"],
        "openbiolink": ["GO", "GENE"],
        "ogbl-biokg": ["disease", "drug", "function", "protein", "sideeffect"],
    }.items():
        graph = fivestar.read_graph(fetch(entry(name, file_of(server, name)), tmp_path))
        assert set(types) == set(graph.types.vocabulary.names.to_pylist()), name


def test_nodes_of_one_identifier_stay_apart(tmp_path):
    table = published_files.primekg().replace(b"8889,56992", b"8889,9796")
    (tmp_path / "kg.csv").write_bytes(table)
    layouts.convert("primekg", tmp_path / "kg.csv", tmp_path)
    first = (tmp_path / "train.txt").read_text().splitlines()[0]
    assert first == "gene/protein::9796\tprotein_protein\tgene/protein::9796::8889"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"entities": 5}, "there are 4 entities where 5 are published"),
        ({"relations": 1}, "there are 2 relations where 1 are published"),
        ({"test": SplitFile(lines=2)}, "test has 1 facts where 2 are published"),
    ],
)
def test_a_first_download_without_checksum_is_counted(server, tmp_path, changes, message):
    with pytest.raises(DownloadFailed, match=message):
        fetch(entry("wikidata5m", file_of(server, "wikidata5m"), **changes), tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]


def test_a_later_download_must_be_the_first_one(server, tmp_path):
    dataset = entry("hetionet", file_of(server, "hetionet"))
    place = fetch(dataset, tmp_path)
    first = (place / "train.txt").read_bytes()
    shutil.rmtree(place)
    fetch(dataset, tmp_path)
    assert (place / "train.txt").read_bytes() == first
    shutil.rmtree(place)
    # The counts of the changed file are the published ones.
    changed = gzip.decompress(server.files["/hetionet"]).replace(b"Gene::7846", b"Gene::7847")
    server.files["/hetionet"] = gzip.compress(changed)
    with pytest.raises(DownloadFailed, match="is not the file of the first download") as failed:
        fetch(dataset, tmp_path)
    pin = tmp_path / ".pins" / "hetionet.json"
    assert f"remove {pin}" in str(failed.value)
    assert not place.exists()
    # From another address, too; and whoever removes the pin trusts the new file.
    server.files["/elsewhere"] = server.files["/hetionet"]
    moved = dataset.model_copy(update={"sources": (file_of(server, "elsewhere"),)})
    with pytest.raises(DownloadFailed, match="differs from the file of the first download"):
        fetch(moved, tmp_path)
    pin.unlink()
    fetch(moved, tmp_path)
    assert b"Gene::7847" in (place / "train.txt").read_bytes()


def test_files_are_compared_with_the_pin(server, tmp_path):
    dataset = entry("wikidata5m", file_of(server, "wikidata5m"))
    place = fetch(dataset, tmp_path)
    assert json.loads((tmp_path / ".pins" / "wikidata5m.json").read_text())["downloads"] == {
        f"{server.address}/wikidata5m": hashlib.sha256(server.files["/wikidata5m"]).hexdigest()
    }
    (place / "test.txt").write_text("Q1\tP39\tQ11696\n")
    with pytest.raises(DamagedDataset, match=r"test\.txt differs from the file of the first"):
        verify(dataset, place)
    (tmp_path / ".pins" / "wikidata5m.json").write_text("{}")
    with pytest.raises(DamagedDataset, match="is not a pin"):
        verify(dataset, place)


def test_files_that_somebody_copied_are_counted_and_pinned(tmp_path):
    dataset = entry("wikidata5m", Source(file="https://nowhere.example"))
    place = tmp_path / "wikidata5m"
    place.mkdir()
    for split, text in GRAPHS["wikidata5m"][2].items():
        (place / f"{split}.txt").write_text(text)
    verify(dataset, place)
    (place / "valid.txt").write_text("Q1\tP31\tQ22686\n")
    with pytest.raises(DamagedDataset, match="differs from the file of the first"):
        verify(dataset, place)
    shutil.rmtree(tmp_path / ".pins")
    (place / "valid.txt").write_text("Q1\tP31\tQ22686\n" * 2)
    with pytest.raises(DamagedDataset, match="valid has 2 facts where 1 are published"):
        verify(dataset, place)


def test_a_size_without_checksum_is_not_a_limit(server, tmp_path):
    fetch(entry("hetionet", file_of(server, "hetionet", bytes=10)), tmp_path)
    limited = entry("hetionet", file_of(server, "hetionet"), max_bytes=10)
    with pytest.raises(DownloadFailed, match="expected at most 10"):
        fetch(limited, tmp_path / "other")


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_published_checksum_wins_over_the_counts(server, tmp_path, kind):
    content = server.files["/hetionet"]
    known = {kind: hashlib.new(kind, content).hexdigest(), "bytes": len(content)}
    dataset = entry("hetionet", file_of(server, "hetionet", **known), entities=99)
    assert dataset.verification == kind
    fetch(dataset, tmp_path)
    wrong = {kind: "0" * len(known[kind])}
    dataset = entry("hetionet", file_of(server, "hetionet", **wrong))
    with pytest.raises(DownloadFailed, match="not the published file"):
        fetch(dataset, tmp_path / "other")


def test_a_folder_with_md5(server, tmp_path):
    texts = GRAPHS["wikidata5m"][2]
    for split, text in texts.items():
        server.files[f"/folder/{split}.txt"] = text.encode()
    hashed = {
        split: SplitFile(
            lines=text.count("\n"),
            md5=hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
        )
        for split, text in texts.items()
    }
    source = Source(folder=f"{server.address}/folder")
    dataset = entry("wikidata5m", source, layout=None, **hashed)
    assert dataset.verification == "md5"
    verify(dataset, fetch(dataset, tmp_path))
    server.files["/folder/test.txt"] = b"Q1\tP39\tQ1\n"
    with pytest.raises(DownloadFailed, match="its MD5 differs"):
        fetch(dataset, tmp_path / "other")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("hetionet", b"no gzip", "not in the layout of hetionet"),
        ("hetionet", gzip.compress(b"head\trel\ttail\n"), "has no column source, metaedge, target"),
        (
            "hetionet",
            gzip.compress(b"source\tmetaedge\ttarget\na\tb\n"),
            "other fields than expected",
        ),
        ("openbiolink", b"no zip", "not in the layout of openbiolink"),
        ("openbiolink", published_files.zipped({"x": "y"}), "contains no train_test_data/train"),
        ("primekg", b"relation,x_id\n", "has no column x_index"),
        ("wikidata5m", b"no tar", "is not a readable archive"),
        ("ogbl-biokg", published_files.zipped({"x": "y"}), "contains no mapping/relidx2relname"),
    ],
    # Not by their content, which holds the time.
    ids=["gzip", "columns", "fields", "zip", "file", "column", "tar", "mapping"],
)
def test_other_layouts_are_refused(server, tmp_path, name, content, message):
    server.files[f"/{name}"] = content
    with pytest.raises(DownloadFailed, match=message):
        fetch(entry(name, file_of(server, name)), tmp_path)
    assert not (tmp_path / name).exists()


def test_bombs_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(layouts, "MAX_EXTRACTED_BYTES", 1 << 20)
    monkeypatch.setattr(layouts, "MAX_SPLIT_BYTES", 1 << 20)
    filler = "x" * (2 << 20)
    bombs = {
        "hetionet": gzip.compress(f"source\tmetaedge\ttarget\n{filler}".encode()),
        "openbiolink": published_files.zipped({"HQ_DIR/train_test_data/train_sample.csv": filler}),
        "ogbl-wikikg2": replaced(published_files.wikikg2(), "time/train.pt", filler.encode()),
    }
    for name, content in bombs.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DownloadFailed, match="unpacks to more than expected"):
            layouts.convert(name, tmp_path / name, tmp_path)


def replaced(archive, ending, content):
    """Return a zip with another content of one member."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        members = {item.filename: source.read(item) for item in source.infolist()}
    (name,) = [name for name in members if name.endswith(ending)]
    return published_files.zipped(members | {name: content})


ARRAYS = {"head": np.arange(5), "relation": np.zeros(5, np.int32), "head_type": ["a", "b"] * 3}


@pytest.mark.parametrize("protocol", [2, 3, 4])
@pytest.mark.parametrize("is_zip", [True, False])
def test_the_arrays_of_torch_files(tmp_path, protocol, is_zip):
    big = np.arange(300_000).reshape(300, 1000) % 256
    file = tmp_path / "x.pt"
    torch.save(
        ARRAYS | {"head_neg": big, "tail": np.arange(200_000), "tail_neg": big},
        file,
        pickle_protocol=protocol,
        _use_new_zipfile_serialization=is_zip,
    )
    arrays = read_arrays(file)
    assert arrays.keys() == {"head", "relation", "head_type", "tail"}
    for name in ("head", "relation"):
        assert (arrays[name] == ARRAYS[name]).all()
    assert (arrays["tail"] == np.arange(200_000)).all()
    assert arrays["head_type"] == ARRAYS["head_type"]


class Evil:
    def __reduce__(self):
        return (print, ("executed",))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"head": Evil()}, "which is not data"),
        ({"head": torch.zeros(3)}, "not a readable"),
        ({"head": np.zeros(3)}, "not one of integers"),
        ({"head": np.array(["x"], object)}, "not"),
        ({"head": {"x": 1}}, "neither an array nor a list"),
        ({1: np.zeros(3, int)}, "a key is not a string"),
        ([1, 2], "no dictionary"),
        ({"head": b"x"}, "neither an array nor a list"),
    ],
    ids=["object", "tensor", "floats", "strings", "nested", "key", "list", "bytes"],
)
def test_only_data_is_read_from_torch_files(tmp_path, capsys, value, message):
    for is_zip in (True, False):
        file = tmp_path / "x.pt"
        torch.save(value, file, _use_new_zipfile_serialization=is_zip)
        with pytest.raises(DownloadFailed, match=message):
            read_arrays(file)
    assert "executed" not in capsys.readouterr().out


LEGACY = published_files.saved(ARRAYS, _use_new_zipfile_serialization=False, pickle_protocol=4)


@given(st.integers(0, len(LEGACY) - 1), st.integers(0, 255), st.booleans())
@settings(max_examples=300)
def test_damaged_torch_files_are_errors_or_arrays(tmp_path, at, byte, is_cut):
    file = tmp_path / "x.pt"
    file.write_bytes(LEGACY[:at] if is_cut else LEGACY[:at] + bytes([byte]) + LEGACY[at + 1 :])
    try:
        arrays = read_arrays(file)
    except DownloadFailed:
        return
    assert all(isinstance(value, np.ndarray | list) for value in arrays.values())


@given(st.binary(max_size=60))
@settings(max_examples=300)
def test_any_pickle_is_an_error_or_arrays(tmp_path, content):
    file = tmp_path / "x.pt"
    start = b"".join(pickle.dumps(value, 2) for value in (pickled_arrays._MAGIC, 1001, {}))
    file.write_bytes(start + content)
    with suppress(DownloadFailed):
        read_arrays(file)


@pytest.mark.parametrize("name", ["ogbl-wikikg2", "ogbl-biokg"])
def test_numbers_without_a_name_are_refused(tmp_path, name):
    file = {"ogbl-wikikg2": published_files.wikikg2, "ogbl-biokg": published_files.biokg}[name]
    wrong = {side: np.array([99]) for side in ("head", "relation", "tail")}
    types = {f"{side}_type": ["drug"] for side in ("head", "tail")}
    (tmp_path / "x").write_bytes(replaced(file(), "train.pt", published_files.saved(wrong | types)))
    with pytest.raises(DownloadFailed, match="a head has a number without a name"):
        layouts.convert(name, tmp_path / "x", tmp_path)


def test_the_command_says_how_a_dataset_was_verified(server, tmp_path, monkeypatch):
    one = entry("hetionet", file_of(server, "hetionet"), note="No checksum is known.")
    for module in ("fivestar.graph.datasets.catalog", "fivestar.graph.datasets"):
        monkeypatch.setattr(f"{module}.load_catalog", lambda: {"hetionet": one})
    monkeypatch.setenv("FIVESTAR_DATA", str(tmp_path / "data"))
    shown = CliRunner().invoke(app, ["datasets", "get", "hetionet"])
    assert shown.exit_code == 0, shown.output
    assert "hetionet: verified (by its counts" in shown.output
    assert "note: No checksum is known." in shown.output
    listed = json.loads(CliRunner().invoke(app, ["datasets", "--json"]).output)
    assert listed[0]["verified_by"] == "counts"
