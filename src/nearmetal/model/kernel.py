"""Settings of kernels that a study makes alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from nearmetal.model.base import Frozen, Level

SYSCTL_NAME = r"^[A-Za-z0-9_]+(?:\.[A-Za-z0-9_][A-Za-z0-9_-]*)+$"
"""What a sysctl is called: "net.ipv4.tcp_congestion_control". Never an option of some program."""

SysctlName = Annotated[str, Field(pattern=SYSCTL_NAME, max_length=200)]


def format_sysctl(value: object) -> str:
    """The value of a sysctl as the kernel is given it, with single spaces. ValueError if it is no number or text."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("a sysctl is a whole number or a text")
    text = " ".join(str(value).split())
    if not text:
        raise ValueError("a sysctl cannot be set to an empty text")
    return text


def _flatten(value: object) -> object:
    """TOML reads `net.ipv4.tcp_sack = 1` as tables within tables: each value by its whole name again."""
    return dict(_name_values((), value)) if isinstance(value, dict) else value


def _name_values(path: tuple[str, ...], table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in table.items():
        here = (*path, key)
        found += _name_values(here, value) if isinstance(value, dict) else [(".".join(here), value)]
    return found


class KernelSpec(Frozen):
    """Which settings the kernels of servers and clients have in common."""

    align: Literal["network", "off"] = "off"
    """"network": the values of a table of network settings (`KernelTable`). A study file that says nothing has this;
    a study that was kept by a version without this key has "off", which is what it was run with."""
    sysctl: Annotated[
        Mapping[SysctlName, Annotated[str, BeforeValidator(format_sysctl)]], BeforeValidator(_flatten)
    ] = {}
    """Sysctl name to the value that all servers and clients have; a factor that sets the same goes before it."""


class AlignedSetting(Frozen):
    name: SysctlName
    value: str
    scope: Literal["namespace", "kernel"]
    """Whether each network namespace has its own, or the kernel has one for all."""
    why: str
    """What it does to measurements."""
    source: str


class KernelTable(Frozen):
    """The values that kernels are aligned to. The manifest of a run has the one that its plan was made with."""

    version: int
    values: tuple[AlignedSetting, ...]


def is_per_namespace(name: str) -> bool:
    """Whether each network namespace has its own value of a sysctl, by its name. Pure.

    As in Linux 6.12; in an older kernel fewer are, and there a machine without a kernel of its own lacks the name.
    """
    if name.startswith("net.core."):
        return name in _CORE
    return name.startswith("net.") and name not in _GLOBAL and not name.startswith(_GLOBAL_PREFIXES)


_CORE = frozenset({"net.core.optmem_max", "net.core.somaxconn", "net.core.tstamp_allow_data", "net.core.txrehash"})
"""Those of net/core/sysctl_net_core.c in `netns_core_table` that a namespace can write."""

_GLOBAL = frozenset(
    {
        "net.ipv4.fib_sync_mem",
        "net.ipv4.ipfrag_secret_interval",
        "net.ipv4.tcp_allowed_congestion_control",
        "net.ipv4.tcp_available_congestion_control",
        "net.ipv4.tcp_available_ulp",
        "net.ipv4.tcp_low_latency",
        "net.ipv4.tcp_max_orphans",
        "net.ipv4.tcp_mem",
        "net.ipv4.udp_mem",
    }
)
"""`ipv4_table` of net/ipv4/sysctl_net_ipv4.c, which only the first namespace has, and what a namespace only shows."""

_GLOBAL_PREFIXES = ("net.ipv4.cipso_", "net.ipv4.inet_peer_", "net.ipv4.route.", "net.ipv4.neigh.default.gc_")


def find_sysctl_problem(level: Level) -> str | None:
    """Why a level cannot be a sysctl's value; None if it can."""
    try:
        format_sysctl(level)
    except ValueError as error:
        return str(error)
    return None
