"""What manifests of version 1 did not record, and what readers of that time knew by name. Frozen. Pure.

Later manifests say it themselves: environments describe their machines, and workloads their responses.
"""

from collections.abc import Mapping
from typing import Any

from nearmetal import units
from nearmetal.model import Description, Family, Placement, ResolvedEnvironment

_FAMILIES: Mapping[str, Family] = {
    "host": "metal",
    "ssh": "metal",
    "docker": "container",
    "podman": "container",
    "qemu": "guest",
    "libvirt": "guest",
    "vagrant": "guest",
    "vmware": "guest",
    "mock": "pretended",
}
_PLACEMENTS: Mapping[str, Placement] = {"ssh": "host", "vmware": "elsewhere"}
"""Kinds whose machines do not run on the CPUs of the site."""
_HOSTS_KERNEL = frozenset({None, "runc", "crun"})
"""Containers' runtimes that leave the work to the host's kernel."""
_HAVE_NO_CLIENT = frozenset({"sysbench", "noise"})
_USUAL_VARIANTS: Mapping[str, str] = {"http": "closed"}
"""Of workloads whose parameters do not say it."""

TITLES: Mapping[str, str] = {
    "throughput": "throughput",
    "transactions": "transactions",
    "latency_p50": "median latency",
    "latency_p99": "99th percentile of latency",
    "latency_mean": "mean latency",
    "latency_p95": "95th percentile of latency",
    "latency_max": "longest latency",
    "connect_p50": "median time to connect",
    "first_byte_p50": "median time to the first byte",
    "errors": "errors",
    "saturation": "saturation point",
    "bandwidth": "bandwidth",
    "transfer": "transfer",
    "jitter": "jitter",
    "loss": "loss",
    "retransmits": "retransmits",
    "rtt_p50": "median round trip",
    "rtt_p99": "99th percentile of round trips",
    "forward_p50": "median way to the server",
    "backward_p50": "median way back",
    "events": "events",
    "elapsed": "time taken",
    "read": "read rate",
    "written": "write rate",
    "fairness": "fairness among threads",
}

CLAUSES: Mapping[str, str] = {
    "throughput": "carries {ratio} × the requests of {reference}",
    "transactions": "completes {ratio} × the transactions of {reference}",
    "events": "does {ratio} × the work of {reference}",
    "bandwidth": "moves {ratio} × the data per second of {reference}",
    "transfer": "moves {ratio} × the data of {reference}",
    "latency_p50": "takes {ratio} × as long as {reference} for a typical request",
    "latency_mean": "takes {ratio} × as long as {reference} on average",
    "rtt_p50": "takes {ratio} × as long as {reference} there and back",
    "forward_p50": "takes {ratio} × as long as {reference} on the way to the server",
    "backward_p50": "takes {ratio} × as long as {reference} on the way back",
    "saturation": "saturates at {ratio} × the rate of {reference}",
    "read": "reads {ratio} × the bytes per second of {reference}",
    "written": "writes {ratio} × the bytes per second of {reference}",
    "elapsed": "takes {ratio} × as long as {reference}",
}


def describe_environment(environment: ResolvedEnvironment) -> Description:
    """What an environment said of its machines; for a run of version 1, what its kind was known to be."""
    if environment.description.family is not None:
        return environment.description
    runtime = environment.options.get("runtime")
    family = _FAMILIES.get(environment.kind, "unknown")
    return Description(
        family=family,
        kernel="own" if family != "container" else "host" if runtime in _HOSTS_KERNEL else "emulated",
        placement=_PLACEMENTS.get(environment.kind, "switch"),
    )


def has_clients(kind: str, parameters: Mapping[str, Any]) -> bool:
    """Whether clients of a workload send anything over the network."""
    if kind == "command":
        return parameters.get("on") not in (None, "server")
    return kind not in _HAVE_NO_CLIENT


def describe_variant(kind: str, parameters: Mapping[str, Any]) -> str:
    """Which variant of a workload it is: "cpu", "closed", "closed, delayed"; "" of a kind that has none."""
    chosen = parameters.get("test") or parameters.get("mode") or _USUAL_VARIANTS.get(kind)
    delay = parameters.get("delay")
    delayed = "delayed" if delay and units.parse_duration(delay) else None
    return ", ".join(str(one) for one in (chosen, delayed) if one)
