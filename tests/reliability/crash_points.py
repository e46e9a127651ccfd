"""Run the writing commands with a failure at each of their file operations.

A process that has imported everything, with `crash_shim.c` preloaded, forks a child per point. The
child arms the shim and runs the command; afterwards the parent checks what the child has left:

- old: what was there before, and the same command then succeeds;
- new: the same as after an undisturbed run (with `--budget`: any complete run);
- begun: a run that `train --resume` completes to the same bits (with `--budget`: completes).

Anything else is a failure, and so is an error that is not a `FivestarError`. States that were
checked once are not checked again: every command is deterministic, its clock included.

Requests and answers are lines of JSON: `{"command": name, "limit": points per action or null}`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import hashlib
import importlib
import io
import json
import os
import pickle
import pkgutil
import re
import shutil
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count, zip_longest
from pathlib import Path

CHANGE, WRITE, REMOVE, SYNC, READ, CLOSE = (1 << n for n in range(6))
KILL, ONCE, ALWAYS, SHORT = range(1, 5)
# Name: what happens, with which error, at which kinds of operations.
ACTIONS = {
    "kill": (KILL, 0, CHANGE | WRITE | REMOVE | SYNC),
    # Nothing more can be written, but files can be removed.
    "ENOSPC": (ALWAYS, errno.ENOSPC, CHANGE | WRITE | SYNC),
    "EIO": (ONCE, errno.EIO, CHANGE | WRITE | REMOVE | SYNC | READ | CLOSE),
    # From here on the file system is read-only.
    "EROFS": (ALWAYS, errno.EROFS, CHANGE | WRITE | REMOVE),
    "short write": (SHORT, 0, WRITE),
}
POWER_LOSS = ("power loss", "power loss, names kept")
_DRAFT = re.compile(r"\.([0-9a-f]{12})\.partial")
_HANGS = 120  # seconds
_TIMED = 40

Tree = dict[str, bytes]  # the files of a folder by path
State = tuple[Tree, frozenset[str]]  # and its folders


@dataclass(frozen=True)
class Command:
    """A command, given as the words of the command line or as a function of the folder."""

    name: str
    words: list[str] | Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda root: None
    # Completes what an interrupted command has left; without it there is only old and new.
    resume: list[str] | None = None
    target: str = "out"
    # Of the visible files, those that count.
    counts: Callable[[dict[str, object]], dict[str, object]] = lambda files: files
    # Whether a resumed command may have another result: then any complete run is new.
    is_timed: bool = False


@dataclass
class Row:
    """The points of one command and action."""

    action: str
    points: int = 0
    states: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


# The state of a folder.


def read_state(root: Path) -> State:
    files, folders = {}, set()
    for parent, names, leaves in os.walk(root):
        folders |= {os.path.relpath(Path(parent, name), root) for name in names}
        for leaf in leaves:
            path = Path(parent, leaf)
            files[os.path.relpath(path, root)] = path.read_bytes()
    return files, frozenset(folders)


def write_state(root: Path, state: State) -> None:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    files, folders = state
    for name in sorted(folders):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def key_of(state: State, *, with_drafts: bool) -> str:
    """Return a hash that does not depend on random names and process numbers.

    Without the content of drafts (`.partial`), which nothing reads, far fewer states differ.
    """
    files, folders = state
    if not with_drafts:
        files = {
            _outside_drafts(name): b"" if _DRAFT.search(name) else text
            for name, text in files.items()
        }
        folders = frozenset(map(_outside_drafts, folders))
    random = {text: f"{n}" for n, text in enumerate(_drafts(files, folders))}

    def plain(name: str) -> str:
        return _DRAFT.sub(lambda found: f".{random[found[1]]}.partial", name)

    digest = hashlib.sha256(repr(sorted(map(plain, folders))).encode())
    for name in sorted(files, key=plain):
        content = b"" if Path(name).name == ".owner" else files[name]
        digest.update(f"{plain(name)} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _outside_drafts(name: str) -> str:
    found = _DRAFT.search(name)
    return name[: found.end()] if found else name


def _drafts(files: Tree, folders: frozenset[str]) -> list[str]:
    by_name = sorted({*files, *folders}, key=lambda name: _DRAFT.sub(".partial", name))
    return list(dict.fromkeys(found for name in by_name for found in _DRAFT.findall(name)))


def is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in Path(name).parts)


def leftovers(state: State) -> list[str]:
    """Return the hidden files and folders that are more than a lock."""
    kept = {".lock", ".owner"}
    names = (name for group in state for name in group if is_hidden(name))
    return sorted(x for x in names if Path(x).name not in kept and not x.endswith(".lock"))


def visible(state: State) -> dict[str, object]:
    """Return the visible files with what must be the same in every run of a command."""
    return {name: _comparable(name, text) for name, text in state[0].items() if not is_hidden(name)}


def run_state(state: State, target: str) -> dict[str, object]:
    """Return whether there is a run, and whether it is complete."""
    files = {
        name.removeprefix(f"{target}/"): content
        for name, content in state[0].items()
        if name.startswith(f"{target}/") and not is_hidden(name)
    }
    if not files:
        return {}
    if "manifest.json" not in files:
        return {target: "begun"}
    hashes = json.loads(files["manifest.json"])["files"]
    found = {name: hashlib.sha256(files.get(name, b"")).hexdigest() for name in hashes}
    return {target: "complete" if found == hashes else "damaged"}


def _comparable(name: str, content: bytes) -> object:
    file = Path(name).name
    if file == "metrics.json":
        return _without_times(json.loads(content))
    if file == "history.jsonl":
        return [_without_times(json.loads(line)) for line in content.splitlines()]
    if file == "README.md":
        return re.sub(rb"in [\d.]+ minutes", b"", content)
    if file == "manifest.json" and b"fivestar-run" in content:
        return sorted(json.loads(content)["files"])
    if file in ("checkpoint.safetensors", "origin.safetensors"):
        size = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:size])
        notes = header.pop("__metadata__")
        return header, _without_times(json.loads(notes["progress"])), content[size:]
    return content


def _without_times(value: object) -> object:
    if isinstance(value, dict):
        times = ("seconds", "triples_per_second", "epoch_seconds")
        return {key: _without_times(each) for key, each in value.items() if key not in times}
    return [_without_times(each) for each in value] if isinstance(value, list) else value


# A disk that loses power.


class _File:
    def __init__(self, synced: bytes = b"") -> None:
        self.synced = synced


class _Folder:
    def __init__(self) -> None:
        self.entries: dict[str, _File | _Folder] = {}
        self.synced: dict[str, _File | _Folder] = {}


class Disk:
    """What is on the disk for certain: file contents and folder entries as of their last sync."""

    def __init__(self, root: Path, state: State) -> None:
        self._base, self._root = f"{root}", _Folder()
        for name in sorted(state[1]):
            folder, last = self._find(Path(root, name))
            folder.entries[last] = _Folder()
        for name, content in state[0].items():
            folder, last = self._find(Path(root, name))
            folder.entries[last] = _File(content)
        self._sync_all(self._root)

    def _sync_all(self, folder: _Folder) -> None:
        folder.synced = dict(folder.entries)
        for each in folder.entries.values():
            if isinstance(each, _Folder):
                self._sync_all(each)

    def _find(self, path: Path) -> tuple[_Folder, str]:
        *parents, last = Path(path).relative_to(self._base).parts
        folder = self._root
        for name in parents:
            folder = folder.entries[name]
        return folder, last

    def apply(self, operation: str, path: str, second: str, content: bytes | None) -> None:
        """Apply a line of the log."""
        if operation == "D" and path == self._base:
            self._root.synced = dict(self._root.entries)
            return
        folder, name = self._find(Path(path))
        if operation == "C":
            folder.entries[name] = _File()
        elif operation == "M":
            folder.entries[name] = _Folder()
        elif operation == "U":
            del folder.entries[name]
        elif operation == "R":
            target, last = self._find(Path(second))
            target.entries[last] = folder.entries.pop(name)
        elif operation == "S" and name in folder.entries:  # else it was removed while open
            folder.entries[name].synced = content
        elif operation == "D":
            folder.entries[name].synced = dict(folder.entries[name].entries)

    def after_power_loss(self, *, names_kept: bool) -> State:
        """Return what is left; if `names_kept`, the newest names with the synced contents."""
        files: Tree = {}
        folders: set[str] = set()

        def walk(folder: _Folder, prefix: str) -> None:
            for name, each in (folder.entries if names_kept else folder.synced).items():
                if isinstance(each, _File):
                    files[prefix + name] = each.synced
                else:
                    folders.add(prefix + name)
                    walk(each, f"{prefix}{name}/")

        walk(self._root, "")
        return files, frozenset(folders)


# Running a command.


class Harness:
    """Runs commands in children of this process, with the shim armed."""

    def __init__(self, shim: str, work: Path) -> None:
        self._shim = ctypes.CDLL(shim)
        self._shim.crash_disarm.restype = ctypes.c_long
        self.root = work / "root"
        self._log = work / "log"

    def child(
        self,
        words: list[str] | Callable[[Path], object],
        arm: tuple[int, ...] = (),
        log: bool = False,
    ) -> tuple[str, str, int]:
        """Run a command; return how it has ended, its message and the number of operations."""
        receive, send = os.pipe()
        process = os.fork()
        if process == 0:
            os.close(receive)
            self._run(words, arm, log, send)
        os.close(send)
        with os.fdopen(receive, "rb") as pipe:
            answer = pipe.read()
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return ("killed" if name == "SIGKILL" else f"ended by {name}"), "", 0
        return pickle.loads(answer)  # noqa: S301  (of our own child)

    def _run(self, words, arm, log, send) -> None:
        gc.disable()  # it would touch, and so copy, the memory of the parent
        signal.alarm(_HANGS)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        outcome, message = "done", ""
        if arm or log:
            place = str(self._log).encode() if log else None
            what, error, point, kinds = arm or (0, 0, 0, 0)
            self._shim.crash_arm(
                str(self.root).encode(), what, error, ctypes.c_long(point), kinds, place
            )
        try:
            if callable(words):
                words(self.root)
            else:
                command_line([word.replace("ROOT", str(self.root)) for word in words])
        except FivestarError as error:
            outcome, message = "error", f"{type(error).__name__}: {error}"
        except BaseException as error:
            outcome = f"traceback {type(error).__name__}"
            message = "".join(traceback.format_exception(error)[-4:])
        operations = self._shim.crash_disarm()
        os.write(send, pickle.dumps((outcome, message, operations)))
        os._exit(0)

    def points(self, command: Command, limit: int | None) -> list[Row]:
        """Test a command at all points, or at a number of points per action evenly spread."""
        return _Points(self, command, limit).rows()

    def logged(self, command: Command) -> list[tuple[str, str, str, bytes | None]]:
        """Run a command undisturbed and return the log of its changes."""
        shutil.rmtree(self._log, ignore_errors=True)
        self._log.mkdir()
        outcome, message, _ = self.child(command.words, log=True)
        if outcome != "done":
            raise AssertionError(f"{command.name}: {outcome}: {message}")
        lines = []
        for number, line in enumerate((self._log / "log").read_text().splitlines(), start=1):
            copy = self._log / f"{number}"
            content = copy.read_bytes() if copy.exists() else None
            lines.append((*line.split("\t"), content))
        return lines


class _Points:
    def __init__(self, harness: Harness, command: Command, limit: int | None) -> None:
        self.harness, self.command, self.limit = harness, command, limit
        # Points per action; a command within a time budget trains many models per point.
        self.sample = limit
        if command.is_timed:
            self.sample = _TIMED if limit is None else limit // 2
        self.root = harness.root
        self.checked: dict[str, tuple[str, str]] = {}
        self._reset()
        self.initial = read_state(self.root)
        self.log = harness.logged(command)
        self.final = read_state(self.root)
        self.old, self.new = self._seen(self.initial), self._seen(self.final)
        if self.old == self.new or leftovers(self.final):
            raise AssertionError(f"{command.name}: left {leftovers(self.final)}")

    def _seen(self, state: State) -> dict[str, object]:
        if self.command.is_timed:
            return run_state(state, self.command.target)
        return self.command.counts(visible(state))

    def _reset(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)
        self.command.prepare(self.root)

    def rows(self) -> list[Row]:
        failing = [self._action(name, *how) for name, how in ACTIONS.items()]
        return failing + [self._power_loss(name) for name in POWER_LOSS]

    def _chosen(self, number: int) -> list[int]:
        """Return the numbers from 1, or so many of them, evenly spread with both ends."""
        if self.sample is None or number <= self.sample:
            return list(range(1, number + 1))
        return sorted({1 + round(n * (number - 1) / (self.sample - 1)) for n in range(self.sample)})

    def _action(self, name: str, what: int, error: int, kinds: int) -> Row:
        row = Row(name)
        self._reset()
        *_, operations = self.harness.child(self.command.words, (what, error, 0, kinds))
        for point in self._chosen(operations):
            write_state(self.root, self.initial)
            outcome, message, _ = self.harness.child(
                self.command.words, (what, error, point, kinds)
            )
            expected = ("killed",) if what == KILL else ("done", "error")
            if self.command.is_timed:  # it may end before this point
                expected = (*expected, "done")
            if outcome in expected:
                self._count(row, point, read_state(self.root), must_be_new=outcome == "done")
            else:
                row.points += 1
                row.failures.append(f"{point}: {outcome}: {message}")
        return row

    def _power_loss(self, name: str) -> Row:
        row = Row(name)
        disk = Disk(self.root, self.initial)
        chosen = range(1, len(self.log) + 1)
        if self.command.is_timed:
            chosen = self._chosen(len(self.log))
        for point, line in enumerate(self.log, start=1):
            disk.apply(*line)
            if point not in chosen:
                continue
            state = disk.after_power_loss(names_kept=name != POWER_LOSS[0])
            # What a command has reported as done must be there.
            self._count(row, point, state, must_be_new=point == len(self.log))
        if set(disk.after_power_loss(names_kept=True)[0]) != set(self.final[0]):
            raise AssertionError(f"{self.command.name}: the shim has missed an operation")
        return row

    def _count(self, row: Row, point: int, state: State, *, must_be_new: bool) -> None:
        row.points += 1
        key = key_of(state, with_drafts=self.limit is None)
        if key not in self.checked:
            self.checked[key] = self._check(state)
        kind, problem = self.checked[key]
        if must_be_new and kind != "new" and not problem:
            problem = f"reported as done, but the state is {kind}"
        if problem:
            row.failures.append(f"{point}: {problem}")
        else:
            row.states[kind] += 1

    def _check(self, state: State) -> tuple[str, str]:
        """Return which state it is, and what is wrong with it or with what follows."""
        try:
            seen = self._seen(state)
        except (ValueError, KeyError) as error:
            return "third", f"a visible file is not whole: {error!r}"
        kind = "new" if seen == self.new else "old" if seen == self.old else "begun"
        if kind == "begun" and self.command.resume is None:
            return kind, f"neither old nor new: {_difference(seen, self.old, self.new)}"
        if kind == "new" and not leftovers(state):
            return kind, ""
        return kind, self._follow_up(kind, state)

    def _follow_up(self, kind: str, state: State) -> str:
        """Run the command again, or resume; return what is wrong afterwards."""
        write_state(self.root, state)
        if kind == "new":
            self._remove_target()
        for path in self.root.rglob("*"):
            os.utime(path, (0, 0))  # leftovers are removed if they are old
        words = self.command.resume if kind == "begun" else self.command.words
        outcome, message, _ = self.harness.child(words)
        if outcome != "done":
            return f"{kind}, but then {outcome}: {message}"
        after = read_state(self.root)
        if self._seen(after) != self.new:
            return f"{kind}, but then {_difference(self._seen(after), self.new)}"
        if leftovers(after):
            return f"{kind}, but then left over: {', '.join(leftovers(after)[:3])}"
        return ""

    def _remove_target(self) -> None:
        target = self.root / self.command.target
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
        for name, content in self.initial[0].items():
            if name.startswith(self.command.target):
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                (self.root / name).write_bytes(content)


def _difference(seen: dict[str, object], *others: dict[str, object]) -> str:
    texts = []
    for other in others:
        differ = [x for x in sorted({*seen, *other}) if seen.get(x) != other.get(x)]
        texts.append(", ".join(f"{x}: {_first(seen.get(x), other.get(x))}" for x in differ[:3]))
    return " / ".join(texts)


def _first(one: object, other: object) -> str:
    if not (isinstance(one, bytes) and isinstance(other, bytes)):
        return f"{str(one)[:80]} != {str(other)[:80]}"
    pairs = zip_longest(one.splitlines(), other.splitlines())
    return next((f"{a!r} != {b!r}"[:200] for a, b in pairs if a != b), "line ends")


# The commands.


def commands(sources: Path) -> list[Command]:
    """Return the writing commands, on sources that exist already."""
    run, graph = str(sources / "run"), str(sources / "graph")
    out, resume = "ROOT/new/out", ["train", "--resume", "ROOT/new/out"]
    train = ["train", graph, "--out", out, *SETTINGS]
    triples = f"{graph}/train.tsv"

    def begun(root: Path) -> None:
        shutil.copytree(sources / "begun", root / "new" / "out")

    def existing(name: str) -> Callable[[Path], object]:
        return lambda root: (root / name).write_text("precious\n")

    made = [
        Command("train", train, resume=resume, target="new/out"),
        Command("train --resume", resume, begun, resume, target="new/out"),
        Command("train --from", [*train, "--from", run], resume=resume, target="new/out"),
        Command("train --refit", [*train, "--refit"], resume=resume, target="new/out"),
        Command(
            "train --from --refit",
            [*train, "--from", run, "--refit"],
            resume=resume,
            target="new/out",
        ),
        Command(
            "fold-in",
            ["fold-in", run, str(sources / "facts.tsv"), "--out", out, "--epochs", "1"],
            target="new/out",
        ),
        Command("convert", ["convert", str(sources / "complex"), out], target="new/out"),
    ]
    budget = ["train", graph, "--out", out, "--budget", "0.2s", *BUDGET]
    made.append(Command("train --budget", budget, resume=resume, target="new/out", is_timed=True))
    made += [
        Command(f"export --to {to}", ["export", run, "--to", to, "--out", out], target="new/out")
        for to in EXPORTS
    ]
    made += [
        Command(
            f"complete {name}",
            ["complete", run, "--top", "20", "--out", f"ROOT/{name}"],
            target=name,
        )
        for name in ("out.tsv", "out.nt", "out.parquet")
    ]
    made += [
        Command(f"graph convert {name}", ["graph", "convert", triples, f"ROOT/{name}"], target=name)
        for name in ("out.csv", "out.nt.gz", "out.tsv.zst", "out.parquet")
    ]
    made += [
        Command(
            "graph convert --force",
            ["graph", "convert", triples, "ROOT/out.tsv", "--force"],
            existing("out.tsv"),
            target="out.tsv",
        ),
        Command(
            "graph convert folder",
            ["graph", "convert", graph, out, "--to", "parquet"],
            target="new/out",
        ),
        Command("graph split", ["graph", "split", triples, "--out", out], target="new/out"),
        Command("ledger record", _record(1), _record(0), target="ledger.jsonl", counts=_recorded),
    ]
    return made


SETTINGS = [
    *("--dim", "2", "--epochs", "2", "--batch-size", "50", "--evaluate-every", "1"),
    *("--snapshot-epochs", "1", "--threads", "1"),
]
BUDGET = ("--dim", "2", "--epochs", "3", "--batch-size", "50", "--threads", "1")
EXPORTS = ("parquet", "numpy", "word2vec", "projector", "vectors", "torch", "onnx", "huggingface")


def _recorded(files: dict[str, object]) -> dict[str, object]:
    """Return the ledger and the ranks that it names."""
    return {
        name: content
        for name, content in files.items()
        if name == "ledger.jsonl" or Path(name).name.encode() in files.get("ledger.jsonl", b"")
    }


def _record(seed: int) -> Callable[[Path], object]:
    def record(root: Path) -> object:
        return ledger.record(RUNS[seed], root / "ledger.jsonl", "crash")

    return record


def make_sources(folder: Path) -> None:
    """Write what the commands read."""
    graph = people_graph()
    fivestar.write_graph(graph, folder / "graph")
    (folder / "facts.tsv").write_text("new\tlives_in\tc1\nnew\tknows\tp3\n")
    train = ["train", str(folder / "graph"), *SETTINGS, "--out"]
    command_line([*train, str(folder / "run")])
    command_line([*train, str(folder / "complex"), "--model", "complex"])
    command_line([*train, str(folder / "seed1"), "--seed", "1"])

    def pause(line: dict[str, object]) -> None:
        raise Paused("after the first epoch")

    with contextlib.suppress(Paused):
        training.train(graph, load_run(folder / "run").settings, folder / "begun", pause)


def _trace(to: str) -> None:
    """Trace the program of torch or ONNX once, not once per point."""
    model = RUNS[0].model
    if to == "torch":
        program = scorer.torch_program(model)
        export.torch_program = lambda _: program
    elif to == "onnx":
        with scorer._quietly():
            traced = scorer._program(scorer.Scorer(model, scorer._PRODUCTS))
            onnx = torch.onnx.export(traced, verbose=False)
        torch.onnx.export = lambda *_, **__: onnx


def _ticking() -> Callable[[], float]:
    """Return a clock that depends on nothing but the number of calls."""
    ticks = count()
    return lambda: next(ticks) / 1000


def reply(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    import optuna  # noqa: F401
    import pyarrow as pa
    import torch
    import typer.main
    from tests.graphs import people_graph

    import fivestar
    from fivestar.cli.main import app
    from fivestar.errors import FivestarError, Paused
    from fivestar.experiments import ledger
    from fivestar.prediction import export, scorer
    from fivestar.runs.run import load_run
    from fivestar.training import clock
    from fivestar.training import train as training
    from fivestar.training.search import budget_state

    # Built once, which takes longer than most commands.
    command_line = partial(typer.main.get_command(app).main, standalone_mode=False)
    torch.set_num_threads(1)
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    clock._read = _ticking()
    budget_state._TICK = 1e6  # a thread writes the time: at points that differ
    ledger._commit = lambda: "test"
    _, shim, folder = sys.argv
    work = Path(folder).resolve()
    sources = work / "sources"
    sources.mkdir(parents=True)
    harness = Harness(shim, work)
    for module in pkgutil.walk_packages(fivestar.__path__, "fivestar."):
        if not module.name.startswith(
            ("fivestar.server", "fivestar.analysis", "fivestar.integrations", "fivestar.__main__")
        ):
            importlib.import_module(module.name)
    with contextlib.redirect_stdout(io.StringIO()):
        make_sources(sources)
    RUNS = [load_run(sources / name) for name in ("run", "seed1")]
    every = {command.name: command for command in commands(sources)}
    gc.collect()
    gc.freeze()
    reply(list(every))
    before = read_state(sources)
    for line in sys.stdin:
        request = json.loads(line)
        began = sum(os.times()[:4])
        _trace(request["command"].removeprefix("export --to "))
        rows = harness.points(every[request["command"]], request["limit"])
        if read_state(sources) != before:
            rows[0].failures.append("a source has changed")
        answer = {
            "seconds": round(sum(os.times()[:4]) - began, 2),
            "rows": [{**vars(row), "states": dict(row.states)} for row in rows],
        }
        reply(answer)
