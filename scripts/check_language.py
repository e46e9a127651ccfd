"""Find words that the field does not use, in the sources, the page and the help texts.

    python scripts/check_language.py            # list each place and fail if there is one
    python scripts/check_language.py --count    # print the number of places per word

`language_exceptions.txt` lists what is meant, one `path: text` per line: occurrences inside that
text in that file are not counted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXCEPTIONS = Path(__file__).with_name("language_exceptions.txt")
# A pattern, and what to write instead.
WORDS = {
    r"questions?": "query",
    r"slopes?": "gradient, score_grad",
    r"drawn|draws|undrawn": "sampled, num_candidates",
    r"moved heads?|n3-moved|n3_moved|move[sd] the head": "transformed head, n3-transformed",
    r"kept small": "regularizer",
    r"the way back": "reciprocal relation, inverse map",
    r"moving every entity|moves every entity": "exhaustive head scoring",
    r"update rules?": "optimizer",
    r"(?:go|goes|went|gone) on": "resume, continue",
    r"pictures?": "figure, plot",
    r"if won|if lost": "optimistic, pessimistic",
    r"null models?|dealt out": "random baseline, permutation baseline",
    r"embedded graph|published graphs?": "bundled demo graph, dataset",
    r"never seen": "new entity",
    r"told|untold": "include, omit, report",
    r"so many|whoever": "number of",
    r"mend|mended|taken for|found out|asked for": "fix, treated as, detected, requested",
    r"stands? (?:for|in|beside|behind|there|here)": "represents, is",
    r"left out|leaves? out|leave it out": "omit, skip, filtered",
    r"anew": "again",
    r"point the same way": "nearest neighbors",
    r"last words|come together": "shutdown timeout, request batching",
    r"complain\w*": "print_error",
    r"(?:tails?|heads?|rows?|numbers?|reals|weights?|lines?|scores?|columns?|queries|values?|facts?)"
    r" an? (?:head|tail|step|query|row|relation|dimension|entity|triple|epoch|line|side)": "per",
    r"moebius\w*": "mobius",
    r"\w*colour\w*|\w*centre\w*|neighbour\w*|\w*behaviour\w*|\w*favour\w*|licen[c]e\w*": "American",
    r"\w*(?:normal|regular|initial|optim|minim|maxim|recogn|general|symbol|organ|visual)is"
    r"(?:e|es|ed|er|ers|ing|ation|ations)": "American spelling",
}
PATTERNS = {word: re.compile(rf"(?<![\w-])(?:{word})(?![\w-])", re.I) for word in WORDS}


def texts() -> Iterator[tuple[str, str]]:
    """Return the name and the text of each source file and of each command's help."""
    for pattern in ("src/fivestar/**/*.py", "src/fivestar/**/*.toml", "web/src/**/*"):
        for path in sorted(ROOT.glob(pattern)):
            if path.suffix in (".py", ".toml", ".ts", ".html", ".css"):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    code = (
        "import typer; from fivestar.cli.main import app\n"
        "def walk(command):\n"
        "    print(command.help or '', command.epilog or '')\n"
        "    for option in command.get_params(typer.Context(command)):\n"
        "        print(option.name, getattr(option, 'help', '') or '')\n"
        "    for inner in getattr(command, 'commands', {}).values(): walk(inner)\n"
        "walk(typer.main.get_command(app))"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
    yield "--help", result.stdout


def exceptions() -> dict[str, list[str]]:
    """Return the texts that are meant, by path."""
    allowed: dict[str, list[str]] = {}
    for line in EXCEPTIONS.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            path, _, text = line.partition(": ")
            allowed.setdefault(path, []).append(text)
    return allowed


def places() -> Iterator[tuple[str, int, str, str]]:
    """Return path, line number, word and advice of each occurrence that is not an exception."""
    allowed = exceptions()
    for path, text in texts():
        for number, line in enumerate(text.splitlines(), start=1):
            rest = line
            for meant in (*allowed.get(path, ()), *allowed.get("*", ())):
                rest = rest.replace(meant, " ")
            for word, pattern in PATTERNS.items():
                for match in pattern.finditer(rest):
                    yield path, number, match[0], WORDS[word]


def main() -> None:
    """Print what was found; exit with code 1 if there is anything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", action="store_true", help="print the number of places per word")
    found = list(places())
    if parser.parse_args().count:
        for word, count in Counter(match.lower() for _, _, match, _ in found).most_common():
            print(f"{count:5} {word}")
    else:
        for path, number, match, advice in found:
            print(f"{path}:{number}: {match!r} ({advice})")
    print(f"{len(found)} places")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
