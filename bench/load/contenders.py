"""The generators that are compared: how each is called for a scenario, and how many requests it says it made."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import peers
from bed import PORT, reply_length

CONNECTIONS = 64
URL = f"http://127.0.0.1:{PORT}/"
HTTPERF_RATE = 10_000
"""Calls a second by which httperf's share is reckoned: it counts, and cannot be given a time."""


@dataclass(frozen=True)
class Scenario:
    """What is asked of every contender."""

    name: str
    body: int
    """Bytes of content in a reply."""
    keep_alive: bool
    goals: dict[str, float]
    """The largest ratio of the probe's processor time per request to that of each contender named."""


SCENARIOS = (
    Scenario("small replies, kept connections", 402, True, {"floor": 1.10, "httperf": 0.92}),
    Scenario("a new connection per request, io_uring", 402, False, {"wrk": 0.80}),
    Scenario("a new connection per request, epoll", 402, False, {"wrk": 0.95}),
    Scenario("100 KiB replies, kept connections", 102_400, True, {"fortio": 0.95, "floor": 1.15}),
)


@dataclass(frozen=True)
class Contender:
    name: str
    argv: Callable[[Scenario, float], list[str] | None]
    """The call for a scenario and a number of seconds; None where it cannot carry the scenario."""
    requests: Callable[[str], int]
    """Requests made, from what it printed."""


def found(pattern: str) -> Callable[[str], int]:
    """The number that a pattern's first group matches."""

    def requests(output: str) -> int:
        match = re.search(pattern, output)
        if match is None:
            raise RuntimeError(f"no number of requests in: {output[-300:]}")
        return int(match.group(1).replace(",", ""))

    return requests


def whole(seconds: float) -> str:
    return str(max(1, round(seconds)))


def probe(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        options = [] if scenario.keep_alive else ["--new-connections"]
        options += ["--engine", "epoll" if "epoll" in scenario.name else "auto"]
        return [path, "load", URL, "--workers", str(CONNECTIONS), "--duration", f"{seconds}s", "--json", *options]

    def requests(output: str) -> int:
        document = json.loads(output)
        return int(document["requests"]["completed"])

    return Contender("nearmetal", argv, requests)


def floor(path: Path) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        length = reply_length(scenario.body, keep_alive=scenario.keep_alive)
        mode = "epoll" if scenario.keep_alive else "uringclose" if "io_uring" in scenario.name else "close"
        return [str(path), mode, str(PORT), str(CONNECTIONS), str(seconds), str(length), "1"]

    return Contender("floor", argv, found(r"\bn=(\d+)"))


def httperf(path: str) -> Contender:
    # Without keep-alive httperf has only an open loop, whose rate would have to be guessed.
    def argv(scenario: Scenario, seconds: float) -> list[str] | None:
        if not scenario.keep_alive:
            return None
        calls = max(100, int(HTTPERF_RATE * seconds / CONNECTIONS * (1 if scenario.body < 10_000 else 0.3)))
        rate = ["--rate", "100000", "--num-conns", str(CONNECTIONS), "--num-calls", str(calls)]
        return [path, "--hog", "--server", "127.0.0.1", "--port", str(PORT), "--uri", "/", *rate]

    return Contender("httperf", argv, found(r"replies (\d+)"))


def wrk(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        header = [] if scenario.keep_alive else ["-H", "Connection: close"]
        return [path, "-t1", f"-c{CONNECTIONS}", f"-d{whole(seconds)}s", *header, URL]

    return Contender("wrk", argv, found(r"(\d+) requests in"))


def ab(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        keep = ["-k"] if scenario.keep_alive else []
        return [path, "-q", *keep, "-c", str(CONNECTIONS), "-t", whole(seconds), "-n", "100000000", URL]

    return Contender("ab", argv, found(r"Complete requests:\s+(\d+)"))


def h2load(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str] | None:
        if not scenario.keep_alive:
            return None
        return [path, "--h1", "-t1", f"-c{CONNECTIONS}", "-D", whole(seconds), URL]

    return Contender("h2load", argv, found(r"(\d+) succeeded"))


def oha(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        keep = [] if scenario.keep_alive else ["--disable-keepalive"]
        return [path, "--no-tui", "-c", str(CONNECTIONS), "-z", f"{whole(seconds)}s", *keep, URL]

    return Contender("oha", argv, found(r"\[200\] (\d+) responses"))


def fortio(path: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        keep = f"-keepalive={'true' if scenario.keep_alive else 'false'}"
        load = ["-c", str(CONNECTIONS), "-qps", "0", "-t", f"{seconds}s", keep, "-log-errors=false"]
        return [path, "load", *load, URL]

    return Contender("fortio", argv, found(r"Code 200 : (\d+)"))


PEERS: dict[str, Callable[[str], Contender]] = {
    "httperf": httperf,
    "wrk": wrk,
    "ab": ab,
    "h2load": h2load,
    "oha": oha,
    "fortio": fortio,
}


def contenders(probe_path: str, floors: Path | None) -> tuple[list[Contender], list[str]]:
    """Those that are here, the probe first, and a line for each that is not."""
    here, missing = [probe(probe_path)], []
    if floors is not None and os.access(floors / "floor", os.X_OK):
        here.append(floor(floors / "floor"))
    else:
        missing.append("floor: give the folder that holds the program by --floors or NEARMETAL_FLOORS")
    for name, peer in PEERS.items():
        path = peers.found(name)
        if path is None:
            missing.append(f"{name}: not installed; bench/load/peers.py installs it, or says why it cannot be had")
        else:
            here.append(peer(path))
    return here, missing
