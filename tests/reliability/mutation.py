"""Mutation testing: does a test fail for each of a random sample of mutants?

python -m tests.reliability.mutation           test what is left of the sample
python -m tests.reliability.mutation --again   test survivors not judged equivalent once more

The records are results/mutation.jsonl; they keep what was tested with earlier versions of the code,
as long as the mutant is in the sample. One process collects the tests, after which nothing needs to
be imported again. A forked child per test file records which test runs which line. Then a forked
child per mutant replaces the code of the mutated function and runs the tests that run the mutated
line, the quickest files first, until one fails. Tests that start other processes (the command line,
the server) do not see the mutant.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import coverage
import hypothesis
import pytest
from tests.reliability.mutants import (
    PACKAGE,
    SCOPE,
    Mutant,
    first_line,
    modules,
    mutants,
    mutated_code,
)
from tests.reliability.mutation_table import key as named
from tests.reliability.mutation_table import reasons

from fivestar.experiments.ledger import provenance
from fivestar.experiments.records import read_records
from fivestar.files import write_atomic

ROOT = PACKAGE.parents[1]
RECORDS = ROOT / "results" / "mutation.jsonl"
MAP = ROOT / "build" / "mutation_map.json"
TESTS = (
    *("geometry", "evaluation", "graph", "properties", "runs"),
    *(f"models/test_{name}.py" for name in ("contract", "conversion", "similarity")),
    *(f"training/test_{name}.py" for name in ("step", "regularizers", "relation_loss")),
    *(f"training/test_{name}.py" for name in ("candidates", "negative_sampling", "optimizers")),
    *(f"reliability/test_{name}.py" for name in ("runs", "edge_settings")),
    "experiments/test_frozen_settings.py",
)
# Slow, and about other things; so are those of whole trainings.
OMITTED = (
    *("evaluation/test_against_pykeen.py", "graph/datasets", "graph/test_benchmark_datasets.py"),
    *(f"graph/test_{name}.py" for name in ("demo", "name_search", "splitting", "statistics")),
)
SEED = 22
SAMPLE = 1500
EXAMPLES = 10  # of hypothesis, per test; always the same ones
MEMORY = 4 << 30  # bytes a mutant may allocate
SECONDS = 2.0  # of tests per mutant, by their time without a mutant
SECONDS_AGAIN = 6.0


_TestsOf = dict[tuple[str, int], set[str]]


class Outcome(NamedTuple):
    """How a child ended: "passed", "failed", "time" or "died"; and the lines that it wrote."""

    end: str
    lines: list[Any]


class Campaign:
    """A pytest plugin that runs mutants in the place of the tests."""

    def __init__(self, chosen: Sequence[Mutant], seconds: float, done: Callable[..., None]) -> None:
        self._chosen = chosen
        self._seconds = seconds
        self._done = done
        self._report: Callable[[Any], None] | None = None  # in a child only

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        items = {item.nodeid: item for item in session.items}
        functions = _live_functions()
        gc.collect()
        gc.freeze()
        tests_of, seconds = self._record(list(items.values()))
        _say(f"{len(seconds)} of {len(items)} tests pass, {sum(seconds.values()):.0f} s")
        for mutant in self._chosen:
            tests = _ordered(tests_of, seconds, mutant, self._seconds)
            self._done(
                mutant, *self._test(mutant, functions, [items[test] for test in tests], seconds)
            )
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self._report is not None:
            self._report(report)

    def _record(self, items: Sequence[pytest.Item]) -> tuple[_TestsOf, dict[str, float]]:
        """Run all tests; return the tests of each line, and the seconds of tests that pass.

        What a file gave is kept until it or the mutated modules change.
        """
        files = defaultdict(list)
        for item in items:
            files[item.path].append(item)
        kept = json.loads(MAP.read_text("utf-8")) if MAP.exists() else {}
        names = {file: file.relative_to(ROOT).as_posix() for file in files}
        for file, tests in files.items():
            state = _digest([file, *modules()])
            if kept.get(names[file], {}).get("state") != state:
                outcome = self._in_child(tests, _Recorder, cpu=120, wall=1200)
                kept[names[file]] = {"state": state, "end": outcome.end, "lines": outcome.lines}
                MAP.parent.mkdir(exist_ok=True)
                MAP.write_text(json.dumps(kept), encoding="utf-8")
        tests_of: _TestsOf = defaultdict(set)
        seconds: dict[str, float] = defaultdict(float)
        for name in names.values():
            end, lines = kept[name]["end"], kept[name]["lines"]
            failed = {line["failed"] for line in lines if "failed" in line}
            if end != "passed" or failed:
                _say(f"{name}: {end}, omitted: {sorted(failed)}")
            for line in lines:
                if "seconds" in line and line["test"] not in failed:
                    seconds[line["test"]] += line["seconds"]
                for module, numbers in line.get("covered", {}).items():
                    for number in numbers:
                        tests_of[module, number].update({line["test"]} - failed)
        return tests_of, seconds

    def _test(
        self,
        mutant: Mutant,
        functions: dict[tuple[str, str, int], list[FunctionType]],
        items: Sequence[pytest.Item],
        seconds: dict[str, float],
    ) -> tuple[str, str]:
        """Return the status of a mutant, and the test that killed it or what was run."""
        if not items:
            return "survived", "no test runs this line"
        place = _place(mutant)
        code = mutated_code((PACKAGE / mutant.module).read_text("utf-8"), mutant)
        if any(len(f.__code__.co_freevars) != len(code.co_freevars) for f in functions[place]):
            return "invalid", "another number of free variables"
        expected = sum(seconds[item.nodeid] for item in items)

        def replace() -> _Killer:
            for function in functions[place]:
                function.__code__ = code
            return _Killer()

        outcome = self._in_child(items, replace, cpu=3 * expected + 10, wall=10 * expected + 60)
        if outcome.end == "passed":
            return "survived", f"{len(items)} tests"
        if outcome.end == "failed":
            return "killed", outcome.lines[-1]["failed"]
        return ("timeout" if outcome.end == "time" else "killed"), outcome.end

    def _in_child(
        self, items: Sequence[pytest.Item], prepare: Callable[[], Any], *, cpu: float, wall: float
    ) -> Outcome:
        plugins = items[0].config.pluginmanager
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            lines = Path(folder) / "lines"
            pid = os.fork()
            if not pid:
                status = 3
                try:
                    _enter_child(folder, int(cpu) + 1)
                    with lines.open("w") as stream:
                        observer = prepare()
                        plugins.unregister(name="terminalreporter")
                        self._report = lambda report: observer.report(report, stream)
                        for item, following in zip(items, [*items[1:], None], strict=True):
                            observer.start(item)
                            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                        observer.finish(stream)
                    status = 0
                finally:
                    os._exit(status)
            end = _wait(pid, wall)
            written = lines.read_text().splitlines() if lines.exists() else []
            return Outcome(end, [json.loads(line) for line in written])


class _Killer:
    """Stop a child at the first failure."""

    def start(self, item: pytest.Item) -> None: ...

    def report(self, report: pytest.TestReport, stream: Any) -> None:
        if report.failed:
            stream.write(json.dumps({"failed": report.nodeid}) + "\n")
            stream.flush()
            os._exit(1)

    def finish(self, stream: Any) -> None: ...


class _Recorder:
    """Record the lines and the seconds of each test."""

    def __init__(self) -> None:
        patterns = [str(PACKAGE / pattern) for patterns in SCOPE.values() for pattern in patterns]
        self._coverage = coverage.Coverage(data_file=None, include=patterns, config_file=False)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])
        self._coverage.start()
        self._started = time.process_time()

    def start(self, item: pytest.Item) -> None:
        self._coverage.switch_context(item.nodeid)
        self._started = time.process_time()

    def report(self, report: pytest.TestReport, stream: Any) -> None:
        now = time.process_time()
        line = {"test": report.nodeid, "seconds": now - self._started}
        self._started = now
        stream.write(json.dumps(line | ({"failed": report.nodeid} if report.failed else {})) + "\n")

    def finish(self, stream: Any) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        covered: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for file in data.measured_files():
            for number, tests in data.contexts_by_lineno(file).items():
                for test in tests:
                    covered[test][Path(file).relative_to(PACKAGE).as_posix()].append(number)
        for test, lines in covered.items():
            stream.write(json.dumps({"test": test, "covered": lines}) + "\n")


def _enter_child(folder: str, cpu: int) -> None:
    """Make a child that cannot disturb its parent, and that ends."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait(pid: int, wall: float) -> str:
    """Wait for a child, end what it has started, and say how it ended."""
    deadline = time.monotonic() + wall
    status = None
    while status is None and time.monotonic() < deadline:
        ended, code = os.waitpid(pid, os.WNOHANG)
        status = code if ended else time.sleep(0.005)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if status is None:
        os.waitpid(pid, 0)
        return "time"
    if os.WIFSIGNALED(status):
        return "time" if os.WTERMSIG(status) in {signal.SIGXCPU, signal.SIGKILL} else "died"
    return {0: "passed", 1: "failed"}.get(os.WEXITSTATUS(status), "died")


