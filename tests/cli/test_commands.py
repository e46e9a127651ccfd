from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import fivestar
from fivestar.cli.main import app, main

DOCS = Path(__file__).parents[2] / "docs" / "commands.md"


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def leaves(command, path=("fivestar",)):
    """Every command that does something, with the words that call it."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from leaves(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield " ".join(path), command


COMMANDS = dict(leaves(typer.main.get_command(app)))


# The options for reading a graph are listed once, under the first command that has them.
READING_COMMAND, READING_PANEL = "fivestar graph info", "Advanced: reading SOURCE"


def option_table(call):
    """Return the table of a command's arguments and options, from their help texts."""
    command = COMMANDS[call]
    rows, reading = [], []
    for parameter in command.get_params(typer.Context(command)):
        if parameter.name == "help":
            continue
        assert parameter.help, f"{call} {parameter.name} has no help"
        is_option = parameter.opts[0].startswith("--")
        names = (
            [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name.upper()]
        )
        shown = " ".join(f"`{name}`" for name in names)
        if getattr(parameter, "rich_help_panel", None) == READING_PANEL and call != READING_COMMAND:
            reading.append(shown)
            continue
        default = ""
        if parameter.show_default and parameter.default not in (None, False, ()):
            default = f" (default: {parameter.default})"
        rows.append((shown, parameter.help + default))
    if reading:
        rows.append((" ".join(reading), f"As for `{READING_COMMAND}`."))
    cells = (f"| {shown} | {text.replace('|', chr(92) + '|')} |" for shown, text in rows)
    return "\n".join(["| argument or option | meaning |", "|---|---|", *cells])


@pytest.mark.parametrize("call", COMMANDS)
def test_every_command_is_documented(call):
    command = COMMANDS[call]
    assert command.help
    assert command.epilog.startswith(f"Example: {call}")
    text = DOCS.read_text()
    section = re.search(rf"\n##+ {call}\n(.*?)(?=\n##+ fivestar|\Z)", text, re.DOTALL)[1]
    table = re.search(r"\| argument or option \| meaning \|\n(?:\|.*\n?)+", section)
    written = table[0].rstrip("\n") if table else ""
    if os.environ.get("UPDATE_DOCS") and written != option_table(call):
        new = (
            section.replace(written, option_table(call))
            if table
            else f"{section}\n{option_table(call)}\n"
        )
        DOCS.write_text(text.replace(section, new, 1))
        return
    assert written == option_table(call), "run the test with UPDATE_DOCS=1"
    assert run(*call.split()[1:], "--help").exit_code == 0


def test_every_command_has_its_function():
    section = DOCS.read_text().split("## Every command in Python\n")[1].split("\n## ")[0]
    commands = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
    shared = {"fivestar reproduce table-transformations", "fivestar reproduce table-mobius"}
    shared |= {"fivestar reproduce structures", "fivestar demo"}
    shared |= {call for call in COMMANDS if re.search("reproduce (table|figure)-", call)}
    assert {f"fivestar {command}" for command in commands} - {"fivestar reproduce"} == (
        set(COMMANDS) | {"fivestar datasets"}
    ) - shared
    for name in re.findall(r"`(fivestar\.[\w.]+)`", section):
        assert pkgutil.resolve_name(name)


def test_help_and_version_answer_without_the_heavy_libraries():
    code = """
import sys, fivestar.cli.main as m
from typer.testing import CliRunner
for arguments in (["--help"], ["--version"], ["graph", "info", "--help"]):
    assert CliRunner().invoke(m.app, arguments).exit_code == 0
heavy = {"torch", "numpy", "pyarrow", "pandas"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_reading_a_graph_loads_neither_torch_nor_pandas(tmp_path):
    (tmp_path / "graph.tsv").write_text("a\tr\tb\na\tr\tb\n")
    code = f"""
