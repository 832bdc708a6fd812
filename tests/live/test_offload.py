"""Offloads of real links: switched, seen in the frames, and put back exactly."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from nearmetal.lab.image import Image
from nearmetal.lab.lab import Lab
from nearmetal.model import Level, Machine
from nearmetal.treatments.offload import plugin

from . import laboratory as laboratories
from .laboratory import laboratory, machine, spec, stage

pytestmark = pytest.mark.live

OUTSIDE = ("ip", "netns", "exec")


@pytest_asyncio.fixture
async def lab(lab_image: Image) -> AsyncIterator[Lab]:
    async with laboratory() as made:
        yield made


async def features(one: Machine) -> tuple[str, str]:
    """All that ethtool tells of both ends, each of the kernel's own features included."""
    namespace, interface = str(one.peer).split("/")
    inside = await one.exec(["ethtool", "-k", one.interface])
    outside = await one.site.exec([*OUTSIDE, namespace, "ethtool", "-k", interface])
    assert inside.text and outside.text
    return inside.text, outside.text


async def switched(lab: Lab, one: Machine, level: Level) -> None:
    """Set, read back, put back; then it is as before, to the last feature of the kernel's."""
    before = await features(one)
    applied = await lab.apply(plugin.changes(stage(one), level))
    assert applied.refused == ()
    readback = await plugin.verify(stage(one), level)
    assert readback.ok, readback.reason
    assert await features(one) != before
    assert {undone.outcome for undone in await lab.undo()} <= {"restored", "already so"}
    assert await features(one) == before
    assert (await plugin.verify(stage(one), True)).ok


@pytest.mark.parametrize("level", [False, "sg,tx", "gro,tso,sg,tx"])
async def test_a_veth_is_switched_and_put_back(lab: Lab, level: Level) -> None:
    await switched(lab, await machine(lab, "host", spec()), level)


async def test_a_container_is_switched_and_put_back(lab: Lab, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    await switched(lab, await machine(lab, "docker", spec()), False)


@pytest.mark.long  # virtio-net is also switched by tests/conformance, e1000 below
@pytest.mark.parametrize("nic", ["virtio-net", "e1000", "e1000e", "rtl8139", "vmxnet3"])
@pytest.mark.parametrize("level", [False, "sg,tx", "gro,tso,sg,tx", "rx,sg"])
async def test_a_guest_and_its_tap_are_switched_and_put_back(lab: Lab, nic: str, level: Level) -> None:
    await switched(lab, await machine(lab, "qemu", spec(nic=nic)), level)


async def test_without_offloads_nothing_is_larger_than_a_frame(lab: Lab) -> None:
    server = await machine(lab, "host", spec())
    client = await machine(lab, "host", spec(), "client")
    both = stage(server, client)
    assert await largest(server, client) > 1514
    await lab.apply(plugin.changes(both, False))
    assert await largest(server, client) == 1514
    await lab.undo()
    assert await largest(server, client) > 1514


async def largest(server: Machine, client: Machine) -> int:
    """Bytes of the largest packet between the two while a page of 100 kB is fetched, as the switch sees it."""
    namespace, interface = str(server.peer).split("/")
    serving = await server.spawn([server.probe, "serve", "--listen", f"{server.address}:9001", "--body", "100000"])
    capture = f"/var/tmp/{namespace}.pcap"
    watching = await server.site.spawn(
        [
            *OUTSIDE,
            namespace,
            "tcpdump",
            "-U",
            "--immediate-mode",
            "-s",
            "64",
            "-Z",
            "root",
            "-i",
            interface,
            "-w",
            capture,
        ]
    )
    try:
        for _ in range(200):
            if (await server.site.exec(["test", "-s", capture])).status == 0:
                break
            await asyncio.sleep(0.05)
        load = [client.probe, "load", f"http://{server.address}:9001/", "--requests", "300", "--workers", "4", "--json"]
        assert (await client.exec(load)).status == 0
    finally:
        await watching.stop()
        await serving.stop()
        told = await server.site.exec(["tcpdump", "-e", "-n", "-r", capture])
        await server.site.exec(["rm", "-f", capture])
    lengths = [line.partition(" length ")[2].partition(":")[0] for line in told.text.splitlines()]
    return max(int(length) for length in lengths if length)


async def test_what_a_driver_has_fixed_cannot_be_had_by_name(lab: Lab) -> None:
    """A veth joins nothing that it receives for its hardware: its lro is fixed."""
    one = await machine(lab, "host", spec())
    await lab.apply(plugin.changes(stage(one), "lro,rx"))
    readback = await plugin.verify(stage(one), "lro,rx")
    assert not readback.ok
    assert "inside: lro is off, and its driver cannot switch it on" in readback.reason


@pytest.mark.long
async def test_an_e1000_is_switched_and_a_tap_that_stays_off_is_told(lab: Lab) -> None:
    """The card takes no large segments, so neither does its tap, whoever asks."""
    one = await machine(lab, "qemu", spec(nic="e1000"))
    await switched(lab, one, "gro,tso,sg,tx")
    assert (await plugin.verify(stage(one), True)).ok
    namespace, interface = str(one.peer).split("/")
    asked = await one.site.exec([*OUTSIDE, namespace, "ethtool", "-K", interface, "tso", "on"])
    assert asked.status == 1
    readback = await plugin.verify(stage(one), True)
    assert not readback.ok
    assert f"{one.name} outside: tso was asked for and stays off" in readback.reason


async def test_somebody_who_switches_it_on_meanwhile_is_found_out(lab: Lab) -> None:
    one = await machine(lab, "host", spec())
    await lab.apply(plugin.changes(stage(one), False))
    await one.exec(["ethtool", "-K", one.interface, "tx", "on"])
    readback = await plugin.verify(stage(one), False)
    assert not readback.ok
    assert readback.reason == f"{one.name} inside: tx reads back as 'on'"
    await lab.undo()
    assert (await plugin.verify(stage(one), True)).ok, "it has what it had before"


CLIENTS = """
name = "clients"
[factors]
environment = ["host"]
[machine]
offload = true
[clients]
offload = false
[[workloads]]
name = "page"
kind = "http"
requests = 30
warmup = "0s"
[design]
blocks = 1
"""


async def test_clients_have_a_level_of_their_own(lab_image: Image, tmp_path: Path) -> None:
    (record,) = await laboratories.study(tmp_path / "run", CLIENTS)
    assert (record.status, record.reason) == ("ok", None)
    for name, told in (("offload", "on"), ("clients.offload", "off")):
        inside = next(features for end, features in record.readback[name].items() if end.endswith(" inside"))
        assert inside["tso"] == told
        assert len(record.readback[name]) == 2, "both ends of one machine's cable"
