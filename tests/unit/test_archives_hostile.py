"""Hostile archives, by a generator: each is taken, or refused by an error that is declared, and none writes elsewhere.

`NEARMETAL_TARS` is their number, for more than a test has time for.
"""

import io
import json
import os
import random
import tarfile
from pathlib import Path

import pytest

from nearmetal.by_hand.copying import unpack_archive
from nearmetal.errors import HostCannot
from nearmetal.lab.containers.image import check_image

NUMBER = int(os.environ.get("NEARMETAL_TARS", "150"))
NAMES = [
    *("a", "b", "a/b", "d/a", "..", "../out", "/tmp/nm-out", "a/../../out", ".", "", "x" * 300, "\x00", "a\nb"),
    *("\udcff", "d", "d/", "manifest.json", "config.json", "layer.tar", "a/" * 2000),
]
KINDS = [*b"01234567SLKxgX\x00\xff"]
NUMBERS = [
    b"0" * 11 + b"\x00",
    b"7" * 11 + b"\x00",
    b"\x80" + b"\xff" * 11,
    b"\xff" * 12,
    b"-0000000001\x00",
    b"rubbish",
]
PAX = [
    *({"path": "../out"}, {"size": "-1"}, {"size": "99999999999999999999"}, {"mtime": "nan"}, {"mtime": "1e999"}),
    *({"linkpath": "a"}, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, {"GNU.sparse.map": "0,1,x"}),
    *({"GNU.sparse.size": "rubbish"}, {"uid": "-1"}, {"hdrcharset": "BINARY"}, {"path": "\x00"}, {"mtime": "-1e300"}),
]


def whole(chance: random.Random) -> bytes:
    """An image's archive with more in it."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=chance.choice([0, 1, 2]), errors="surrogateescape") as archive:
        documents = {
            "manifest.json": json.dumps([{"Config": "config.json", "Layers": ["layer.tar"]}]),
            "config.json": json.dumps({"architecture": "amd64"}),
            "layer.tar": "x" * 600,
        }
        for name, text in documents.items():
            made = tarfile.TarInfo(name)
            made.size = len(text)
            archive.addfile(made, io.BytesIO(text.encode()))
        for _ in range(chance.randrange(8)):
            made = tarfile.TarInfo(chance.choice(NAMES))
            made.type = bytes([chance.choice(KINDS)])
            made.linkname, made.mode = chance.choice(NAMES), chance.randrange(0o7777)
            made.mtime = chance.choice([0, 2**40, -1, 1e18])
            made.pax_headers = chance.choice(PAX) if chance.random() < 0.3 else {}
            try:
                archive.addfile(made)
            except (ValueError, UnicodeError, OverflowError):  # this format has no such thing
                continue
    return written.getvalue()


def spoiled(content: bytes, chance: random.Random) -> bytes:
    """With some of it wrong; numbers in headers rather than anything, and mostly with checksums that are right."""
    data = bytearray(content)
    for _ in range(chance.randrange(4)):
        header = chance.randrange(max(1, len(data) // 512)) * 512
        match chance.randrange(4):
            case 0:
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            case 1:
                at = header + chance.choice([100, 108, 116, 124, 136])
                data[at : at + 12] = chance.choice(NUMBERS).ljust(12, b"\x00")
            case 2:
                data[header + 156 : header + 157] = bytes([chance.choice(KINDS)])
            case _:
                del data[chance.randrange(len(data)) :]
                data += bytes(chance.randrange(2000))
        if chance.random() < 0.8 and len(data) >= header + 512:
            data[header + 148 : header + 156] = b" " * 8
            data[header + 148 : header + 156] = f"{sum(data[header : header + 512]):06o}\x00 ".encode()
    return bytes(data)


@pytest.fixture
def archives() -> list[bytes]:
    chance = random.Random(38)
    return [spoiled(whole(chance), chance) for _ in range(NUMBER)]


def test_what_a_machine_sends_is_unpacked_or_refused(archives: list[bytes], tmp_path: Path) -> None:
    places = tmp_path / "places"
    for number, content in enumerate(archives):
        place = places / str(number)
        place.mkdir(parents=True)
        try:
            unpack_archive(io.BytesIO(content), place)
        except (HostCannot, OSError):
            pass
        except Exception as error:
            raise AssertionError(f"archive {number}") from error
    assert sorted(path.name for path in places.iterdir()) == sorted(map(str, range(NUMBER)))
    assert not Path("/tmp/nm-out").exists()


def test_what_is_named_as_an_image_is_one_or_is_told(archives: list[bytes], tmp_path: Path) -> None:
    file = tmp_path / "image.tar"
    for number, content in enumerate(archives):
        file.write_bytes(content)
        try:
            found = check_image(None, str(file), "x86_64", "docker")
        except Exception as error:
            raise AssertionError(f"archive {number}") from error
        assert found.ok or (found.detail and found.remedy)
