"""The mutants are what they claim to be, and the page shows what was recorded."""

from __future__ import annotations

import ast
from types import CodeType

import pytest
from tests.reliability import mutation_table
from tests.reliability.mutants import PACKAGE, mutants, mutants_of, mutated_code

SOURCE = '''
def f(x, *, low=0):
    """Stay as it is."""
    if x < low and not x == 3:
        raise ValueError(f"{x + 1} is too low")
    x += 2
    return max(x, -1)

class C:
    @property
    def g(self):
        return [i for i in self.items if i is not None]
'''


def test_every_operator_changes_the_body_of_a_function():
    found = {(m.function, m.operator, m.change) for m in mutants_of("part", "m.py", SOURCE)}
    condition = "if {}: raise Value"
    test = "x < low and (not x == 3)"
    assert found == {
        ("f", "condition", f"{condition.format(test)} → {condition.format(f'not ({test})')}"),
        ("f", "boolean", f"{test} → x < low or not x == 3"),
        ("f", "comparison", "x < low → x <= low"),
        ("f", "boolean", "not x == 3 → x == 3"),
        ("f", "comparison", "x == 3 → x != 3"),
        ("f", "constant", "3 → 4"),
        ("f", "statement", "raise ValueError(f'{x + 1} is too low') → pass"),
        ("f", "arithmetic", "x += 2 → x -= 2"),
        ("f", "statement", "x += 2 → pass"),
        ("f", "constant", "2 → 3"),
        ("f", "return", "return max(x, -1) → return None"),
        ("f", "name", "max → min"),
        ("f", "arithmetic", "-1 → 1"),
        ("f", "constant", "1 → 2"),
        ("C.g", "return", "return [i for i in self.items if i is not None] → return None"),
        ("C.g", "condition", "self.items if i is not None → self.items if not i is not None"),
        ("C.g", "comparison", "i is not None → i is None"),
    }


def same(one: CodeType, two: CodeType) -> bool:
    """Compare code, ignoring where it is."""
    constants = zip(one.co_consts, two.co_consts, strict=False)
    return (
        (one.co_code, one.co_names) == (two.co_code, two.co_names)
        and len(one.co_consts) == len(two.co_consts)
        and all(
            same(a, b) if isinstance(a, CodeType) else (type(a), repr(a)) == (type(b), repr(b))
            for a, b in constants
        )
    )


@pytest.mark.parametrize("module", ["geometry/mobius.py", "runs/run.py"])
def test_mutants_of_the_package_are_distinct_and_compile_to_other_code(module):
    source = (PACKAGE / module).read_text("utf-8")
    found = [mutant for mutant in mutants() if mutant.module == module]
    assert len(found) == len(set(found)) > 50
    codes = {}
    for code in _functions(compile(ast.parse(source), str(PACKAGE / module), "exec")):
        codes.setdefault(code.co_qualname, []).append(code)
    for mutant in found[::5]:
        code = mutated_code(source, mutant)
        original = [c for c in codes[mutant.function] if c.co_firstlineno == code.co_firstlineno]
        assert len(original) == 1, mutant
        assert not same(code, original[0]), mutant


def _functions(code: CodeType) -> list[CodeType]:
    inner = [c for c in code.co_consts if isinstance(c, CodeType)]
    return inner + [c for one in inner for c in _functions(one)]


def test_the_page_shows_the_records():
    assert mutation_table.page() == mutation_table.PAGE.read_text(encoding="utf-8"), (
        "run python -m tests.reliability.mutation_table"
    )


def test_only_survivors_have_a_reason():
    _, *rows = mutation_table.read_records(mutation_table.RECORDS)
    survivors = {mutation_table.key(row) for row in rows if row["status"] == "survived"}
    named = [name for one in mutation_table.reasons() for name in one["mutants"]]
    assert len(named) == len(set(named))
    assert set(named) <= survivors
