"""Start from given vectors: files, matching, scale, freezing, resuming and unseen entities."""

from __future__ import annotations

import json
import struct
import zipfile
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save_file
from tests.graphs import people_graph
from tests.training.test_loop import same, small, tables
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import BadSource, DamagedRun, Paused, SettingsError, SourceNotFound
from fivestar.graph.label_vectors import count_ngrams, label_vectors
from fivestar.graph.vector_files import read_vectors
from fivestar.models.registry import MODELS
from fivestar.prediction.export import export_numpy, export_parquet, export_word2vec
from fivestar.runs.run import VECTORS
from fivestar.training.entity_vectors import fit_ridge, reduce_dimension


@pytest.fixture(scope="module")
def graph():
    return people_graph()


def vectors_for(names, dim, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=dim).astype(np.float32) for name in names}


NAMES = ["p1", "New York", "c0"]
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) - 3.25


def write_parquet(path):
    lists = pa.array(TABLE.tolist(), pa.list_(pa.float64()))
    pq.write_table(pa.table({"name": NAMES, "vector": lists}), path)


def write_binary(path):
    rows = b"".join(
        name.encode() + b" " + row.tobytes() + b"\n" for name, row in zip(NAMES, TABLE, strict=True)
    )
    # A blank within a name would end it.
    path.write_bytes(b"3 4\n" + rows.replace(b"New York", b"New%20York"))


def write_text(path, header=""):
    lines = [
        " ".join([name.replace(" ", "%20"), *map(str, row)])
        for name, row in zip(NAMES, TABLE.tolist(), strict=True)
    ]
    path.write_text(header + "\n".join(lines) + "\n")


def write_npy(path):
    np.save(path, TABLE)
    path.with_suffix(".names.txt").write_text("\n".join(NAMES))


WRITERS = {
    "a.parquet": write_parquet,
    "a.npz": lambda path: np.savez_compressed(path, names=np.array(NAMES), vectors=TABLE),
    "a.npy": write_npy,
    "a.safetensors": lambda path: save_file({"vectors": TABLE}, path, {"names": json.dumps(NAMES)}),
    "a.txt": lambda path: write_text(path, "3 4\n"),
    "a.vec": write_text,
    "a.bin": write_binary,
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read(tmp_path, name):
    WRITERS[name](tmp_path / name)
    read = read_vectors(tmp_path / name)
    assert list(read.names) == NAMES
    assert np.array_equal(read.vectors, TABLE)
    assert len(read.sha256) == 64


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_cut_short_is_refused(tmp_path, name):
    WRITERS[name](tmp_path / name)
    content = (tmp_path / name).read_bytes()
    for end in (0, 3, len(content) // 2, len(content) - 7):
        (tmp_path / name).write_bytes(content[:end])
        with pytest.raises(BadSource, match=name):
            read_vectors(tmp_path / name)


def test_gensim_files_are_read(tmp_path):
    models = pytest.importorskip("gensim.models")
    vectors = models.KeyedVectors(4)
    vectors.add_vectors(["p1", "c0"], TABLE[:2])
    for name, binary in (("a.bin", True), ("a.txt", False)):
        vectors.save_word2vec_format(str(tmp_path / name), binary=binary)
        assert np.allclose(read_vectors(tmp_path / name).vectors, TABLE[:2])


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"vectors": np.array([[1, np.nan], [1, 2]])}, "1 vectors hold values .* that of 'p1'"),
        ({"vectors": np.array([[1.0, 2], [1e300, 2]])}, "not finite in single precision"),
        ({"vectors": np.ones(2)}, r"shape \(2,\)"),
        ({"vectors": np.ones((2, 0))}, "neither of them 0"),
        ({"vectors": np.ones((3, 2))}, "2 names for 3 vectors"),
        ({"vectors": np.ones((2, 2), complex)}, "type complex128"),
        ({"names": np.array(["p1", "p1"])}, "'p1' has 2 vectors"),
        ({"names": np.ones(2)}, "must be a list of strings"),
    ],
)
def test_bad_content_is_refused(tmp_path, change, problem):
    arrays = {"names": np.array(["p1", "p2"]), "vectors": np.ones((2, 3))} | change
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(BadSource, match=problem):
        read_vectors(tmp_path / "a.npz")


