"""How a file is written: its delimiter, quotes, header and columns, given or found out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fivestar.errors import BadSource
from fivestar.graph.readers.base import Columns, ReadOptions
from fivestar.spelling import closest_names

# In the order of trust: labels hold spaces and commas far more often than tabs.
_CANDIDATES = ("\t", ",", ";", "|", " ")
_CANDIDATES_OF_CSV = (",", ";", "\t", "|", " ")
_SPOKEN = {"\t": "tab", " ": "space", ",": "comma", ";": "semicolon", "|": "bar"}
_ENOUGH_LINES_AGREE = 0.8

HEADER_NAMES: tuple[frozenset[str], ...] = (
    frozenset({"h", "head", "head_id", "head_name", "s", "subj", "subject", "source", "src"}),
    frozenset({"r", "rel", "relation", "relation_id", "relationship", "p", "pred", "predicate"}),
    frozenset({"t", "tail", "tail_id", "tail_name", "o", "obj", "object", "target", "dst"}),
)


class LineError(ValueError):
    """Why a line cannot be read."""


@dataclass(frozen=True)
class Dialect:
    """All that is needed to read a line."""

    delimiter: str
    quote: str
    width: int
    columns: tuple[int, int, int]
    has_header: bool

    def split(self, line: bytes) -> list[bytes]:
        """The fields of a line; one line is one record, so a quoted field ends on its line."""
        quote, delimiter = self.quote.encode(), self.delimiter.encode()
        if not quote or quote not in line:
            return line.split(delimiter)
        return _split_quoted(line, delimiter, quote)

    def triple(self, line: bytes) -> tuple[str, str, str]:
        """Head, relation and tail of a line, or a `LineError`."""
        if b"\0" in line:
            raise LineError("holds a NUL byte; is this a text file?")
        if b"\r" in line:
            raise LineError(
                "holds a carriage return within; "
                "if the file has old line ends, convert it: tr '\\r' '\\n'"
            )
        fields = self.split(line)
        if len(fields) != self.width:
            raise LineError(
                f"has {counted(len(fields), 'field')} where {self.width} are expected "
                f"(delimiter: {spoken(self.delimiter)})"
            )
        head, relation, tail = (
            _decoded(fields[column], role)
            for column, role in zip(self.columns, ("head", "relation", "tail"), strict=True)
        )
        return head, relation, tail

    def is_blank(self, line: bytes) -> bool:
        """Is there nothing but white space, and none of it a delimiter?"""
        return not line.strip(b" \t\r") and self.delimiter.encode() not in line


def detect(sample: Sequence[bytes], options: ReadOptions, name: str) -> Dialect:
    """The dialect that makes most sense of the first lines of a file."""
    lines = [line for line in sample if line.strip()]
    if not lines:
        raise BadSource(f"{name}: is empty; a graph needs at least one line: head, relation, tail")
    delimiter, quote, width = _best_delimiter(lines, options, name)
    reading = Dialect(delimiter, quote, width, (0, 1, 2), has_header=False)
    try:
        first = [field.decode("utf-8") for field in reading.split(lines[0])]
    except (LineError, UnicodeDecodeError):
        first = []
    by_name = options.columns is not None and isinstance(options.columns[0], str)
    has_header = options.header == "yes" or by_name
    if options.header == "auto" and not has_header:
        has_header = header_columns(_picked(first, options.columns)) is not None
    columns = choose_columns(first if has_header else None, width, options.columns, name)
    if max(columns) >= width:
        raise BadSource(
            f"{name}: the header has {counted(len(first), 'field')}, but the lines have {width}; "
            "mend the header, or number the columns: --columns 0,1,2 --header yes"
        )
    return Dialect(delimiter, quote, width, columns, has_header)


def choose_columns(
    header: Sequence[str] | None, width: int, wanted: Columns | None, name: str
) -> tuple[int, int, int]:
    """The positions of head, relation and tail among the columns."""
    if wanted is not None and isinstance(wanted[0], str):
        head, relation, tail = (_position(str(column), header or (), name) for column in wanted)
        return head, relation, tail
    if wanted is not None:
        numbers = [int(column) for column in wanted]
        if max(numbers) >= width:
            raise BadSource(
                f"{name}: column {max(numbers)} was asked for, but there are only {width}, "
                f"numbered 0 to {width - 1}"
            )
        return numbers[0], numbers[1], numbers[2]
    known = header_columns(header) if header is not None else None
    if known is not None:
        return known
    if width == 3:
        return 0, 1, 2
    named = f" ({', '.join(map(repr, header))})" if header else ""
    raise BadSource(
        f"{name}: has {width} columns{named}; say which are head, relation and tail, "
        f"as in --columns 0,1,2 or --columns subject,predicate,object"
    )


def header_columns(fields: Sequence[str] | None) -> tuple[int, int, int] | None:
    """Where head, relation and tail stand, if these fields are a header.

    >>> header_columns(["Relation", "Subject", "Object"])
    (1, 0, 2)
    >>> header_columns(["Paris", "capital_of", "France"])
    """
    # Results of SPARQL as text have their variables there.
    words = [field.strip().lstrip("?").casefold().replace(" ", "_") for field in fields or ()]
    found = [[i for i, word in enumerate(words) if word in names] for names in HEADER_NAMES]
    if any(len(places) != 1 for places in found):
        return None
    return found[0][0], found[1][0], found[2][0]


def spoken(delimiter: str) -> str:
    """A delimiter as one would say it."""
    return _SPOKEN.get(delimiter, repr(delimiter))


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "field"), counted(2_000, "field")
    ('1 field', '2,000 fields')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _best_delimiter(
    lines: Sequence[bytes], options: ReadOptions, name: str
) -> tuple[str, str, int]:
    """Delimiter, quote character and number of fields a line."""
    given = options.delimiter
    best: tuple[float, str, str, int] | None = None
    usual = _CANDIDATES_OF_CSV if ".csv" in name.casefold()[-8:] else _CANDIDATES
    for delimiter in (given,) if given is not None else usual:
        quote = options.quote if options.quote is not None else ("" if delimiter == "\t" else '"')
        reading = Dialect(delimiter, quote, 0, (0, 1, 2), has_header=False)
        width, share = _usual_width(lines, reading)
        if width < 3:
            continue
        if width == 3 and share >= _ENOUGH_LINES_AGREE:
            return delimiter, quote, width
        if best is None or share > best[0]:
            best = (share, delimiter, quote, width)
    if best is not None:
        return best[1:]
    shown = lines[0][:80].decode("utf-8", "replace")
    what = f"split by {spoken(given)}" if given else "split by tab, comma, semicolon, bar or space"
    raise BadSource(
        f"{name}: no line holds three fields when {what}; the first line is\n  | {shown!r}\n"
        "Give the right --delimiter, one triple a line: head, relation, tail."
    )


def _usual_width(lines: Sequence[bytes], reading: Dialect) -> tuple[int, float]:
    """How many fields most lines have, and the share of lines that are surely so."""
    widths: Counter[int] = Counter()
    cut: Counter[int] = Counter()
    for line in lines:
        try:
            fields = reading.split(line)
        except LineError:
            fields = []
        widths[len(fields)] += 1
        # Where quotes have no meaning but a field begins with one and does not end with it, this
        # may be the wrong delimiter, cutting a quoted field.
        if not reading.quote and any(f.startswith(b'"') and not f.endswith(b'"') for f in fields):
            cut[len(fields)] += 1
    # Lines of fewer than three fields cannot be triples whatever the file is: they have no vote.
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
    """The content of a quoted field, where a doubled quote is a quote, and the place behind it."""
    position = start
    while True:
        close = line.find(quote, position)
        if close < 0:
            raise LineError(
                "opens a quote and does not close it; if quotes mean nothing here, say --quote ''"
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


def _picked(fields: Sequence[str], columns: Columns | None) -> Sequence[str]:
    if columns is None:
        return fields
    return [fields[int(column)] for column in columns if int(column) < len(fields)]


def _position(column: str, header: Sequence[str], name: str) -> int:
    places = [i for i, title in enumerate(header) if title == column]
    if len(places) == 1:
        return places[0]
    if places:
        raise BadSource(f"{name}: {len(places)} columns are called {column!r}; number them from 0")
    near = closest_names(column, header)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise BadSource(f"{name}: no column {column!r} among {', '.join(map(repr, header))}{hint}")
