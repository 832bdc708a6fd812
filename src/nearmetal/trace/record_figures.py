"""The handful of figures that a record keeps of a `trace.v1`. Pure."""

from collections.abc import Mapping
from typing import Any

from nearmetal.units import MIB

PHASES = ("connect", "send", "wait", "transfer", "total")
BETWEEN = ("network", "server")
"""Phases that it takes both ends to tell apart."""
_CLOCKS = (("clock_offset", "offset_ns"), ("clock_uncertainty", "uncertainty_ns"))


def make_figures(document: Mapping[str, Any]) -> dict[str, float | int]:
    """docs/observers.md lists them with their units. What was not seen is left out."""
    client, server, requests = document["client"], document["server"], int(document["requests"])
    told: dict[str, float | int] = {"requests": requests}
    if requests:
        each: dict[str, float] = {
            "packets": client["packets"] + server["packets"],
            "bytes": document["captures"][0]["bytes"],
            "segments": server["segments"],
            "acks": client["acks"],
            "coalesced": client["coalesced"] + server["coalesced"],
        }
        if server["writes"] is not None:
            each["joined_writes"] = server["writes"]["joined"]
            each["writes"] = server["writes"]["apart"] + server["writes"]["joined"]
            told["write_size"] = server["writes"]["size"]
        told |= {name: _divide_rounded(count, requests) for name, count in each.items()}
    else:
        told |= _of_a_stream(client, server)
    told |= {name: client[name] + server[name] for name in ("retransmitted", "spurious", "reordered", "duplicates")}
    told |= _list_medians(document["each_request"], PHASES)
    joined = document["joined"]
    if joined is not None:
        if joined["uncertainty_ns"] is not None:
            told |= {name: joined[key] / 1e9 for name, key in _CLOCKS}
        ends = document["captures"]
        ways = (
            _count_crossing(joined["there"], ends[0]["client"]["coalesced"], ends[1]["client"]["coalesced"]),
            _count_crossing(joined["back"], ends[1]["server"]["coalesced"], ends[0]["server"]["coalesced"]),
        )
        counted = [way for way in ways if way is not None]
        if len(counted) == len(ways):
            told["crossed"], told["lost"] = map(sum, zip(*counted, strict=True))
            told["overtaken"] = sum(
                way["reordered"] + way["reordered_bare"] for way in (joined["there"], joined["back"])
            )
        told |= _list_medians(joined["each_request"], BETWEEN)
    return told


def _of_a_stream(client: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, float | int]:
    """Where there are no requests to share it out to, what a MiB took, both ways. Nothing of less than one."""
    payload = client["payload_bytes"] + server["payload_bytes"]
    if payload < MIB:
        return {}
    names = ("packets", "segments", "acks", "coalesced")
    each = {f"{name}_per_mib": _divide_rounded((client[name] + server[name]) * MIB, payload) for name in names}
    return {"payload": payload, **each}


def _divide_rounded(count: float, among: float) -> float:
    """With nine digits, wherever the point is: six ACKs of 30,000 requests are 0.0002, and not the same as seven."""
    return float(f"{count / among:.9g}")


def _count_crossing(way: Mapping[str, int], left_joined: int, arrived_joined: int) -> tuple[int, int] | None:
    """Packets that left and those that were lost, counted alike, whatever was joined at either end.

    The probe counts what was lost as large as a wire carries it, and what left as it left. None where nothing counts
    both: of what left joined more has arrived, or less without a loss, so it was joined anew on the way.
    """
    lost = way["lost"] + way["lost_bare"]
    if not left_joined:
        return way["left"], lost
    came = way["arrived"] - way["unsent"] - way["duplicated"]
    if not arrived_joined:
        return came + lost, lost  # cut on the way: what arrived tells how many there were
    missing = way["left"] - way["unsettled"] - came
    # What arrived and is unsettled is among both. A super-segment that is lost is one piece at least.
    if not -2 * way["unsettled"] <= missing <= lost:
        return None
    return way["left"], max(0, missing)


def _list_medians(spreads: Mapping[str, Any], phases: tuple[str, ...]) -> dict[str, float]:
    """Seconds."""
    told = {phase: spreads[f"{phase}_ns"] for phase in phases}
    return {phase: spread["median"] / 1e9 for phase, spread in told.items() if spread["count"]}
