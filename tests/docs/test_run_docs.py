from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripts.run_docs import DocsError, check, chosen, matches, parse, run_page, updated

PAGE = """# Title

```console
$ export WORD=hello && mkdir inner && cd inner
$ echo "$WORD 0.500" && pwd | sed 's/.*inner/inner/'
hello 0.510
inner
```

<!-- docs: file data.txt -->
```
one
two
```

```python
from pathlib import Path

lines = Path("data.txt").read_text().split()
```

Between two snippets.

```python
print(len(lines), lines)
```

```text
2 ['one', 'two']
```

<!-- docs: setup -->
```console
$ false
```

<!-- docs: skip it removes something -->
```console
$ rm something
```

1. In a list:

   <!-- docs: exit 3 -->
   ```console
   $ echo 'a  b' \\
   > c; exit 3
   a b c
   ```
"""


def run(text, folder: Path, **options):
    page = folder / "page.md"
    page.write_text(text)
    inside = folder / "inside"
    inside.mkdir()
    return run_page(page, inside, **options)


def test_a_page_runs_in_order_in_one_folder_and_environment(tmp_path):
    outcomes = run(PAGE, tmp_path)
    assert [outcome.step.kind for outcome in outcomes] == [
        *("command", "command", "file", "python", "python", "command")
    ]
    assert (tmp_path / "inside" / "inner" / "data.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("mark", ["setup", "slow"])
def test_optional_blocks_run_only_on_request(mark, tmp_path):
    # All commands of the block, not only the last one.
    text = PAGE.replace("docs: setup -->\n```console\n", f"docs: {mark} -->\n```console\n$ false\n")
    steps = parse(text)
    assert len(steps) == len(chosen(steps)) + 2 == len(chosen(steps, (mark,)))
    with pytest.raises(DocsError, match="exit code 1"):
        run(text, tmp_path, with_blocks=(mark,))


def test_the_reason_of_a_block_that_is_not_run_is_no_part_of_it():
    assert parse("<!-- docs: skip takes hours -->\n```console\n$ ls\n```") == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("hello 0.510", "hello 0.600"),
        ("inner\n```", "outer\n```"),
        ("2 ['one', 'two']", "2 ['one', 'three']"),
        ("docs: exit 3", "docs: exit 2"),
        ("   a b c\n", "   a c\n"),
        ("import Path", "import Paths"),
    ],
)
def test_a_page_that_is_wrong_fails(tmp_path, before, after):
    assert before in PAGE
    with pytest.raises(DocsError):
        run(PAGE.replace(before, after), tmp_path)


def test_update_writes_what_was_printed(tmp_path):
    wrong = PAGE.replace("hello 0.510", "bye\nbye").replace("2 ['one', 'two']", "nothing")
    outcomes = run(wrong, tmp_path, compare=False)
    new = updated(wrong, outcomes)
    assert new == PAGE.replace("hello 0.510", "hello 0.500")
    assert [step.code for step in parse(new)] == [step.code for step in parse(PAGE)]


def test_a_server_runs_until_the_page_ends(tmp_path):
    text = """
<!-- docs: background -->
```console
$ python -u -c 'import time; print("ready at http://127.0.0.1:8005"); time.sleep(60)'
ready at http://127.0.0.1:8005
```

```console
$ ps -o stat= -p $PPID > /dev/null && echo still here
still here
```
"""
    outcomes = run(text, tmp_path)
    assert outcomes[0].printed.startswith("ready")
    assert outcomes[0].seconds < 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```console\n$ ls\n", "does not end"),
        ("```console\nls\n```", "begins with"),
        ("<!-- docs: skip -->\n```console\n$ ls\n```", "say why"),
        ("<!-- docs: skips -->\n```console\n$ ls\n```", "no directive"),
    ],
)
def test_malformed_pages_are_refused(text, message):
    with pytest.raises(DocsError, match=message):
        parse(text)


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("took 12.3 s", "took 4 s", True),
        ("took 12.3 s, then", "took 1 minute, then", True),
        ("took 12.3 s", "took 12.3", False),
        ("3,101 triples/s now", "96.5 triples/s now", True),
        ("3,101 triples/s", "3,101 facts/s", False),
        ("12 %", "13 %", True),
        ("12 %", "22 %", False),
        ("-0.50", "0.50", False),
        ("1,234 facts", "1,235 facts", False),
        ("version 1.2.3", "version 1.2.4", False),
        ("│ a │ 0.50 │", "┃ a ┃ 0.51    ┃", True),
        ("a ... z", "a b c z", True),
        ("a ... z", "a b c", False),
    ],
)
def test_what_counts_as_the_same_line(expected, printed, same):
    assert matches([expected], printed) is same


LINE = st.text(st.sampled_from("ab 01%|(*\\"), min_size=1, max_size=8).filter(str.strip)


@given(st.lists(LINE), st.integers(0, 5), st.integers(0, 5))
def test_dots_stand_for_any_lines(lines, start, stop):
    printed = "\n".join(lines)
    assert matches(lines, printed)
    assert matches([*lines[:start], "...", *lines[start + stop :]], printed)


@given(st.lists(LINE, min_size=1), st.data())
def test_a_missing_or_additional_line_is_a_difference(lines, data):
    number = data.draw(st.integers(0, len(lines) - 1))
    fewer = lines[:number] + lines[number + 1 :]
    assert not matches(lines, "\n".join(fewer))
    assert not matches(fewer, "\n".join(lines))


def test_check_accepts_what_is_not_shown(tmp_path):
    (outcome,) = run("```console\n$ echo anything\n```\n", tmp_path)
    check(outcome)
