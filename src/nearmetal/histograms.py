"""HdrHistograms as the generator prints them: V2, compressed, base64.

The format is that of `AbstractHistogram.encodeIntoCompressedByteBuffer` in https://github.com/HdrHistogram/HdrHistogram.
Its library for Python installs two others of 10 MB that are only needed to build it.
"""

import base64
import struct
import zlib
from collections.abc import Iterator
from math import ceil, log2
from typing import Final

_COMPRESSED: Final = 0x1C849304
_COOKIE: Final = 0x1C849303
_SIZES: Final = 0xF0
"""Bits of a cookie that name sizes of words, which V2 has no more."""
_OUTER: Final = struct.Struct(">ii")
_HEAD: Final = struct.Struct(">iiiiqqd")
"""Cookie, bytes of counts, offset of the index, significant digits, lowest and highest value, ratio."""
_LARGEST: Final = 1 << 24
"""Bytes of counts: many times what a histogram of a year's nanoseconds in five digits takes."""


def decode_histogram(text: str) -> Iterator[tuple[int, int]]:
    """Each value that was counted, as the highest of those that count as one, and how often; ascending.

    ValueError, struct.error or zlib.error if it is no histogram.
    """
    packed = base64.b64decode(text, validate=True)
    cookie, length = _OUTER.unpack_from(packed)
    if cookie & ~_SIZES != _COMPRESSED:
        raise ValueError("it has another format than V2, compressed")
    content = zlib.decompressobj().decompress(packed[_OUTER.size : _OUTER.size + length], _LARGEST)
    cookie, length, offset, digits, lowest, highest, _ = _HEAD.unpack_from(content)
    if cookie & ~_SIZES != _COOKIE or offset or not 0 <= digits <= 5 or not 1 <= lowest <= highest:
        raise ValueError("its head is none")
    half = _halve_digits(digits)
    index = 0
    for number in _read_numbers(content[_HEAD.size : _HEAD.size + length], length):
        if number < 0:
            index -= number
            continue
        unit = max(0, (index >> half) - 1)
        if unit > highest.bit_length():
            raise ValueError("it counts values that are higher than its highest")
        first = ((index & (1 << half) - 1) + (1 << half if index >> half else 0)) << unit + lowest.bit_length() - 1
        if first > 2 * highest:
            raise ValueError("it counts values that are higher than its highest")
        if number:
            yield first + (1 << unit + lowest.bit_length() - 1) - 1, number
        index += 1


def encode_value(value: int, count: int, highest: int, digits: int = 3) -> str:
    """A histogram from 1 to `highest` in which one value was counted so often."""
    half = _halve_digits(digits)
    unit = max(0, value.bit_length() - half - 1)
    index = (unit << half) + (value >> unit)
    counts = (_pack_number(-index) if index else b"") + _pack_number(count) if count else b""
    content = _HEAD.pack(_COOKIE | 0x10, len(counts), 0, digits, 1, highest, 1.0) + counts
    packed = zlib.compress(content)
    return base64.b64encode(_OUTER.pack(_COMPRESSED | 0x10, len(packed)) + packed).decode()


def _halve_digits(digits: int) -> int:
    """Of half of the values that each power of two is divided into, the logarithm."""
    return max(1, ceil(log2(2 * 10**digits))) - 1


def _read_numbers(content: bytes, length: int) -> Iterator[int]:
    """ZigZag LEB128, of at most nine bytes: the ninth has eight bits of the number."""
    if len(content) != length:
        raise ValueError("it ends too early")
    number = shift = 0
    for byte in content:
        is_last = byte < 0x80 or shift == 56
        number |= (byte if shift == 56 else byte & 0x7F) << shift
        shift += 7
        if is_last:
            yield (number >> 1) ^ -(number & 1)
            number = shift = 0
    if shift:
        raise ValueError("it ends within a number")


def _pack_number(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    packed = bytearray()
    while rest >= 0x80 and len(packed) < 8:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*packed, rest))
