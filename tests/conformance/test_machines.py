"""What every environment's machines have in common, whatever they are made of."""

import asyncio
import json
import os
import signal

import pytest

from nearmetal import plugins
from nearmetal.errors import BadInput, HostCannot, MachineLost, TimedOut, ToolFailed
from nearmetal.lab import host_lock as lock
from nearmetal.lab import probe
from nearmetal.lab.commands import background_commands
from nearmetal.lab.lab import Lab
from nearmetal.model import Environment, EnvironmentSpec, Handle, Level, Machine, Provision, Treatment
from nearmetal.run import verify
from tests.conftest import OWN_CPU
from tests.live.leftovers import stays

from . import machine_kill, machine_treatments
from .conftest import SPEC, Make, Others, place

pytestmark = pytest.mark.asyncio(loop_scope="module")

BINARY = bytes(range(256)) * 64
"""Every byte, zero and newline among them."""

SOON = 60.0
"""Seconds within which it has to be told that a machine is gone: twice what a command may take."""


@pytest.mark.everywhere
async def test_one_that_may_be_is_booted_again(rebooted: tuple[str, Machine]) -> None:
    """The first test: whoever else holds the machine loses it."""
    before, machine = rebooted
    assert machine.boot_id != before
    assert (await machine.exec(["true"])).status == 0
    await machine.put(BINARY, "/tmp/booted")
    assert await machine.get("/tmp/booted") == BINARY


@pytest.mark.everywhere
async def test_a_command_has_its_status_and_streams(machine: Machine) -> None:
    assert (await machine.exec(["true"])).status == 0
    assert (await machine.exec(["false"])).status == 1
    missing = await machine.exec(["cat", "/no/such/file"])
    assert missing.status != 0
    assert missing.stdout == b""
    assert b"No such file" in missing.stderr
    assert (await machine.exec(["no-such-program-anywhere"])).status == 127


@pytest.mark.everywhere
async def test_binary_input_and_output_arrive_unchanged(machine: Machine) -> None:
    assert (await machine.exec(["cat"], stdin=BINARY)).stdout == BINARY


@pytest.mark.everywhere
async def test_hostile_words_stay_words(machine: Machine) -> None:
    """Nothing passes through a shell on the way."""
    words = ("$(touch /tmp/owned)", "; touch /tmp/owned", "`id`", "a b", "'", '"', "*", "\\", "-n", "ü")
    env = {f"WORD{number}": word for number, word in enumerate(words)}
    assert (await machine.exec(["printenv", *env], env=env)).text == "".join(f"{word}\n" for word in words)
    told = (await machine.exec(["cat", *(f"/no/{word}" for word in words)])).stderr.decode()
    assert told.count("\n") == len(words)
    assert all(f"/no/{word}" in line for word, line in zip(words, told.splitlines(), strict=True))
    assert (await machine.exec(["cat", "/tmp/owned"])).status != 0


@pytest.mark.everywhere
async def test_a_command_that_does_not_end_is_ended(machine: Machine) -> None:
    with pytest.raises(TimedOut):
        await machine.exec(["sleep", "61"], timeout=1)
    assert (await machine.exec(["true"])).status == 0


async def test_a_program_that_prints_without_an_end_is_ended(machine: Machine, environment: Environment) -> None:
    """It must not take the memory of who hears it."""
    if environment.kind == "mock":
        pytest.skip("a pretended machine has no program that does")
    with background_commands.limit_output(2**20), pytest.raises(ToolFailed, match="printed more than 1 MiB"):
        await machine.exec(["sh", "-c", "echo $$ >/tmp/endless; exec yes"], timeout=SOON)
    assert (await machine.exec(["sh", "-c", "kill -0 $(cat /tmp/endless)"])).status != 0


async def test_a_program_begins_at_its_home(machine: Machine, environment: Environment) -> None:
    """So that a relative path means the same everywhere."""
    if environment.kind in ("mock", "tempdir"):
        pytest.skip("its programs are the test's own: they begin anywhere")
    argv = ["sh", "-c", "pwd; cd; pwd"]
    for ended in (await machine.exec(argv), await (await machine.spawn(argv)).wait(SOON)):
        began, home = ended.text.split()
        assert began == home


