"""The capture analyser against its peers and its floor, and against the truth: `python bench/trace.py`.

Makes a capture with known contents: requests kept alive on many connections, with segments that were overtaken, lost
and sent again, captured twice or coalesced; whole, and cut at 96 bytes. Checks that the analyser finds exactly those,
then runs it in rounds that alternate with tcptrace (`apt-get install tcptrace`) and the program `pcapwalk`,
which walks from packet to packet and does nothing else. Processor time of the whole process, medians, and ratios. The
captures are in memory, as they come to be there when they are read from a disk.
"""

import argparse
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
MSS = 1448
"""Payload of a full segment with timestamps."""
REPLY = 11_300
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % REPLY
REQUEST = b"GET /page HTTP/1.1\r\nHost: 10.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"
MESSAGE = HEAD + b"x" * REPLY
CONNECTIONS = 64
EVERY = {"reordered": 97, "retransmitted": 89, "duplicates": 83, "coalesced": 79}
"""In every so many-th request one segment of its reply is such a one."""
DISSECTED = 500_000
"""Packets that tshark is given: some 15 s."""
SYN, ACK, PUSH = 2, 16, 8
SYN_OPTIONS = bytes.fromhex("020405b40402080a000000010000000001030307")


@dataclass
class End:
    """One end of a connection as a sender."""

    ethernet: bytes
    addresses: bytes
    ports: bytes
    sequence: int
    identification: int = 0


