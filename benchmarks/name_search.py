"""Measure the search of names: scans of Arrow columns, and SQLite FTS5 with trigrams.

    python benchmarks/name_search.py --names 1e6 5e6 --full-text 1e6

Each engine runs in a process of its own, over the same generated names of two or three words.
Queries are whole names in lower case, the first half of a name, the first half of its last word,
and names with one letter changed; CPU milliseconds of the first query of each kind and the median
of the others, one thread. Misspelled names are found if the name is among the ten answers. FTS5
has no misspellings: names that share most trigrams with the text are ranked by bm25 and the first
hundred again by rapidfuzz. Each size and engine is a line of results/name_search.jsonl; `--table`
prints them.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parents[1] / "results" / "name_search.jsonl"
KINDS = ("whole name", "first half", "later word", "misspelled")
ENGINES = {"arrow": "Arrow scans", "fts5": "FTS5, trigrams"}
_QUERIES = 21
_LIMIT = 10
_SYLLABLES = [
    a + b + c for a in ("", *"bdfgklmnprstvz") for b in "aeiou" for c in ("", "n", "r", "s", "l")
]
_WORDS = 200_000
Search = Callable[[str, str], list[int]]


def names_of(count: int) -> list[str]:
    """Return distinct names of two or three words, of which some are frequent."""
    rng = np.random.default_rng(0)
    parts = rng.integers(0, len(_SYLLABLES), (_WORDS, 4))
    lengths = rng.integers(2, 5, _WORDS)
    words = [
        "".join(_SYLLABLES[part] for part in row[:length]).capitalize()
        for row, length in zip(parts.tolist(), lengths.tolist(), strict=True)
    ]
    chosen = (_WORDS * rng.random((count, 3)) ** 3).astype(int).tolist()
    three = (rng.random(count) < 0.3).tolist()
    names = (
        " ".join(words[w] for w in row[: 2 + is_long])
        for row, is_long in zip(chosen, three, strict=True)
    )
    seen: dict[str, None] = {}
    for number, name in enumerate(names):
        seen.setdefault(name if name not in seen else f"{name} {number}")
    return list(seen)


def queries_of(names: list[str]) -> dict[str, list[tuple[str, int]]]:
    """Return the queries of each kind, with the id of the name that each comes from."""
    rng = np.random.default_rng(1)
    found: dict[str, list[tuple[str, int]]] = {kind: [] for kind in KINDS}
    for number in rng.integers(0, len(names), _QUERIES).tolist():
        name = names[number].lower()
        place = int(rng.integers(1, len(name) - 1))
        word = name.split()[-1]
        texts = (name, name[: len(name) // 2], word[: len(word) // 2 + 1])
        wrong = f"{name[:place]}{'q' if name[place] != 'q' else 'x'}{name[place + 1 :]}"
        for kind, text in zip(KINDS, (*texts, wrong), strict=True):
            found[kind].append((text, number))
    return found


def arrow(names: list[str], _: Path) -> tuple[Search, int]:
    """Fold the names; return the search, and the bytes that it holds."""
    from fivestar.graph.name_search import NameSearch
    from fivestar.graph.vocabulary import Vocabulary

    vocabulary = Vocabulary("entity", names)
    search = NameSearch(vocabulary, np.zeros(len(names), dtype=np.int64))
    size = sum(column.nbytes for column in vocabulary.folded.columns)

    def find(kind: str, text: str) -> list[int]:
        if kind == "whole name":
            return [number] if (number := vocabulary.lookup(text)) is not None else []
        return search.find(text, _LIMIT)

    return find, size


def fts5(names: list[str], file: Path) -> tuple[Search, int]:
    """Index the names in a file; return the search, and the size of the file."""
    from rapidfuzz import fuzz, process

    database = sqlite3.connect(file)
    database.execute("CREATE VIRTUAL TABLE names USING fts5(name, tokenize='trigram')")
    rows = ((number, name) for number, name in enumerate(names))
    database.executemany("INSERT INTO names(rowid, name) VALUES (?, ?)", rows)
    database.execute("INSERT INTO names(names) VALUES ('optimize')")
    database.commit()

    def rows_of(condition: str, match: str, more: str, *given: Any) -> list[tuple[int, str]]:
        query = f"SELECT rowid, name FROM names WHERE names MATCH ? {condition} {more}"  # noqa: S608
        return database.execute(query, (match, *given)).fetchall()

    def find(kind: str, text: str) -> list[int]:
        match kind:
            case "whole name":
                found = rows_of("AND lower(name) = ?", f'"{text}"', "", text)
            case "first half":
                found = rows_of("AND name LIKE ?", f'"{text}"', f"LIMIT {_LIMIT}", f"{text}%")
            case "later word":
                found = rows_of("AND name LIKE ?", f'" {text}"', f"LIMIT {_LIMIT}", f"% {text}%")
            case _:
                trigrams = {text[i : i + 3] for i in range(len(text) - 2)}
                either = " OR ".join(f'"{each}"' for each in trigrams)
                near = rows_of("", either, "ORDER BY rank LIMIT 100")
                folded = [name.lower() for _, name in near]
                best = process.extract(text, folded, scorer=fuzz.ratio, limit=_LIMIT)
                found = [near[place] for _, _, place in best]
        return [number for number, _ in found]

    return find, file.stat().st_size


def measure(engine: str, count: int) -> dict[str, Any]:
    """Return what an engine takes, in this process."""
    names = names_of(count)
    queries = queries_of(names)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        build = {"arrow": arrow, "fts5": fts5}[engine]
        find, size = build(names, Path(folder) / "names.sqlite")
        line: dict[str, Any] = {"engine": engine, "names": len(names), "bytes": size}
        line["build_seconds"] = round(time.process_time() - start, 3)
        for kind in KINDS:
            seconds, hits = [], 0
            for text, number in queries[kind]:
                start = time.process_time()
                answers = find(kind, text)
                seconds.append(time.process_time() - start)
                hits += number in answers
            first, *others = (round(1000 * each, 2) for each in seconds)
            found = round(hits / len(seconds), 3)
            line[kind] = {"first": first, "others": statistics.median(others), "found": found}
    return line


def table(lines: list[dict[str, Any]]) -> str:
    """Return the costs of each engine and size."""
    from fivestar.experiments.results import markdown_table
    from fivestar.runs.units import format_bytes

    rows = [["names", "", "build", "size", *KINDS, "misspelled names found"]]
    for line in {(line["names"], line["engine"]): line for line in lines}.values():
        cells = [f"{line['names']:,}", ENGINES[line["engine"]], f"{line['build_seconds']:.1f} s"]
        times = [f"{_ms(line[kind]['first'])} / {_ms(line[kind]['others'])}" for kind in KINDS]
        rows.append(
            [*cells, format_bytes(line["bytes"]), *times, f"{line['misspelled']['found']:.0%}"]
        )
    return markdown_table(rows)


def _ms(milliseconds: float) -> str:
    return f"{milliseconds:,.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


def main() -> None:
    """Measure the given sizes, or one engine in this process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--names", type=float, nargs="*", default=[1e6, 5e6])
    parser.add_argument("--full-text", type=float, nargs="*", default=[1e6])
    parser.add_argument("--table", action="store_true", help="only print what was measured")
    parser.add_argument("--engine", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.engine:
        print(json.dumps(measure(given.engine[0], int(given.engine[1]))))
        return
    from fivestar.experiments.records import append_record, read_records

    wanted = [("arrow", n) for n in given.names] + [("fts5", n) for n in given.full_text]
    for engine, count in [] if given.table else wanted:
        words = [sys.executable, __file__, "--engine", engine, str(int(count))]
        done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
        append_record(RESULTS, json.loads(done.stdout))
    print(table(read_records(RESULTS)))


if __name__ == "__main__":
    main()
