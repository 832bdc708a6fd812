"""Study files of a size or shape that no study has: each is refused, or read, within bounds of memory and of time."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.planning.opened_study import read_study
from nearmetal.study.error_messages import DEEPEST
from nearmetal.study.line_numbers import line_of_deeper
from tests.unit.study_text import refused

MEMORY = 400 * 2**20
"""Bytes of address space, of which Python and what it imports take half."""
CPU = 20
"""Seconds: hundreds of times what any of these takes, a seventh of what the worst took."""
DEEP = ".".join("a" * 40_000)
HOSTILE = {
    "key": f"{DEEP} = 1",
    "header": f"[{DEEP}]",
    "entries": f"[[{DEEP}]]",
    "inline": f"x = {{{DEEP} = 1}}",
    "quoted": ".".join(['"a"'] * 20_000) + " = 1",
    "literal": ".".join(["'a'"] * 20_000) + " = 1",
    "spaces": ".".join(["a" + " " * 99] * 800) + " = 1",
    "cut": "a." * 40_000,
    "long": "a" * 80_000,
    "quotes": '"' * 80_001,
    "escapes": '"' + "\\" * 80_001,
    "triples": '"""a' * 20_001,
    "arrays": "x = " + "[" * 40_000,
    "tables": "x = " + "{a=" * 20_000,
}
READ = """
import json, os, resource, sys
from nearmetal.study import study_file as study
from nearmetal.errors import BadInput

for name, text in json.load(sys.stdin).items():
    if child := os.fork():
        print(name, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        continue
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
    resource.setrlimit(resource.RLIMIT_CPU, ({cpu}, {cpu}))
    try:
        study.read(text, "s.toml")
    except BadInput as error:
        print(error.where, flush=True)
    os._exit(0)
"""


def test_no_80_kilobytes_take_much_memory_or_time() -> None:
    """Each in a process of its own, which need not import."""
    argv = [sys.executable, "-c", READ.format(memory=MEMORY, cpu=CPU)]
    ended = subprocess.run(argv, input=json.dumps(HOSTILE), capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [line for name in HOSTILE for line in ("s.toml:1", f"{name} 0")]


def test_a_key_of_too_many_parts_is_told_with_its_line() -> None:
    told = refused("\n\n" + ".".join("a" * (DEEPEST + 1)) + " = 1")
    assert told.where == "s.toml:3" and f"nested more than {DEEPEST} deep" in told.what


@pytest.mark.parametrize(
    "text",
    [
        "# {}",
        'key = "{}"',
        "key = '{}'",
        'key = """\n{}"""',
        "key = '''\n{}'''",
        'key = "\\"{}"',
        "{0} = 1\n{0} = 1".format(".".join("a" * DEEPEST)),
    ],
)
def test_dots_that_are_no_key_are_text(text: str) -> None:
    assert line_of_deeper(text.replace("{}", ".".join("a" * 100)), DEEPEST) is None


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda place: place.symlink_to("/dev/zero"), "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda place: place.write_bytes(b"#" * (16 * 2**20 + 1)), "longer than 16 MiB"),
    ],
    ids=["zero", "fifo", "large"],
)
def test_what_does_not_end_is_no_study(make: Callable[[Path], object], what: str, tmp_path: Path) -> None:
    place = tmp_path / "study.toml"
    make(place)
    with pytest.raises(BadInput, match=what):
        read_study(str(place))