def _live_functions() -> dict[tuple[str, str, int], list[FunctionType]]:
    """Return the functions of the scope by module, qualified name and line, decorated ones too."""
    sources = {}
    for file in modules():
        name = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
        importlib.import_module(name.removesuffix(".__init__"))
        sources[str(file)] = file.read_text("utf-8")
    functions = defaultdict(list)
    for function in gc.get_objects():
        if type(function) is FunctionType and function.__code__.co_filename in sources:
            code = function.__code__
            module = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            line = first_line(code, sources[code.co_filename])
            functions[module, code.co_qualname, line].append(function)
    missing = {_place(mutant) for mutant in mutants()} - functions.keys()
    if missing:
        raise LookupError(f"functions that cannot be replaced: {sorted(missing)}")
    return functions


def _place(mutant: Mutant) -> tuple[str, str, int]:
    return mutant.module, mutant.function, mutant.line - mutant.place[0]


def _ordered(
    tests_of: _TestsOf, seconds: dict[str, float], mutant: Mutant, most: float
) -> list[str]:
    """Return the tests that run a mutant, quick files first, of at most so many seconds.

    The tests that are called like the module are preferred, then those of the same part.
    """
    tests = set().union(*(tests_of.get((mutant.module, line), ()) for line in mutant.lines))
    own = (f"tests/{mutant.module.split('/')[0]}/", f"src/fivestar/{mutant.module}")
    like = f"/test_{mutant.module.rpartition('/')[2]}::"
    chosen, total = [], 0.0

    def preference(test: str) -> tuple[bool, bool, float]:
        return like not in test, not test.startswith(own), seconds[test]

    for test in sorted(tests, key=preference):
        if total + seconds[test] <= most or not chosen:
            total += seconds[test]
            chosen.append(test)
    files: dict[str, float] = defaultdict(float)
    for test in chosen:
        files[test.partition("::")[0]] += seconds[test]

    def order(test: str) -> tuple[bool, float, str, float]:
        file = test.partition("::")[0]
        return not test.startswith(own), files[file], file, seconds[test]

    return sorted(chosen, key=order)


