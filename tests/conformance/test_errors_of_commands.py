"""Whatever runs commands fails in the same words: a caller need not know whether it is this host or a far one."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal import plugins
from nearmetal.errors import BadInput, HostCannot, TimedOut, ToolFailed
from nearmetal.lab.local_site import BoundCommands, LocalSite
from nearmetal.model import Commands, Environment, Handle, MachineSpec, Order
from tests.agent_server import agent_machine, agent_serving, needs_probe
from tests.ssh_server import machine_at, serving

pytestmark = needs_probe


class _NoLedger:
    def creating(self, handle: Handle) -> None:
        """Nothing is left to remove: all of it lies in the test's folder."""


@pytest_asyncio.fixture(params=["local", "bound", "ssh", "agent", "mock"])
async def commands(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Commands]:
    """All that needs neither root nor an engine; test_machines.py asks the others the same of files."""
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "home"))
    match request.param:
        case "local":
            yield LocalSite()
        case "bound":
            yield BoundCommands(LocalSite())
        case "ssh":
            async with serving() as server:
                far = machine_at(server.get_port())
                await far.connect()
                yield far
                await far.close()
        case "agent":
            async with agent_serving(tmp_path) as endpoint:
                guest = agent_machine(endpoint)
                await guest.connect()
                yield guest
                await guest.close()
        case "mock":
            environment: Environment = plugins.load("environments", "mock")
            order = Order(name="m", role="server", spec=MachineSpec(), options={}, provision="boot", port=None, cpus="")
            handle = await environment.create(order, LocalSite(), _NoLedger())
            yield await environment.attach(handle, LocalSite())


async def test_a_file_that_cannot_be_read(commands: Commands, tmp_path: Path) -> None:
    path = str(tmp_path / "no such file")
    with pytest.raises(ToolFailed, match=r"cannot read .*no such file.*No such file") as told:
        await commands.get(path)
    assert told.value.where, "it is told of which machine or site"


async def test_a_file_that_cannot_be_written(commands: Commands, tmp_path: Path) -> None:
    file = str(tmp_path / "file")
    await commands.put(b"", file)
    with pytest.raises(HostCannot, match=r"cannot write .*file/below") as told:
        await commands.put(b"", f"{file}/below")
    assert told.value.where


async def test_a_file_that_no_system_can_have(commands: Commands) -> None:
    with pytest.raises(BadInput, match="zero byte"):
        await commands.put(b"", "/tmp/a\0b")
    with pytest.raises(BadInput, match="zero byte"):
        await commands.get("/tmp/a\0b")


async def test_a_word_that_no_program_can_be_given(commands: Commands) -> None:
    with pytest.raises(BadInput, match="zero byte"):
        await commands.exec(["cat", "a\0b"])
    with pytest.raises(BadInput, match="zero byte"):
        await commands.exec(["cat"], env={"A": "a\0b"})
    with pytest.raises(BadInput, match="zero byte"):
        await commands.spawn(["cat", "a\0b"])


async def test_a_word_that_is_no_text_goes_through_or_is_refused(commands: Commands) -> None:
    """Not every way to a machine can carry one."""
    try:
        assert (await commands.exec(["cat", "caf\udce9"])).status != 0
    except BadInput as refused:
        assert "UTF-8" in refused.what


async def test_a_command_that_does_not_end(commands: Commands) -> None:
    with pytest.raises(TimedOut):
        await commands.exec(["sleep", "61"], timeout=0.5)


@pytest.mark.parametrize("how", ["exec", "spawn"])
async def test_what_this_host_cannot_start(how: str, tmp_path: Path) -> None:
    """Elsewhere a program starts it, and ends with a status that says so."""
    no_program = tmp_path / "rubbish"
    no_program.write_bytes(b"\0")
    no_program.chmod(0o755)
    start = getattr(LocalSite(), how)
    for argv, why in (
        ([str(no_program)], "does not start: Exec format error"),
        ([f"{no_program}/below"], "does not start: Not a directory"),
        ([sys.executable, *["a" * 2**16] * 200], "does not start: Argument list too long"),
        (["no-such-program-anywhere"], "there is no program"),
    ):
        with pytest.raises(HostCannot, match=why):
            await start(argv)
