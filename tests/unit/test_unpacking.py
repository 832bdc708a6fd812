"""What a machine sends is unpacked without the rights, the devices and the ways out that it may hold."""

import io
import os
import stat
import tarfile
from pathlib import Path

import pytest

from nearmetal.by_hand.copying import unpack_archive
from nearmetal.errors import HostCannot


def member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.linkname, made.uid, made.uname = kind, mode, link, 65534, "nobody"
    return made


def stream(*members: tarfile.TarInfo) -> io.BytesIO:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for one in members:
            archive.addfile(one)
    return io.BytesIO(written.getvalue())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    return place


def test_permissions_stay_but_nobody_becomes_somebody_else(place: Path) -> None:
    sent = stream(
        member("d", tarfile.DIRTYPE, 0o3557),
        member("d/f", mode=0o6751),
        member("d/h", tarfile.LNKTYPE, 0o6751, "d/f"),
        member("d/l", tarfile.SYMTYPE, 0o777, "/etc/passwd"),
    )
    assert unpack_archive(sent, place)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in place.rglob("*")}
    assert modes == {"d": 0o557, "f": 0o751, "h": 0o751, "l": 0o777}
    assert all(path.lstat().st_uid == os.geteuid() for path in place.rglob("*"))
    assert (place / "d/l").readlink() == Path("/etc/passwd")
    assert (place / "d/h").samefile(place / "d/f")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_named_and_not_made(place: Path, kind: bytes) -> None:
    with pytest.raises(HostCannot, match=r"not copied: d/odd"):
        unpack_archive(stream(member("d/odd", kind)), place)
    assert not list(place.rglob("odd"))


@pytest.mark.parametrize(
    "sent",
    [
        [member("../out")],
        [member("/out")],
        [member("l", tarfile.SYMTYPE, link="{outside}"), member("l/out")],
        [member("l", tarfile.SYMTYPE, link="{outside}/out"), member("l")],
        [member("h", tarfile.LNKTYPE, link="../there"), member("h")],
        [member("l", tarfile.SYMTYPE, link="{outside}"), member("h", tarfile.LNKTYPE, link="l/there"), member("h")],
    ],
)
def test_nothing_is_written_outside(place: Path, sent: list[tarfile.TarInfo]) -> None:
    inside = place / "inside"
    inside.mkdir()
    (place / "there").write_bytes(b"as it was")
    for one in sent:
        one.linkname = one.linkname.replace("{outside}", str(place))
    with pytest.raises(HostCannot, match=r"leads out|by way of a link"):
        unpack_archive(stream(*sent), inside)
    assert sorted(path.name for path in place.iterdir()) == ["inside", "there"]
    assert (place / "there").stat().st_nlink == 1


def test_nothing_is_written_by_way_of_links_to_what_is_too_long_to_look_at(place: Path) -> None:
    """By short names of links the kernel finds what has no path that it takes, and what is above it (CVE-2025-4517)."""
    inside = place / "inside"
    inside.mkdir()
    (place / "there").mkdir()
    (place / "there" / "file").write_bytes(b"as it was")
    long, links = "d" * 247, "abcdefghijklmnop"
    sent = []
    for depth, link in enumerate(links):
        above = f"{long}/" * depth
        sent += [member(above + long, tarfile.DIRTYPE, 0o755), member(above + link, tarfile.SYMTYPE, link=long)]
    far = "/".join(links) + "/" + "l" * 254
    sent += [
        member(far, tarfile.SYMTYPE, link="../" * len(links)),
        member("escape", tarfile.SYMTYPE, link=f"{far}/../there"),
        member("escape/file"),
    ]
    with pytest.raises(HostCannot, match="by way of a link"):
        unpack_archive(stream(*sent), inside)
    assert (place / "there" / "file").read_bytes() == b"as it was"


def test_what_cannot_be_looked_at_is_refused(place: Path) -> None:
    deep = ["/".join(["d" * 250] * depth) for depth in range(1, 20)]
    with pytest.raises(OSError, match="too long"):
        unpack_archive(stream(*[member(name, tarfile.DIRTYPE, 0o755) for name in deep]), place)


def test_links_that_have_two_names_are_copied(place: Path) -> None:
    """As `cp -al` makes them."""
    sent = stream(
        member("d", tarfile.DIRTYPE, 0o755),
        member("d/l", tarfile.SYMTYPE, link="/etc/passwd"),
        member("d/h", tarfile.LNKTYPE, link="d/l"),
        member("d/m", tarfile.SYMTYPE, link="nowhere"),
        member("d/n", tarfile.LNKTYPE, link="d/m"),
    )
    assert unpack_archive(sent, place)
    assert (place / "d/h").readlink() == Path("/etc/passwd")
    assert (place / "d/n").readlink() == Path("nowhere")


def test_permissions_are_not_set_by_a_second_name_of_a_link(place: Path) -> None:
    there = place / "there"
    there.touch(0o600)
    inside = place / "inside"
    inside.mkdir()
    link = member("l", tarfile.SYMTYPE, link="../there")
    assert unpack_archive(stream(link, member("h", tarfile.LNKTYPE, 0o777, link="l")), inside)
    assert stat.S_IMODE(there.stat().st_mode) == 0o600


def test_what_is_cut_off_is_told(place: Path) -> None:
    whole = member("f")
    whole.size = 100_000
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        archive.addfile(whole, io.BytesIO(b"x" * 100_000))
    assert not unpack_archive(io.BytesIO(written.getvalue()[:50_000]), place)
    assert not unpack_archive(io.BytesIO(b""), place)
    assert not unpack_archive(io.BytesIO(b"no archive" * 1000), place)
