"""The prompt of `fivestar ask RUN`: a query per line, with completion of names and a history."""

from __future__ import annotations

import atexit
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from fivestar.cli.tables import shorten
from fivestar.cli.terminal import out, print_error
from fivestar.errors import AmbiguousName, FivestarError, SettingsError

if TYPE_CHECKING:
    from fivestar.graph.knowledge_graph import KnowledgeGraph
    from fivestar.graph.vocabulary import Vocabulary
    from fivestar.prediction.predictions import Query

_PROMPT = "? "
_MISSING = ("_", "?")
_QUIT = ("quit", "exit", "q")
# A name in double quotes, or a word.
_WORD = re.compile(r'"([^"]*)"|(\S+)')
# Words of a line that are tried in every way as head, relation and tail.
_MAX_WORDS = 40
_MAX_COMPLETIONS = 100
_MAX_SHOWN = 30
_HISTORY_LINES = 1000


def answer_lines(graph: KnowledgeGraph, answer: Callable[[Query], None]) -> int:
    """Answer a query per line of standard input until it ends; errors do not end it.

    On a terminal with a prompt, completion of names by Tab, and a history.

    Args:
        graph: the graph whose names the queries have.
        answer: called with each query.

    Returns:
        The number of lines that could not be answered.
    """
    failed = 0
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        out.print("A query per line: head relation tail, with _ for the missing one.")
        out.print("Tab completes names; help shows examples; quit or Ctrl-D ends.")
    for line in _typed_lines(Completer(graph)) if is_terminal else sys.stdin:
        text = line.strip()
        if not text:
            continue
        if text in _QUIT:
            break
        if text == "help":
            _print_help(graph)
            continue
        try:
            answer(parse_query(graph, text))
        except FivestarError as error:
            print_error(str(error))
            failed += 1
    return failed


def parse_query(graph: KnowledgeGraph, line: str) -> Query:
    """Return the head, relation and tail of a line.

    They are separated by spaces, or by tabs. A name with spaces may have double quotes; without
    them, the words are divided so that most names are those of the graph.

    Raises:
        SettingsError: if there are fewer than three parts.

    >>> from fivestar.graph.reading import read_graph
    >>> graph = read_graph([("New York", "part of", "USA"), ("Paris", "in", "France")])
    >>> parse_query(graph, "New York part of _")
    ('New York', 'part of', '_')
    >>> parse_query(graph, '? in "France"')
    ('?', 'in', 'France')
    """
    if "\t" in line:
        parts = [part.strip() for part in line.split("\t")]
        divisions = [tuple(parts)] if len(parts) == 3 else []
    else:
        divisions = list(_divisions(_words(line), 3))
    if not divisions:
        raise SettingsError(
            'write head, relation and tail with _ for the missing one, as in "New York" '
            "in_country _ ; names with spaces may have double quotes"
        )
    best = max(divisions, key=lambda parts: sum(_resolved(graph, parts)))
    return best[0], best[1], best[2]


class Completer:
    """Completes the last name of an unfinished query.

    >>> from fivestar.graph.reading import read_graph
    >>> graph = read_graph([("New York", "part of", "USA"), ("Paris", "in", "France")])
    >>> Completer(graph).complete("pa")
    ['Paris ']
    >>> Completer(graph).complete("New York pa")
    ['New York "part of" ']
    >>> Completer(graph).complete('Paris in "Fr')
    ['Paris in France ']
    """

    def __init__(self, graph: KnowledgeGraph) -> None:
        self.graph = graph

    def complete(self, line: str) -> list[str]:
        """Return lines that continue an unfinished line by a whole name."""
        found: dict[str, None] = {}
        for start, text in _unfinished(line):
            before = _words(line[:start])
            for slot in range(3):
                if any(all(_resolved(self.graph, parts)) for parts in _divisions(before, slot)):
                    for name in self._names(slot, text):
                        shown = f'"{name}"' if re.search(r"\s", name) else name
                        found[f"{line[:start]}{shown} "] = None
        return list(found)

    def _names(self, slot: int, text: str) -> Iterator[str]:
        """Yield the names for a slot that begin with a text, ignoring case."""
        names = self._relations if slot == 1 else self._entities
        folded = text.casefold()
        first = bisect_left(names, (folded, ""))
        for key, name in names[first : first + _MAX_COMPLETIONS]:
            if not key.startswith(folded):
                break
            yield name

    @cached_property
    def _entities(self) -> list[tuple[str, str]]:
        return _sorted_names(self.graph.entities)

    @cached_property
    def _relations(self) -> list[tuple[str, str]]:
        return _sorted_names(self.graph.relations)


