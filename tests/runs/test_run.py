from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest
import torch
from safetensors.torch import load_file
from tests.graphs import people_graph

from fivestar.errors import DamagedRun, SourceNotFound
from fivestar.runs.run import Run, build_model, load_run, verified_files, write_tensors
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
        "single": torch.randn(3),
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
    (tmp_path / "settings.toml").touch()
    with pytest.raises(DamagedRun, match=r"has no manifest\.json; its training has not ended"):
        verified_files(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DamagedRun, match="is not the manifest of a run"):
        verified_files(tmp_path)