QUOTED = "/tmp/with space/and 'quote'"


@pytest.mark.everywhere
async def test_a_file_arrives_whole(machine: Machine) -> None:
    await test_files_arrive_whole(machine, QUOTED)


@pytest.mark.parametrize("path", ["/tmp/plain", QUOTED, "/tmp/ümlaut/$HOME/*"])
async def test_files_arrive_whole(machine: Machine, path: str) -> None:
    content = os.urandom(3 * 2**20) if path == "/tmp/plain" else BINARY
    await machine.put(content, path, mode=0o750)
    assert await machine.get(path) == content
    assert (await machine.exec(["stat", "-c", "%a", path])).text.strip() == "750"


async def test_a_file_that_cannot_be_read_or_written_is_told(machine: Machine) -> None:
    with pytest.raises(ToolFailed, match="No such file"):
        await machine.get("/no/such/file")
    await machine.put(b"", "/tmp/no-folder")
    with pytest.raises(HostCannot, match="cannot write"):
        await machine.put(b"", "/tmp/no-folder/below")
    with pytest.raises(BadInput, match="zero byte"):
        await machine.exec(["cat", "a\0b"])


@pytest.mark.everywhere
async def test_what_was_spawned_can_be_stopped(machine: Machine, kind: str) -> None:
    """One that a signal has stopped too, and at once: it is asked to end, and need not be killed for it."""
    stands = ["sh", "-c", "kill -STOP $$; exec sleep 62"]
    running = await machine.spawn(["sleep", "62"] if kind == "mock" else stands)
    with pytest.raises(TimedOut):
        await running.wait(0.5)
    stopped = await running.stop()
    assert stopped.status == 128 + signal.SIGTERM
    assert await running.stop() == stopped


@pytest.mark.everywhere
async def test_the_limits_hold_as_read_back_from_inside(made: tuple[Handle, Machine]) -> None:
    handle, machine = made
    await probe.ensure(machine)
    facts = json.loads((await machine.exec([machine.probe, "facts", "--json"])).stdout)
    assert verify.verify_resources(SPEC, facts, handle).ok


@pytest.mark.everywhere
async def test_its_address_is_its_data_cards(machine: Machine, kind: str) -> None:
    if kind == "mock":
        pytest.skip("pretended machines have no cards")
    told = (await machine.exec(["ip", "-o", "address", "show", "dev", machine.interface])).text
    assert f" {machine.address}/" in told


@pytest.mark.everywhere
async def test_provisioned_twice(machine: Machine, others: Others, spec: EnvironmentSpec) -> None:
    """Two machines, or one that is somebody's, used twice by us and by nobody else."""
    _, other = await others.one()
    assert other.name != machine.name
    await machine.put(b"here", f"/tmp/{machine.name}")
    seen = (await other.exec(["cat", f"/tmp/{machine.name}"])).text
    if machine.owned:
        assert machine.boot_id != other.boot_id, "each provision is a boot of its own"
        assert seen == ""
        return
    assert (machine.boot_id, seen) == (other.boot_id, "here")
    assert (await machine.exec(["flock", "-n", lock.FOLDER, "true"])).status == 1, "somebody else can have it too"
    holders = (await machine.exec(["sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null"])).text
    assert f"{lock.HOLDER}=" in holders and f"(process {os.getpid()})" in holders


@pytest.mark.everywhere
async def test_two_machines_talk_on_the_data_network(
    others: Others, machine: Machine, spec: EnvironmentSpec, environment: Environment
) -> None:
    if not environment.describe(spec.options, SPEC).is_on_switch:
        pytest.skip("its machines do not hang on the lab's switch")
    _, other = await others.one()
    reached = await machine.exec(["ping", "-c", "1", "-w", "5", "-I", machine.interface, other.address])
    assert reached.status == 0, reached


