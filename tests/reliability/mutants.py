"""Mutants of the package: one small change each in the body of a function.

Code outside of functions (constants, fields, default values) is not mutated, nor are docstrings,
annotations, f-strings and the messages of errors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "fivestar"
# The parts of the package that are mutated, and their modules.
SCOPE = {
    "geometry": ("geometry/*.py",),
    "evaluation": ("evaluation/*.py",),
    "graph/readers": ("graph/readers/*.py",),
    "training": tuple(
        f"training/{name}.py" for name in ("objectives", "regularizers", "optimizers", "step")
    ),
    "runs": ("runs/*.py",),
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "real": "imag", "imag": "real"}
Alternatives = list[tuple[str, ast.AST]]
_Path = tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Mutant:
    """One changed node.

    Attributes:
        part: Part of the package, a key of SCOPE.
        module: Path of the module in the package.
        function: Qualified name of the outermost function around the node.
        place: Line (counted from the first line of the function) and column of the node.
        operator: Kind of the change.
        change: What is replaced, and by what, with a little of its surroundings.
        line: Line in the module.
        lines: Lines of the node and the first line of its statement.
        path: Way from the module to the node.
        alternative: Index among the alternatives of the node.
    """

    part: str
    module: str
    function: str
    place: tuple[int, int]
    operator: str
    change: str
    line: int = field(compare=False)
    lines: frozenset[int] = field(compare=False)
    path: _Path = field(compare=False)
    alternative: int = field(compare=False)


def mutants() -> list[Mutant]:
    """Return all mutants of the scope, in the order of the source."""
    return [
        mutant
        for part in SCOPE
        for file in modules(part)
        for mutant in mutants_of(
            part, file.relative_to(PACKAGE).as_posix(), file.read_text("utf-8")
        )
    ]


def modules(part: str | None = None) -> list[Path]:
    """Return the modules of a part of the scope; of all if None."""
    parts = SCOPE if part is None else (part,)
    return [
        file for name in parts for pattern in SCOPE[name] for file in sorted(PACKAGE.glob(pattern))
    ]


def mutants_of(part: str, module: str, source: str) -> Iterator[Mutant]:
    """Yield the mutants of a module."""
    for name, function, path in _functions(ast.parse(source), "", ()):
        for node, statement, steps in _nodes(function, path):
            before = ast.unparse(node)
            place = (node.lineno - function.lineno, node.col_offset)
            lines = frozenset({statement.lineno, *range(node.lineno, _last_line(node) + 1)})
            for index, (operator, after) in enumerate(alternatives(node)):
                yield Mutant(
                    *(part, module, name, place, operator, _difference(before, ast.unparse(after))),
                    *(node.lineno, lines, steps, index),
                )


def alternatives(node: ast.AST) -> Alternatives:
    """Return what a node may be replaced by, each with the kind of the change."""
    return [*_changed_operators(node), *_changed_values(node), *_changed_statements(node)]


def mutated_code(source: str, mutant: Mutant) -> CodeType:
    """Compile a module with its mutant; return the code of the mutant's function."""
    tree = ast.parse(source)
    node: ast.AST = tree
    owners = []
    for name, index in mutant.path:
        owners.append((node, name, index))
        child = getattr(node, name)
        node = child if index is None else child[index]
    _, replacement = alternatives(node)[mutant.alternative]
    owner, name, index = owners[-1]
    if index is None:
        setattr(owner, name, replacement)
    else:
        getattr(owner, name)[index] = replacement
    ast.fix_missing_locations(tree)
    module = compile(tree, str(PACKAGE / mutant.module), "exec", dont_inherit=True)
    line = mutant.line - mutant.place[0]
    return next(
        code
        for code in _codes(module)
        if code.co_qualname == mutant.function and first_line(code, source) == line
    )


def first_line(code: CodeType, source: str) -> int:
    """Return the line of a function's def, which follows its decorators."""
    lines = source.splitlines()
    number = code.co_firstlineno
    while not lines[number - 1].lstrip().startswith(("def ", "async def ", "class ", "lambda")):
        number += 1
    return number


def _changed_operators(node: ast.AST) -> Alternatives:
    match node:
        case ast.Compare(left, operators, comparators):
            return [
                (
                    "comparison",
                    ast.Compare(
                        left, [*operators[:i], swapped(), *operators[i + 1 :]], comparators
                    ),
                )
                for i, operator in enumerate(operators)
                if (swapped := _COMPARISONS.get(type(operator)))
            ]
        case ast.BinOp(left, operator, right) if swapped := _ARITHMETIC.get(type(operator)):
            return [("arithmetic", ast.BinOp(left, swapped(), right))]
        case ast.BoolOp(operator, values):
            return [
                (
                    "boolean",
                    ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values),
                )
            ]
        case ast.UnaryOp(ast.Not(), operand):
            return [("boolean", operand)]
        case ast.UnaryOp(ast.USub() | ast.Invert(), operand):
            return [("arithmetic", operand)]
    return []