def test_hostile_files_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, names=np.array(["p1"]), vectors=np.array([object()], dtype=object))
    with pytest.raises(BadSource, match="never unpickled"):
        read_vectors(path)
    np.savez_compressed(path, names=np.array(["p1"]), vectors=np.zeros((1000, 1000)))
    with pytest.raises(BadSource, match=r"vectors.npy unpacks to 8,000,128 bytes"):
        read_vectors(path)
    with zipfile.ZipFile(path, "w") as archive:  # a header that promises more than there is
        header = repr({"descr": "<f4", "fortran_order": False, "shape": (1 << 40, 1 << 20)})
        text = header.encode().ljust(117) + b"\n"
        huge = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
        archive.writestr("vectors.npy", huge)
        archive.writestr("names.npy", huge)
    with pytest.raises(BadSource, match="it is cut short"):
        read_vectors(path)
    (tmp_path / "a.bin").write_bytes(b"999999999 300\n" + b"word " + bytes(40))
    with pytest.raises(BadSource, match="it is cut short"):
        read_vectors(tmp_path / "a.bin")


def test_files_without_names_or_with_other_endings_say_what_to_do(tmp_path):
    np.save(tmp_path / "a.npy", TABLE)
    with pytest.raises(BadSource, match=r"write them to .*a.names.txt, one per line"):
        read_vectors(tmp_path / "a.npy")
    (tmp_path / "a.pkl").write_bytes(b"")
    with pytest.raises(SettingsError, match=r"the ending must be one of \.parquet, \.npz"):
        read_vectors(tmp_path / "a.pkl")
    with pytest.raises(SourceNotFound, match="there is no file"):
        read_vectors(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("export", "file"),
    [
        (export_parquet, "entities.parquet"),
        (export_word2vec, "entities.txt"),
        (export_numpy, "entities.npy"),
    ],
)
def test_exported_embeddings_are_read_back(graph, tmp_path, export, file):
    model = fivestar.train(graph, small(epochs=1), tmp_path / "run")
    export(model, tmp_path / "out")
    read = read_vectors(tmp_path / "out" / file)
    assert list(read.names) == list(graph.entities)
    assert np.array_equal(read.vectors, model.model.entities.detach().numpy())
    by_file, by_run = (
        fivestar.train(graph, small(epochs=1), entity_vectors=given)
        for given in (tmp_path / "out" / file, tmp_path / "run")
    )
    assert same(tables(by_file), tables(by_run))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_starts_from_the_vectors_at_its_own_scale(graph, name):
    settings = {**small(epochs=0), "model": {"name": name, "dim": 16}}
    plain = fivestar.train(graph, settings).model
    width = plain.entity_vectors(plain.entities)[0].shape[1]
    names = list(graph.entities)[:40]
    given = vectors_for(names, width - 2)
    model = fivestar.train(graph, settings, entity_vectors=given).model
    expected = torch.tensor(np.array([given[name] for name in names]))
    parts = zip(
        model.entity_vectors(model.entities), plain.entity_vectors(plain.entities), strict=True
    )
    for part, own in parts:
        filled = part[:40, : width - 2].detach()
        assert torch.allclose(filled / filled.norm(), expected / expected.norm(), atol=1e-6)
        size = own[:, : width - 2].square().mean().sqrt()
        assert torch.allclose(filled.square().mean().sqrt(), size, rtol=1e-4)
        # Everything else is initialized as without vectors.
        assert torch.equal(part[:40, width - 2 :], own[:40, width - 2 :])
        assert torch.equal(part[40:], own[40:])
    assert torch.equal(model.relations, plain.relations)


def test_what_was_used_is_counted_and_recorded(graph, tmp_path):
    names = list(graph.entities)
    given = vectors_for([*names[:50], "nobody", "nowhere"], 20)
    model = fivestar.train(graph, small(epochs=1), tmp_path / "run", entity_vectors=given)
    used = model.metrics["entity_vectors"]
    assert (used["entities"], used["without"]) == (50, len(names) - 50)
    assert (used["unknown_names"], used["use"]) == (2, "trained")
    assert (used["dimension"], used["used_dimension"]) == (20, 12)
    assert 0.6 < used["explained_variance"] < 1
    np.savez(tmp_path / "a.npz", names=list(given), vectors=np.array(list(given.values())))
    read = fivestar.train(graph, small(epochs=1), entity_vectors=tmp_path / "a.npz")
    assert same(tables(read), tables(model))
    assert read.metrics["entity_vectors"]["sha256"] == read_vectors(tmp_path / "a.npz").sha256
    loaded = fivestar.load(tmp_path / "run").metrics["entity_vectors"]
    assert loaded == json.loads(json.dumps(used))
    assert "Given vectors of 50 entities (trained;" in (tmp_path / "run" / "README.md").read_text()


def test_arrays_are_in_the_order_of_entities(graph):
    table = np.random.default_rng(1).normal(size=(len(graph.entities), 12))
    by_name = dict(zip(graph.entities, table, strict=True))
    runs = [
        fivestar.train(graph, small(epochs=1), entity_vectors=given)
        for given in (table, torch.tensor(table), by_name)
    ]
    assert same(tables(runs[0]), tables(runs[1]))
    assert same(tables(runs[0]), tables(runs[2]))
    with pytest.raises(SettingsError, match="an array needs a row per entity"):
        fivestar.train(graph, small(), entity_vectors=table[1:])


