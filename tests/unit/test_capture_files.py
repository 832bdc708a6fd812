"""What bounds a capture, a ring's two files as one, a tcpdump that does not begin, and who may read what it writes."""

import os
import stat
import struct
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import CaptureSpec, Completed
from nearmetal.observers.capture.taps import CaptureLimit, JoinedCapture, Tap, join_captures

MIB = 2**20


def capture(*times: int, order: str = "<", cut: int = 0) -> bytes:
    """With a packet of four bytes for each time."""
    header = struct.pack(f"{order}IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 128, 1)
    packets = b"".join(struct.pack(f"{order}IIII", time, 7, 4, 60) + b"abcd" for time in times)
    return (header + packets)[: len(header + packets) - cut]


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_ring_is_put_together_by_time(order: str) -> None:
    whole = join_captures([capture(5, 6, order=order), capture(3, 4, order=order)])
    assert whole == JoinedCapture(capture(3, 4, 5, 6, order=order), 4)


def test_a_packet_that_is_cut_ends_its_file_and_not_the_capture() -> None:
    assert join_captures([capture(1, 2, cut=3), capture(3)]) == JoinedCapture(capture(1, 3), 2)


def test_a_file_without_a_packet_adds_nothing() -> None:
    assert join_captures([capture(1), capture()]) == JoinedCapture(capture(1), 1)
    assert join_captures([b"", capture(1)]) == JoinedCapture(capture(1), 1)
    assert join_captures([b"", b""]) == JoinedCapture(b"", 0)


@pytest.mark.parametrize("limit", [3 * MIB, 64 * MIB, 4096 * MIB])
@pytest.mark.parametrize("snap", [64, 128, 262_144])
def test_both_files_of_a_ring_stay_below_the_limit(limit: int, snap: int) -> None:
    each = CaptureLimit.from_setting(CaptureSpec(limit=limit, snap=snap, ring=True)).each
    assert each >= 1
    # tcpdump looks at a file's length before it writes a packet.
    assert 2 * (each * 1_000_000 + 16 + snap) <= limit


def test_tcpdump_is_told_how_to_stop_or_to_take_turns() -> None:
    ended = CaptureLimit.from_setting(CaptureSpec(limit=MIB, snap=112))
    assert (ended.words, ended.list_files("f")) == (["-c", "8192"], ["f"])
    ring = CaptureLimit.from_setting(CaptureSpec(ring=True))
    assert (ring.words, ring.list_files("f")) == (["-C", "33", "-W", "2"], ["f0", "f1"])


class Without:
    """Commands of a machine that has no tcpdump: what is started there ends at once, and no file appears."""

    async def exec(self, argv: Sequence[str]) -> Completed:
        return Completed(status=1 if argv[0] == "cat" else 0)

    async def spawn(self, argv: Sequence[str]) -> "Without":
        return self

    async def wait(self, timeout: float) -> Completed:
        return await self.stop()

    async def stop(self) -> Completed:
        return Completed(status=127, stderr=b"tcpdump: not found")


async def test_a_tcpdump_that_ends_at_once_is_not_waited_for() -> None:
    tap = Tap(Without(), (), "data", "/tmp/f.pcap", 128, CaptureLimit.from_setting(CaptureSpec()), "box")  # type: ignore[arg-type]
    await tap.start()
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="tcpdump took nothing: tcpdump: not found"):
        await tap.wait_listening()
    assert time.monotonic() - began < 2


class Listening:
    """Commands of a machine whose tcpdump takes 6 ms to start, and 2 ms while it listens."""

    def __init__(self) -> None:
        self._used = iter(("6000000 10 3", "8000000 20 9"))

    async def exec(self, argv: Sequence[str]) -> Completed:
        if argv[0] == "pgrep":
            return Completed(status=0, stdout=b"77\n")
        return Completed(status=0, stdout=next(self._used).encode() if argv[-1] == "/proc/77/schedstat" else b"")

    async def spawn(self, argv: Sequence[str]) -> "Listening":
        return self

    async def get(self, path: str) -> bytes:
        return capture(1)

    async def stop(self) -> Completed:
        return Completed(status=0, stderr=b"1 packet captured")


async def test_what_tcpdump_took_to_start_is_not_what_listening_cost() -> None:
    tap = Tap(Listening(), (), "data", "/tmp/f.pcap", 128, CaptureLimit.from_setting(CaptureSpec()), "box")  # type: ignore[arg-type]
    await tap.start()
    await tap.wait_listening()
    assert (await tap.stop()).counters["cpu"] == 0.002


@pytest.fixture
def tap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tap:
    """Of a tcpdump that writes what it is to write, as anybody's file, and goes on."""
    program = tmp_path / "bin" / "tcpdump"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\numask 022\n"
        'for word; do case $last in -w) echo packets >"$word";; esac; last=$word; done\n'
        "exec sleep 60\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    file = tmp_path / "tmp" / "box-capture" / "box.pcap"
    file.parent.parent.mkdir()
    return Tap(LocalSite(), (), "data", str(file), 128, CaptureLimit.from_setting(CaptureSpec()), "box")


async def test_nobody_else_can_read_a_capture(tap: Tap) -> None:
    await tap.start()
    await tap.wait_listening()
    folder = Path(tap.file).parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (await tap.stop()).content == b"packets\n"
    assert not folder.exists()


async def test_what_others_laid_where_a_capture_goes_is_not_written_to(tap: Tap, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "box.pcap").write_text("theirs")
    folder = Path(tap.file).parent
    folder.symlink_to(theirs)
    await tap.start()
    await tap.wait_listening()
    assert (theirs / "box.pcap").read_text() == "theirs" and not folder.is_symlink()
    await tap.drop()


class Quicker(Without):
    """Where somebody lays a folder of his again while ours is being made."""

    async def exec(self, argv: Sequence[str]) -> Completed:
        if argv[0] == "mkdir":
            return Completed(status=1, stderr=b"mkdir: cannot create directory: File exists")
        return Completed(status=0)

    async def spawn(self, argv: Sequence[str]) -> "Quicker":
        raise AssertionError("it captures into another's folder")


async def test_in_the_folder_of_another_nothing_is_captured() -> None:
    tap = Tap(Quicker(), (), "data", "/tmp/box/f.pcap", 128, CaptureLimit.from_setting(CaptureSpec()), "box")  # type: ignore[arg-type]
    with pytest.raises(ToolFailed, match="File exists"):
        await tap.start()
