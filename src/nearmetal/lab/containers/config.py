"""What an engine is asked for: a container that is a machine, and one that keeps a network namespace for another."""

from typing import Any

from nearmetal.lab import cgroup, probe
from nearmetal.lab.machines import share as shares
from nearmetal.model import Order

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


def machine(client: Any, order: Order, tag: str, network: str, probe_there: str) -> dict[str, Any]:
    """`network` is NO_NETWORK, or names the container whose namespace is taken over.

    `probe_there`: the probe's path on the engine's host.
    """
    own, share = network == NO_NETWORK, shares.of(order.spec)
    return {
        **_holding(order.name, tag),
        # With its network namespace a container has another's name of the host.
        "hostname": order.name[:63] if own else None,
        "host_config": client.create_host_config(
            network_mode=network,
            cpuset_cpus=order.cpus or None,
            cpu_period=cgroup.PERIOD if order.spec.quota is not None else None,
            cpu_quota=cgroup.microseconds(order.spec),
            mem_limit=order.spec.memory,
            memswap_limit=order.spec.memory,
            tmpfs=_TMPFS,
            mounts=[
                _mount(probe.INSIDE, probe_there),
                *([_mount(share.mountpoint, share.source)] if share else []),
            ],
            cap_drop=_NEVER_NEEDED,
            pids_limit=PROCESSES,
            runtime=order.options.get("runtime"),
        ),
    }


def keeper(client: Any, order: Order, tag: str, runtime: str | None, probe_there: str) -> dict[str, Any]:
    """It does nothing, on the machine's CPUs, and is not part of what the machine costs."""
    return {
        **_holding(keeper_of(order.name), tag),
        "hostname": order.name[:63],
        "host_config": client.create_host_config(
            network_mode=NO_NETWORK,
            cpuset_cpus=order.cpus or None,
            mounts=[_mount(probe.INSIDE, probe_there)],
            cap_drop=["ALL"],
            pids_limit=_OF_KEEPER,
            runtime=runtime,
        ),
    }


def keeper_of(name: str) -> str:
    """What the container is called that keeps a machine's network namespace."""
    return f"{name}-network"


def _holding(name: str, tag: str) -> dict[str, Any]:
    """A container that lives as long as its standard input."""
    return {
        "image": tag,
        # Whatever an image would start by itself, and as whom.
        "entrypoint": [probe.INSIDE, "hold", "--until-eof"],
        "command": [],
        "user": "0:0",
        "working_dir": "/",
        "healthcheck": {"test": ["NONE"]},
        "name": name,
        "labels": {LABEL: name},
        "stdin_open": True,
    }


def _mount(inside: str, path: str) -> Any:
    from docker.types import Mount

    return Mount(inside, path, type="bind", read_only=True)
