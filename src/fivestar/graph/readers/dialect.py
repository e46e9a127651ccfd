"""Dialects of text files: delimiter, quotes, header and columns, given or detected."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Columns, ReadOptions, plural
from fivestar.spelling import closest_names, did_you_mean

# In the order of preference: names contain spaces and commas far more often than tabs.
_DELIMITERS = ("\t", ",", ";", "|", " ")
_CSV_DELIMITERS = (",", ";", "\t", "|", " ")
_DELIMITER_NAMES = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon", "|": "bar"}
# Minimum share of lines with three fields to accept a delimiter at once.
_MIN_AGREEMENT = 0.8

HEADER_NAMES: tuple[frozenset[str], ...] = (
    frozenset({"h", "head", "head_id", "head_name", "s", "subj", "subject", "source", "src"}),
    frozenset({"r", "rel", "relation", "relation_id", "relationship", "p", "pred", "predicate"}),
    frozenset({"t", "tail", "tail_id", "tail_name", "o", "obj", "object", "target", "dst"}),
)


class LineError(ValueError):
    """A line cannot be read; the message is the reason."""


@dataclass(frozen=True)
class Dialect:
    """How to split a line into head, relation and tail, and a weight if there is such a column."""

    delimiter: str
    quote: str
    width: int
    columns: tuple[int, int, int]
    has_header: bool
    weight: int | None = None

    def split(self, line: bytes) -> list[bytes]:
        """Return the fields of a line; a quoted field ends on its line."""
        quote, delimiter = self.quote.encode(), self.delimiter.encode()
        if not quote or quote not in line:
            return line.split(delimiter)
        return _split_quoted(line, delimiter, quote)

    def triple(self, line: bytes) -> tuple[str, str, str]:
        """Return head, relation and tail of a line.

        Raises:
            LineError: if it cannot be read.
        """
        return self.fact(line)[0]

    def fact(self, line: bytes) -> tuple[tuple[str, str, str], str]:
        """Return head, relation and tail of a line, and its weight as it is written.

        Raises:
            LineError: if it cannot be read.
        """
        if b"\0" in line:
            raise LineError("contains a NUL byte; is this a text file?")
        if b"\r" in line:
            raise LineError(
                "contains a carriage return; "
                "if the lines of the file end with CR, convert it: tr '\\r' '\\n'"
            )
        fields = self.split(line)
        if len(fields) != self.width:
            raise LineError(
                f"has {plural(len(fields), 'field')} where {self.width} are expected "
                f"(delimiter: {delimiter_name(self.delimiter)})"
            )
        head, relation, tail = (
            _decoded(fields[column], role)
            for column, role in zip(self.columns, ("head", "relation", "tail"), strict=True)
        )
        weight = "" if self.weight is None else fields[self.weight].decode("utf-8", "replace")
        return (head, relation, tail), weight

    def is_blank(self, line: bytes) -> bool:
        """Return whether a line is only white space, without a delimiter."""
        return not line.strip(b" \t\r") and self.delimiter.encode() not in line


def detect_dialect(sample: Sequence[bytes], options: ReadOptions, name: str) -> Dialect:
    """Detect the dialect of a file from its first lines.

    Args:
        sample: the first lines.
        options: what is given and not detected.
        name: the name of the file, for errors.

    Raises:
        BadSource: if no delimiter gives three fields, or the columns are ambiguous.
    """
    lines = [line for line in sample if line.strip()]
    if not lines:
        raise BadSource(f"{name}: is empty; a graph needs at least one line: head, relation, tail")
    delimiter, quote, width = _best_delimiter(lines, options, name)
    dialect = Dialect(delimiter, quote, width, (0, 1, 2), has_header=False)
    try:
        first = [field.decode("utf-8") for field in dialect.split(lines[0])]
    except (LineError, UnicodeDecodeError):
        first = []
    by_name = isinstance(options.weight, str)
    by_name |= options.columns is not None and isinstance(options.columns[0], str)
    has_header = options.header == "yes" or by_name
    if options.header == "auto" and not has_header:
        has_header = header_columns(_selected(first, options.columns)) is not None
    titles, weight = first if has_header else None, None
    if options.weight is not None:
        weight = weight_position(titles, width, options.weight, name)
    columns = choose_columns(titles, width, options.columns, name, weight)
    if max(columns) >= width:
        raise BadSource(
            f"{name}: the header has {plural(len(first), 'field')}, but the lines have {width}; "
            "fix the header, or pass columns=(0, 1, 2) and header='yes'"
        )
    return Dialect(delimiter, quote, width, columns, has_header, weight)


def weight_position(header: Sequence[str] | None, width: int, weight: str | int, name: str) -> int:
    """Return the position of the weight column.

    Args:
        header: the names of the columns, if there is a header.
        width: the number of columns.
        weight: the name or number of the column.
        name: the name of the source, for errors.

    Raises:
        BadSource: if there is no such column.
    """
    if isinstance(weight, str):
        return _position(weight, header or (), name)
    if weight >= width:
        raise BadSource(
            f"{name}: there is no column {weight} with weights; the {width} columns are numbered 0 "
            f"to {width - 1}"
        )
    return weight


def choose_columns(
    header: Sequence[str] | None,
    width: int,
    columns: Columns | None,
    name: str,
    weight: int | None = None,
) -> tuple[int, int, int]:
    """Return the positions of head, relation and tail.

    Args:
        header: the names of the columns, if there is a header.
        width: the number of columns.
        columns: names or numbers of the three columns, if they are given.
        name: the name of the source, for errors.
        weight: the position of the weight column, if there is one.

    Raises:
        BadSource: if there are no such columns, or they are ambiguous.
    """
    if columns is not None and isinstance(columns[0], str):
        head, relation, tail = (_position(str(column), header or (), name) for column in columns)
        return head, relation, tail
    if columns is not None:
        numbers = [int(column) for column in columns]
        if max(numbers) >= width:
            raise BadSource(
                f"{name}: there is no column {max(numbers)}; the {width} columns are "
                f"numbered 0 to {width - 1}"
            )
        return numbers[0], numbers[1], numbers[2]
    known = header_columns(header) if header is not None else None
    if known is not None:
        return known
    others = [column for column in range(width) if column != weight]
    if len(others) == 3:
        return others[0], others[1], others[2]
    named = f" ({', '.join(map(repr, header))})" if header else ""
    raise BadSource(
        f"{name}: has {width} columns{named}; pass those of head, relation and tail, "
        "as in columns=(0, 1, 2) or columns=('subject', 'predicate', 'object')"
    )


def header_columns(fields: Sequence[str] | None) -> tuple[int, int, int] | None:
    """Return the positions of head, relation and tail if these fields are a header, else None.

    >>> header_columns(["Relation", "Subject", "Object"])
    (1, 0, 2)
    >>> header_columns(["Paris", "capital_of", "France"])
    """
    # The header of SPARQL results as text consists of variables.
    words = [field.strip().lstrip("?").casefold().replace(" ", "_") for field in fields or ()]
    positions = [[i for i, word in enumerate(words) if word in names] for names in HEADER_NAMES]
    if any(len(matches) != 1 for matches in positions):
        return None
    return positions[0][0], positions[1][0], positions[2][0]


def delimiter_name(delimiter: str) -> str:
    """Return the name of a delimiter."""
    return _DELIMITER_NAMES.get(delimiter, repr(delimiter))


def _best_delimiter(
    lines: Sequence[bytes], options: ReadOptions, name: str
) -> tuple[str, str, int]:
    """Return delimiter, quote character and number of fields per line."""
    given = options.delimiter
    best: tuple[float, str, str, int] | None = None
    candidates = _CSV_DELIMITERS if ".csv" in name.casefold()[-8:] else _DELIMITERS
    for delimiter in (given,) if given is not None else candidates:
        quote = options.quote if options.quote is not None else ("" if delimiter == "\t" else '"')
        dialect = Dialect(delimiter, quote, 0, (0, 1, 2), has_header=False)
        width, share = _most_common_width(lines, dialect)
        if width < 3:
            continue
        if width == (3 if options.weight is None else 4) and share >= _MIN_AGREEMENT:
            return delimiter, quote, width
        if best is None or share > best[0]:
            best = (share, delimiter, quote, width)
    if best is not None:
        return best[1:]
    first = lines[0][:80].decode("utf-8", "replace")
    delimiters = delimiter_name(given) if given else "tab, comma, semicolon, bar or space"
    raise BadSource(
        f"{name}: no line has three fields when split by {delimiters}; the first line is\n"
        f"  | {first!r}\n"
        "Pass the right delimiter='…'; a line is one triple: head, relation, tail."
    )


def _most_common_width(lines: Sequence[bytes], dialect: Dialect) -> tuple[int, float]:
    """Return the most common number of fields, and the share of lines that certainly have it."""
    widths: Counter[int] = Counter()
    cut: Counter[int] = Counter()
    for line in lines:
        try:
            fields = dialect.split(line)
        except LineError:
            fields = []
        widths[len(fields)] += 1
        # Without a quote character, a field that begins with a quote and does not end with one may
        # be a quoted field cut by the wrong delimiter.
        if not dialect.quote and any(f.startswith(b'"') and not f.endswith(b'"') for f in fields):
            cut[len(fields)] += 1
    # Lines of fewer than three fields cannot be triples, so they do not count.
    voting = Counter({width: n for width, n in widths.items() if width >= 3})
    if not voting:
        return 0, 0.0
    width, votes = voting.most_common(1)[0]
    return width, (votes - cut[width]) / len(lines)


def _split_quoted(line: bytes, delimiter: bytes, quote: bytes) -> list[bytes]:
    fields = []
    position = 0
    while True:
        if line.startswith(quote, position):
            field, position = _quoted_field(line, position + 1, quote)
            if position < len(line) and not line.startswith(delimiter, position):
                raise LineError("has text between a closing quote and the next delimiter")
            end = position
        else:
            end = line.find(delimiter, position)
            end = len(line) if end < 0 else end
            field = line[position:end]
        fields.append(field)
        if end >= len(line):
            return fields
        position = end + len(delimiter)


def _quoted_field(line: bytes, start: int, quote: bytes) -> tuple[bytes, int]:
    """Return the content of a quoted field (with quotes undoubled) and the position after it."""
    position = start
    while True:
        close = line.find(quote, position)
        if close < 0:
            raise LineError(
                "opens a quote and does not close it; if quotes are plain characters, pass quote=''"
            )
        if line.startswith(quote, close + 1):
            position = close + 2
            continue
        return line[start:close].replace(quote * 2, quote), close + 1


def _decoded(field: bytes, role: str) -> str:
    if not field:
        raise LineError(f"has an empty {role}")
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError as error:
        raise LineError(
            f"is not UTF-8 (byte 0x{field[error.start]:02x} in the {role}); if the whole file is "
            "in another encoding, convert it: iconv -f latin1 -t utf-8"
        ) from None


def _selected(fields: Sequence[str], columns: Columns | None) -> Sequence[str]:
    if columns is None:
        return fields
    return [fields[int(column)] for column in columns if int(column) < len(fields)]


def _position(column: str, header: Sequence[str], name: str) -> int:
    positions = [i for i, title in enumerate(header) if title == column]
    if len(positions) == 1:
        return positions[0]
    if positions:
        raise BadSource(
            f"{name}: {len(positions)} columns are named {column!r}; pass numbers from 0 instead"
        )
    hint = did_you_mean(closest_names(column, header)[:1])
    raise BadSource(f"{name}: no column {column!r} among {', '.join(map(repr, header))}{hint}")
