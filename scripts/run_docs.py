"""Run the commands and snippets of Markdown pages in order, and compare what they print.

    python scripts/run_docs.py README.md              # in a new temporary folder
    python scripts/run_docs.py README.md --update     # write what was printed into the page

A fenced block `console` holds commands after `$ ` (a backslash continues them) and, below each,
what it prints; without such lines the output is not compared. A block `python` may be followed by
a block `text` with what it prints; all `python` blocks of a page share their variables. Commands
share their folder and environment (`cd`, `export`, `source .venv/bin/activate`), and `python`
blocks use the `python` of that environment.

A comment on the line above a block changes how it is run:

    <!-- docs: skip takes hours -->   do not run it, and why
    <!-- docs: slow -->               run it only with --slow (minutes)
    <!-- docs: setup -->              run it only with --setup (installs, clones)
    <!-- docs: file NAME -->          write the block, of any language, to a file
    <!-- docs: background -->         leave the last command running until the page ends
    <!-- docs: exit 1 -->             the last command ends with this exit code
    <!-- docs: tolerance 0.2 -->      relative tolerance of decimals and percentages

How outputs are compared: `...` stands for anything, on a line of its own for any number of lines.
Spaces and the lines of tables do not count. Durations (12.3 s, 5 min) and speeds (300 triples/s)
match all others.
Decimals and percentages may differ by 5 % (or 0.02), since training depends on the machine; all
other numbers are exact.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

TOLERANCE = 0.05
ABSOLUTE = 0.02
# Seconds that a command may take.
TIMEOUT = 2400
PORT = "8005"
WIDTH = "88"

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<language>[\w-]*)[^`]*$")
_COMMENT = re.compile(r"^ *<!-- docs: (\w+)(?: (.+))? -->$")
_DIRECTIVES = ("skip", "slow", "setup", "file", "background", "exit", "tolerance")
# Blocks that run only if they are asked for.
OPTIONAL = ("setup", "slow")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_RULE = re.compile(r"[\u2500-\u257f]+")
_NUMBER = r"[-−+]?\d[\d,]*(?:\.\d+)?"
_TIMES = r"(?:ms|s|min|minutes?|seconds?|hours?|h)\b"
_DURATION = re.compile(rf"(?<![\w.])({_NUMBER}) ?({_TIMES}|\w+/s\b)")
_DECIMAL = re.compile(rf"(?<![\w.])({_NUMBER})( ?%)?(?![\w.]|-\d)")

_WORKER = r"""
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    printed, failed = io.StringIO(), False
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            exec(compile(json.loads(line), "<page>", "exec"), names)
        except BaseException:
            traceback.print_exc()
            failed = True
    print(json.dumps([printed.getvalue(), failed]), flush=True)