def test_vectors_that_cannot_be_used_are_refused(graph, tmp_path):
    for given, problem in (
        ({"Paris": [1.0], "Rome": [2.0]}, "none of its 2 names is an entity .* 'Paris', 'Rome'"),
        ({"p1": [1.0], "p2": [2.0, 3.0]}, "different shapes"),
        ({"p1": [0.0], "p2": [0.0]}, "all vectors are 0"),
    ):
        with pytest.raises(BadSource, match=problem):
            fivestar.train(graph, small(), tmp_path / "run", entity_vectors=given)
    assert not (tmp_path / "run").exists()
    given, first = vectors_for(["p1"], 3), tmp_path / "first"
    fivestar.train(graph, small(epochs=0), first)
    for options, problem in (
        ({"entity_vectors": None, "freeze_entities": True}, "needs entity_vectors"),
        ({"warm_start": first}, "omit entity_vectors"),
        ({"budget": "1m"}, "omit entity_vectors"),
        ({"model": "murp", "dim": 4, "freeze_entities": True}, "points of a ball"),
    ):
        with pytest.raises(SettingsError, match=problem):
            fivestar.train(graph, **{"entity_vectors": given, **options})


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"optimizer": "adam", "lr": 0.01},
        {"optimizer": "row-adagrad", "num_candidates": 10},
        {"optimizer": "sgd", "objective": "negative-sampling"},
        {"average": 2, "clip": 0.1},
        {"num_candidates": 10},
    ],
    ids=str,
)
def test_frozen_vectors_stay_and_all_else_is_trained(graph, change):
    names = list(graph.entities)[:40]
    options = {"entity_vectors": vectors_for(names, 5), "freeze_entities": True}
    before = fivestar.train(graph, small(epochs=0, **change), **options).model.entities
    after = fivestar.train(graph, small(**change), **options).model.entities
    assert torch.equal(before[:40, :5], after[:40, :5])
    assert float(before[:40, :5].detach().square().mean()) == pytest.approx(1)
    assert not torch.equal(before[:40, 5:], after[:40, 5:])
    assert not torch.equal(before[40:], after[40:])


def stop_after(epoch):
    def stop(line):
        if line["epoch"] == epoch and not line.get("refit"):
            raise Paused("stopped by the test")

    return stop


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("refit", [False, True])
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_resumed_run_needs_no_file_and_has_the_same_bits(
    graph, tmp_path, frozen, refit, has_checkpoint
):
    file = tmp_path / "a.npz"
    given = vectors_for(list(graph.entities)[5:], 30)
    np.savez(file, names=list(given), vectors=np.array(list(given.values())))
    options = {"entity_vectors": file, "freeze_entities": frozen}
    settings = small(refit=refit)
    whole = fivestar.train(graph, settings, **options)
    folder = tmp_path / "run"
    with pytest.raises(Paused):
        fivestar.train(graph, settings, folder, on_epoch=stop_after(2), **options)
    file.unlink()
    if not has_checkpoint:
        (folder / "checkpoint.safetensors").unlink()
    resumed = fivestar.resume(folder)
    assert same(tables(whole), tables(resumed))
    used = [run.metrics["entity_vectors"] for run in (whole, resumed)]
    assert used[0] == used[1]
    assert not (folder / VECTORS).exists()
    assert same(tables(fivestar.load(folder)), tables(whole))


def test_damaged_vectors_of_a_run_are_refused(graph, tmp_path):
    given = vectors_for(graph.entities, 4)
    with pytest.raises(Paused):
        fivestar.train(
            graph, small(), tmp_path / "run", entity_vectors=given, on_epoch=stop_after(1)
        )
    (tmp_path / "run" / VECTORS).write_bytes(b"damaged")
    with pytest.raises(DamagedRun, match="cannot be read"):
        fivestar.resume(tmp_path / "run")


def city_graph():
    """Cities whose label says in which country they are; some are in valid only."""
    facts = [
        (f"city {i} of {land}", "in", land)
        for land in ("austria", "belgium", "croatia", "denmark")
        for i in range(20)
    ]
    train = [fact for n, fact in enumerate(facts) if n % 5]
    near = [(one[0], "near", two[0]) for one, two in pairwise(train)]
    near = [fact for fact in near if fact[0].split()[-1] == fact[2].split()[-1]]
    return fivestar.read_graph({"train": train + near, "valid": facts[::5]})