class Connection:
    """Packets as tcpdump would have them at the receiver of what the server sends."""

    def __init__(self, number: int) -> None:
        client, server = bytes((10, 1, number >> 8, number & 255)), bytes((10, 0, 0, 1))
        macs = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
        port = struct.pack("!H", 20_000 + number)
        http = struct.pack("!H", 80)
        # Sequence numbers of which some begin anew within the capture.
        first = (2**32 - 1 - number * 200_000) % 2**32
        self.client = End(macs[0] + macs[1] + b"\x08\x00", client + server, port + http, first)
        self.server = End(macs[1] + macs[0] + b"\x08\x00", server + client, http + port, first ^ 0x5555)

    def packet(
        self, end: End, clock: int, flags: int, payload: bytes = b"", back: int = 0, identification: int | None = None
    ) -> bytes:
        """A packet of `end`; `back` says by how much its sequence number lies before the next one."""
        options = SYN_OPTIONS if flags & SYN else b"\1\1\x08\n" + struct.pack("!II", clock // 1_000_000 % 2**32, 0)
        other = self.server if end is self.client else self.client
        length = 40 + len(options) + len(payload)
        if identification is None:
            end.identification = identification = end.identification % 65_535 + 1
        return b"".join(
            (
                end.ethernet,
                struct.pack("!BBHHHBBH", 0x45, 0, length, identification, 0x4000, 64, 6, 0),
                end.addresses,
                end.ports,
                struct.pack(
                    "!IIBBHHH",
                    (end.sequence - back) % 2**32,
                    other.sequence if flags & ACK else 0,
                    (20 + len(options)) << 2,
                    flags,
                    500,
                    0,
                    0,
                ),
                options,
                payload,
            )
        )

    def handshake(self, clock: int) -> Iterator[bytes]:
        for end, flags in ((self.client, SYN), (self.server, SYN | ACK)):
            packet = self.packet(end, clock, flags)
            end.sequence = (end.sequence + 1) % 2**32
            yield packet
        yield self.packet(self.client, clock, ACK)

    def request(self, number: int, clock: int) -> Iterator[bytes]:
        yield self.packet(self.client, clock, ACK | PUSH, REQUEST)
        self.client.sequence = (self.client.sequence + len(REQUEST)) % 2**32
        size = MSS * 2 if number % EVERY["coalesced"] == 0 else MSS
        segments = [MESSAGE[:size]] + [MESSAGE[at : at + MSS] for at in range(size, len(MESSAGE), MSS)]
        reply = []
        for segment in segments:
            reply.append(self.packet(self.server, clock, ACK, segment))
            self.server.sequence = (self.server.sequence + len(segment)) % 2**32
        if number % EVERY["duplicates"] == 0:
            reply.insert(4, reply[3])
        if number % EVERY["reordered"] == 0:
            reply[1], reply[2] = reply[2], reply[1]
        if number % EVERY["retransmitted"] == 0:
            # The sixth segment was lost before it came here; it is sent again when the others have arrived.
            del reply[5 + (number % EVERY["duplicates"] == 0)]
            back = sum(map(len, segments[5:]))
            reply.append(self.packet(self.server, clock + 2_000_000, ACK, segments[5], back))
        yield from reply
        yield self.packet(self.client, clock, ACK)
        yield self.packet(self.client, clock, ACK)


def packets(requests: int) -> Iterator[tuple[int, bytes]]:
    """Packets with their times in microseconds."""
    connections = [Connection(number) for number in range(CONNECTIONS)]
    clock = 1_700_000_000_000_000_000
    for connection in connections:
        for packet in connection.handshake(clock):
            clock += 10_000
            yield clock // 1000, packet
    waiting: list[Iterator[bytes]] = []
    for number in range(1, requests + 1):
        waiting.append(connections[number % CONNECTIONS].request(number, clock))
        if len(waiting) == CONNECTIONS // 4 or number == requests:
            # Replies to several clients come in bursts of a few packets, as they do from a real server.
            while waiting:
                for one in list(waiting):
                    for _ in range(4):
                        segment = next(one, None)
                        if segment is None:
                            waiting.remove(one)
                            break
                        clock += 1_000
                        yield clock // 1000, segment


def make(folder: Path, requests: int) -> dict[str, Path]:
    files = {"whole": folder / "whole.pcap", "snap length 96": folder / "96.pcap"}
    with files["whole"].open("wb") as whole, files["snap length 96"].open("wb") as cut:
        whole.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1))
        cut.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 1))
        for time, packet in packets(requests):
            stamp = struct.pack("<II", time // 1_000_000, time % 1_000_000)
            whole.write(stamp + struct.pack("<II", len(packet), len(packet)) + packet)
            short = packet[:96]
            cut.write(stamp + struct.pack("<II", len(short), len(packet)) + short)
    for file in files.values():
        read_from_disk(file)
    return files


def read_from_disk(file: Path) -> None:
    """Have it in memory as whoever opens a capture of yesterday's has it. What was just written, in small pieces, lies
    there in small pages, which takes every reader longer to copy."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while opened.read(2**20):
            pass


def truth(probe: str, files: dict[str, Path], requests: int) -> tuple[bool, int]:
    """Whether the analyser finds what the captures hold, and how many packets that are."""
    made = {name: requests // every for name, every in EVERY.items()} | {"requests": requests}
    met = True
    for name, file in files.items():
        document = json.loads(subprocess.run([probe, "trace", "--json", file], capture_output=True, check=True).stdout)
        found = {key: document["server"][key] for key in EVERY} | {"requests": document["requests"]}
        met &= found == made and document["each_request"]["total_ns"]["count"] == requests
        print(f"  {name:<16} made {made}\n  {'':<16} found {found}")
    print(f"  {document['packets']:,} packets; goal: all of them: {'met' if met else 'MISSED'}")
    return met, document["packets"]


@dataclass
class Run:
    cpu: float
    wall: float
    memory: int


def timed(argv: list[str]) -> Run:
    """CPU and wall seconds of a program, and its memory in bytes at its most."""
    begin = os.times().elapsed
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}")
    return Run(usage.ru_utime + usage.ru_stime, os.times().elapsed - begin, usage.ru_maxrss * 1024)


def contenders(probe: str, floors: Path | None) -> dict[str, Callable[[str], list[str]]]:
    calls: dict[str, Callable[[str], list[str]]] = {"nearmetal": lambda file: [probe, "trace", "--json", file]}
    if floors is not None and (floors / "pcapwalk").exists():
        calls["read() walk"] = lambda file: [str(floors / "pcapwalk"), "3", file]
    else:
        print("LEFT OUT  the read() walk: name the folder of pcapwalk by --floors")
    if shutil.which("tcptrace"):
        calls["tcptrace -l -r"] = lambda file: ["tcptrace", "-l", "-r", file]
    else:
        print("LEFT OUT  tcptrace: apt-get install tcptrace")
    return calls


def compare(calls: dict[str, Callable[[str], list[str]]], name: str, file: Path, rounds: int) -> tuple[bool, float]:
    """Whether the goals are met, and the analyser's CPU seconds."""
    runs: dict[str, list[Run]] = {call: [] for call in calls}
    for _ in range(rounds):
        for call, argv in calls.items():
            runs[call].append(timed(argv(str(file))))
    ours = statistics.median(run.cpu for run in runs["nearmetal"])
    print(f"\n{name}, {file.stat().st_size / 1e6:,.0f} MB, medians of {rounds} rounds")
    for call, these in runs.items():
        cpu = statistics.median(run.cpu for run in these)
        rate = file.stat().st_size / cpu / 1e9
        memory = max(run.memory for run in these) / 1e6
        print(f"  {call:<16} {cpu:>8.3f} s of CPU {rate:>7.2f} GB/s {memory:>8.1f} MB   {cpu / ours:>6.2f} x nearmetal")
    goals = {"whole": (2.2, 4.5), "snap length 96": (None, 10.0)}[name]
    met = max(run.memory for run in runs["nearmetal"]) <= 64e6
    print(f"  goal: at most 64 MB: {'met' if met else 'MISSED'}")
    for other, goal, is_limit in (("read() walk", goals[0], True), ("tcptrace -l -r", goals[1], False)):
        if other in runs and goal is not None:
            ratio = statistics.median(run.cpu for run in runs[other]) / ours
            reached = 1 / ratio <= goal if is_limit else ratio >= goal
            told = f"{1 / ratio:.2f} x, goal at most {goal} x" if is_limit else f"{ratio:.1f} x, goal at least {goal} x"
            print(f"  against {other}: {told}: {'met' if reached else 'MISSED'}")
            met &= reached
    return met, ours


def compare_tshark(file: Path, packets: int, ours: float) -> None:
    """Run tshark on the first packets of a capture of so many; `ours` is the analyser's CPU seconds for all."""
    count = min(packets, DISSECTED)
    run = timed(["tshark", "-c", str(count), "-q", "-z", "io,stat,0", "-r", str(file)])
    ratio = (run.cpu / count) / (ours / packets)
    print(f"\ntshark, once, the first {count:,} of {packets:,} packets")
    print(
        f"  {run.cpu:.1f} s of CPU, {run.memory / 1e6:,.0f} MB, "
        f"{run.cpu / count * 1e6:.1f} us a packet: {ratio:.0f} x nearmetal's"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", default=str(ROOT / ".venv/bin/nearmetal-probe"), help="the probe to measure")
    parser.add_argument("--requests", type=int, default=94_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tshark", action="store_true", help="run tshark too, once, on a part: it takes 15 s")
    parser.add_argument(
        "--floors",
        type=Path,
        default=os.environ.get("NEARMETAL_FLOORS"),
        help="folder with the program `pcapwalk`, which marks what is possible (or NEARMETAL_FLOORS)",
    )
    given = parser.parse_args()
    calls = contenders(given.probe, given.floors)
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} before", end=" ")
    with tempfile.TemporaryDirectory() as folder:
        files = make(Path(folder), given.requests)
        print(f"and {os.getloadavg()[0]:.1f} with the captures made\nwhat the captures hold, and what is found")
        met, count = truth(given.probe, files, given.requests)
        spent = {}
        for name, file in files.items():
            reached, spent[name] = compare(calls, name, file, given.rounds)
            met &= reached
        if given.tshark and shutil.which("tshark"):
            compare_tshark(files["whole"], count, spent["whole"])
    print(f"\nload {os.getloadavg()[0]:.1f} after it")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
