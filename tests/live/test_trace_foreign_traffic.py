"""What the analyser finds in traffic of a strange server and strange clients, against the log and the kernels."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nearmetal.lab.image import Image

from .wire import SERVER, Program, Wire, requests, trace, whole

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and captures take root"),
    *(
        pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is missing: apt-get install {tool}")
        for tool in ("tcpdump", "curl")
    ),
]

PAGES = {"small": 400, "large": 300_000}
CONFIGURATION = """
server.document-root = "@FOLDER@"
server.bind = "@ADDRESS@"
server.port = 80
server.modules = ("mod_accesslog")
accesslog.filename = "@FOLDER@/log"
accesslog.format = "%m %s %I %O"
"""
IDLE = """
import socket, sys, time
server = socket.create_connection((sys.argv[1], 80))
server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
server.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
time.sleep(3.5)
server.close()
"""
UNREAD = """
import socket, sys, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
server.connect((sys.argv[1], 80))
server.sendall(b"GET /large HTTP/1.0\\r\\n\\r\\n")
time.sleep(2.5)
while server.recv(1 << 16):
    pass
"""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def lighttpd(image: Image) -> list[str]:
    """The image's, with the image's libraries: this host needs none."""
    files = image.root / "usr"
    loader = [str(image.root / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(files / "lib/x86_64-linux-gnu")]
    return [*loader, str(files / "sbin/lighttpd"), "-m", str(files / "lib/lighttpd")]


def serve(wire: Wire, folder: Path, image: Image) -> Program:
    for name, size in PAGES.items():
        (folder / name).write_bytes(b"x" * size)
    configuration = folder / "lighttpd.conf"
    configuration.write_text(CONFIGURATION.replace("@FOLDER@", str(folder)).replace("@ADDRESS@", SERVER))
    server = wire.program(1, *lighttpd(image), "-D", "-f", str(configuration))
    server.wait_for("server started", "stderr")
    return server


def kernel(wire: Wire, side: int, name: str) -> int:
    """A counter of that end's kernel, as /proc/net/netstat has it."""
    lines = [line.split() for line in wire.run(side, "cat", "/proc/net/netstat").splitlines()]
    tables = [dict(zip(names, values, strict=True)) for names, values in zip(lines[::2], lines[1::2], strict=True)]
    return int(next(table[name] for table in tables if name in table))


@pytest.mark.parametrize("snap", [0, 96])
def test_each_request_is_as_the_server_logged_it(stack: ExitStack, lab_image: Image, tmp_path: Path, snap: int) -> None:
    wire = Wire(stack, "--delay", "1ms")
    server = serve(wire, tmp_path, lab_image)
    files = [tmp_path / "client.pcap", tmp_path / "server.pcap"]
    captures = [wire.capture(side, file, "-s", str(snap)) for side, file in enumerate(files)]
    small, large, nothing = (f"http://{SERVER}/{name}" for name in (*PAGES, "nothing"))
    wire.run(0, "curl", "-sS", *(["-o", "/dev/null"] * 5), small, large, nothing, large, small)
    wire.run(0, "curl", "-sS", "-I", large, small)
    wire.run(0, "curl", "-sS", "-0", "-o", "/dev/null", large)
    wire.run(0, "curl", "-sS", "-o", "/dev/null", "-H", "Connection: close", "-r", "100-199", large)
    wire.run(0, "curl", "-sS", "-o", "/dev/null", "-z", str(tmp_path / "small"), small)
    wire.run(0, "sleep", "0.5")
    for capture in captures:
        whole(capture)
    server.end()
    logged = Counter(tuple(line.split()) for line in (tmp_path / "log").read_text().splitlines())
    assert logged.total() == 10
    for end in ([files[0]], [files[1]], files):
        seen = Counter(
            (one["method"], str(one["status"]), str(one["request"]["bytes"]), str(one["response"]["bytes"]))
            for one in requests(tmp_path / "requests.jsonl", *end)
        )
        assert seen == logged, end


def test_asking_whether_somebody_is_there_is_counted_as_the_kernels_do(
    stack: ExitStack, lab_image: Image, tmp_path: Path
) -> None:
    wire = Wire(stack)
    serve(wire, tmp_path, lab_image)
    capture = wire.capture(0, file := tmp_path / "client.pcap", "-s", "96")
    wire.run(0, sys.executable, "-c", IDLE, SERVER)
    wire.run(0, "sleep", "0.3")
    whole(capture)
    assert trace(file)["client"]["keep_alives"] == kernel(wire, 0, "TCPKeepAlive") > 1


def test_a_client_that_does_not_read_is_told_from_a_slow_server(
    stack: ExitStack, lab_image: Image, tmp_path: Path
) -> None:
    wire = Wire(stack)
    serve(wire, tmp_path, lab_image)
    capture = wire.capture(1, file := tmp_path / "server.pcap", "-s", "96")
    wire.run(0, sys.executable, "-c", UNREAD, SERVER)
    wire.run(0, "sleep", "0.3")
    whole(capture)
    document = trace(file)
    assert document["server"]["keep_alives"] == kernel(wire, 1, "TCPWinProbe") > 1
    assert document["client"]["zero_windows"] >= document["server"]["keep_alives"]
    assert document["each_request"]["total_ns"]["min"] > 2_000_000_000