@pytest.mark.everywhere
async def test_a_treatment_holds_and_is_undone(
    made: tuple[Handle, Machine],
    make: Make,
    lab: Lab,
    environment: Environment,
    spec: EnvironmentSpec,
    provision: Provision,
) -> None:
    """The one that changes what lies outside of a machine, too."""
    await test_a_treatment_is_refused_before_or_holds_and_is_undone(
        "offload", False, made, make, lab, environment, spec, provision
    )


@pytest.mark.parametrize(("treatment", "level"), machine_treatments.installed())
async def test_a_treatment_is_refused_before_or_holds_and_is_undone(
    treatment: str,
    level: Level,
    made: tuple[Handle, Machine],
    make: Make,
    lab: Lab,
    environment: Environment,
    spec: EnvironmentSpec,
    provision: Provision,
) -> None:
    plugin: Treatment = plugins.load("treatments", treatment)
    shaped = plugin.shape(SPEC, level)
    if environment.kind == "mock" and shaped.neighbours:
        pytest.skip("pretended machines have no processors that a neighbour could want")
    held = lab.machines(), lab.ledger.outstanding().changes
    site = await lab.site(place(environment))
    if refusal := await machine_treatments.refusal(environment, spec, provision, shaped, site):
        assert refusal.detail and refusal.remedy
        assert (lab.machines(), lab.ledger.outstanding().changes) == held
        return
    handle, server = made if shaped.settings == SPEC.settings else await make(shaped)
    cards = await machine_treatments.cards(server)
    async with machine_treatments.neighbours(lab, shaped, str(OWN_CPU)):
        stage = machine_treatments.stage(lab, server, shaped, [0])
        wanted = plugin.changes(stage, level)
        applied = await lab.apply(wanted)
        assert applied.refused == ()
        readback = await plugin.verify(stage, level)
        assert readback.ok or readback.reason
        assert await machine_treatments.cards(server) != cards or not (wanted and readback.ok)
        assert {undone.outcome for undone in await lab.undo()} <= {"restored", "already so"}
    assert await machine_treatments.cards(server) == cards
    if handle is not made[0]:
        await lab.destroy(handle)
    assert (lab.machines(), lab.ledger.outstanding().changes) == held


@pytest.mark.everywhere
async def test_one_that_is_killed_underneath_is_lost(others: Others, lab: Lab) -> None:
    """What runs in it, too; and destroying it leaves nothing."""
    handle, machine = await others.last()
    running = await machine.spawn(["sleep", "63"])
    await machine_kill.kill(handle, machine)
    if machine_kill.is_alive(machine):
        with pytest.raises(MachineLost):
            await running.wait(SOON)
    with pytest.raises(MachineLost):
        await asyncio.wait_for(machine.exec(["true"]), SOON)
    # Nor is it told what it cost, as of one that is there: by that a trial hears of it.
    assert not await machine_kill.still_tells_its_cost(machine)
    await lab.destroy(handle)
    assert stays(handle.name) == []


async def test_its_cost_only_grows(machine: Machine) -> None:
    before = await machine.cost()
    await machine.exec(["sha256sum", machine.probe])
    after = await machine.cost()
    if before is None:
        assert not machine.owned
        return
    assert after is not None
    assert after.cpu_seconds > before.cpu_seconds
    assert after.memory_bytes is None or after.memory_bytes > 0


@pytest.mark.everywhere
async def test_one_that_was_destroyed_is_lost_and_destroying_twice_is_no_error(
    made: tuple[Handle, Machine], lab: Lab, environment: Environment
) -> None:
    """The last test: it takes the machine that all share."""
    handle, machine = made
    site = await lab.site(handle.site)
    await environment.destroy(handle, site)
    with pytest.raises(MachineLost):
        await machine.exec(["true"])
    with pytest.raises(MachineLost):
        await asyncio.wait_for(machine.put(b"x", "/tmp/x"), SOON)
    await environment.destroy(handle, site)
