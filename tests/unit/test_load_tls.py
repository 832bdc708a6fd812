"""The load generator over TLS: what it checks, what it counts, and what it sends."""

import hashlib
import json
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nearmetal.lab import probe
from tests.tls_server import Authority, TlsServer, new_authority, serving


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return new_authority(tmp_path_factory.mktemp("authority"))


def run(url: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [str(probe.path()), "load", url, "--json", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60)


def load(server: TlsServer, *words: str, host: str = "localhost") -> dict[str, Any]:
    ran = run(f"https://{host}:{server.port}/", *words)
    assert ran.returncode in (0, 1), ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_kept_connections_shake_hands_once(authority: Authority, tmp_path: Path, version: ssl.TLSVersion) -> None:
    with serving(authority.issue(tmp_path, "localhost"), version=version) as server:
        found = load(server, "--ca", str(authority.file), "--requests", "300", "--workers", "3")
        assert (found["requests"]["completed"], found["status"]["2xx"], found["bytes"]["body"]) == (300, 300, 1500)
        assert (found["connections"]["opened"], found["handshake_ns"]["count"]) == (3, 3)
        assert found["tls"]["checked"] and found["tls"]["version"] == version.name
        assert found["engine"] == {"name": "epoll", "reason": "TLS"}
        # The first connection, before anything was measured, is one more.
        assert server.handshakes == 4


def test_each_new_connection_is_a_client_of_its_own(authority: Authority, tmp_path: Path) -> None:
    with serving(authority.issue(tmp_path, "127.0.0.1")) as server:
        words = ("--ca", str(authority.file), "--requests", "40", "--workers", "4", "--new-connections")
        found = load(server, *words, host="127.0.0.1")
        assert found["requests"]["completed"] == found["handshake_ns"]["count"] == 40
        assert 0 < found["handshake_cpu_ns"]["p50"] <= found["handshake_cpu_ns"]["max"]
        assert found["connect_ns"]["p50"] < found["handshake_ns"]["p50"]
        assert (server.handshakes, server.resumed) == (41, 0)


def test_an_open_loop_has_its_pool_shake_hands_beforehand(authority: Authority, tmp_path: Path) -> None:
    with serving(authority.issue(tmp_path, "localhost")) as server:
        pace = ("--mode", "open", "--rate", "100", "--requests", "50", "--workers", "5")
        found = load(server, "--ca", str(authority.file), *pace)
        assert found["requests"]["completed"] == 50
        assert server.handshakes >= 6


def test_a_reply_of_many_records_and_a_large_body_come_whole(authority: Authority, tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.write_bytes(bytes(range(256)) * 12_000)
    with serving(authority.issue(tmp_path, "localhost"), body=b"x" * 1_000_000) as server:
        words = ("-X", "PUT", "--data", f"@{content}", "--requests", "6", "--workers", "2")
        found = load(server, "--ca", str(authority.file), *words)
        assert (found["requests"]["completed"], found["bytes"]["body"]) == (6, 6_000_000)
        checksum = hashlib.sha256(content.read_bytes()).hexdigest()
        assert {hashlib.sha256(body).hexdigest() for _, body in server.requests} == {checksum}
        assert found["mix"] == [{"method": "PUT", "path": "/", "weight": 1, "body": 3_072_000, "sha256": checksum}]


def test_what_the_server_cuts_off_is_no_reply(authority: Authority, tmp_path: Path) -> None:
    """It does not say how long it is: without TLS's own end, nobody knows whether it is whole."""
    with serving(authority.issue(tmp_path, "localhost"), cuts=True) as server:
        found = load(server, "--ca", str(authority.file), "--requests", "2", "--workers", "1")
        assert found["requests"]["completed"] == 0
        assert found["errors"]["tls_reasons"] == {"cut off without a word": 2}


Refusal = Callable[[Authority, Path], tuple[Path, list[str]]]

REFUSED: dict[str, tuple[Refusal, str, str]] = {
    "expired": (
        lambda ca, to: (ca.issue(to, "localhost", begins=-9, ends=-2), ["--ca", str(ca.file)]),
        "has a certificate that has expired",
        "renew it",
    ),
    "not yet": (
        lambda ca, to: (ca.issue(to, "localhost", begins=2, ends=9), ["--ca", str(ca.file)]),
        "has a certificate that is not valid yet",
        "set the clock",
    ),
    "another name": (
        lambda ca, to: (ca.issue(to, "example.org"), ["--ca", str(ca.file)]),
        "has a certificate for another name",
        "use the name that it is for",
    ),
    "unknown": (
        lambda ca, to: (ca.issue(to, "localhost"), ["--ca", str(new_authority(to, "other").file)]),
        "has a certificate of an unknown CA",
        "--ca FILE",
    ),
    "a CA's own": (
        lambda ca, to: (ca.issue(to, "localhost", is_ca=True), ["--ca", str(ca.file)]),
        "has a certificate that is a CA's own",
        "CA:FALSE",
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_certificate_is_refused_before_anything_is_measured(kind: str, authority: Authority, tmp_path: Path) -> None:
    made, what, remedy = REFUSED[kind]
    certificate, words = made(authority, tmp_path)
    with serving(certificate) as server:
        ran = run(f"https://localhost:{server.port}/", *words)
        assert (ran.returncode, ran.stdout, server.requests) == (2, "", [])
        assert what in ran.stderr and remedy in ran.stderr and "--insecure" in ran.stderr
        unchecked = load(server, "--insecure", "--requests", "2", "--workers", "1")
        assert unchecked["requests"]["completed"] == 2 and not unchecked["tls"]["checked"]


@contextmanager
def behaving(*behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections are treated one way after the other; the last way stays."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        ways = list(behave)
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            way = ways.pop(0) if len(ways) > 1 else ways[0]
            threading.Thread(target=way, args=(raw,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def speak_plainly(raw: socket.socket) -> None:
    with raw:
        raw.recv(4096)
        raw.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def hang_up(raw: socket.socket) -> None:
    with raw:
        raw.recv(4096)


def shake(certificate: Path) -> Callable[[socket.socket], None]:
    """Handshakes with a certificate, and nothing after it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def behave(raw: socket.socket) -> None:
        with raw:
            try:
                context.wrap_socket(raw, server_side=True).read(1)
            except OSError:
                return

    return behave


def test_a_server_that_does_not_speak_tls_is_told_before_anything_is_measured() -> None:
    with behaving(speak_plainly) as port:
        ran = run(f"https://127.0.0.1:{port}/", "--insecure", "--requests", "2")
        assert ran.returncode == 2 and "does not speak TLS" in ran.stderr and "http://" in ran.stderr


def test_what_fails_later_counts_in_its_class(authority: Authority, tmp_path: Path) -> None:
    good, expired = authority.issue(tmp_path, "localhost"), authority.issue(tmp_path, "localhost", begins=-9, ends=-2)
    cases: list[tuple[Callable[[socket.socket], None], dict[str, int], str]] = [
        (shake(expired), {"certificate": 3, "tls": 0}, "certificate that has expired"),
        (speak_plainly, {"certificate": 0, "tls": 3}, "not TLS"),
        (hang_up, {"certificate": 0, "tls": 3}, "closed in the handshake"),
    ]
    for behave, classes, reason in cases:
        with behaving(shake(good), behave) as port:
            ran = run(f"https://localhost:{port}/", "--ca", str(authority.file), "--requests", "3", "--workers", "1")
            assert ran.returncode == 1 and f"3 {reason}" in ran.stderr, ran.stderr
            errors = json.loads(ran.stdout)["errors"]
            assert {name: errors.get(name, 0) for name in classes} == classes
            assert errors["tls_reasons"] == {reason: 3}


def test_a_server_that_is_silent_in_the_handshake_times_out() -> None:
    held: list[socket.socket] = []
    with behaving(held.append) as port:
        words = ("--insecure", "--requests", "2", "--workers", "2", "--timeout", "200ms")
        ran = run(f"https://127.0.0.1:{port}/", *words)
        assert json.loads(ran.stdout)["errors"]["client_timeout"] == 2


def test_a_mix_is_sent_by_its_weights(authority: Authority, tmp_path: Path) -> None:
    mix = [
        {"path": "/read", "weight": 6},
        {"path": "/write", "weight": 3, "send": "new"},
        {"path": "/gone", "method": "DELETE"},
    ]
    with serving(authority.issue(tmp_path, "localhost")) as server:
        words = ("--mix", json.dumps(mix), "-H", "Accept: text/plain", "--requests", "20", "--workers", "1")
        found = load(server, "--ca", str(authority.file), *words)
        assert [entry["weight"] for entry in found["mix"]] == [6, 3, 1]
        lines = Counter(head.split(" HTTP/")[0] for head, _ in server.requests)
        assert lines == {"GET /read": 12, "POST /write": 6, "DELETE /gone": 2}
        assert Counter(body for _, body in server.requests) == {b"": 14, b"new": 6}
        assert all("\r\nAccept: text/plain\r\n" in head for head, _ in server.requests)
        # One who watches the server's log sees them spread, not in batches.
        first = [head.split()[1] for head, _ in server.requests[:10]]
        assert first.count("/write") == 3 and first[:4].count("/write") <= 2
