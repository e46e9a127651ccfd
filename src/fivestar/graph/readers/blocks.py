"""A stream of bytes cut into blocks of whole lines, in one reused buffer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

BLOCK_BYTES = 16 << 20
_SHOWN_BYTES = 1_000


@dataclass(frozen=True)
class Block:
    """Whole lines: a stretch of a buffer that is overwritten when the next block is asked for."""

    buffer: bytearray
    start: int
    end: int
    # A line that does not fit into the buffer: only its beginning is here.
    overlong: bool = False

    def has(self, text: bytes) -> bool:
        """Do these bytes occur?"""
        return self.buffer.find(text, self.start, self.end) >= 0

    def count(self, text: bytes) -> int:
        """How often do these bytes occur?"""
        return self.buffer.count(text, self.start, self.end)

    def starts_with(self, text: bytes) -> bool:
        """Are these the first bytes?"""
        return self.buffer.startswith(text, self.start, self.end)

    def every_line_is_shorter_than(self, limit: int) -> bool:
        """Quick and on the safe side: True only if it is so."""
        window = limit // 2
        return all(
            self.buffer.find(b"\n", place, place + window) >= 0
            for place in range(self.start, self.end - window, window)
        )

    def lines(self) -> list[bytes]:
        """The lines without their line feeds; a feed at the end does not begin another line."""
        lines = bytes(memoryview(self.buffer)[self.start : self.end]).split(b"\n")
        if not lines[-1]:
            lines.pop()
        return lines

    def line_count(self) -> int:
        """How many lines."""
        unfinished = self.end > self.start and self.buffer[self.end - 1] != ord("\n")
        return self.count(b"\n") + unfinished

    def without(self, leading: int) -> Block:
        """All but the first bytes."""
        return Block(self.buffer, self.start + leading, self.end, self.overlong)


def line_blocks(stream: BinaryIO, size: int | None = None) -> Iterator[Block]:
    """The stream in blocks of whole lines; only the last line of all may lack its line feed."""
    buffer = bytearray(size or BLOCK_BYTES)
    kept = 0  # bytes of an unfinished line, at the beginning of the buffer
    while True:
        filled = kept + _fill(stream, memoryview(buffer)[kept:])
        if filled < len(buffer):
            if filled:
                yield Block(buffer, 0, filled)
            return
        cut = buffer.rfind(b"\n", 0, filled) + 1
        if cut:
            yield Block(buffer, 0, cut)
        else:
            yield Block(bytearray(buffer[:_SHOWN_BYTES]), 0, _SHOWN_BYTES, overlong=True)
            filled, cut = _skip_line(stream, buffer)
        kept = filled - cut
        buffer[:kept] = buffer[cut:filled]


def _fill(stream: BinaryIO, space: memoryview) -> int:
    filled = 0
    while filled < len(space):
        count = stream.readinto(space[filled:])  # type: ignore[attr-defined]
        if not count:
            break
        filled += count
    return filled


def _skip_line(stream: BinaryIO, buffer: bytearray) -> tuple[int, int]:
    """Read on until a line ends: how much the buffer then holds, and where the next line begins."""
    while True:
        filled = _fill(stream, memoryview(buffer))
        cut = buffer.find(b"\n", 0, filled) + 1
        if cut or filled < len(buffer):
            return filled, cut or filled
