"""What is read from a guest's console."""

from pathlib import Path

from nearmetal.lab.qemu.console import LINES, Console
from nearmetal.lab.site import LocalSite


async def test_a_console_that_is_not_there_yet_says_nothing(tmp_path: Path) -> None:
    console = Console(LocalSite(), str(tmp_path / "console"))
    assert not await console.is_up()
    assert not await console.has_panicked()
    assert (await console.tail()).endswith("(nothing)")


async def test_only_what_comes_after_a_restart_counts(tmp_path: Path) -> None:
    file = tmp_path / "console"
    file.write_text("nearmetal-agent: listening on 10.0.2.15:1022\r\n")
    console = Console(LocalSite(), str(file))
    assert await console.is_up()
    await console.forget()
    assert not await console.is_up()
    with file.open("a") as more:
        more.write("nearmetal-agent: listening on 10.0.2.15:1022\r\n")
    assert await console.is_up()


async def test_a_panic_is_seen(tmp_path: Path) -> None:
    (tmp_path / "console").write_text("[    1.2] Kernel panic - not syncing: No working init found.\r\n")
    assert await Console(LocalSite(), str(tmp_path / "console")).has_panicked()


async def test_the_tail_is_the_last_lines_without_empty_ones(tmp_path: Path) -> None:
    (tmp_path / "console").write_bytes(b"".join(b"line %d\r\n\r\n" % number for number in range(40)) + b"\xff")
    lines = (await Console(LocalSite(), str(tmp_path / "console")).tail()).splitlines()
    assert len(lines) == LINES + 1
    assert lines[-2:] == ["  line 39", "  �"]


async def test_of_a_panic_the_tail_is_what_says_why(tmp_path: Path) -> None:
    trace = "".join(f"[    1.3]  frame {number}\r\n" for number in range(40))
    (tmp_path / "console").write_text(f"booting\r\n[    1.2] Kernel panic - not syncing: why\r\n{trace}")
    lines = (await Console(LocalSite(), str(tmp_path / "console")).tail()).splitlines()
    assert len(lines) == LINES + 1
    assert lines[1] == "  [    1.2] Kernel panic - not syncing: why"
