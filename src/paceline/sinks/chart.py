"""A series as a picture: a PNG of our own making, or a line of block characters where no picture can be sent."""

import math
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

WIDTH, HEIGHT = 640, 200
_MARGIN = 12
_BARS = "▁▂▃▄▅▆▇█"

Colour = tuple[int, int, int]
WHITE: Colour = (255, 255, 255)
GREY: Colour = (200, 200, 205)
BLUE: Colour = (38, 98, 190)
RED: Colour = (205, 45, 45)


def sparkline(values: Sequence[float], width: int = 40) -> str:
    """The last values as bars of eight heights; what is no number is a gap."""
    shown = list(values)[-width:]
    finite = [value for value in shown if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(finite), max(finite)
    return "".join(_bar(value, low, high) for value in shown)


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return " "
    share = _share(value, low, high)
    return _BARS[min(int(share * len(_BARS)), len(_BARS) - 1)]


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others; halved first, for their difference may be no float."""
    spread = high / 2 - low / 2
    return (value / 2 - low / 2) / spread if spread > 0 else 0.5


def draw_png(values: Sequence[float], change: int | None = None) -> bytes:
    """A line through the values, points from `change` on in red, a grey line where it lies."""
    canvas = _Canvas()
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        low, high = min(finite), max(finite)
        places = [_place(i, value, len(values), low, high) for i, value in enumerate(values)]
        if change is not None and 0 < change < len(values):
            x = _column(change - 0.5, len(values))
            canvas.line((x, 0), (x, HEIGHT - 1), GREY)
        for left, right in pairwise(places):
            if left and right:
                canvas.line(left, right, BLUE)
        for i, place in enumerate(places):
            if place:
                canvas.dot(place, RED if change is not None and i >= change else BLUE)
    return _encode(canvas.rows)


def _column(position: float, count: int) -> int:
    return round(_MARGIN + position * (WIDTH - 1 - 2 * _MARGIN) / max(count - 1, 1))


def _place(index: int, value: float, count: int, low: float, high: float) -> tuple[int, int] | None:
    if not math.isfinite(value):
        return None
    y = HEIGHT - 1 - _MARGIN - _share(value, low, high) * (HEIGHT - 1 - 2 * _MARGIN)
    return _column(index, count), round(y)


class _Canvas:
    """Rows of pixels, three bytes each."""

    def __init__(self) -> None:
        self.rows = [bytearray(bytes(WHITE) * WIDTH) for _ in range(HEIGHT)]

    def pixel(self, x: int, y: int, colour: Colour) -> None:
        if 0 <= x < WIDTH and 0 <= y < HEIGHT:
            self.rows[y][3 * x : 3 * x + 3] = bytes(colour)

    def line(self, start: tuple[int, int], end: tuple[int, int], colour: Colour) -> None:
        steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
        for step in range(steps + 1):
            x = start[0] + (end[0] - start[0]) * step / steps
            y = start[1] + (end[1] - start[1]) * step / steps
            self.pixel(round(x), round(y), colour)

    def dot(self, centre: tuple[int, int], colour: Colour) -> None:
        for dx in range(-2, 3):
            for dy in range(-2, 3):
                self.pixel(centre[0] + dx, centre[1] + dy, colour)


def _encode(rows: Sequence[bytearray]) -> bytes:
    """The rows as a PNG of 8-bit colours without a filter."""
    header = struct.pack(">IIBBBBB", WIDTH, HEIGHT, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\x00" + row for row in rows), 6)
    parts = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
