"""What an engine is asked for: a container that is a machine, and one that keeps a network namespace for another."""

from typing import Any

from nearmetal.lab import cgroup, probe
from nearmetal.lab.machines import share as shares
from nearmetal.model import ControlGroup, Handle, Order

LABEL = "nearmetal.machine"
"""Of every container of ours; its value is the container's name."""
NO_NETWORK = "none"
PROCESSES = 32_768
"""The most of a machine, threads included: more than any workload starts, and too few to take the host's."""
_OF_KEEPER = 64
_NEVER_NEEDED = ["AUDIT_WRITE", "MKNOD", "SETFCAP"]
"""Of the capabilities that engines give by default: nothing that is measured makes devices, or others' capabilities."""
_TMPFS = {"/run": "rw,exec,nosuid,nodev,mode=755", "/tmp": "rw,exec,nosuid,nodev,mode=1777"}
"""As in the other environments; the engine's own default would forbid programs there."""
_SPENT = "/run/nearmetal/spent"
"""Where a machine without a control group has the file for CPU time of programs that have ended."""


def build_machine(
    client: Any, order: Order, tag: str, network: str, probe_there: str, group: ControlGroup | None
) -> dict[str, Any]:
    """`network` is NO_NETWORK, or names the container whose namespace is taken over.

    `probe_there`: the probe's path on the engine's host. `group`: of a machine that can have no control group.
    """
    own, share = network == NO_NETWORK, shares.parse_share(order.spec)
    return {
        **_holding(order.name, tag, *(group.joined if group else ())),
        # With its network namespace a container has another's name of the host.
        "hostname": order.name[:63] if own else None,
        "host_config": client.create_host_config(
            network_mode=network,
            tmpfs=_TMPFS,
            mounts=[
                _mount(probe.INSIDE, probe_there),
                *([_mount(share.mountpoint, share.source)] if share else []),
                *([_mount(_SPENT, group.spent, read_only=False)] if group else []),
            ],
            cap_drop=_NEVER_NEEDED,
            **({} if group else _limits(order)),
            runtime=order.options.get("runtime"),
        ),
    }


def _limits(order: Order) -> dict[str, Any]:
    return {
        "cpuset_cpus": order.cpus or None,
        "cpu_period": cgroup.PERIOD if order.spec.quota is not None else None,
        "cpu_quota": cgroup.count_microseconds(order.spec),
        "mem_limit": order.spec.memory,
        "memswap_limit": order.spec.memory,
        "pids_limit": PROCESSES,
    }


def build_place(handle: Handle) -> list[str]:
    """Options of the probe's `launch` for programs in a machine that can have no control group; else none."""
    found = find_group(handle)
    return ["--spent", _SPENT, *found.joined] if found else []


def find_group(handle: Handle) -> ControlGroup | None:
    """Of a machine that can have no control group, the one that stands for it; of another its engine makes one."""
    return ControlGroup(**handle.data["group"]) if "group" in handle.data else None


def build_keeper(
    client: Any, order: Order, tag: str, runtime: str | None, probe_there: str, group: ControlGroup | None
) -> dict[str, Any]:
    """It does nothing, on the machine's CPUs, and is not part of what the machine costs."""
    return {
        **_holding(name_keeper(order.name), tag, *(group.joined if group else ())),
        "hostname": order.name[:63],
        "host_config": client.create_host_config(
            network_mode=NO_NETWORK,
            mounts=[_mount(probe.INSIDE, probe_there)],
            cap_drop=["ALL"],
            **({} if group else {"cpuset_cpus": order.cpus or None, "pids_limit": _OF_KEEPER}),
            runtime=runtime,
        ),
    }


def name_keeper(name: str) -> str:
    """What the container is called that keeps a machine's network namespace."""
    return f"{name}-network"


def _holding(name: str, tag: str, *place: str) -> dict[str, Any]:
    """A container that lives as long as its standard input; its first process has a `place`, as options say."""
    return {
        "image": tag,
        # Whatever an image would start by itself, and as whom.
        "entrypoint": [probe.INSIDE, "hold", "--until-eof", *place],
        "command": [],
        "user": "0:0",
        "working_dir": "/",
        "healthcheck": {"test": ["NONE"]},
        "name": name,
        "labels": {LABEL: name},
        "stdin_open": True,
    }


def _mount(inside: str, path: str, *, read_only: bool = True) -> Any:
    from docker.types import Mount

    return Mount(inside, path, type="bind", read_only=read_only)