def _changed_values(node: ast.AST) -> Alternatives:  # noqa: PLR0911
    match node:
        case ast.Constant(bool() as value):
            return [("constant", ast.Constant(not value))]
        case ast.Constant(int() as value):
            return [("constant", ast.Constant(value + 1))]
        case ast.Constant(float() as value):
            return [("constant", ast.Constant(2 * value if value else 1.0))]
        case ast.Constant(str() as value):
            return [("constant", ast.Constant(f"X{value}"))]
        case ast.Name(name, context) if name in _NAMES:
            return [("name", ast.Name(_NAMES[name], context))]
        case ast.Attribute(value, name, context) if name in _NAMES:
            return [("name", ast.Attribute(value, _NAMES[name], context))]
        case ast.Call(function, arguments, keywords):
            return [
                ("argument", ast.Call(function, arguments, [*keywords[:i], *keywords[i + 1 :]]))
                for i, keyword in enumerate(keywords)
                if keyword.arg
            ]
        case ast.IfExp(test, body, orelse):
            return [("condition", ast.IfExp(_negated(test), body, orelse))]
        case ast.comprehension(target, iterable, ifs, is_async):
            return [
                (
                    "condition",
                    ast.comprehension(
                        target, iterable, [*ifs[:i], _negated(test), *ifs[i + 1 :]], is_async
                    ),
                )
                for i, test in enumerate(ifs)
            ]
    return []


def _changed_statements(node: ast.AST) -> Alternatives:  # noqa: PLR0911
    match node:
        case ast.If(test, body, orelse):
            return [("condition", ast.If(_negated(test), body, orelse))]
        case ast.While(test, body, orelse):
            return [("condition", ast.While(_negated(test), body, orelse))]
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            return [("return", ast.Return(ast.Constant(None)))]
        case ast.AugAssign(target, operator, value):
            swapped = _ARITHMETIC.get(type(operator))
            changed = [("arithmetic", ast.AugAssign(target, swapped(), value))] if swapped else []
            return [*changed, ("statement", ast.Pass())]
        case ast.Assign([ast.Attribute() | ast.Subscript()]) | ast.Expr(ast.Call()) | ast.Raise():
            return [("statement", ast.Pass())]
        case ast.Break():
            return [("statement", ast.Continue())]
        case ast.Continue():
            return [("statement", ast.Break())]
    return []


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _functions(
    node: ast.AST, prefix: str, path: _Path
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef, _Path]]:
    """Yield the functions that are not inside of another one, with their qualified names."""
    for step, child in _children(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + child.name, child, (*path, step)
        else:
            inner = f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix
            yield from _functions(child, inner, (*path, step))


def _nodes(
    function: ast.FunctionDef | ast.AsyncFunctionDef, path: _Path
) -> Iterator[tuple[ast.AST, ast.stmt, _Path]]:
    """Yield the nodes of a body that have a place, with their statements and paths."""
    start = 1 if ast.get_docstring(function, clean=False) is not None else 0
    for index, statement in enumerate(function.body[start:], start=start):
        yield from _below(statement, statement, (*path, ("body", index)))


def _below(
    node: ast.AST, statement: ast.stmt, path: _Path
) -> Iterator[tuple[ast.AST, ast.stmt, _Path]]:
    if isinstance(node, ast.stmt):
        statement = node
    if isinstance(node, ast.comprehension):
        node.lineno, node.col_offset = node.target.lineno, node.target.col_offset
        node.end_lineno = node.target.lineno
    if hasattr(node, "lineno") and not (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ):
        yield node, statement, path
    for step, child in _children(node):
        if step[0] in {"annotation", "returns", "exc", "cause"} or isinstance(child, ast.JoinedStr):
            continue
        yield from _below(child, statement, (*path, step))


def _children(node: ast.AST) -> Iterator[tuple[tuple[str, int | None], ast.AST]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield (name, None), value
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, ast.AST):
                    yield (name, index), item


def _last_line(node: ast.AST) -> int:
    """Return the last line of a node; of a compound statement, that of its condition."""
    test = getattr(node, "test", node) if isinstance(node, ast.stmt) else node
    return test.end_lineno or test.lineno


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _difference(before: str, after: str, around: int = 14, most: int = 50) -> str:
    """Return what differs, with some characters around it."""
    before, after = (" ".join(text.split()) for text in (before, after))
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    cut = (
        text[max(0, start - around) : len(text) - max(0, end - around)] for text in (before, after)
    )
    return " → ".join(text if len(text) <= most else f"{text[: most - 1]}…" for text in cut)
