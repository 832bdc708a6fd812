"""A checksum at the end of each line of a journal, and of a manifest: what was changed since is not read as ours. Pure.

It is the CRC-32 of zlib over all that stands before it. It misses no flip of one, two or three bits in a line of up to
11 KB, of one or two in 512 MB, and no burst of up to 32 bits; of other damage one in 2^32. A digest such as BLAKE2b
promises less of few bits, and takes four times as long. That the checksum itself stands in hexadecimal adds no pair of
flips that passes: in lines of up to 128 KiB all were tried (`tests/unit/test_store_checksum.py`).
"""

import zlib

_BEGIN, _END = b',"sum":"', b'"}'
_DIGITS = 8
_LENGTH = len(_BEGIN) + _DIGITS + len(_END)
_FRAME = int.from_bytes(_BEGIN + _END)
_NEAR = 2
"""Bits of the frame that may be flipped: what ends so nearly as a line with a checksum is one, and damaged."""

CHANGED = "it was changed after it was written: its checksum is another"


class ChecksumMismatch(ValueError):
    """What stands before a checksum is not what was written."""


def add_checksum(document: bytes) -> bytes:
    """A JSON object, without anything after it, with its checksum as the last key."""
    before = document[:-1]
    return before + _make_ending(before)


def without_checksum(document: bytes) -> bytes:
    """A JSON object as it was before `add_checksum`; as it is if it has none, as earlier versions wrote. Changed."""
    before = document[:-_LENGTH]
    if document.endswith(_make_ending(before)):
        return before + b"}"
    tail = document[-_LENGTH:]
    apart = int.from_bytes(tail[: len(_BEGIN)] + tail[-len(_END) :]) ^ _FRAME
    if apart.bit_count() <= _NEAR:
        raise ChecksumMismatch(CHANGED)
    return document


def _make_ending(before: bytes) -> bytes:
    return b"%b%08x%b" % (_BEGIN, zlib.crc32(before), _END)


def lacks_only_its_end(rest: bytes) -> bool:
    """Whether what follows the last end of a line is a whole line whose own end was changed: a write that was cut
    short leaves no byte after the object."""
    try:
        return without_checksum(rest[:-1]) != rest[:-1]
    except ChecksumMismatch:
        return True
