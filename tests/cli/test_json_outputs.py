"""What `--json` prints has the documented schema, for every command that has it."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from tests.cli.test_commands import COMMANDS
from typer.testing import CliRunner

import fivestar
from fivestar.cli.json_outputs import OUTPUTS
from fivestar.cli.main import app

ROOT = Path(__file__).parents[2]
PEOPLE = [(f"p{i}", "lives_in", f"c{i % 5}") for i in range(40)]
KNOWS = [(f"p{i}", "knows", f"p{(i + 5) % 40}") for i in range(40)]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    graph = folder / "graph"
    parts = fivestar.split_graph(fivestar.read_graph(PEOPLE + KNOWS), valid=0.1, test=0.1)
    fivestar.write_graph(parts, graph)
    types = [f"p{i}\tperson" for i in range(40)] + [f"c{i}\tcity" for i in range(5)]
    (graph / "entity_types.tsv").write_text("\n".join(types) + "\n")
    fivestar.train(graph, dim=4, epochs=2, out=folder / "run")
    fivestar.train(graph, model="transe", dim=4, epochs=1, out=folder / "transe")
    (folder / "queries.tsv").write_text("p1\tlives_in\t_\n_\tknows\tp4\n")
    return folder


CALLS = [
    ("graph info", ["graph"]),
    ("graph info", []),
    ("datasets", []),
    ("models", []),
    ("doctor", []),
    ("evaluate", ["run"]),
    *(("evaluate", ["run", "--by", by]) for by in ("relation", "side", "category", "seen")),
    ("evaluate", ["run", "--hits", "5"]),
    ("evaluate", ["run", "--task", "classification"]),
    ("evaluate", ["run", "--task", "relations"]),
    ("ask", ["run", "p1", "lives_in", "_"]),
    ("ask", ["run", "p1", "_", "c1"]),
    ("ask --queries", ["run", "--queries", "queries.tsv"]),
    ("explain", ["run", "p1", "lives_in", "c1"]),
    ("explain", ["transe", "p1", "lives_in", "p1"]),
    ("similar", ["run", "p1"]),
    ("calibration", ["run"]),
    ("geometry", ["run"]),
    ("patterns", ["run"]),
    ("shapes", ["run"]),
    ("cluster", ["run"]),
    ("search", ["graph", "--dim", "2", "--epochs", "1", "--trials", "2"]),
    ("reproduce compare", ["fivestar", "complex", "--graph", "wn18rr", "--ledger", "{ledger}"]),
    (
        "reproduce path-beside-loop",
        ["--seeds", "1", "--epochs", "1", "--dim", "2", "--no-rivals"],
    ),
]


@pytest.mark.parametrize(("command", "arguments"), CALLS)
def test_real_outputs_have_the_documented_schema(place, monkeypatch, command, arguments):
    monkeypatch.chdir(place)
    words = [word.format(ledger=ROOT / "results" / "ledger.jsonl") for word in arguments]
    result = CliRunner().invoke(app, [*command.partition(" --")[0].split(), *words, "--json"])
    assert result.exit_code == 0, result.output
    adapter = OUTPUTS[command].adapter
    texts = result.stdout.splitlines() if command == "ask --queries" else [result.stdout]
    assert texts
    for text in texts:
        adapter.validate_json(text)


def test_an_output_with_another_key_is_refused(place, monkeypatch):
    monkeypatch.chdir(place)
    printed = CliRunner().invoke(app, ["explain", "run", "p1", "lives_in", "c1", "--json"]).stdout
    found = json.loads(printed)
    adapter = OUTPUTS["explain"].adapter
    adapter.validate_python(found)
    for change in ({"other": 1}, {"tail_rank": {**found["tail_rank"], "other": 1}}):
        with pytest.raises(ValidationError):
            adapter.validate_python(found | change)
    with pytest.raises(ValidationError):
        adapter.validate_python({key: value for key, value in found.items() if key != "state"})


def test_every_command_with_json_is_described():
    have = {
        call.removeprefix("fivestar ")
        for call, command in COMMANDS.items()
        if any("--json" in parameter.opts for parameter in command.params)
    }
    # A group lists the datasets.
    assert have | {"datasets", "ask --queries"} == set(OUTPUTS)
    assert {command for command, _ in CALLS} == set(OUTPUTS)


def test_the_page_and_the_schemas_are_generated():
    spec = importlib.util.spec_from_file_location("json_docs", ROOT / "scripts" / "json_docs.py")
    json_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(json_docs)
    pages = json_docs.pages()
    if os.environ.get("UPDATE_DOCS"):
        for file, text in pages.items():
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    for file, text in pages.items():
        assert file.read_text() == text, "run python scripts/json_docs.py"
    # tests/server/test_openapi.py records openapi.json.
    schemas = set((ROOT / "docs" / "schemas").glob("*.json")) - {ROOT / "docs/schemas/openapi.json"}
    assert schemas == set(pages) - {ROOT / "docs" / "json.md"}
