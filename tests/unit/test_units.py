"""Quantities: what is written is what is kept, and what is shown can be read."""

import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearmetal import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_size, "512MiB", 512 * 2**20),
        (units.parse_size, "1.5 KiB", 1536),
        (units.parse_size, "2GB", 2 * 10**9),
        (units.parse_size, "0B", 0),
        (units.parse_duration, "60s", 60.0),
        (units.parse_duration, "1.1ms", 0.0011),
        (units.parse_duration, "2m", 120.0),
        (units.parse_duration, "2min", 120.0),
        (units.parse_duration, "1d", 86400.0),
        (units.parse_rate, "900Mbit/s", 900 * 10**6),
        (units.parse_share, "2%", 0.02),
        (units.parse_share, "7%", 0.07),
        (units.parse_share, "0.1%", 0.001),
    ],
)
def test_what_is_written_is_meant_exactly(parse: object, text: str, value: float) -> None:
    assert callable(parse)
    assert parse(text) == value


@pytest.mark.parametrize("parse", [units.parse_size, units.parse_duration, units.parse_rate, units.parse_share])
@pytest.mark.parametrize(
    "bad",
    ["", "1", "s", "-1s", "-1%", "1e3s", "1,5s", "nan%", "inf s", "1s ms", "1 mib", "1MIB", "٣s", "1s\x00", "1Gbit"]
    + ["9" * 400 + unit for unit in ("s", "B", "%", "bit/s")]
    + ["9" * 30 + unit for unit in ("d", "TiB", "Gbit/s")],
)
def test_anything_else_says_what_would_be_right(parse: object, bad: str) -> None:
    assert callable(parse)
    with pytest.raises(ValueError, match=r"write|more than anything"):
        parse(bad)


@pytest.mark.parametrize("bad", [1, 1.5, True, None, [], {}])
def test_a_number_without_a_unit_is_refused(bad: object) -> None:
    with pytest.raises(ValueError, match="has no unit"):
        units.parse_duration(bad)


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0015, "s", "1.5 ms"),
        (0.9999, "s", "1 s"),
        (0.00099996, "s", "1 ms"),
        (60, "s", "60 s"),
        (720, "s", "12 min"),
        (0, "s", "0 s"),
        (512 * 2**20, "B", "512 MiB"),
        (1000 * 2**10, "B", "1000 KiB"),
        (1023.9 * 2**10, "B", "1024 KiB"),
        (0.02, "share", "2 %"),
        (1_234_567, "1/s", "1235 k 1/s"),
        (9_999, "1/s", "9999 1/s"),
        (9_999.7, "1/s", "10000 1/s"),
        (123.456, "1/s", "123.5 1/s"),
        (940e6, "bit/s", "940 Mbit/s"),
        (42, "", "42"),
    ],
)
def test_what_people_are_shown(value: float, unit: str, shown: str) -> None:
    assert units.show_unit(value, unit) == shown


@given(
    st.floats(min_value=1e-8, max_value=1e14) | st.floats(min_value=-1e14, max_value=-1e-8),
    st.sampled_from(["s", "B", "1/s", "bit/s", "B/s", ""]),
)
def test_no_exponent_is_ever_shown(value: float, unit: str) -> None:
    if unit in ("1/s", "bit/s", "B/s", "") and abs(value) < 1e-3:
        return
    assert "e" not in units.show_unit(value, unit).split()[0]


@given(st.integers(0, 10**6))
def test_a_size_that_is_shown_is_near_what_it_was(mebibytes: int) -> None:
    value = mebibytes * 2**20
    number, unit = units.show_size(value).split()
    assert math.isclose(units.parse_size(f"{number}{unit}"), value, rel_tol=0.005)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (310, "5 min 10 s"),
        (3599.7, "1 h 0 min"),
        (7530, "2 h 6 min"),
        (48 * 3600 - 60, "47 h 59 min"),
        (95 * 3600 + 49 * 60, "4 d 0 h"),
        (90 * 3600, "3 d 18 h"),
    ],
)
def test_how_long_something_took(seconds: float, shown: str) -> None:
    assert units.show_elapsed(seconds) == shown


@pytest.mark.parametrize(
    ("share", "decimals", "text"),
    [
        (0.02, None, "2 %"),
        (0.98765, None, "98.8 %"),
        (0.69, 1, "69.0 %"),
        (1, 0, "100 %"),
        (1 - 1e-15, None, "100 %"),  # what is left of arithmetic
        (0, 1, "0.0 %"),
        (0.9996, None, "99.96 %"),
        (0.99999, None, "99.999 %"),
        (0.996, 0, "99.6 %"),
        (0.9996, 1, "99.96 %"),
        (1.0004, None, "100.04 %"),
        (-0.9996, None, "-99.96 %"),
        (-1.0004, 1, "-100.04 %"),
        (-1, None, "-100 %"),
        (-0.0004, 1, "-0.04 %"),
        (0.0004, 1, "0.04 %"),
        (9.5e-7, None, "0.000095 %"),
        (12.5, None, "1250 %"),
    ],
)
def test_a_share_that_is_not_all_or_nothing_is_not_written_so(share: float, decimals: int | None, text: str) -> None:
    assert units.show_share(share, decimals) == text


def test_no_text_writes_a_share_without_one() -> None:
    """Python's own format for percentages has none; study files and tools have, where it is syntax."""
    sources = (Path(units.__file__).parent).rglob("*.py")
    assert not [str(path) for path in sources if re.search(r":[^{}\"']*%\}", path.read_text())]


@pytest.mark.parametrize(
    ("value", "written", "shown"),
    [
        (16 * 2**20, "1KiB", "16 MiB"),
        (86400.0, "99d", "24 h"),
        (1, "200%", "100 %"),
        (1, "0bit/s", "1 bit/s"),
        (1, 0, "1"),
        (64, "three", "64"),
    ],
)
def test_a_bound_is_told_as_what_it_bounds_is_written(value: float, written: object, shown: str) -> None:
    assert units.show_alike(value, written) == shown
