"""Damage of every kind to every file of a run: a clear error or no consequence, never a traceback.

Each case damages one file, with and without repairing the hashes in the manifests, then loads the
run, predicts, evaluates and resumes. Allowed are an error of ours or a result; nothing else, and no
file of the run changes.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from tests.graphs import people_graph

import fivestar
from fivestar.errors import FivestarError, Paused, SettingsError

CASES_PER_FILE = 12
SETTINGS = {"model": {"dim": 3}, "training": {"epochs": 2, "evaluate_every": 1, "batch_size": 60}}
# Values that JSON allows and that no field expects.
ODD = [None, True, -1, 10**400, 1e308, "", "x", [], {}, [None], {"a": 1}, [[[]]], "\u0000"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    fivestar.train(people_graph(), SETTINGS, folder)
    return folder


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    def pause(_):
        raise Paused("enough")

    folder = tmp_path_factory.mktemp("begun") / "run"
    with pytest.raises(Paused):
        fivestar.train(people_graph(), SETTINGS, folder, on_epoch=pause)
    return folder


def snapshot(folder):
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.name not in (".lock", ".owner"):
            found[path.relative_to(folder)] = path.read_bytes() if path.is_file() else None
    return found


def repair(folder):
    """Make the hashes of both manifests right again, as an attacker or a careless tool would."""
    for place in (folder / "graph", folder):
        path = place / "manifest.json"
        try:
            manifest = json.loads(path.read_text())
            for name, entry in manifest["files"].items():
                digest = hashlib.sha256((place / name).read_bytes()).hexdigest()
                if isinstance(entry, dict):
                    key = next(k for k, v in entry.items() if isinstance(v, str) and len(v) == 64)
                    entry[key] = digest
                else:
                    manifest["files"][name] = digest
            path.write_text(json.dumps(manifest))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration):
            return


def damage_bytes(path, rng):
    content = bytearray(path.read_bytes())
    kind = rng.choice(["flip", "cut", "grow", "zero", "empty", "noise", "swap"])
    if not content or kind == "empty":
        content = bytearray()
    elif kind == "flip":
        for _ in range(rng.choice([1, 1, 1, 20])):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del content[rng.randrange(len(content)) :]
    elif kind == "grow":
        content += rng.randbytes(rng.choice([1, 8, 1000]))
    elif kind == "zero":
        start = rng.randrange(len(content))
        content[start : start + 64] = bytes(len(content[start : start + 64]))
    elif kind == "noise":
        content = bytearray(rng.randbytes(len(content)))
    else:
        content = content[::-1]
    path.write_bytes(content)


def mutate(value, rng):
    """Return JSON with one value somewhere replaced or removed."""
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(list(value))
        if rng.random() < 0.15:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.7:
        index = rng.randrange(len(value))
        return [*value[:index], mutate(value[index], rng), *value[index + 1 :]]
    return rng.choice(ODD)


def damage_json(path, rng):
    text = path.read_text()
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        index = rng.randrange(len(lines))
        lines[index] = json.dumps(mutate(json.loads(lines[index]), rng))
        path.write_text("\n".join(lines) + "\n")
    else:
        path.write_text(json.dumps(mutate(json.loads(text), rng)))


def damage_toml(path, rng):
    lines = path.read_text().splitlines()
    index = rng.randrange(len(lines))
    name = lines[index].partition("=")[0]
    values = ["inf", "nan", "-1", '""', "[]", "true", "99999999999999999999", "{}", '"x"', "1e400"]
    lines[index] = rng.choice(["", "[", f"{name}= {rng.choice(values)}", f"x{lines[index]}"])
    path.write_text("\n".join(lines) + "\n")


def attempts(folder):
    """Yield what a user might do with a run."""
    yield lambda: fivestar.load(folder).predict_tails("p1", "knows", top=3)
    yield lambda: fivestar.load(folder).evaluate("valid")
    yield lambda: fivestar.load(folder).complete(top=2)


def check(folder, *, resumes):
    before = snapshot(folder)
    for attempt in attempts(folder):
        with suppress(FivestarError):
            attempt()
    assert snapshot(folder) == before, "a damaged run was changed by reading it"
    if resumes:
        with suppress(FivestarError):
            fivestar.resume(folder)


def files_of(folder):
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


def run_cases(source, tmp_path, seed, *, resumes):
    rng = random.Random(seed)  # noqa: S311
    cases = 0
    for name in files_of(source):
        for case in range(CASES_PER_FILE):
            folder = Path(shutil.copytree(source, tmp_path / f"{cases}"))
            path = folder / name
            structured = path.suffix in (".json", ".jsonl", ".toml") and case % 2
            if case == 0:
                path.unlink()
            elif case == 2:
                path.unlink()
                path.mkdir()
            elif structured and path.stat().st_size:
                (damage_toml if path.suffix == ".toml" else damage_json)(path, rng)
            else:
                damage_bytes(path, rng)
            if case % 4 != 0:
                repair(folder)
            check(folder, resumes=resumes)
            shutil.rmtree(folder)
            cases += 1
    return cases


@pytest.mark.parametrize("seed", range(4))
def test_damage_to_a_complete_run(whole, tmp_path, seed):
    assert run_cases(whole, tmp_path, seed, resumes=False) >= 100


@pytest.mark.parametrize("seed", range(4))
def test_damage_to_a_begun_run(begun, tmp_path, seed):
    assert run_cases(begun, tmp_path, seed, resumes=True) >= 100


@pytest.mark.parametrize("change", ["remove", "replace by a number"])
def test_every_line_of_the_settings_may_be_missing(whole, tmp_path, change):
    """Without the line of a section, its settings are no part of any."""
    lines = (whole / "settings.toml").read_text().splitlines()
    for index, line in enumerate(lines):
        folder = Path(shutil.copytree(whole, tmp_path / f"{index}"))
        new = [] if change == "remove" else [f"{line.strip('[]').partition(' ')[0]} = 7"]
        path = folder / "settings.toml"
        path.write_text("\n".join([*lines[:index], *new, *lines[index + 1 :]]) + "\n")
        repair(folder)
        check(folder, resumes=False)
        if line.startswith("["):
            with pytest.raises(SettingsError, match=r"settings\.toml[:,] "):
                fivestar.load(folder)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_much_damage(whole, begun, tmp_path, seed):
    run_cases(whole, tmp_path / "whole", seed, resumes=False)
    run_cases(begun, tmp_path / "begun", seed, resumes=True)
