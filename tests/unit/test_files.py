"""Files are as before or complete, and leave nothing of how they were written."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmetal.lab.changes.ledger import held
from nearmetal.store.journal import Journal
from nearmetal.system import files

Write = Callable[[Path, bytes], None]

both = pytest.mark.parametrize("write", [files.write_whole, files.replace_file])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With nothing in it."""
    made = tmp_path / "folder"
    made.mkdir()
    return made


@both
def test_what_was_there_is_replaced(folder: Path, write: Write) -> None:
    file = folder / "file"
    for content in (b"first", b"2nd"):
        write(file, content)
        assert file.read_bytes() == content
    assert list(folder.iterdir()) == [file]


@both
def test_what_cannot_take_its_place_is_named_and_gone(folder: Path, write: Write) -> None:
    taken = folder / "taken"
    (taken / "not empty").mkdir(parents=True)
    with pytest.raises(OSError) as caught:
        write(taken, b"content")
    assert caught.value.filename
    assert list(folder.iterdir()) == [taken]


@both
def test_a_link_in_the_place_of_what_is_unfinished_is_not_followed(
    folder: Path, tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder of somebody else's it would lead root anywhere."""
    there = tmp_path / "there"
    there.write_bytes(b"as it was")
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    for ending in (os.getpid(), "guessed"):
        (folder / f".file.{ending}").symlink_to(there)
    with pytest.raises(FileExistsError):
        write(folder / "file", b"content")
    assert there.read_bytes() == b"as it was"


@both
def test_it_may_be_read_as_any_other_file(folder: Path, write: Write) -> None:
    (folder / "other").touch()
    write(folder / "file", b"content")
    assert (folder / "file").stat().st_mode == (folder / "other").stat().st_mode


@both
def test_of_many_one_claims(folder: Path, write: Write) -> None:
    file = folder / "file"
    contents = [f"{number}" * 4096 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda content: files.claim_file(file, content.encode()), contents))
    assert won.count(True) == 1
    assert file.read_text() == contents[won.index(True)]
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(folder.iterdir()) == [file]
    write(file, b"replaced")
    assert not files.claim_file(file, b"late")
    assert file.read_bytes() == b"replaced"


# ── What a power cut leaves ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """What was brought to the disk, in its order."""
    told: list[Path] = []
    real = os.fsync

    def note(descriptor: int) -> None:
        told.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return told


def test_a_file_is_on_disk_before_its_name_and_so_is_every_folder_made_for_it(
    tmp_path: Path, synced: list[Path]
) -> None:
    files.write_whole(tmp_path / "artifacts" / "trial" / "load.json", b"content")
    folders, (file, last) = synced[:-2], synced[-2:]
    assert folders == [tmp_path, tmp_path / "artifacts"]
    assert file.name.startswith(".load.json.") and last == tmp_path / "artifacts" / "trial"


def test_a_new_journal_has_its_name_on_disk_before_its_first_line(tmp_path: Path, synced: list[Path]) -> None:
    path = tmp_path / "journal.jsonl"
    for before in ([tmp_path], []):  # when it goes on, the name is there
        synced.clear()
        journal = Journal(path)
        assert synced == before
        journal.append_line({"one": 1})
        assert synced == [*before, path]
        journal.close()


def test_lines_that_something_else_keeps_wait_for_the_disk_once(tmp_path: Path, synced: list[Path]) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    synced.clear()
    with journal.syncing_once():
        for number in range(3):
            journal.append_line({"one": number})
        assert synced == []
    assert synced == [path]
    with journal.syncing_once():
        pass
    assert synced == [path], "nothing is to be waited for"
    journal.append_line({"one": 3})
    assert synced == [path, path]
    journal.close()


def test_a_disk_that_fails_cuts_all_lines_that_something_else_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.jsonl"
    journal = Journal(path)
    journal.append_line({"one": 1})
    before = path.read_bytes()

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"journal\.jsonl"), journal.syncing_once():
        journal.append_line({"one": 2})
        journal.append_line({"one": 3})
    assert path.read_bytes() == before
    journal.close()


def test_a_new_ledger_has_its_name_and_its_folders_on_disk_before_its_first_line(
    tmp_path: Path, synced: list[Path]
) -> None:
    path = tmp_path / "state" / "ledgers" / "one.jsonl"
    with held(path):
        assert synced == [tmp_path, tmp_path / "state", path.parent, path]


def test_who_removes_a_file_removes_what_killed_writers_had_begun(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    whole, others = folder / "one.json", folder / ".one.jsonl.0123abcd"
    for path in (whole, folder / ".one.json.0123abcd", others):
        path.write_text("")
    files.remove_file(whole)
    files.remove_file(whole)
    assert list(folder.iterdir()) == [others]
