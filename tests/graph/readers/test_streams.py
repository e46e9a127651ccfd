"""Blocks of whole lines, whatever the sizes of lines, blocks and reads."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivestar.errors import BadSource
from fivestar.graph.readers import streams
from fivestar.graph.readers.streams import (
    Block,
    line_blocks,
    looks_binary,
    open_bytes,
    refuse_binary,
    suffix_of,
)

# As many bytes of an overlong line are shown.
SHOWN = 1_000
lengths = st.lists(st.integers(0, 40) | st.sampled_from([990, 1009, 1010, 1011, 2500]), max_size=12)
texts = st.binary(max_size=30).map(lambda b: bytes(b"ab\n"[x % 3] for x in b))


class SlowStream(io.BytesIO):
    """A stream that gives few bytes per read, as pipes and sockets do."""

    def readinto(self, buffer):
        return super().readinto(memoryview(buffer)[:333])


@given(lengths, st.sampled_from([SHOWN, 1010, 1200]), st.booleans(), st.sampled_from([0, 1, 1199]))
def test_blocks_hold_every_line_once(sizes, size, slow, last):
    lines = [bytes([97 + n % 26]) * length for n, length in enumerate(sizes)]
    content = b"".join(line + b"\n" for line in lines) + b"z" * last
    # A line is overlong if it does not fit into the buffer with its line feed.
    wanted = [(line[:SHOWN], True) if len(line) >= size else (line, False) for line in lines]
    if last:
        wanted.append((b"z" * min(last, SHOWN), True) if last >= size else (b"z" * last, False))
    found = []
    for block in line_blocks((SlowStream if slow else io.BytesIO)(content), size):
        assert block.line_count() == len(block.lines())
        found += [(line, block.overlong) for line in block.lines()]
    assert found == wanted


@given(texts, texts, texts, st.sampled_from([b"a", b"\n", b"ab", b""]))
def test_a_block_is_its_part_of_the_buffer(before, inside, after, text):
    block = Block(bytearray(before + inside + after), len(before), len(before + inside))
    assert block.has(text) is (text in inside)
    assert block.count(text) == inside.count(text)
    assert block.starts_with(text) is inside.startswith(text)
    wanted = inside.split(b"\n")
    assert block.lines() == (wanted if wanted[-1] else wanted[:-1])
    assert block.line_count() == len(block.lines())
    half = len(inside) // 2
    assert b"\n".join(block.without(half).lines()) == inside[half:].removesuffix(b"\n")
    assert block.without(half).overlong is block.overlong


@given(st.lists(st.integers(0, 30), max_size=10), st.integers(4, 40))
def test_short_lines_are_recognized(sizes, limit):
    content = b"".join(b"x" * size + b"\n" for size in sizes)
    block = Block(bytearray(b"\n" + content + b"\n"), 1, 1 + len(content))
    if block.has_only_lines_below(limit):
        assert all(size < limit for size in sizes)
    if all(size + 1 <= limit // 2 for size in sizes):
        assert block.has_only_lines_below(limit)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [("a.tsv", ".tsv"), ("A.NT.GZ", ".nt"), ("a.b.csv.zst", ".csv"), ("a", ""), ("a.bz2", "")],
)
def test_suffixes(name, suffix):
    assert suffix_of(Path("x.y") / name) == suffix


@given(st.integers(0, 40), st.integers(0, 4000))
def test_text_has_few_control_characters(control, others):
    sample = bytes([7]) * control + b"\t\n\ra"[:4] * (others // 4)
    assert looks_binary(sample) is (control * 100 > len(sample))


@pytest.mark.parametrize("byte", range(33))
def test_which_bytes_are_control_characters(byte):
    assert looks_binary(bytes([byte])) is (byte < 32 and chr(byte) not in "\t\n\r")


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        (b"PK\x03\x04", "ZIP"),
        (b"7z\xbc\xaf\x27\x1c\x00", "7z"),
        (b"PAR1\x00", "Parquet"),
        (b"ARROW1\x00", "Arrow"),
        (b"\x89HDF\x00", "HDF5"),
        (b"SQLite format 3\x00", "SQLite"),
        (b"\xff\xfea\x00", "UTF-16"),
        (b"\xfe\xff\x00a", "UTF-16"),
        (b"\x00\x01\x02", "unknown binary format"),
    ],
)
def test_binary_files_are_named(start, kind):
    with pytest.raises(BadSource, match=f"file: is not UTF-8 text but an? .*{kind}|{kind}"):
        refuse_binary(start, "file")


CONTENT = b"some\tlines\tof text\n" * 500
COMPRESSIONS = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_first_bytes_tell_the_compression(tmp_path, compression):
    compress = COMPRESSIONS[compression]
    for content in (CONTENT, b""):
        (tmp_path / "file").write_bytes(compress(content))
        with open_bytes(tmp_path / "file") as stream:
            assert stream.read() == content
    if compression != "plain":
        (tmp_path / "file").write_bytes(compress(CONTENT)[:-9])
        with (
            pytest.raises(BadSource, match="file: the compressed file is damaged or cut short"),
            open_bytes(tmp_path / "file") as stream,
        ):
            stream.read()


def test_names_that_begin_like_bzip2(tmp_path):
    (tmp_path / "file").write_bytes(b"BZh91 is a name\n")
    with open_bytes(tmp_path / "file") as stream:
        assert stream.read() == b"BZh91 is a name\n"


def test_a_missing_file(tmp_path):
    with (
        pytest.raises(BadSource, match="none: cannot be read: No such file"),
        open_bytes(tmp_path / "none"),
    ):
        pass


@pytest.mark.parametrize(("least", "reports"), [(len(CONTENT), True), (len(CONTENT) + 1, False)])
def test_large_files_report_their_progress(tmp_path, monkeypatch, least, reports):
    monkeypatch.setattr(streams, "MIN_PROGRESS_BYTES", least)
    (tmp_path / "file").write_bytes(CONTENT)
    reported = []
    with open_bytes(tmp_path / "file", lambda *seen: reported.append(seen)) as stream:
        while stream.read(1000):
            pass
    assert bool(reported) is reports
    if reports:
        assert reported == sorted(set(reported))
        assert reported[-1] == (len(CONTENT), len(CONTENT))
