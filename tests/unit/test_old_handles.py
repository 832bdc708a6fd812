"""What nearmetal 0.1 wrote down of machines: it is read as today's handles are, and the machines can be removed."""

import json
from typing import Any

import pytest

from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import ledgers_folder, outstanding
from nearmetal.lab.machines import kept
from nearmetal.lab.mock.world import World
from nearmetal.lab.old_handles import upgrade_handle
from nearmetal.model import (
    ControlGroup,
    CpuModel,
    Handle,
    Hardware,
    Login,
    MachineImage,
    MachineSpec,
    Port,
    ProcessId,
    SharedNetwork,
    VirtualDisk,
)

PORT = {"address": "10.111.0.1", "prefix": 16, "mac": "02:00:00:00:00:01", "switch": "/run/netns/nm-1", "outside": "p"}
GROUP = {"cpuset": "/g", "cpuacct": "/g", "memory": "/g", "version": 2, "cpu": "/g"}
FIRST = {"pid": 7, "started": 8}
HARDWARE = {
    "accel": "tcg",
    "cpu_model": {"name": "max", "lacking": ["hle"]},
    "disk": {"format": "qcow2", "cache": "none"},
    "quota": 0.5,
    "pinned": {"0": 1},
}
MADE = Hardware(
    accel="tcg",
    cpu_model=CpuModel(name="max", lacking=("hle",)),
    disk=VirtualDisk(format="qcow2", cache="none", folder="/m"),
    quota=0.5,
    pinned={0: 1},
)
PORTS = {"ssh_port": 2200, "agent_port": 2201}


def old(kind: str, **data: Any) -> dict[str, Any]:
    return {"kind": kind, "name": "nm-1-1", "site": "local", "data": data}


def handle(kind: str, **fields: Any) -> Handle:
    return Handle(kind=kind, name="nm-1-1", site="local", **fields)


LAB = {"role": "server", "image": "lab 0123", "port": PORT}
ON_SWITCH: dict[str, Any] = {"role": "server", "port": Port(**PORT)}


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (
            old("host", **LAB, folder="/m", shared=None, first=FIRST, group=GROUP),
            handle(
                "host",
                **ON_SWITCH,
                life=ProcessId(7, 8),
                image=MachineImage(name="lab 0123"),
                data={"folder": "/m", "group": GROUP},
            ),
        ),
        (
            old(
                "host",
                role="client",
                image="lab 0123",
                port=None,
                folder="/m",
                shared={"address": "a", "interface": "i"},
            ),
            handle(
                "host",
                role="client",
                shared=SharedNetwork(address="a", interface="i"),
                image=MachineImage(name="lab 0123"),
                data={"folder": "/m"},
            ),
        ),
        (
            old("docker", **LAB, engine="unix:///e", sandboxed=False, keeper=None, container="c", first=FIRST)
            | {
                "data": {
                    **LAB,
                    "engine": "unix:///e",
                    "first": FIRST,
                    "storage_driver": "vfs",
                    "storage_driver_asked": "vfs",
                }
            },
            handle(
                "docker",
                **ON_SWITCH,
                life=ProcessId(7, 8),
                image=MachineImage(name="lab 0123", storage_driver="vfs", storage_driver_asked="vfs"),
                data={"engine": "unix:///e"},
            ),
        ),
        (
            old(
                "qemu",
                **{**LAB, **HARDWARE, **PORTS},
                folder="/m",
                command=["q"],
                brings_kernel=False,
                share=None,
                snapshot="s",
                logins=True,
                group=GROUP,
            ),
            handle(
                "qemu",
                **ON_SWITCH,
                life=ControlGroup("/g", "/g", "/g", 2, "/g"),
                hardware=MADE,
                login=Login(ssh_port=2200),
                image=MachineImage(name="lab 0123", snapshot="s"),
                data={"folder": "/m", "command": ["q"], "share": None, **PORTS, "group": GROUP},
            ),
        ),
        (
            old("qemu", **LAB, folder="/m", command=["q"], brings_kernel=True, share=None, snapshot=None, logins=False),
            handle(
                "qemu",
                **ON_SWITCH,
                image=MachineImage(name="lab 0123", brings_kernel=True),
                data={"folder": "/m", "command": ["q"], "share": None},
            ),
        ),
        (
            old("libvirt", **{**LAB, **HARDWARE, **PORTS}, uri="u", uuid="i", folder="/m", first=FIRST, group=GROUP),
            handle(
                "libvirt",
                **ON_SWITCH,
                life=ProcessId(7, 8),
                hardware=MADE,
                image=MachineImage(name="lab 0123"),
                data={"uri": "u", "uuid": "i", "folder": "/m", **PORTS, "group": GROUP},
            ),
        ),
        (
            old("libvirt", uri="u", uuid="i", domain="d", runs=True),
            handle("libvirt", stays=True, data={"uri": "u", "uuid": "i", "domain": "d", "runs": True}),
        ),
        (
            old(
                "ssh",
                role="server",
                image="own",
                shared={"address": "a", "interface": "i"},
                spec={},
                cpus="0",
                group=GROUP,
            ),
            handle(
                "ssh",
                role="server",
                shared=SharedNetwork(address="a", interface="i"),
                image=MachineImage(name="own"),
                stays=True,
                data={"spec": {}, "cpus": "0", "group": GROUP},
            ),
        ),
        (old("network"), handle("network")),
        (old("link", namespace="n", wires=2), handle("link", data={"namespace": "n", "wires": 2})),
    ],
)
def test_each_key_that_others_read_has_become_a_field(written: dict[str, Any], read: Handle) -> None:
    assert Handle.from_json(upgrade_handle(written)) == read
    now = read.model_dump(mode="json")
    assert upgrade_handle(json.loads(json.dumps(now))) == now, "what is written today stays as it is"
    assert Handle.from_json(now) == read


async def test_what_a_ledger_of_that_version_holds_is_removed() -> None:
    world = World("local")
    world.save(world.make("nm-1-1"))
    path = ledgers_folder() / "abc123.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"op": "create", "handle": old("mock", role="server", borrowed=False)}) + "\n")
    assert [one.role for one in outstanding(path).handles] == ["server"]
    cleaned = await clean.clean()
    assert (cleaned.removed, cleaned.left) == (("mock nm-1-1",), ())
    assert world.read("nm-1-1") is None


def test_a_machine_that_it_kept_up_is_found() -> None:
    one = kept.KeptMachine(
        name="one",
        environment="qemu",
        token="1",
        keeper=1,
        keeper_started=1,
        made="now",
        spec=MachineSpec(),
        handle=handle("qemu"),
    )
    written = one.model_dump(mode="json") | {"handle": old("qemu", **{**LAB, **HARDWARE, **PORTS}, logins=True)}
    kept.folder().mkdir(parents=True)
    (kept.folder() / "one.json").write_text(json.dumps(written))
    found = kept.find("one")
    assert (found.accel, found.switch) == ("tcg", "nm-1")
    assert found.handle is not None and found.handle.login == Login(ssh_port=2200)