import sys, fivestar
fivestar.read_graph({str(tmp_path / "graph.tsv")!r})
heavy = {{"torch", "pandas"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_version():
    assert run("--version").stdout == f"fivestar {fivestar.__version__}\n"


def test_info_of_the_demo_graph_as_tables():
    result = run("graph", "info")
    assert result.exit_code == 0
    for text in ("demo", "2,149 entities", "capital_of", "symmetric: 1", "connected components"):
        assert text in result.stdout


def test_info_as_json_has_the_promised_keys(tmp_path):
    (tmp_path / "g.tsv").write_text("a\tr\tb\na\tr\tb\nb\tr\ta\n")
    found = json.loads(run("graph", "info", str(tmp_path / "g.tsv"), "--json").stdout)
    assert (found["entities"], found["relations"]) == (2, 1)
    train = found["splits"]["train"]
    assert (train["lines"], train["triples"], train["duplicates"]) == (3, 2, 1)
    assert found["splits"]["test"]["lines"] == found["splits"]["valid"]["triples"] == 0
    assert found["patterns"]["symmetric"] == []


@pytest.mark.parametrize(
    ("text", "options", "entities"),
    [
        ("a;r;b\n", ["--delimiter", "semicolon"], 2),
        ("a\tr\tb\n", ["--delimiter", "\\t"], 2),
        ("x\ty\tz\na\tr\tb\n", ["--header", "yes"], 2),
        ("w\ta\tr\tb\n", ["--columns", "1,2,3"], 2),
        ("n,one,two,three\n1,a,r,b\n", ["--columns", "one,two,three"], 2),
        ("'a,b',r,c\n", ["--quote", "'"], 2),
        ("a\tr\tb\nbad\n", ["--on-bad-line", "skip"], 2),
    ],
)
def test_every_reading_option_reaches_the_reader(tmp_path, text, options, entities):
    path = tmp_path / "graph.txt"
    path.write_text(text)
    result = run("graph", "info", str(path), "--json", *options)
    assert json.loads(result.stdout)["entities"] == entities
    without = run("graph", "info", str(path), "--json")
    assert (
        without.exception
        or json.loads(without.stdout) != json.loads(result.stdout)
        or ("--delimiter" in options)
    )


NQ = '<a:b> <a:r> "x" <a:g> .\n<a:b> <a:r> <a:d> .\n<a:b> <{}type> <a:T> .\n'.format(
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
)


@pytest.mark.parametrize(
    ("options", "entities"),
    [
        ([], 2),
        (["--literals", "keep"], 3),
        (["--types", "triples"], 3),
        (["--literals", "keep", "--graph", "a:g"], 2),
        (["--literals", "keep", "--graph", "a:g", "--graph", "default"], 3),
        (["--format", "nq"], 2),
    ],
)
def test_every_option_of_rdf_reaches_the_reader(tmp_path, options, entities):
    path = tmp_path / ("graph.txt" if "--format" in options else "graph.nq")
    path.write_text(NQ)
    result = run("graph", "info", str(path), "--json", *options)
    assert json.loads(result.stdout)["entities"] == entities


def test_the_language_of_labels_reaches_the_reader(tmp_path):
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    (tmp_path / "g.nt").write_text(
        f'<a:b> <a:r> <a:c> .\n<a:b> {label} "Bee"@en .\n<a:b> {label} "Biene"@de .\n'
    )
    for language, text in (("en", "Bee"), ("de", "Biene")):
        out = tmp_path / language
        run("graph", "convert", str(tmp_path / "g.nt"), str(out), "--language", language)
        assert (out / "entity_labels.tsv").read_text() == f"a:b\t{text}\n"


def test_info_shows_what_only_rdf_has(tmp_path):
    (tmp_path / "g.nq").write_text(NQ)
    shown = run("graph", "info", str(tmp_path / "g.nq")).stdout
    assert "literals" in shown
    assert "types" in shown
    assert "literals" not in run("graph", "info").stdout


def test_convert_says_what_it_wrote_and_what_it_left_out(tmp_path):
    (tmp_path / "g.nq").write_text(NQ)
    arguments = ["graph", "convert", str(tmp_path / "g.nq"), str(tmp_path / "g.nt.gz")]
    result = run(*arguments)
    assert "1 train triples in" in result.stdout
    assert "1 literals dropped, 1 types" in result.stdout
    assert "exists already" in str(run(*arguments).exception)
    assert run(*arguments, "--force").exit_code == 0
    tsv = run("graph", "convert", str(tmp_path / "g.nq"), str(tmp_path / "g.tsv"))
    assert "types of the graph are not written" in tsv.stderr


def test_convert_of_splits(tmp_path):
    folder, out = tmp_path / "folder", tmp_path / "all.nt"
    assert run("graph", "split", "--test", "0.1", "--out", str(folder)).exit_code == 0
    refused = run("graph", "convert", str(folder), str(out))
    assert "cannot represent" in str(refused.exception)
    merged = run("graph", "convert", str(folder), str(out), "--all")
    assert "5,007 train triples" in merged.stdout
    result = run("graph", "convert", str(folder), str(tmp_path / "other"), "--to", "parquet")
    assert result.exit_code == 0
    assert (tmp_path / "other" / "valid.parquet").is_file()
    assert "is not an output format" in str(
        run("graph", "convert", str(folder), str(tmp_path / "x.xyz")).exception
    )


def test_split_writes_a_folder_that_info_finds_nothing_wrong_with(tmp_path):
    out = tmp_path / "parts"
    arguments = ["--valid", "0.1", "--test", "0.2", "--seed", "7", "--out", str(out)]
    result = run("graph", "split", *arguments)
    assert "5,007 distinct triples → 3,505 train, 501 valid, 1,001 test" in result.stdout
    found = json.loads(run("graph", "info", str(out), "--json").stdout)
    assert found["warnings"] == []
    assert found["held_out"]["test"]["lines"] == 1001
    again = run("graph", "split", *arguments)
    assert "exists already" in str(again.exception)


def test_split_warns_when_it_falls_short(tmp_path):
    path = tmp_path / "path.tsv"
    path.write_text("".join(f"e{i}\tr\te{i + 1}\n" for i in range(40)))
    result = run("graph", "split", str(path), "--test", "0.8", "--out", str(tmp_path / "o"))
    assert "test is" in result.stderr
    assert "triples short" in result.stderr


def test_errors_are_one_message_and_no_traceback(monkeypatch, capsys, tmp_path):
    path = tmp_path / "[red]odd[red].tsv"
    path.write_text("a\tr\tb\nb\tr\n")
    monkeypatch.setattr(sys, "argv", ["fivestar", "graph", "info", str(path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {path}, line 2: has 2 fields where 3 are expected")
    assert "Traceback" not in printed.err


def test_models_lists_formulas_and_options():
    assert "TransE" not in run("models").stdout  # names are those that --model takes
    assert "transe" in run("models").stdout
    found = json.loads(run("models", "--json").stdout)
    assert found["fivestar"]["options"]["denominator"]["default"] == "mobius"
    assert all("s = " in model["formula"] for model in found.values())
