"""What is read from a guest's console."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest
import pytest_asyncio

from nearmetal.errors import ToolFailed
from nearmetal.lab.commands import background_commands
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu.console import LINES, MOST, Console
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import HostSpec, Site
from tests.ssh_server import CLIENT, serving

MIB = 2**20
UP = b"nearmetal-agent: listening on 10.0.2.15:1022\r\n"
PANIC = b"[    1.2] Kernel panic - not syncing: No working init found.\r\n"


@pytest_asyncio.fixture(params=["local", "far"])
async def site(request: pytest.FixtureRequest) -> AsyncIterator[Site]:
    if request.param == "local":
        yield LocalSite()
        return
    async with serving() as server:
        far = SshSite("far", HostSpec(ssh="root@127.0.0.1"), lambda text: None)
        far._connection = await asyncssh.connect(
            "127.0.0.1", server.get_port(), username="root", client_keys=[CLIENT], known_hosts=None, config=None
        )
        yield far
        await far.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a console"


def write(file: Path, *pieces: bytes) -> None:
    with file.open("ab") as more:
        more.write(b"".join(pieces))


async def looked(console: Console, times: int = 1) -> tuple[bool, bool]:
    for _ in range(times):
        await console.look()
    return console.is_up, console.has_panicked


async def test_a_console_that_is_not_there_yet_says_nothing(site: Site, file: Path) -> None:
    console = Console(site, str(file))
    assert await looked(console) == (False, False)
    assert (await console.tail()).endswith("(nothing)")
    await console.forget()
    write(file, UP)
    assert await looked(console) == (True, False)


async def test_one_that_cannot_be_read_is_not_taken_for_one_that_says_nothing(site: Site, tmp_path: Path) -> None:
    console = Console(site, str(tmp_path))
    with pytest.raises(ToolFailed, match=r"cannot read .*: .*Is a directory") as told:
        await console.look()
    assert told.value.where == site.name
    assert "Is a directory" in await console.tail()


async def test_only_what_comes_after_a_restart_counts(site: Site, file: Path) -> None:
    console = Console(site, str(file))
    write(file, UP, PANIC)
    assert await looked(console) == (True, True)
    await console.forget()
    assert await looked(console) == (False, False)
    write(file, UP)
    assert await looked(console) == (True, False)


async def test_a_long_console_is_read_by_and_by(site: Site, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_commands, "MOST", 2 * MIB)  # of what a program on another host may print
    console = Console(site, str(file))
    write(file, bytes(3 * MIB), UP, PANIC)
    assert await looked(console) == (False, False)
    assert await looked(console, 3) == (True, True)
    assert PANIC.decode().strip() in await console.tail()
    await console.forget()
    assert await looked(console, 4) == (False, False)


async def test_a_look_reads_once_and_no_more_than_is_new(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    class Counting(LocalSite):
        async def part(self, path: str, begin: int, most: int) -> bytes:
            read.append(len(piece := await super().part(path, begin, most)))
            return piece

        async def get(self, path: str) -> bytes:
            raise AssertionError("all of it")

    console = Console(Counting(), str(file))
    write(file, bytes(MIB + 5))
    await looked(console, 3)
    write(file, bytes(7))
    await looked(console)
    assert read == [MIB, 5, 0, 7]


@pytest.mark.parametrize("text", [UP, PANIC])
async def test_what_a_look_has_half_of_is_found_by_the_next(text: bytes, file: Path) -> None:
    for cut in range(1, len(text)):
        file.unlink(missing_ok=True)
        console = Console(LocalSite(), str(file))
        write(file, b"booting\r\n", text[:cut])
        await looked(console)
        write(file, text[cut:])
        assert await looked(console) == (text == UP, text == PANIC), cut


async def test_the_tail_is_the_last_lines_without_empty_ones(site: Site, file: Path) -> None:
    write(file, b"".join(b"line %d\r\n\r\n" % number for number in range(40)), b"\xff")
    lines = (await Console(site, str(file)).tail()).splitlines()
    assert len(lines) == LINES + 1
    assert lines[-2:] == ["  line 39", "  �"]


@pytest.mark.parametrize(("frames", "is_seen"), [(40, False), (40, True), (20_000, True)])
async def test_of_a_panic_the_tail_is_what_says_why(frames: int, is_seen: bool, file: Path) -> None:
    """However much the guest says afterwards, where the panic was seen when it came."""
    console = Console(LocalSite(), str(file))
    write(file, b"booting\r\n", PANIC)
    if is_seen:
        await looked(console)
    write(file, *(b"[    1.3]  frame %d\r\n" % number for number in range(frames)))
    lines = (await console.tail()).splitlines()
    assert len(lines) == LINES + 1
    assert lines[1:3] == [f"  {PANIC.decode().strip()}", "  [    1.3]  frame 0"]


async def test_what_led_to_a_panic_is_told_with_it(file: Path) -> None:
    fault = b"[    1.0] BUG: kernel NULL pointer dereference, address: 000000000000000a\r\n"
    place = b"[    1.1] RIP: 0010:acpi_ds_init_aml_walk+0xd6/0x130\r\n"
    frames = b"".join(b"[    1.1]  frame %d\r\n" % number for number in range(40))
    end = PANIC.replace(b"Kernel panic", b"---[ end Kernel panic")
    write(file, b"booting\r\n", fault, place, frames, PANIC, end)
    told = [fault, place, PANIC, end]
    assert (await Console(LocalSite(), str(file)).tail()).splitlines()[1:] == [
        f"  {line.decode().strip()}" for line in told
    ]


async def test_of_a_flood_its_begin_and_its_end_take_room(site: Site, file: Path) -> None:
    """And who reads on finds what comes next where it was."""
    console = Console(site, str(file))
    write(file, b"[    0.0] Linux version 6.1\r\n", b"flood\r\n" * (2 * MOST // 7))
    await console.forget()
    size = file.stat().st_size
    await console.bound()
    write(file, UP, b"the end\r\n")
    assert file.stat().st_size == size + len(UP) + 9
    assert file.stat().st_blocks * 512 <= 3 * MIB
    with file.open("rb") as kept:
        assert kept.read(9) == b"[    0.0]"
    assert await looked(console) == (True, False)
    assert (await console.tail()).endswith("the end")


async def test_one_that_is_no_flood_is_kept_whole(site: Site, file: Path) -> None:
    write(file, b"x" * (MOST - 4096))
    await Console(site, str(file)).bound()
    assert file.read_bytes() == b"x" * (MOST - 4096)
    await Console(site, f"{file} that is not there").bound()


async def test_of_a_panic_that_a_flood_followed_what_is_left_is_told(file: Path) -> None:
    console = Console(LocalSite(), str(file))
    write(file, b"y\n" * MIB, PANIC)
    await looked(console, 3)
    write(file, b"flood\r\n" * (2 * MOST // 7))
    await console.bound()
    assert console.has_panicked
    assert (await console.tail()).endswith("flood")