def main() -> None:
    """Test the sample, or its survivors once more, and write the records."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--again", action="store_true", help="Test the survivors once more.")
    parser.add_argument(
        "--sample",
        type=int,
        default=SAMPLE,
        help="Number of mutants; others are removed from the records.",
    )
    parser.add_argument("--out", type=Path, default=RECORDS, help="File of the records.")
    arguments = parser.parse_args()
    everything = mutants()
    chosen = random.Random(SEED).sample(everything, arguments.sample)  # noqa: S311
    head, rows = _read(arguments.out) if arguments.out.exists() else ({}, {})
    # When the code changes, a few mutants leave the sample.
    sample = {_key(mutant) for mutant in chosen}
    rows = {key: row for key, row in rows.items() if key in sample}
    if arguments.again:
        settled = {name for one in reasons() if one["equivalent"] for name in one["mutants"]}
        left = (key for key, row in rows.items() if row["status"] == "survived")
        open_keys = {key for key in left if named(rows[key]) not in settled}
        chosen = [mutant for mutant in chosen if _key(mutant) in open_keys]
    else:
        chosen = [m for m in chosen if _key(m) not in rows]
    started, tested = time.monotonic(), 0

    def done(mutant: Mutant, status: str, by: str) -> None:
        nonlocal tested
        tested += 1
        before = rows.get(_key(mutant))
        rows[_key(mutant)] = _row(mutant, status, by) | (
            {"first": before["status"]} if before else {}
        )
        run = {
            "minutes": round((time.monotonic() - started) / 60, 1),
            "mutants": tested,
            **origin,
        }
        runs = [*head.get("runs", []), run]
        total = {part: sum(m.part == part for m in everything) for part in SCOPE}
        _write(arguments.out, {"seed": SEED, "population": total, "runs": runs}, rows)

    origin = provenance()
    hypothesis.settings.register_profile(
        "mutation",
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    os.environ["FIVESTAR_DATA"] = os.devnull  # no published graphs: the same tests everywhere
    campaign = Campaign(chosen, SECONDS_AGAIN if arguments.again else SECONDS, done)
    options = ["-s", "-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported above
    omitted = [f"--ignore={ROOT}/tests/{name}" for name in OMITTED]
    tests = [f"{ROOT}/tests/{name}" for name in TESTS]
    sys.exit(pytest.main([*options, *omitted, *tests, *map(str, modules())], plugins=[campaign]))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _key(mutant: Mutant) -> tuple[Any, ...]:
    return (mutant.module, mutant.function, *mutant.place, mutant.operator, mutant.change)


def _row(mutant: Mutant, status: str, by: str) -> dict[str, Any]:
    return {
        "module": mutant.module,
        "function": mutant.function,
        "line": mutant.line,
        "place": mutant.place,
        "operator": mutant.operator,
        "change": mutant.change,
        "status": status,
        "by": by,
    }


def _read(path: Path) -> tuple[dict[str, Any], dict[tuple[Any, ...], dict[str, Any]]]:
    head, *rows = read_records(path)
    keys = ("module", "function", "place", "operator", "change")
    return head, {
        (row[keys[0]], row[keys[1]], *row["place"], row[keys[3]], row[keys[4]]): row for row in rows
    }


def _without_parameters(test: str) -> str:
    """Return the file and the name of a test, without folders and parameters."""
    file, _, name = test.partition("[")[0].partition("::")
    return f"{Path(file).stem}::{name}" if name else test


def _write(path: Path, head: dict[str, Any], rows: dict[tuple[Any, ...], dict[str, Any]]) -> None:
    short = [row | {"by": _without_parameters(row["by"])} for row in rows.values()]
    lines = [json.dumps(line, ensure_ascii=False) for line in (head, *short)]
    write_atomic(path, "".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    main()
