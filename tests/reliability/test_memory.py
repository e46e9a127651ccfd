"""A model is freed when it is no longer used, not when the garbage collector next runs.

The collector counts objects, not bytes, so that it may leave several large models in memory.
"""

from __future__ import annotations

import gc
import weakref

import pytest

import fivestar

FACTS = [(a, "next", b) for a in "abcd" for b in "abcd" if a != b]
CALLS = {
    "load": lambda model, folder: None,
    "evaluate": lambda model, folder: model.evaluate("valid", by="relation"),
    "predict": lambda model, folder: model.predict_tails("a", "next"),
    "predict relations": lambda model, folder: model.predict_relations("a", "b"),
    "score": lambda model, folder: model.score("a", "next", "b"),
    "similar": lambda model, folder: model.similar("a"),
    "explain": lambda model, folder: model.explain("a", "next", "b"),
    "complete": lambda model, folder: model.complete(top=3, out=folder / "new.tsv"),
    "calibrate": lambda model, folder: model.calibrate(),
    "add entities": lambda model, folder: model.add_entities([("e", "next", "a")], epochs=1),
    "export": lambda model, folder: model.export("numpy", folder / "vectors"),
    "save": lambda model, folder: model.save(folder / "copy"),
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "run"
    fivestar.train(FACTS, out=folder, dim=4, epochs=1, threads=1, progress=False)
    return folder


@pytest.mark.parametrize("name", CALLS)
def test_a_model_is_freed_without_the_garbage_collector(run, tmp_path, name):
    gc.collect()
    gc.disable()
    try:
        model = fivestar.load(run)
        parts = [weakref.ref(part) for part in (model, model.model, model.graph)]
        CALLS[name](model, tmp_path)
        del model
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()


def test_a_trained_model_is_freed_without_the_garbage_collector(tmp_path):
    gc.collect()
    gc.disable()
    try:
        model = fivestar.train(FACTS, dim=4, epochs=1, threads=1, progress=False)
        parts = [weakref.ref(part) for part in (model, model.model, model.graph)]
        del model
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()
