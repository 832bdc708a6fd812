"""Histograms of latencies: what we read and write is what the format's own library does."""

import base64
import struct
import zlib
from collections import Counter

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # it ships no types
from hypothesis import given
from hypothesis import strategies as st

from nearmetal.histograms import decode_histogram, encode_value

HIGHEST = 3_600_000_000_000
_VALUES = st.dictionaries(st.integers(0, HIGHEST), st.integers(1, 2**40), max_size=20)


def by_library(text: str) -> dict[int, int]:
    histogram = HdrHistogram.decode(text)
    found: Counter[int] = Counter()
    for index in map(int, np.flatnonzero(np.ctypeslib.as_array(histogram.counts))):  # of millions that are empty
        value = histogram.get_highest_equivalent_value(histogram.get_value_from_index(index))
        found[value] += histogram.get_count_at_index(index)
    return dict(found)


@given(_VALUES, st.integers(1, 5), st.sampled_from([1, 2, 1000]))
def test_it_is_read_as_by_the_library(values: dict[int, int], digits: int, lowest: int) -> None:
    histogram = HdrHistogram(lowest, HIGHEST, digits)
    for value, count in values.items():
        histogram.record_value(value, count)
    text = histogram.encode().decode()
    assert dict(decode_histogram(text)) == by_library(text)


@given(st.integers(1, HIGHEST), st.integers(0, 2**40))
def test_one_value_is_written_as_the_library_reads_it(value: int, count: int) -> None:
    text = encode_value(value, count, HIGHEST)
    assert dict(decode_histogram(text)) == by_library(text)
    assert sum(by_library(text).values()) == count


def packed(content: bytes) -> str:
    squeezed = zlib.compress(content)
    return base64.b64encode(struct.pack(">ii", 0x1C849314, len(squeezed)) + squeezed).decode()


def head(length: int, digits: int = 3, lowest: int = 1, highest: int = HIGHEST, cookie: int = 0x1C849313) -> bytes:
    return struct.pack(">iiiiqqd", cookie, length, 0, digits, lowest, highest, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HISTFAAA",
        "no base64",
        base64.b64encode(b"\0" * 40).decode(),
        packed(b"short"),
        packed(head(2, cookie=1) + b"\2\2"),
        packed(head(2, digits=9) + b"\2\2"),
        packed(head(2, lowest=0) + b"\2\2"),
        packed(head(9) + b"\2\2"),
        packed(head(1) + b"\x82"),
        packed(head(6) + b"\xff\xff\xff\xff\x7f\2"),
        packed(head(10) + b"\xff" * 8 + b"\x7f\2"),
    ],
)
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises((ValueError, struct.error, zlib.error)):
        list(decode_histogram(text))
