"""The archive of an initial RAM disk, read back by a reader that is not ours."""

import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.image import newc
from nearmetal.lab.image.initrd import seed_archive

BUSYBOX = shutil.which("busybox")


def unpack(archive: bytes, folder: Path) -> None:
    assert BUSYBOX is not None
    subprocess.run([BUSYBOX, "cpio", "-idm"], input=archive, cwd=folder, check=True, capture_output=True)


@pytest.mark.skipif(BUSYBOX is None, reason="no busybox to read the archive with")
def test_another_reader_finds_names_contents_and_permissions(tmp_path: Path) -> None:
    unpack(
        newc.archive(
            [
                newc.folder("bin"),
                newc.regular("bin/tool", b"abc", 0o755),
                newc.link("bin/alias", "tool"),
                newc.regular("empty", b"", 0o600),
            ]
        ),
        tmp_path,
    )
    assert (tmp_path / "bin/tool").read_bytes() == b"abc"
    assert (tmp_path / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "bin/alias").readlink() == Path("tool")
    assert (tmp_path / "empty").read_bytes() == b""
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(BUSYBOX is None, reason="no busybox to read the archive with")
def test_a_seed_lies_below_its_folder_with_the_folders_it_needs(tmp_path: Path) -> None:
    unpack(seed_archive({"a/b/key": (b"secret", 0o600), "nearmetal-probe": (b"\x7fELF", 0o755)}), tmp_path)
    assert (tmp_path / "seed/a/b/key").read_bytes() == b"secret"
    assert (tmp_path / "seed/a/b/key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "seed/nearmetal-probe").stat().st_mode & 0o777 == 0o755


def test_archives_can_follow_each_other() -> None:
    one = newc.archive([newc.regular("odd", b"12345")])
    assert len(one) % 4 == 0
    assert b"TRAILER!!!" in one


def test_the_same_files_make_the_same_archive_whatever_their_order() -> None:
    first = {"b": (b"2", 0o644), "a": (b"1", 0o644)}
    second = dict(reversed(first.items()))
    assert seed_archive(first) == seed_archive(second)


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "", "."])
def test_a_seed_cannot_lead_outside(name: str) -> None:
    with pytest.raises(BadInput, match="no path below"):
        seed_archive({name: (b"", 0o644)})


def test_a_file_of_an_archive_is_found_whatever_is_before_and_after_it() -> None:
    files = {f"a/{'n' * length}": (bytes(length), 0o644) for length in range(1, 9)}
    archive = newc.archive(newc.with_folders({**files, "z/last": (b"last", 0o600)}))
    assert newc.content(archive, "z/last") == b"last"
    for name, (content, _) in files.items():
        assert newc.content(archive + archive, name) == content
    for missing in ("", "last", "TRAILER!!!"):
        with pytest.raises(KeyError):
            newc.content(archive, missing)