"""


class DocsError(Exception):
    """A page that is malformed, or does not do what it says."""


@dataclass
class Step:
    """A command, snippet or file of a page.

    Attributes:
        kind: command, python or file.
        code: what is run or written.
        line: the line of the page it begins at.
        expected: the lines it prints, or None if they are not compared.
        span: the lines of the page that `expected` fills, to update them.
        directives: the words of the comments above the block, with their values.
    """

    kind: str
    code: str
    line: int
    expected: list[str] | None = None
    span: tuple[int, int] | None = None
    directives: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """What a step has printed, and how long it took."""

    step: Step
    printed: str
    seconds: float


def parse(text: str) -> list[Step]:
    r"""Return the steps of a page, in order.

    Args:
        text: the page.

    Raises:
        DocsError: if a block does not end, or a comment is not known.

    >>> parse("```console\n$ echo a\na\n```\n")[0].expected
    ['a']
    """
    steps: list[Step] = []
    for block in _blocks(text.splitlines()):
        start, language, body, directives = block
        if "skip" in directives:
            continue
        if "file" in directives:
            content = "\n".join(body) + "\n"
            steps.append(Step("file", content, start, directives=directives))
        elif language == "console":
            steps += _commands(body, start, directives)
        elif language == "python":
            steps.append(Step("python", "\n".join(body), start, directives=directives))
        elif language == "text" and steps and steps[-1].span == (start, start):
            steps[-1].expected = body
            steps[-1].span = (start + 1, start + 1 + len(body))
        _expect_output_next(steps, text.splitlines(), start + len(body) + 2)
    return steps


def chosen(steps: list[Step], with_blocks: Container[str] = ()) -> list[Step]:
    """Return the steps that run: those marked as setup or slow only if `with_blocks` has that."""
    return [s for s in steps if all(n in with_blocks for n in OPTIONAL if n in s.directives)]


def _expect_output_next(steps: list[Step], lines: list[str], end: int) -> None:
    """Remember where the block of the output of a snippet begins, if one follows at once."""
    if steps and steps[-1].kind == "python" and steps[-1].expected is None:
        following = next((n for n in range(end, len(lines)) if lines[n].strip()), None)
        steps[-1].span = None if following is None else (following, following)


def _blocks(lines: list[str]) -> Iterator[tuple[int, str, list[str], dict[str, str]]]:
    """Return first line, language, body and directives of each fenced block."""
    number = 0
    directives: dict[str, str] = {}
    while number < len(lines):
        comment, fence = _COMMENT.match(lines[number]), _FENCE.match(lines[number])
        if comment:
            if comment[1] not in _DIRECTIVES:
                raise DocsError(f"line {number + 1}: there is no directive {comment[1]!r}")
            if comment[1] == "skip" and not comment[2]:
                raise DocsError(f"line {number + 1}: say why the block is not run")
            directives[comment[1]] = comment[2] or ""
        elif fence:
            indent, start = len(fence["indent"]), number
            close = " " * indent + fence["marks"]
            number += 1
            while number < len(lines) and lines[number].rstrip() != close:
                number += 1
            if number == len(lines):
                raise DocsError(f"line {start + 1}: the block does not end")
            body = [line[indent:] for line in lines[start + 1 : number]]
            yield start, fence["language"], body, directives
            directives = {}
        elif lines[number].strip():
            directives = {}
        number += 1


def _commands(body: list[str], start: int, directives: dict[str, str]) -> list[Step]:
    """Split a console block into its commands and what each prints."""
    steps: list[Step] = []
    number = 0
    while number < len(body):
        if not body[number].startswith("$ "):
            raise DocsError(f"line {start + number + 2}: a console block begins with `$ `")
        first = number
        code = body[number][2:]
        while code.endswith("\\"):
            number += 1
            code = f"{code}\n{body[number].removeprefix('> ')}"
        number += 1
        begin = number
        while number < len(body) and not body[number].startswith("$ "):
            number += 1
        shown = body[begin:number]
        span = (start + 1 + begin, start + 1 + number)
        steps.append(Step("command", code, start + first + 1, shown or None, span))
    for step in steps:
        step.directives = {name: v for name, v in directives.items() if name in OPTIONAL}
    if steps:
        steps[-1].directives = directives
    for step in steps:
        step.directives.setdefault("tolerance", directives.get("tolerance", str(TOLERANCE)))
    return steps


def _normal(line: str) -> str:
    """Return a line without colors, table rules and extra spaces."""
    return " ".join(_RULE.sub(" ", _ANSI.sub("", line)).split())


def normal_lines(text: str) -> list[str]:
    """Return the lines of an output that count, normalized."""
    return [line for line in map(_normal, text.splitlines()) if line]


def _same_line(expected: str, printed: str, tolerance: float) -> bool:
    pattern, wanted = [], []
    rest = 0
    for match in re.finditer(rf"\.\.\.|{_DURATION.pattern}|{_DECIMAL.pattern}", expected):
        pattern.append(re.escape(expected[rest : match.start()]))
        rest = match.end()
        if match[0] == "...":
            pattern.append(".*?")
        elif match[2]:
            pattern.append(rf"{_NUMBER} ?{match[2] if match[2].endswith('/s') else _TIMES}")
        elif "." in match[3] or match[4]:
            pattern.append(rf"({_NUMBER}){match[4] or ''}")
            wanted.append((match[3], bool(match[4])))
        else:
            pattern.append(re.escape(match[0]))
    pattern.append(re.escape(expected[rest:]))
    found = re.fullmatch("".join(pattern), printed)
    return found is not None and all(
        _near(value, shown, tolerance, percent=percent)
        for value, (shown, percent) in zip(found.groups(), wanted, strict=True)
    )


def _near(printed: str, shown: str, tolerance: float, *, percent: bool) -> bool:
    value, expected = (float(text.replace(",", "").replace("−", "-")) for text in (printed, shown))
    absolute = ABSOLUTE * 100 if percent else ABSOLUTE
    return abs(value - expected) <= max(absolute, tolerance * abs(expected))


def matches(expected: list[str], printed: str, tolerance: float = TOLERANCE) -> bool:
    r"""Return whether an output is what a page shows.

    >>> matches(["MRR 0.57, 8.1 s", "...", "end"], "MRR 0.565, 12 s\nand\nmore\nend")
    True
    >>> matches(["12 entities"], "13 entities")
    False
    """
    shown, lines = normal_lines("\n".join(expected)), normal_lines(printed)
    # ends[j]: whether the lines of `shown` so far match the first j lines of the output.
    ends = [True] + [False] * len(lines)
    for line in shown:
        if line == "...":
            first = ends.index(True) if True in ends else len(ends)
            ends = [number >= first for number in range(len(ends))]
        else:
            ends = [False] + [
                ends[number] and _same_line(line, printed_line, tolerance)
                for number, printed_line in enumerate(lines)
            ]
    return ends[-1]


class Session:
    """Runs the steps of a page in a folder; a context manager that ends what it has started."""

    def __init__(self, folder: Path, path: str | None = None) -> None:
        """Run in `folder`, with the folder `path` first in the search path of commands."""
        self.cwd = folder
        # Seconds may differ, widths of tables may not.
        self.env = dict(os.environ, COLUMNS=WIDTH, TERM="dumb", NO_COLOR="1", PYTHONUNBUFFERED="1")
        # Not the user's.
        self.env["FIVESTAR_CACHE"] = str(folder / ".runs")
        for name in ("PYTEST_CURRENT_TEST", "FORCE_COLOR", "CI"):
            self.env.pop(name, None)
        if path:
            self.env["PATH"] = f"{path}{os.pathsep}{self.env['PATH']}"
        self.port = PORT
        self._python: subprocess.Popen[str] | None = None
        self._background: list[tuple[subprocess.Popen[bytes], IO[bytes]]] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        if self._python is not None:
            with self._python as python:
                python.terminate()
        for process, log in self._background:
            with process, log:
                process.terminate()

    def run(self, step: Step) -> Outcome:
        """Run a step.

        Raises:
            DocsError: if it fails, or prints something else than the page shows.
        """
        start = time.perf_counter()
        if step.kind == "file":
            (self.cwd / step.directives["file"]).write_text(step.code, encoding="utf-8")
            printed, code = "", 0
        elif step.kind == "python":
            printed, code = self._run_python(step.code)
        elif "background" in step.directives:
            printed, code = self._start(step)
        else:
            printed, code = self._run_command(step.code)
        printed = printed.replace(f":{self.port}", f":{PORT}")
        outcome = Outcome(step, printed, time.perf_counter() - start)
        if code != int(step.directives.get("exit", 0)):
            raise DocsError(_report(outcome, f"ends with exit code {code}"))
        return outcome

    def _run_command(self, code: str) -> tuple[str, int]:
        """Run a command in bash, and keep its folder and environment for the next one."""
        with tempfile.NamedTemporaryFile() as state:
            keep = f"__code=$?; {{ pwd; env -0; }} > {shlex.quote(state.name)}; exit $__code"
            result = subprocess.run(  # noqa: S603
                ["bash", "-c", f"{self._own_port(code)}\n{keep}"],  # noqa: S607
                cwd=self.cwd,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
            saved = Path(state.name).read_text(encoding="utf-8", errors="surrogateescape")
        if saved:
            folder, _, variables = saved.partition("\n")
            self.cwd = Path(folder)
            self.env = dict(item.split("=", 1) for item in variables.split("\0") if "=" in item)
        return result.stdout.decode(errors="replace"), result.returncode

    def _run_python(self, code: str) -> tuple[str, int]:
        if self._python is None:
            self._python = subprocess.Popen(  # noqa: S603
                ["python", "-c", _WORKER],  # noqa: S607
                cwd=self.cwd,
                env=self.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._python.stdin is not None  # noqa: S101
        assert self._python.stdout is not None  # noqa: S101
        self._python.stdin.write(json.dumps(self._own_port(code)) + "\n")
        self._python.stdin.flush()
        answer = self._python.stdout.readline()
        if not answer:
            raise DocsError(f"Python has ended in:\n{code}")
        printed, failed = json.loads(answer)
        return printed, int(failed)

    def _start(self, step: Step) -> tuple[str, int]:
        """Start a command, and wait until it has printed what the page shows."""
        code = step.code
        if "fivestar serve" in code:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self.port = str(free.getsockname()[1])
            code = f"{code.replace(f' --port {PORT}', '')} --port {self.port}"
        log = tempfile.TemporaryFile()  # noqa: SIM115  (open as long as the command runs)
        process = subprocess.Popen(  # noqa: S603
            ["bash", "-c", f"exec {code}"],  # noqa: S607
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        self._background.append((process, log))
        until = time.monotonic() + TIMEOUT / 10
        while True:
            log.seek(0)
            printed = log.read().decode(errors="replace").replace(f":{self.port}", f":{PORT}")
            if process.poll() is not None:
                return printed, process.returncode or 1
            if matches([*(step.expected or []), "..."], printed) and (printed or not step.expected):
                return printed, 0
            if time.monotonic() > until:
                return printed, 1
            time.sleep(0.2)

    def _own_port(self, code: str) -> str:
        """Let the page speak to the server it has started."""
        return code.replace(f":{PORT}", f":{self.port}")


def _report(outcome: Outcome, problem: str) -> str:
    step = outcome.step
    shown = "\n".join(step.expected or [])
    return (
        f"line {step.line + 1}: {step.code}\n{problem}\n--- printed\n{outcome.printed.rstrip()}\n"
        f"--- the page shows\n{shown}"
    )


def check(outcome: Outcome) -> None:
    """Raise DocsError if a step has not printed what the page shows."""
    step = outcome.step
    if step.expected is None or "background" in step.directives:
        return
    tolerance = float(step.directives.get("tolerance", TOLERANCE))
    if not matches(step.expected, outcome.printed, tolerance):
        raise DocsError(_report(outcome, "prints something else than the page shows"))


def updated(text: str, outcomes: list[Outcome]) -> str:
    """Return a page with what its steps have printed, where that differs."""
    lines = text.splitlines()
    for outcome in reversed(outcomes):
        step = outcome.step
        if step.expected is None or step.span is None:
            continue
        try:
            check(outcome)
        except DocsError:
            printed = _ANSI.sub("", outcome.printed).rstrip().splitlines()
            above = lines[step.span[0] - 1]
            indent = " " * (len(above) - len(above.lstrip()))
            lines[slice(*step.span)] = [f"{indent}{line}".rstrip() for line in printed]
    return "\n".join(lines) + "\n"


def run_page(
    page: Path,
    folder: Path,
    *,
    with_blocks: Container[str] = (),
    compare: bool = True,
    path: str | None = None,
) -> list[Outcome]:
    """Run a page in a folder.

    Args:
        page: the Markdown file.
        folder: where its commands are run.
        with_blocks: marks of blocks to run, too: setup, slow.
        compare: raise DocsError at the first output that differs.
        path: a folder to search for commands first.

    Returns:
        What each step printed.

    Raises:
        DocsError: if a step fails or prints something else than the page shows.
    """
    outcomes = []
    try:
        with Session(folder, path) as session:
            for step in chosen(parse(page.read_text(encoding="utf-8")), with_blocks):
                outcomes.append(session.run(step))
                if compare:
                    check(outcomes[-1])
    except DocsError as error:
        raise DocsError(f"{page.name}, {error}") from None
    return outcomes


def main() -> None:
    """Run the pages given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path)
    parser.add_argument("--folder", type=Path, help="where to run (default: a temporary folder)")
    for mark in OPTIONAL:
        parser.add_argument(f"--{mark}", action="store_true", help=f"run blocks marked as {mark}")
    parser.add_argument("--update", action="store_true", help="write what was printed to the page")
    arguments = parser.parse_args()
    for page in arguments.pages:
        with tempfile.TemporaryDirectory() as temporary:
            try:
                outcomes = run_page(
                    page.absolute(),
                    arguments.folder or Path(temporary),
                    with_blocks=[mark for mark in OPTIONAL if getattr(arguments, mark)],
                    compare=not arguments.update,
                    path=str(Path(sys.executable).parent),
                )
            except DocsError as error:
                sys.exit(str(error))
        for outcome in outcomes:
            first = outcome.step.code.strip().partition("\n")[0]
            print(f"{outcome.seconds:8.1f} s  {page.name}:{outcome.step.line + 1}  {first}")
        if arguments.update:
            page.write_text(updated(page.read_text("utf-8"), outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
