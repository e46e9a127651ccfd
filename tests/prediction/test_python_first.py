"""The public API as a user of a notebook meets it: printing, progress, errors, extras."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.graphs import people_graph

import fivestar
from fivestar.errors import FivestarError, MissingExtra
from fivestar.prediction.progress import TrainingProgress, shows_progress

SOURCE = Path(fivestar.__file__).parent


@pytest.fixture(scope="module")
def model():
    return fivestar.train(people_graph(), dim=4, epochs=2)


OBJECTS = {
    "graph": lambda model: model.graph,
    "profile": lambda model: fivestar.profile_graph(model.graph),
    "model": lambda model: model,
    "metrics": lambda model: model.evaluate("test", by="relation"),
    "predictions": lambda model: model.predict_tails("p3", "lives_in"),
    "neighbors": lambda model: model.similar("p3"),
    "explanation": lambda model: model.explain("p3", "lives_in", "c3"),
    "completion": lambda model: model.complete(top=20),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_print_short_and_as_tables(model, name):
    found = OBJECTS[name](model)
    text = repr(found)
    assert len(text.splitlines()) <= 12
    assert all(len(line) <= 220 for line in text.splitlines())
    assert "object at 0x" not in text
    html = found._repr_html_()
    assert html.startswith("<table>")
    assert html.count("<tr>") >= 2


def test_what_a_completion_prints(model):
    lines = repr(model.complete(top=20)).splitlines()
    assert lines[0] == "20 new triples"
    assert re.fullmatch(r"\s+\d+\.\d%  \w+  (lives_in|knows)  \w+", lines[1])
    assert lines[-1].strip() == "…"


@pytest.mark.parametrize("name", ["predictions", "completion"])
def test_to_pandas_without_pandas_names_the_extra(model, monkeypatch, name):
    found = OBJECTS[name](model)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fivestar-kge\[pandas\]'"):
        found.to_pandas()


class Display:
    """What IPython's display returns: it is redrawn in place."""

    def __init__(self):
        self.shown = []

    def __call__(self, thing, *, display_id):
        assert display_id
        self.shown.append(thing._repr_html_())
        return self

    def update(self, thing):
        self.shown.append(thing._repr_html_())


@pytest.fixture
def display(monkeypatch):
    """A notebook that records what is shown."""
    display, module = Display(), ModuleType("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("fivestar.prediction.progress._REDRAW", 0)
    return display


def test_a_notebook_has_a_progress_bar_without_widgets(display):
    assert shows_progress(progress=None)
    fivestar.train(people_graph(), dim=4, epochs=3, evaluate_every=2, patience=0)
    assert 'max="3"' in display.shown[0]
    assert "training: 0.0/3 epochs" in display.shown[0]
    assert re.search(
        r"loss \d+\.\d+, valid MRR 0\.\d+ \(epoch 3\): 3\.0/3 epochs", display.shown[-1]
    )
    shown = len(display.shown)
    fivestar.train(people_graph(), dim=4, epochs=1, progress=False)
    assert len(display.shown) == shown


def test_a_refit_starts_the_bar_again(display):
    with TrainingProgress(9, enabled=True) as bar:
        epoch, _, stage = bar.wrap(None, None, None)
        epoch({"epoch": 9, "loss": 1.0, "valid_mrr": 0.5})
        stage("refit", 0, 4)
        epoch({"epoch": 1, "loss": 0.5})
    assert "refit: 0.0/4 epochs" in display.shown[-3]
    assert "loss 0.500: 1.0/4 epochs" in display.shown[-1]


FACTS = [(f"p{i}", "knows", f"p{(i * 7 + 3) % 30}") for i in range(30)]
# A wrong call of the public API, and the Python argument that its error names.
WRONG = {
    "train(dim=0)": (lambda m: fivestar.train(FACTS, dim=0), "dim"),
    "train(batchsize=3)": (
        lambda m: fivestar.train(FACTS, batchsize=3),
        "did you mean 'batch_size'",
    ),
    "train(refitt=True)": (lambda m: fivestar.train(FACTS, refitt=True), "did you mean 'refit'"),
    "train(batch_size=0)": (lambda m: fivestar.train(FACTS, batch_size=0), "batch_size"),
    "train(model='compleks')": (lambda m: fivestar.train(FACTS, model="compleks"), "'complex'"),
    "train(num_negatives=3)": (lambda m: fivestar.train(FACTS, num_negatives=3), "num_negatives"),
    "train(snapshot_epochs=(1,))": (
        lambda m: fivestar.train(FACTS, snapshot_epochs=(1,)),
        "snapshot_epochs needs a folder for the run: set out",
    ),
    "train(valid=7.5)": (lambda m: fivestar.train(FACTS, valid=7.5), "valid"),
    "train(budget_models=…)": (
        lambda m: fivestar.train(FACTS, budget_models=["complex"]),
        "budget_models and budget_dims need a budget",
    ),
    "train(refit, evaluate_every=0)": (
        lambda m: fivestar.train(FACTS, refit=True, evaluate_every=0),
        "evaluate_every",
    ),
    "read_graph(header)": (lambda m: fivestar.read_graph("demo", header="maybe"), "header"),
    "split_graph(valid=2)": (lambda m: fivestar.split_graph(m.graph, valid=2), "valid"),
    "split_graph(pairs)": (lambda m: fivestar.split_graph(m.graph, pairs="x"), "pairs"),
    "predict_tails(top=0)": (lambda m: m.predict_tails("p1", "knows", top=0), "top"),
    "similar(top=0)": (lambda m: m.similar("p1", top=0), "top"),
    "explain(top=0)": (lambda m: m.explain("p1", "knows", "p2", top=0), "top"),
    "complete()": (lambda m: m.complete(), "threshold"),
    "evaluate(memory)": (lambda m: m.evaluate(memory="lots"), "lots"),
    "evaluate(by, task)": (lambda m: m.evaluate(by="side", task="relations"), "by"),
    "export(to)": (lambda m: m.export("word3vec", "x"), "word3vec"),
    "load": (lambda m: fivestar.load("nothing-here"), "nothing-here"),
}


@pytest.mark.parametrize("call", WRONG)
def test_errors_name_python_arguments(model, call):
    function, names = WRONG[call]
    with pytest.raises(FivestarError) as raised:
        function(model)
    assert names in str(raised.value)
    assert not re.search(r"(?<!\w)--[a-z]", str(raised.value))


# What belongs to the command line: its commands, and the page of results that names them.
COMMAND_LINE = {"cli", "experiments"}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def test_no_message_of_the_library_has_a_flag():
    seen = 0
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] in COMMAND_LINE:
            continue
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            is_message = isinstance(node, ast.Raise) or (
                isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "warn"
            )
            if is_message:
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                seen += 1
                found = [text for text in texts if isinstance(text, str) and FLAG.search(text)]
                assert not found, f"{path.name}, line {node.lineno}: {found}"
    assert seen > 100
