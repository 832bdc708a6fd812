"""Where a key stands in a TOML file, however it is written."""

import pytest

from nearmetal.study.line_numbers import line_of, locate_keys

TEXT = '''# a comment with [brackets] and key = 1

name = "x"
"quoted \\u0041 key" = 1
levels = [
  ["a", "b"],  # not a [header]
  [1, 2],
]
machine.vcpus = 2
text = """
[not.a.header]
not_a_key = 1 \\""" still
""" # end
raw = \'\'\'
also_no_key = "
\'\'\'

[factors]
nic = ["e1000"] # = "x"
  [factors.offload]
  levels = [true]
  when = { environment = "qemu" }

[[workloads]]
name = "one"
[workloads.inner]
deep = 1
[[workloads]]
name = "two"
path = "a # b = c"
after = 1
["odd ] name"."x.y"]
key = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 1),
        (("name",), 3),
        (("quoted A key",), 4),
        (("levels",), 5),
        (("levels", 1), 5),
        (("machine",), 9),
        (("machine", "vcpus"), 9),
        (("text",), 10),
        (("raw",), 14),
        (("factors", "nic"), 19),
        (("factors", "offload"), 20),
        (("factors", "offload", "when", "environment"), 22),
        (("workloads", 0), 24),
        (("workloads", 0, "inner", "deep"), 27),
        (("workloads", 1, "name"), 29),
        (("workloads", 1, "after"), 31),
        (("workloads", 1, "missing"), 28),
        (("workloads", 2), 24),
        (("odd ] name", "x.y", "key"), 33),
        (("no", "such", "table"), 1),
    ],
)
def test_every_key_is_found(path: tuple[str | int, ...], line: int) -> None:
    assert line_of(locate_keys(TEXT), path) == line


def test_what_looks_like_a_key_within_a_value_is_none() -> None:
    found = locate_keys(TEXT)
    assert not {("not",), ("not_a_key",), ("also_no_key",), ("a",)} & found.keys()


def test_windows_line_ends_count_once() -> None:
    assert locate_keys("a = 1\r\nb = [\r\n1]\r\nc = 2\r\n")[("c",)] == 4


@pytest.mark.parametrize("text", ["", "=", "[", '"', "[[a]", "a = '''", "\x00", 'a = """' * 1000, "[" * 5000])
def test_a_text_that_is_no_toml_is_survived(text: str) -> None:
    assert locate_keys(text)[()] == 1


def test_a_large_file_is_read_once() -> None:
    """In quadratic time it would run into the limit of every test."""
    text = "".join(f'[t{number}]\nkey = ["a", {{ b = "c" }}] # comment\n' for number in range(20_000))
    assert locate_keys(text)[("t19999", "key")] == 40_000
