"""What to write in place of words that people try first, and that a study file calls otherwise. Pure."""

from collections.abc import Mapping
from typing import Any

_OF_WORKLOADS: Mapping[str, Mapping[str, str]] = {
    "http": {
        "connections": "write workers = 100: each worker has one connection; new_connections = true has it open one "
        "for each request",
        "concurrency": "write workers = 100: so many requests are on their way at once",
        "clients": "write workers = 100, or for several client machines count = 4 under [clients]",
        "port": 'write url = "http://$server:8080/"; or if nearmetal is to start what listens there, server = "app" '
        "with [services.app] and its port",
        "host": 'write url = "http://$server:8080/", or an address of your own in its place',
    },
}
"""By the workload's kind and the key that it has not."""


def find_workload_hint(kind: str, key: str) -> str | None:
    return _OF_WORKLOADS.get(kind, {}).get(key)


def find_top_hint(key: str, value: Any, raw: Mapping[str, Any], is_set: bool) -> str | None:
    """Of a key that stands at the top and belongs elsewhere: a factor, or a key of [machine] or of a workload.

    `is_set` if the command line said it, which is then told in its own words.
    """
    factors = raw.get("factors")
    if isinstance(factors, Mapping) and key in factors:
        levels = write_list(value)
        return (
            f"it is a factor: --set 'factors.{key}={levels}'"
            if is_set
            else f"it is a factor: write {key} = {levels} under [factors]"
        )
    for workload in raw["workloads"] if isinstance(raw.get("workloads"), list) else ():
        if isinstance(workload, Mapping) and key in workload and isinstance(workload.get("name"), str):
            name = workload["name"]
            return (
                f"it is a key of a workload: --set workloads.{name}.{key}=…"
                if is_set
                else f"it is a key of a workload: write it under its [[workloads]], such as that of {name}"
            )
    machine = raw.get("machine")
    if isinstance(machine, Mapping) and key in machine:
        return f"it is a key of [machine]: --set machine.{key}=…" if is_set else "write it under [machine]"
    return None


_WITH_LEVELS = ("machine", "link", "clients", "observe", "kernel")


def find_list_hint(path: tuple[str | int, ...], value: Any) -> str | None:
    """Of several values where a key takes one: they are levels of a factor."""
    if not isinstance(value, list) or not path or path[0] not in _WITH_LEVELS:
        return None
    if path == ("kernel",):
        return f"to compare kernels, write kernel = {write_list(value)} under [factors]; [kernel] is what all have"
    return f"to compare several, write {path[-1]} = {write_list(value)} under [factors]"


def write_list(value: Any) -> str:
    """Levels as a file has them; the first four of many."""
    values = value if isinstance(value, list) else [value]
    return f"[{', '.join(map(_write, values[:4]))}{', …' if len(values) > 4 else ''}]"


def _write(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else f'"{str(value)[:60]}"'
