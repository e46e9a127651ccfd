from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.graphs import people_graph

import fivestar
from fivestar.errors import DamagedRun, OutputError, SourceNotFound
from fivestar.runs.identity import graph_hash
from fivestar.runs.run import (
    Run,
    begin_run,
    build_model,
    convert_to_fivestar,
    import_from_pykeen,
    load_run,
    read_begun_run,
    run_lock,
    save_run,
    save_snapshot,
    verified_files,
    write_tensors,
)
from fivestar.runs.settings import make_settings


def saved(folder):
    """Save a run that was not trained; return its model."""
    graph, settings = people_graph(), make_settings({"model": {"dim": 3}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    Run(graph, settings, model).save(folder)
    return model


def test_each_file_is_hashed_once_on_load(tmp_path, monkeypatch):
    saved(tmp_path / "run")
    hashed = Counter()
    digest = hashlib.file_digest

    def counted(file, name):
        hashed[file.name] += 1
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    load_run(tmp_path / "run")
    assert str(tmp_path / "run" / "graph" / "train.parquet") in map(str, hashed)
    assert set(hashed.values()) == {1}


@pytest.mark.parametrize("reciprocals", [True, False])
def test_a_model_has_a_row_per_entity_and_relation(reciprocals):
    graph = people_graph()
    settings = make_settings({"model": {"dim": 3}, "training": {"reciprocals": reciprocals}})
    model = build_model(graph, settings)
    assert len(model.entities) == len(graph.entities)
    assert len(model.relations) == (4 if reciprocals else 2)
    assert not model.training


def test_tensors_are_read_back_and_aligned(tmp_path):
    tensors = {
        "a_single": torch.randn(3),
        "count": torch.tensor(7),
        "double": torch.randn(2, 3, dtype=torch.float64),
        "transposed": torch.arange(6.0).view(2, 3).T,
    }
    path = tmp_path / "tensors.safetensors"
    write_tensors(path, tensors, {"epoch": "3"})
    found = load_file(path)
    assert found.keys() == tensors.keys()
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name], tensor, rtol=0, atol=0)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    assert size % 8 == 0
    assert header.pop("__metadata__") == {"epoch": "3"}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        assert begin % tensors[name].element_size() == 0
        assert end - begin == tensors[name].nbytes
    write_tensors(path, {"a": torch.ones(1)})
    size = int.from_bytes(path.read_bytes()[:8], "little")
    assert "__metadata__" not in json.loads(path.read_bytes()[8 : 8 + size])


def test_weights_may_be_read_or_mapped(tmp_path):
    run = tmp_path / "run"
    model = saved(run)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes((run / "model.safetensors").read_bytes())
    for found in (load_run(run), load_run(run, weights=copy)):
        for mine, other in zip(found.model.parameters(), model.parameters(), strict=True):
            assert torch.equal(mine, other)
    with pytest.raises(SourceNotFound, match="run has no snapshot of epoch 3; it has none"):
        load_run(run, 3)
    copy.write_bytes(b"damaged")
    with pytest.raises(DamagedRun, match="its files do not match one another"):
        load_run(run, weights=copy)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"version": 2}, "fivestar-run of version 2, this fivestar reads fivestar-run 1"),
        ({"format": "other"}, "other of version 1, this fivestar reads"),
        ({"files": None}, "is not the manifest of a run"),
        ({"files": {"../x": ""}}, r"names a file outside of the folder: '\.\./x'"),
        ({"files": {"none": ""}}, "none: is missing; restore it or train again"),
        ({"files": {"README.md": "0"}}, "README.md: has changed since it was written"),
    ],
)
def test_other_manifests_are_refused(tmp_path, change, problem):
    saved(tmp_path / "run")
    path = tmp_path / "run" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedRun, match=problem):
        verified_files(tmp_path / "run")


def test_folders_that_are_no_complete_runs(tmp_path):
    with pytest.raises(SourceNotFound, match=r"no folder .*none; give the folder"):
        verified_files(tmp_path / "none")
    with pytest.raises(SourceNotFound, match="is not the folder of a trained model"):
        verified_files(tmp_path)
    with pytest.raises(SourceNotFound, match=r"not the folder of a run: it has no settings\.toml"):
        read_begun_run(tmp_path)
    (tmp_path / "settings.toml").touch()
    with pytest.raises(DamagedRun, match=r"has no manifest\.json; its training has not ended"):
        verified_files(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DamagedRun, match="is not the manifest of a run"):
        verified_files(tmp_path)


