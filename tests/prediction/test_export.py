"""What is exported reads back in the tools it is for, to the same numbers and names."""

from __future__ import annotations

import csv
import re
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.models.forms import FORMS, made
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app
from fivestar.errors import DamagedRun, ExportImpossible, MissingExtra, OutputError, SourceNotFound
from fivestar.graph.knowledge_graph import KnowledgeGraph
from fivestar.graph.triples import Triples
from fivestar.prediction import export
from fivestar.prediction.export import as_text, name_of, word_of
from fivestar.prediction.scorer import torch_program, write_onnx
from fivestar.runs.run import Run

NAMES = [
    "a",
    "New York",
    "New%20York",
    "tab\tbed",
    "two\nlines",
    "\r",
    "",
    "%",
    'a "quote"',
    "ü 东",
]
LABELS = ["A", None, None, "tab\tbed", None, None, None, None, None, "label"]


def run_of(reciprocals=True):
    relations = fivestar.Vocabulary("relation", ["is in", "next to"])
    train = Triples.of([(i, i % 2, i + 1) for i in range(len(NAMES) - 1)])
    graph = KnowledgeGraph(
        "odd names", fivestar.Vocabulary("entity", NAMES, LABELS), relations, train
    )
    settings = fivestar.make_settings(
        {
            "model": {"name": "complex", "dim": 4},
            "training": {"reciprocals": reciprocals},
        }
    )
    model = made("complex", len(NAMES), 4 if reciprocals else 2, dtype=torch.float32)
    return Run(graph, settings, model)


@pytest.fixture(scope="module")
def run():
    return run_of()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "run"
    training = {"epochs": 2, "evaluate-every": 0}
    fivestar.train(fivestar.read_graph(), {"model": {"dim": 4}, "training": training}, folder)
    return folder


def lines_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t"))


def shown_labels():
    return [label or name for name, label in zip(NAMES, LABELS, strict=True)]


def test_parquet(run, tmp_path):
    export.export_parquet(run, tmp_path / "out")
    entities = pq.read_table(tmp_path / "out" / "entities.parquet")
    assert entities.column_names == ["id", "name", "label", "vector"]
    assert entities["name"].to_pylist() == NAMES
    assert entities["label"].to_pylist() == shown_labels()
    vectors = np.array(entities["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(vectors, run.model.entities.detach().numpy())
    assert str(entities.schema.field("vector").type) == "fixed_size_list<element: float>[8]"
    relations = pq.read_table(tmp_path / "out" / "relations.parquet")
    assert relations["name"].to_pylist() == ["is in", "next to"] * 2
    assert relations["predicts"].to_pylist() == ["tail", "tail", "head", "head"]
    vectors = np.array(relations["vector"].to_pylist(), np.float32)
    np.testing.assert_array_equal(vectors, run.model.relations.detach().numpy())


@pytest.mark.parametrize("reciprocals", [True, False])
def test_numpy_needs_no_pickle_and_every_row_has_its_name(reciprocals, tmp_path):
    run = run_of(reciprocals)
    export.export_numpy(run, tmp_path / "out")
    for table in ("entities", "relations"):
        rows = np.load(tmp_path / "out" / f"{table}.npy", allow_pickle=False)
        np.testing.assert_array_equal(rows, getattr(run.model, table).detach().numpy())
        assert len(lines_of(tmp_path / "out" / f"{table}.tsv")) == len(rows) + 1
    header, *lines = lines_of(tmp_path / "out" / "entities.tsv")
    assert header == ["id", "name", "label"]
    expected = zip(map(str, range(len(NAMES))), NAMES, shown_labels(), strict=True)
    assert lines == [list(line) for line in expected]
    predicts = [line[3] for line in lines_of(tmp_path / "out" / "relations.tsv")[1:]]
    assert predicts == (["tail"] * 2 + ["head"] * 2 if reciprocals else ["tail"] * 2)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True))
