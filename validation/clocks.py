"""How wrong the offset between two hosts' clocks is that nearmetal tells, with an offset that is put in.

    sudo python validation/clocks.py [--repeats 20] [--json]

Two network namespaces of this host, joined by a veth, have one clock. What answers in one of them speaks the protocol
of `nearmetal-probe clock serve`, and adds an offset, and a drift, to its stamps: that much it is ahead in truth. The
probe asks at the pace at which a trial's hosts are compared, and the error is the difference.

- quiet: nothing else goes on.
- loaded: requests for 100 kB cross the same veth at the same time, from the asking side, on all CPUs.
- one-sided: the same, from the other side: queues build up on the other way.

Goal: each error is at most 50 us, and at most what is told with it. The probe's own server is asked too, without an
offset.
"""

import argparse
import contextlib
import json
import os
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

from nearmetal.lab import probe
from nearmetal.lab.clocks import PACE

GOAL_NS = 50_000
OFFSETS = ((0, 0.0), (37_000_000, 0.0), (-1_500_000_000, 0.0), (250_000, 50e-6))
"""Nanoseconds at the start, and what is gained in each second."""
_PACKET = struct.Struct(">8sQQqqqq24s")
_ANSWERS = {1: 2, 3: 4}
_HERE, _THERE = "10.113.0.1", "10.113.0.2"
_SO_TIMESTAMPNS = 35
"""asm-generic/socket.h."""


def serve(ahead_ns: int, gain: float) -> None:
    """Answer until killed. What is gained is by an origin that is told as a line."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        server.bind((_THERE, 9123))
        origin = time.time_ns()
        print(origin, flush=True)

        def shift(real: int) -> int:
            return real + ahead_ns + round((real - origin) * gain)

        while True:
            content, ancillary, _, asker = server.recvmsg(256, 128)
            arrived = time.time_ns()
            for _, kind, data in ancillary:
                if kind == _SO_TIMESTAMPNS:
                    seconds, nanoseconds = struct.unpack("qq", data)
                    arrived = seconds * 10**9 + nanoseconds
            magic, kind, sequence, asked, *_ = _PACKET.unpack(content)
            raw = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
            answer = (magic, _ANSWERS[kind], sequence, asked, shift(arrived), shift(time.time_ns()), raw, b"tsc")
            server.sendto(_PACKET.pack(*answer), asker)


def within(namespace: str, *argv: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *argv]


@contextlib.contextmanager
def joined() -> Iterator[tuple[str, str]]:
    here, there = (f"nmv{os.getpid()}-{side}" for side in ("a", "b"))
    with contextlib.ExitStack() as made:
        for name in (here, there):
            subprocess.run(["ip", "netns", "add", name], check=True)
            made.callback(subprocess.run, ["ip", "netns", "delete", name], check=True)
        cable = ("type", "veth", "peer", "name", "cable", "netns", there)
        subprocess.run(["ip", "-netns", here, "link", "add", "cable", *cable], check=True)
        for name, address in ((here, _HERE), (there, _THERE)):
            subprocess.run(["ip", "-netns", name, "address", "add", f"{address}/24", "dev", "cable"], check=True)
            for link in ("lo", "cable"):
                subprocess.run(["ip", "-netns", name, "link", "set", link, "up"], check=True)
        yield here, there


@contextlib.contextmanager
def running(argv: list[str]) -> Iterator[bytes]:
    """The first line of what runs meanwhile."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline()
        finally:
            process.kill()
            process.stdout.read()


@contextlib.contextmanager
def loaded(of: str, by: str, address: str) -> Iterator[None]:
    tool = str(probe.path())
    serving = within(of, tool, "serve", "--listen", f"{address}:9001", "--body", "100000", "--json")
    asked = ("--mode", "closed", "--workers", "8", "--duration", "600s", "--json")
    with running(serving), contextlib.ExitStack() as ended:
        asking = subprocess.Popen(
            within(by, tool, "load", f"http://{address}:9001/", *asked), stdout=subprocess.DEVNULL
        )
        ended.callback(asking.wait)
        ended.callback(asking.kill)
        time.sleep(0.5)
        yield


def ask(namespace: str, server: str) -> tuple[int, dict[str, int]]:
    """When, in the middle, and what the probe tells."""
    began = time.time_ns()
    argv = within(namespace, str(probe.path()), "clock", "ask", server, *PACE, "--json")
    told = subprocess.run(argv, check=True, capture_output=True).stdout
    return (began + time.time_ns()) // 2, json.loads(told)


def measure(name: str, here: str, there: str, repeats: int) -> dict[str, object]:
    errors, bounds = [], []
    for ahead_ns, gain in OFFSETS:
        own = (sys.executable, __file__, "--serve", str(ahead_ns), str(gain))
        with running(within(there, *own)) as line:
            for _ in range(repeats):
                middle, told = ask(here, f"{_THERE}:9123")
                errors.append(abs(told["offset_ns"] - ahead_ns - round((middle - int(line)) * gain)))
                bounds.append(told["bound_ns"])
    own_server = (str(probe.path()), "clock", "serve", "--listen", f"{_THERE}:9123")
    with running(within(there, *own_server)):
        for _ in range(repeats):
            _, told = ask(here, f"{_THERE}:9123")
            errors.append(abs(told["offset_ns"]))
            bounds.append(told["bound_ns"])
    return {
        "case": name,
        "comparisons": len(errors),
        "error, median us": round(statistics.median(errors) / 1e3, 1),
        "error, most us": round(max(errors) / 1e3, 1),
        "told at most, median us": round(statistics.median(bounds) / 1e3, 1),
        "beyond what is told": sum(error > bound for error, bound in zip(errors, bounds, strict=True)),
        "holds": max(errors) <= GOAL_NS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20, help="for each offset")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=2, metavar=("NS", "GAIN"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(int(given.serve[0]), float(given.serve[1]))
    is_good = True
    with joined() as (here, there):
        for name, load in (
            ("quiet", contextlib.nullcontext()),
            ("loaded", loaded(there, here, _THERE)),
            ("one-sided", loaded(here, there, _HERE)),
        ):
            with load:
                found = measure(name, here, there, given.repeats)
            print(json.dumps(found) if given.json else "  ".join(f"{key} {value}" for key, value in found.items()))
            is_good = is_good and bool(found["holds"]) and not found["beyond what is told"]
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