def complex_run(**metrics):
    """Return a run of a ComplEx with random weights."""
    graph = people_graph()
    settings = make_settings({"model": {"name": "complex", "dim": 3}, "training": {"lr": 0.07}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    return Run(graph, settings, model, {"epochs": 9, "seconds": 1.5, "test": {}, **metrics})


def test_a_converted_run_keeps_its_scores_and_says_where_it_comes_from(tmp_path):
    run = complex_run(valid={"mrr": 0.5})
    converted = convert_to_fivestar(run)
    converted.save(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert (loaded.settings.model.name, loaded.settings.training.lr) == ("fivestar", 0.07)
    triples = torch.as_tensor(run.graph.train.array[:20].astype("int64")).unbind(dim=1)
    torch.testing.assert_close(loaded.model.score(*triples), run.model.score(*triples))
    assert loaded.graph == run.graph
    assert loaded.metrics == {
        "epochs": 9,
        "seconds": 1.5,
        "converted_from": {"name": "complex", "dim": 3},
        "score_scale": 1,
        "score_shift": 0,
    }


def test_a_converted_run_keeps_that_it_was_refitted():
    metrics = {"valid": {"mrr": 0.5}, "best_epoch": 7, "refit": {"epochs": 7}}
    assert complex_run(**metrics).is_refit
    converted = convert_to_fivestar(complex_run(**metrics))
    assert converted.is_refit
    assert {name: converted.metrics[name] for name in metrics} == metrics
    assert "test" not in converted.metrics
    assert not convert_to_fivestar(complex_run()).is_refit


@pytest.mark.pykeen
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inverses", [True, False])
def test_a_run_from_pykeen_is_saved_and_loaded_like_any_other(tmp_path, inverses):
    triples = pytest.importorskip("pykeen.triples")
    factory = triples.TriplesFactory.from_labeled_triples(
        np.array([["a", "r", "b"], ["b", "s", "c"]]), create_inverse_triples=inverses
    )
    models = pytest.importorskip("pykeen.models")
    model = models.DistMult(triples_factory=factory, embedding_dim=4, random_seed=0).eval()
    run = import_from_pykeen(model, factory)
    assert run.metrics == {"from": "pykeen"}
    assert (run.settings.model.name, run.settings.model.dim) == ("distmult", 4)
    assert run.settings.training.reciprocals == inverses
    assert run.settings.training.objective == "softmax"
    run.save(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert list(loaded.graph.relations) == ["r", "s"]
    assert torch.equal(loaded.model.entities, run.model.entities)
    ids = torch.tensor([[0, 1, 2], [2, 0, 1]])
    scores = loaded.model.score(*ids.unbind(dim=1)).detach()
    torch.testing.assert_close(scores, model.predict_hrt(ids).flatten())


def test_working_files_are_not_part_of_the_manifest(tmp_path):
    run = complex_run()
    folder = begin_run(run.graph, run.settings, tmp_path / "run")
    for name in ("tensorboard/events", "search/journal", "checkpoint.safetensors", ".lock"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("of now")
    (folder / "snapshots").mkdir()
    (folder / "snapshots" / "epoch-1.safetensors").touch()
    save_run(run, folder)
    names = set(verified_files(folder))
    assert "snapshots/epoch-1.safetensors" in names
    assert {name.partition("/")[0] for name in names} == {
        *("README.md", "graph", "history.jsonl", "metrics.json", "model.safetensors"),
        *("settings.toml", "snapshots"),
    }
    (folder / "tensorboard" / "events").write_text("of later")
    load_run(folder)


def test_the_card_lists_the_trials_of_a_budget(tmp_path):
    run = complex_run(budget={})
    trial = {"model": "complex", "settings": {}, "rung": 0, "epochs": 2, "state": "complete"}
    trials = [{"trial": i, "valid_mrr": mrr} | trial for i, mrr in enumerate([0.1234, 0.4321])]
    for name, lines in (("with", trials), ("without", [])):
        folder = begin_run(run.graph, run.settings, tmp_path / name)
        if lines:
            (folder / "trials.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
        save_run(run, folder)
        card = (folder / "README.md").read_text()
        assert [f"{mrr}" in card for mrr in (0.1234, 0.4321)] == [bool(lines)] * 2


def test_a_second_process_is_told_who_writes(tmp_path):
    with run_lock(tmp_path):
        process = rf"process {os.getpid()} on .*"
        with pytest.raises(OutputError, match=f"{process} writes"), run_lock(tmp_path):
            pass
        (tmp_path / ".owner").unlink()
        with pytest.raises(OutputError, match=": another process writes"), run_lock(tmp_path):
            pass
    with run_lock(tmp_path):
        pass


def test_the_hash_of_a_graph_follows_from_its_sizes_and_ids():
    facts = [("a", "r", "b"), ("b", "s", "c"), ("c", "r", "a")]
    base = graph_hash(fivestar.read_graph(facts))
    assert re.fullmatch(r"[0-9a-f]{16}", base)
    renamed = [tuple(name * 2 for name in fact) for fact in facts]
    assert graph_hash(fivestar.read_graph(renamed)) == base, "names do not matter"
    others = [
        facts[::-1],
        [*facts, ("a", "s", "c")],
        [*facts[:2], ("c", "s", "a")],
        {"train": facts, "valid": facts[:1]},
        {"train": facts, "valid": facts[1:2]},
    ]
    hashes = [graph_hash(fivestar.read_graph(other)) for other in others]
    assert len({base, *hashes}) == 1 + len(others)


def test_a_snapshot_is_loaded_by_its_epoch(tmp_path):
    run = complex_run()
    folder = begin_run(run.graph, run.settings, tmp_path / "run")
    snapshots = {}
    for epoch in (1, 5):
        run.model.entities.detach().add_(epoch)
        save_snapshot(run.model, folder, epoch)
        snapshots[epoch] = run.model.entities.detach().clone()
    run.model.entities.detach().zero_()
    save_run(run, folder)
    for epoch, entities in snapshots.items():
        assert torch.equal(load_run(folder, epoch).model.entities, entities)
    assert not load_run(folder).model.entities.any()
