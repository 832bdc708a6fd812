"""A file is read as it grows: whole lines alone, each once, and from its beginning when it is another."""

import os
from pathlib import Path

import pytest

from nearmetal.dashboard.file_follower import Follower


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run" / "journal.jsonl"


@pytest.fixture
def follower(file: Path) -> Follower:
    file.parent.mkdir()
    return Follower(file)


def append(file: Path, text: str) -> None:
    with file.open("a") as out:
        out.write(text)


def test_a_last_line_is_waited_for_until_it_is_whole(file: Path, follower: Follower) -> None:
    assert follower.read().lines == ()
    append(file, "one\ntwo\nthr")
    assert follower.has_changed()
    assert list(follower.read().lines) == [b"one", b"two"]
    assert not follower.has_changed()
    assert list(follower.read().lines) == []
    append(file, "ee")
    assert list(follower.read().lines) == []
    append(file, "\nfour\n")
    growth = follower.read()
    assert list(growth.lines) == [b"three", b"four"]
    assert not growth.anew


def test_a_torn_line_that_the_next_writer_cuts_off_is_no_new_beginning(file: Path, follower: Follower) -> None:
    append(file, "one\ntorn")
    follower.read()
    os.truncate(file, 4)
    append(file, "two\n")
    growth = follower.read()
    assert (list(growth.lines), growth.anew) == ([b"two"], False)


def test_another_file_in_its_place_is_read_from_its_beginning(file: Path, follower: Follower) -> None:
    append(file, "one\n")
    follower.read()
    other = file.with_name("other")
    other.write_text("uno\ndue\n")
    other.replace(file)
    growth = follower.read()
    assert (list(growth.lines), growth.anew) == ([b"uno", b"due"], True)


def test_a_file_cut_short_is_another(file: Path, follower: Follower) -> None:
    append(file, "one\ntwo\n")
    follower.read()
    file.write_text("new\n")
    growth = follower.read()
    assert (list(growth.lines), growth.anew) == ([b"new"], True)


def test_what_is_gone_is_told_once_and_may_come_back(file: Path, follower: Follower) -> None:
    append(file, "one\n")
    follower.read()
    file.unlink()
    file.parent.rmdir()
    assert follower.has_changed()
    assert follower.read().anew
    assert not follower.has_changed()
    assert not follower.read().anew
    file.parent.mkdir()
    append(file, "again\n")
    assert list(follower.read().lines) == [b"again"]


def test_lines_end_where_the_journal_ends_them_and_nowhere_else(file: Path, follower: Follower) -> None:
    append(file, "a\rb\x0bc\u2028d\n")
    assert list(follower.read().lines) == ["a\rb\x0bc\u2028d".encode()]
