"""Where the comparison runs: a network namespace of its own, the server on one CPU and the generator on another.

Both run at the highest ordinary priority, or in real time, so that on a busy machine the figures are theirs and not
their neighbours'.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT = 9400
"""Any port will do: nothing else lives in the namespace."""

LIMIT = 60.0
"""Seconds after which a generator that does not end is ended."""


class GeneratorFailed(Exception):
    """A generator did not run to its end."""


@dataclass(frozen=True)
class Ran:
    """A generator's run: what it printed, its processor time (user and system, seconds), its largest memory (bytes)."""

    output: str
    cpu: float
    memory: int


@dataclass(frozen=True)
class Bed:
    """A namespace, and the CPUs of its two sides."""

    name: str
    server_cpu: int
    generator_cpu: int
    priority: tuple[str, ...]
    """The command that gives both sides their priority."""

    def argv(self, cpu: int, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.name, *self.priority, "taskset", "-c", str(cpu), *argv]

    def run(self, argv: Sequence[str]) -> Ran:
        """Run a generator to its end."""
        deadline = time.monotonic() + LIMIT
        memory = 0
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(self.argv(self.generator_cpu, argv), stdout=printed, stderr=subprocess.STDOUT)
            while True:
                # The peak that wait4 reports would be that of this interpreter, from which the generator was forked.
                memory = max(memory, peak_memory(process.pid))
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > deadline:
                    process.kill()
                time.sleep(0.02)
            process.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        if process.returncode == -signal.SIGKILL:
            raise GeneratorFailed(f"{argv[0]} did not end within {LIMIT:.0f} s")
        if process.returncode != 0:
            raise GeneratorFailed(f"{argv[0]} ended with {process.returncode}: {text.strip()[-200:]}")
        return Ran(text, usage.ru_utime + usage.ru_stime, memory)


def peak_memory(pid: int) -> int:
    """The largest resident set of a running process, in bytes; 0 once it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return sizes[0] if sizes else 0


ORDINARY = ("nice", "-n", "-20")
REAL_TIME = ("chrt", "-f", "1")


@contextmanager
def bed(priority: tuple[str, ...]) -> Iterator[Bed]:
    """A namespace that vanishes afterwards."""
    cpus = sorted(os.sched_getaffinity(0))
    name = f"nmbench{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        here = Bed(name, cpus[0], cpus[-1], priority)
        inside = ["ip", "netns", "exec", name]
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        settings = ["net.ipv4.ip_local_port_range=1024 65000", "net.ipv4.tcp_congestion_control=reno"]
        subprocess.run([*inside, "sysctl", "-q", "-w", *settings], check=True)
        yield here
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


class Server:
    """`nearmetal-probe serve` within the bed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def report(self) -> dict[str, Any]:
        """What arrived since the last report."""
        self._process.send_signal(signal.SIGUSR1)
        assert self._process.stdout is not None
        document: dict[str, Any] = json.loads(self._process.stdout.readline())
        return document


@contextmanager
def serving(bed: Bed, probe: str, *options: str) -> Iterator[Server]:
    """A server that listens on PORT, ended afterwards."""
    argv = [probe, "serve", "--json", "--listen", f"127.0.0.1:{PORT}", *options]
    process = subprocess.Popen(
        bed.argv(bed.server_cpu, argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        if "listening" not in process.stderr.readline():
            raise RuntimeError(f"{' '.join(argv)} does not listen")
        yield Server(process)
    finally:
        process.terminate()
        process.communicate(timeout=10)


def reply_length(body: int, *, keep_alive: bool) -> int:
    """Bytes of one reply of the server, head included, as `serve` puts it together."""
    connection = "keep-alive" if keep_alive else "close"
    head = (
        "HTTP/1.1 200 OK\r\nServer: nearmetal\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {body}\r\nConnection: {connection}\r\n\r\n"
    )
    return len(head) + body
