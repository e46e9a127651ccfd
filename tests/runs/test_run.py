from __future__ import annotations

import hashlib
from collections import Counter

import torch
from tests.graphs import people_graph

from fivestar.runs.run import Run, build_model, load_run
from fivestar.runs.settings import make_settings


def test_each_file_is_hashed_once_on_load(tmp_path, monkeypatch):
    graph, settings = people_graph(), make_settings({"model": {"dim": 3}})
    model = build_model(graph, settings)
    model.reset_parameters(torch.Generator().manual_seed(0))
    Run(graph, settings, model).save(tmp_path / "run")
    hashed = Counter()
    digest = hashlib.file_digest

    def counted(file, name):
        hashed[file.name] += 1
        return digest(file, name)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    load_run(tmp_path / "run")
    assert str(tmp_path / "run" / "graph" / "train.parquet") in map(str, hashed)
    assert set(hashed.values()) == {1}