def test_words_are_distinct(names):
    words = [word_of(name) for name in names]
    assert [name_of(word) for word in words] == names
    assert all(len(word.split()) == 1 for word in words)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=4))
def test_text_keeps_every_bit(numbers):
    rows = np.array(numbers[: len(numbers) // 2 * 2], np.float32).reshape(-1, 2)
    found = [line.split(" ") for line in as_text(rows, " ")]
    np.testing.assert_array_equal(np.array(found, dtype=np.float32), rows)


def test_word2vec(run, tmp_path):
    export.export_word2vec(run, tmp_path / "out")
    for table, names in (("entities", NAMES), ("relations", ["is in", "next to"])):
        text = (tmp_path / "out" / f"{table}.txt").read_text(encoding="utf-8")
        size, *lines = text.rstrip("\n").split("\n")
        rows = [line.split(" ") for line in lines]
        assert size == f"{len(rows)} {len(rows[0]) - 1}"
        assert [name_of(row[0]) for row in rows] == names
        expected = getattr(run.model, table).detach().numpy()[: len(names)]
        np.testing.assert_array_equal(np.array([row[1:] for row in rows], np.float32), expected)


def test_gensim_reads_the_word2vec_files(run, tmp_path):
    models = pytest.importorskip("gensim.models")
    export.export_word2vec(run, tmp_path / "out")
    loaded = models.KeyedVectors.load_word2vec_format(tmp_path / "out" / "entities.txt")
    assert loaded.index_to_key == [word_of(name) for name in NAMES]
    np.testing.assert_array_equal(loaded.vectors, run.model.entities.detach().numpy())


def test_the_projector_of_tensorboard_reads_its_files(trained, run, tmp_path):
    text_format = pytest.importorskip("google.protobuf.text_format")
    config = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    for name, given_run in (("odd", run), ("typed", fivestar.load(trained))):
        out = tmp_path / name
        export.export_projector(given_run, out)
        text = (out / "projector_config.pbtxt").read_text()
        parsed = text_format.Parse(text, config.ProjectorConfig()).embeddings
        for each, table in zip(parsed, ("entities", "relations"), strict=True):
            assert each.tensor_name == table
            rows = np.loadtxt(out / each.tensor_path, delimiter="\t", dtype=np.float32, ndmin=2)
            names = len(getattr(given_run.graph, table))
            expected = getattr(given_run.model, table).detach().numpy()[:names]
            np.testing.assert_array_equal(rows, expected)
            shown = (out / each.metadata_path).read_text(encoding="utf-8").split("\n")
            assert shown[0].split("\t") == ["name", "label", "type"]
            assert shown[-1] == ""
            assert [line.count("\t") for line in shown[1:-1]] == [2] * names
    assert "Paris\tParis\tcity" in (tmp_path / "typed" / "metadata.tsv").read_text()


def test_vectors_have_a_working_readme(trained, tmp_path, monkeypatch):
    run = fivestar.load(trained)
    export.export_vectors(run, tmp_path / "out")
    candidates = np.load(tmp_path / "out" / "candidates.npy", allow_pickle=False)
    np.testing.assert_array_equal(candidates, fivestar.candidate_vectors(run))
    recipe = re.search("```python\n(.*?)```", (tmp_path / "out" / "README.md").read_text(), re.S)
    pytest.importorskip("faiss")
    monkeypatch.chdir(tmp_path / "out")
    found = {}
    exec(recipe[1].replace("RUN", str(trained)), found)  # noqa: S102  (our own)
    best = run.model.score_tails(torch.tensor([0]), torch.tensor([0])).topk(10).indices
    assert set(found["ids"][0]) == set(best[0].tolist())


def test_failed_vector_export_leaves_nothing(run, tmp_path):
    other = Run(run.graph, run.settings, made("murp", len(NAMES), 4, dtype=torch.float32))
    with pytest.raises(ExportImpossible, match="hyperbolic"):
        export.export_vectors(other, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_torch_program_scores_as_the_model(run, tmp_path):
    export.export_torch(run, tmp_path / "out")
    scorer = torch.export.load(tmp_path / "out" / "scorer.pt2").module()
    scores_as(scorer, run.model)
    assert lines_of(tmp_path / "out" / "entities.tsv")[2][1] == "New York"


@pytest.mark.parametrize("form", FORMS)
def test_every_model_exports_to_torch(form):
    model = made(form, dtype=torch.float32)
    scores_as(torch_program(model).module(), model)


def scores_as(scorer, model):
    """For one question, for several, and for other ids than those it was made with."""
    for heads, relations in (([3], [1]), ([0, 5, 5], [1, 0, 1]), ([6, 1, 2, 0], [0, 1, 0, 0])):
        asked = torch.tensor(heads), torch.tensor(relations)
        with torch.no_grad():
            scores = scorer(*asked)
        torch.testing.assert_close(scores, model.score_tails(*asked), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("form", ["fivestar mobius hermitian inner", "transe l2", "conve", "murp"])
def test_onnx_scores_as_the_model(form, tmp_path):
    pytest.importorskip("onnxscript")
    reference = pytest.importorskip("onnx.reference")
    model = made(form, dtype=torch.float32)
    write_onnx(model, tmp_path / "scorer.onnx")
    session = reference.ReferenceEvaluator(str(tmp_path / "scorer.onnx"))

    def scorer(heads, relations):
        asked = {"heads": heads.numpy(), "relations": relations.numpy()}
        return torch.as_tensor(session.run(None, asked)[0])

    scores_as(scorer, model)


def test_onnx_without_its_extra(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fivestar-kge\[onnx\]'"):
        export.export_onnx(run, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_huggingface_copies_the_run(trained, tmp_path):
    export.export_huggingface(trained, tmp_path / "out")
    there = {path.name for path in (tmp_path / "out").iterdir()}
    here = {path.name for path in trained.iterdir() if not path.name.startswith(".")}
    assert here - there == {"checkpoint.safetensors"}
    copy, original = fivestar.load(tmp_path / "out"), fivestar.load(trained)
    assert torch.equal(copy.model.entities, original.model.entities)
    yaml = pytest.importorskip("yaml")
    _, top, _ = (tmp_path / "out" / "README.md").read_text().split("---\n", 2)
    assert yaml.safe_load(top)["library_name"] == "fivestar-kge"


def test_huggingface_refuses_damaged_runs(trained, tmp_path):
    run = fivestar.load(trained)
    run.save(tmp_path / "run")
    (tmp_path / "run" / "README.md").write_text("# no front matter\n")
    with pytest.raises(DamagedRun, match="has changed"):
        export.export_huggingface(tmp_path / "run", tmp_path / "out")
    with pytest.raises(ExportImpossible, match="front matter"):
        export._check_card(tmp_path / "run" / "README.md")
    with pytest.raises(SourceNotFound, match="no folder"):
        export.export_huggingface(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_existing_folders_are_kept(run, tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(OutputError, match="exists already"):
        export.export_numpy(run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("form", [*export.EXPORTERS, "huggingface"])
def test_export_command(form, trained, tmp_path):
    if form == "onnx":
        pytest.importorskip("onnxscript")
    options = ["--to", form, "--out", str(tmp_path / "out")]
    shown = CliRunner().invoke(app, ["export", str(trained), *options])
    assert shown.exit_code == 0, shown.output
    for path in (tmp_path / "out").iterdir():
        assert path.name in shown.output


def test_export_command_options(trained, tmp_path):
    options = ["--hf", "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, ["export", str(trained), *options]).exit_code == 0
    assert fivestar.load(tmp_path / "out").graph == fivestar.load(trained).graph
    both = CliRunner().invoke(app, ["export", str(trained), "--to", "numpy", *options])
    assert "omit --hf" in str(both.exception)
    neither = CliRunner().invoke(app, ["export", str(trained), *options[1:]])
    assert "--to parquet" in str(neither.exception)
