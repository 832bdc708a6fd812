"""Two namespaces with a link between them, what runs in them, and captures of both ends."""

import json
import os
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nearmetal.lab import probe

LIMIT = 120.0
CLIENT, SERVER = "10.97.0.1", "10.97.0.2"
MACS = {CLIENT: "02:00:00:00:97:01", SERVER: "02:00:00:00:97:02"}
Document = dict[str, Any]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=LIMIT)


class Program:
    """A program that runs until it is told to end."""

    def __init__(self, *argv: str) -> None:
        self._process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )

    def wait_for(self, word: str, where: str) -> None:
        stream = self._process.stdout if where == "stdout" else self._process.stderr
        assert stream
        for line in stream:
            if word in line:
                return
        raise AssertionError(f"{self._process.args!r} never said '{word}'")

    def end(self) -> tuple[str, str]:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.communicate(timeout=LIMIT)


class Wire:
    """Two namespaces with a link between them, that carries nothing but what the test sends."""

    def __init__(self, stack: ExitStack, *impairment: str) -> None:
        self.stack = stack
        self.names = [f"nmtrace{os.getpid()}{side}" for side in "cs"]
        for name in self.names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "delete", name)
            quiet = "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", *quiet], check=True)
            ip("-netns", name, "link", "set", "lo", "up")
        self.link = Program(str(probe.path()), "link", *self.names, "--json", *impairment)
        stack.callback(self.link.end)
        self.link.wait_for("link.ready.v1", "stdout")
        addresses = (CLIENT, SERVER)
        for name, own, other in zip(self.names, addresses, reversed(addresses), strict=True):
            ip("-netns", name, "link", "set", "link0", "address", MACS[own])
            ip("-netns", name, "address", "add", f"{own}/24", "dev", "link0")
            ip("-netns", name, "neighbour", "add", other, "lladdr", MACS[other], "dev", "link0", "nud", "permanent")

    def program(self, side: int, *argv: str) -> Program:
        program = Program("ip", "netns", "exec", self.names[side], *argv)
        self.stack.callback(program.end)
        return program

    def run(self, side: int, *argv: str) -> str:
        ended = subprocess.run(
            ["ip", "netns", "exec", self.names[side], *argv], capture_output=True, text=True, timeout=LIMIT
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def capture(self, side: int, file: Path, *options: str, interface: str = "link0") -> Program:
        # Without immediate mode, what is captured in the last second is lost when tcpdump is told to end. Its buffer
        # has a place of 64 KiB for each packet: 4,000 of them, for a tcpdump that a busy host lets wait.
        how = ("--immediate-mode", "-B", "262144", "-Z", "root")
        tcpdump = ("tcpdump", "-i", interface, *how, "-w", str(file), *options)
        program = self.program(side, *tcpdump)
        program.wait_for("listening on", "stderr")
        return program

    def serve(self, *options: str, address: str = SERVER) -> None:
        server = self.program(1, str(probe.path()), "serve", "--listen", f"{address}:9001", *options)
        server.wait_for("listening", "stderr")

    def load(self, requests: int, side: int = 0, address: str = SERVER) -> None:
        options = ("--workers", "1", "--requests", str(requests), "--timeout", "60s", "--json")
        told = json.loads(self.run(side, str(probe.path()), "load", f"http://{address}:9001/", *options))
        assert told["requests"]["completed"] == requests


def whole(tcpdump: Program) -> None:
    """The capture ended, and missed nothing."""
    _, said = tcpdump.end()
    assert "0 packets dropped by kernel" in said, said


def trace(*arguments: str | Path) -> Document:
    ended = subprocess.run([probe.path(), "trace", "--json", *arguments], capture_output=True, timeout=LIMIT)
    assert ended.returncode == 0, ended.stderr.decode()
    return dict(json.loads(ended.stdout))


def requests(lines: Path, *files: Path) -> list[Document]:
    """Each request of captures, by way of a file of lines."""
    trace("--requests", lines, *files)
    return [json.loads(line) for line in lines.read_text().splitlines()]
