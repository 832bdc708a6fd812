"""What every environment's machines have in common, whatever they are made of."""

import asyncio
import json
import os

import pytest

from nearmetal import hosts
from nearmetal.errors import MachineLost, TimedOut
from nearmetal.lab import probe
from nearmetal.lab.lab import Lab
from nearmetal.model import Environment, EnvironmentSpec, Handle, Machine
from nearmetal.run import verify
from tests.conformance.conftest import SPEC, Make

pytestmark = pytest.mark.asyncio(loop_scope="module")

BINARY = bytes(range(256)) * 64
"""Every byte, zero and newline among them."""


async def test_a_command_has_its_status_and_streams(machine: Machine) -> None:
    assert (await machine.exec(["true"])).status == 0
    assert (await machine.exec(["false"])).status == 1
    missing = await machine.exec(["cat", "/no/such/file"])
    assert missing.status != 0
    assert missing.stdout == b""
    assert b"No such file" in missing.stderr
    assert (await machine.exec(["no-such-program-anywhere"])).status == 127


async def test_binary_input_and_output_arrive_unchanged(machine: Machine) -> None:
    assert (await machine.exec(["cat"], stdin=BINARY)).stdout == BINARY


async def test_hostile_words_stay_words(machine: Machine) -> None:
    """Nothing passes through a shell on the way."""
    for word in ("$(touch /tmp/owned)", "; touch /tmp/owned", "`id`", "a b", "'", '"', "*", "\\", "-n", "ü"):
        assert (await machine.exec(["printenv", "WORD"], env={"WORD": word})).text == word + "\n"
        assert word in (await machine.exec(["cat", f"/no/{word}"])).stderr.decode()
    assert (await machine.exec(["cat", "/tmp/owned"])).status != 0


async def test_a_command_that_does_not_end_is_ended(machine: Machine) -> None:
    with pytest.raises(TimedOut):
        await machine.exec(["sleep", "61"], timeout=1)
    assert (await machine.exec(["true"])).status == 0


@pytest.mark.parametrize("path", ["/tmp/plain", "/tmp/with space/and 'quote'", "/tmp/ümlaut/$HOME/*"])
async def test_files_arrive_whole(machine: Machine, path: str) -> None:
    content = os.urandom(3 * 2**20) if path == "/tmp/plain" else BINARY
    await machine.put(content, path, mode=0o750)
    assert await machine.get(path) == content
    assert (await machine.exec(["stat", "-c", "%a", path])).text.strip() == "750"


async def test_what_was_spawned_can_be_stopped(machine: Machine) -> None:
    running = await machine.spawn(["sleep", "62"])
    with pytest.raises(TimedOut):
        await running.wait(0.5)
    stopped = await running.stop()
    assert stopped.status != 0
    assert await running.stop() == stopped


async def test_the_limits_hold_as_read_back_from_inside(made: tuple[Handle, Machine]) -> None:
    handle, machine = made
    await probe.ensure(machine)
    facts = json.loads((await machine.exec([machine.probe, "facts", "--json"])).stdout)
    assert verify.resources(SPEC, facts, handle.data).ok


async def test_two_machines_talk_on_the_data_network(make: Make, machine: Machine, spec: EnvironmentSpec) -> None:
    if not hosts.hangs_on_switch(spec):
        pytest.skip("its machines do not hang on the lab's switch")
    _, other = await make()
    reached = await machine.exec(["ping", "-c", "1", "-w", "5", "-I", machine.interface, other.address])
    assert machine.boot_id != other.boot_id, "each provision is a boot of its own"
    assert reached.status == 0, reached


async def test_a_machine_that_vanishes_is_lost_and_destroying_twice_is_no_error(
    make: Make, lab: Lab, environment: Environment
) -> None:
    handle, machine = await make()
    site = await lab.site(handle.site)
    await environment.destroy(handle, site)
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    with pytest.raises(MachineLost):
        await asyncio.wait_for(machine.put(b"x", "/tmp/x"), 30)
    await environment.destroy(handle, site)


async def test_its_cost_only_grows(machine: Machine) -> None:
    before = await machine.cost()
    await machine.exec(["sha256sum", machine.probe])
    after = await machine.cost()
    if before is None:
        assert not machine.owned
        return
    assert after is not None
    assert after.cpu_seconds > before.cpu_seconds
    assert after.memory_bytes > 0