def test_an_unseen_entity_is_predicted_from_its_label():
    graph = city_graph()
    options = {"dim": 16, "epochs": 30, "lr": 0.1, "reg_weight": 0.01, "progress": False}
    plain = fivestar.train(graph, **options)
    model = fivestar.train(graph, entity_vectors="labels", **options)
    used = model.metrics["entity_vectors"]
    assert (used["filled"], used["use"]) == (16, "prediction")
    # Nothing changes for all other entities.
    is_seen = torch.tensor(model.seen_in_train[0])
    assert torch.equal(model.model.entities[is_seen], plain.model.entities[is_seen])
    assert torch.equal(model.model.relations, plain.model.relations)
    assert used["valid_before_filling"]["mrr"] == plain.metrics["valid"]["mrr"]
    frozen = fivestar.train(graph, entity_vectors="labels", freeze_entities=True, **options)
    assert not torch.equal(frozen.model.entities[is_seen], plain.model.entities[is_seen])
    assert model.metrics["valid"]["mrr"] > used["valid_before_filling"]["mrr"] + 0.1
    assert model.metrics["valid"]["mrr"] > plain.metrics["valid"]["mrr"] + 0.1
    assert model.evaluate("valid")["mrr"] == pytest.approx(model.metrics["valid"]["mrr"])
    with pytest.warns(fivestar.GraphWarning, match="come from its given vector alone"):
        answers = model.predict_tails("city 0 of denmark", "in", top=1)
    assert answers[0].id == "denmark"


def test_a_ridge_regression_finds_a_linear_map():
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(300, 6, generator=generator)
    true = torch.randn(6, 4, generator=generator)
    map_, offset = fit_ridge(inputs, inputs @ true + 2)
    assert torch.allclose(map_, true.double(), atol=1e-2)
    assert torch.allclose(offset, torch.full((4,), 2.0, dtype=torch.float64), atol=1e-2)
    # Of noise, cross-validation keeps (almost) nothing.
    noise, _ = fit_ridge(inputs, torch.randn(300, 4, generator=generator))
    assert noise.norm() < 0.5


def test_pca_keeps_the_directions_of_largest_variance():
    generator = torch.Generator().manual_seed(0)
    plane = torch.randn(200, 2, generator=generator) @ torch.randn(2, 9, generator=generator)
    reduced, share = reduce_dimension(plane + 3, 2)
    centered = plane - plane.mean(dim=0)
    assert torch.allclose(torch.cdist(reduced, reduced), torch.cdist(centered, centered), atol=1e-2)
    assert share == pytest.approx(1)
    assert reduce_dimension(plane, 9)[0] is plane


def test_ngrams_are_counted_exactly():
    rows, columns, counts = count_ngrams(["abab", "xab", ""])
    # " ab", "aba", "bab", "ab " … of lengths 3 to 5; " xa", "xab", "ab " …
    assert np.bincount(rows, counts, minlength=3).tolist() == [4 + 3 + 2, 3 + 2 + 1, 0]
    shared = set(columns[rows == 0]) & set(columns[rows == 1])
    assert len(shared) == 1  # "ab "


def test_label_vectors_are_deterministic_and_take_any_alphabet():
    texts = ["".join(chr(0x4E00 + 37 * i + j) for j in range(5)) for i in range(500)] * 2
    names = [f"{text} {n}" for n, text in enumerate(texts)]
    entities = fivestar.Vocabulary("entity", names)
    one, other = label_vectors(entities, 20), label_vectors(entities, 20)
    assert np.array_equal(one.vectors, other.vectors)
    assert one.vectors.shape == (1000, 20)
    with pytest.raises(SettingsError, match="nothing in common"):
        label_vectors(fivestar.Vocabulary("entity", ["abc", "xyz"]), 4)


def test_the_command_line_reports_what_was_used(graph, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fivestar.write_graph(graph, "people.tsv", splits="merge")
    given = vectors_for([*list(graph.entities)[:30], "nobody"], 12)
    np.savez("a.npz", names=list(given), vectors=np.array(list(given.values())))
    command = ["train", "people.tsv", "--dim", "4", "--epochs", "1", "--entity-vectors", "a.npz"]
    result = CliRunner().invoke(app, [*command, "--freeze-entities", "--out", "run"])
    assert result.exit_code == 0, result.output
    left = len(graph.entities) - 30
    assert f"30 entities (frozen), {left} entities without one, 1 unknown names" in result.output
    assert "dimension 12, reduced to 8 (" in result.output
    result = CliRunner().invoke(app, [*command, "--budget", "1m"])
    assert "omit --entity-vectors" in str(result.exception)
    result = CliRunner().invoke(app, ["train", "--resume", "run", "--freeze-entities"])
    assert "omit all other options" in str(result.exception)