def _sorted_names(vocabulary: Vocabulary) -> list[tuple[str, str]]:
    labels = vocabulary.labels_of(range(len(vocabulary)))
    return sorted((name.casefold(), name) for name in {*vocabulary, *labels})


def _unfinished(line: str) -> Iterator[tuple[int, str]]:
    """Yield where the last name of a line may begin, and what there is of it."""
    if line.count('"') % 2:
        start = line.rindex('"')
        yield start, line[start + 1 :]
        return
    if not line or line[-1].isspace():
        yield len(line), ""
    for match in reversed(list(_WORD.finditer(line))[-_MAX_WORDS:]):
        if match[0].startswith('"'):
            return
        yield match.start(), line[match.start() :]


def _words(line: str) -> list[str]:
    return [match[1] if match[2] is None else match[2] for match in _WORD.finditer(line)]


def _divisions(words: Sequence[str], parts: int) -> Iterator[tuple[str, ...]]:
    """Yield the words joined into a number of parts, in every way.

    >>> list(_divisions(["a", "b", "c"], 2))
    [('a', 'b c'), ('a b', 'c')]
    """
    if len(words) > _MAX_WORDS:
        return
    if parts == 0:
        if not words:
            yield ()
        return
    for cuts in combinations(range(1, len(words)), parts - 1):
        edges = (0, *cuts, len(words))
        if edges[-1] > edges[-2]:
            yield tuple(" ".join(words[a:b]) for a, b in pairwise(edges))


def _resolved(graph: KnowledgeGraph, parts: Sequence[str]) -> list[bool]:
    """Return for each part whether it is missing or a name of the graph."""
    names = (graph.entities, graph.relations, graph.entities)
    return [
        part in _MISSING or _is_name(vocabulary, part)
        for part, vocabulary in zip(parts, names[: len(parts)], strict=True)
    ]


def _is_name(vocabulary: Vocabulary, text: str) -> bool:
    try:
        return vocabulary.lookup(text) is not None
    except AmbiguousName:
        return True  # the error lists the candidates when the query is answered


def _print_help(graph: KnowledgeGraph) -> None:
    head, relation, tail = graph.train.array[0].tolist()
    h, t = (_quoted(graph.entities.label_of(number)) for number in (head, tail))
    r = _quoted(graph.relations.label_of(relation))
    for query, meaning in (
        (f"{h} {r} _", "the tails"),
        (f"_ {r} {t}", "the heads"),
        (f"{h} _ {t}", "the relations"),
    ):
        out.print(f"  {query}   {meaning}", markup=False, soft_wrap=True)
    out.print("Names are those of the graph or their labels, in any case.")


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _typed_lines(completer: Completer) -> Iterator[str]:
    """Yield the lines that are typed at the prompt."""
    _set_up_readline(completer)
    while True:
        try:
            yield input(_PROMPT)
        except EOFError:
            out.print()
            return
        except KeyboardInterrupt:
            out.print("\n(quit or Ctrl-D ends)")


def _set_up_readline(completer: Completer) -> None:
    """Set up completion and history where the standard library has readline (not on Windows)."""
    try:
        import readline  # noqa: PLC0415  (missing on Windows)
    except ImportError:
        return
    from platformdirs import user_state_path  # noqa: PLC0415  (30 ms to import)

    matches: list[str] = []

    def complete(text: str, number: int) -> str | None:
        if number == 0:
            matches[:] = completer.complete(text)
        return matches[number] if number < len(matches) else None

    def show(_: str, found: Sequence[str], __: int) -> None:
        line = readline.get_line_buffer()
        names = [_words(match)[-1] for match in found]
        more = f"  … {len(names) - _MAX_SHOWN} more" if len(names) > _MAX_SHOWN else ""
        print("\n" + "  ".join(shorten(name, 40) for name in names[:_MAX_SHOWN]) + more)  # noqa: T201
        print(f"{_PROMPT}{line}", end="", flush=True)  # noqa: T201
        readline.redisplay()

    # The whole line is completed, because names may have spaces.
    readline.set_completer_delims("")
    readline.set_completer(complete)
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
    else:
        readline.parse_and_bind("tab: complete")
        readline.set_completion_display_matches_hook(show)
    file = user_state_path("fivestar", appauthor=False) / "ask_history"
    with suppress(OSError):
        readline.read_history_file(file)
    readline.set_history_length(_HISTORY_LINES)

    def write_history() -> None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)

    atexit.register(write_history)
