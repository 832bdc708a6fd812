"""The load generator over TLS against its peers: `python bench/load/tls.py`, as root, with nginx on the PATH.

Processor time per request, of all contenders in alternating rounds, on one cipher (TLS 1.3, AES-256-GCM, X25519, a
certificate of ECDSA P-256). nginx resumes no session, so that every handshake is a whole one. wrk, h2load and `openssl
s_time` do not refuse a certificate; `checked` is nearmetal with a CA that it checks against. The exit code is 1 when a
goal is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import contenders as peer
import peers
from bed import ORDINARY, Bed, bed
from contenders import CONNECTIONS, Contender, Scenario
from speed import measure, table

PORT = 9443
URL = f"https://127.0.0.1:{PORT}/"
BODY = 402
SCENARIOS = (
    Scenario("TLS, small replies, kept connections", BODY, True, {"wrk": 1.15, "h2load": 1.15}),
    Scenario("TLS, a new connection per request", BODY, False, {"wrk": 1.0, "s_time": 1.0}),
    Scenario("TLS, 100 KiB replies, kept connections", 102_400, True, {"wrk": 1.15, "h2load": 1.15}),
)

CONFIGURATION = """
daemon off;
worker_processes 1;
error_log stderr crit;
pid {folder}/pid;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  keepalive_requests 1000000000;
  ssl_certificate {folder}/server.pem;
  ssl_certificate_key {folder}/server.key;
  ssl_protocols TLSv1.3;
  ssl_session_cache off;
  ssl_session_tickets off;
  server {{ listen 127.0.0.1:{port} ssl backlog=4096; root {folder}; index page; }}
}}
"""


def certify(folder: Path) -> Path:
    """Have a CA and a certificate of it for 127.0.0.1 in the folder; where the CA's is."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=bench CA", "-days", "1")
    openssl("req", *curve, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=bench")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1\nbasicConstraints=CA:FALSE\n")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed)
    return folder / "ca.pem"


@contextmanager
def serving(place: Bed, nginx: str, folder: Path, body: int) -> Iterator[None]:
    """nginx with a page of so many bytes."""
    (folder / "page").write_bytes(b"x" * body)
    (folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder, port=PORT))
    process = subprocess.Popen(place.argv(place.server_cpu, [nginx, "-p", str(folder), "-c", f"{folder}/nginx.conf"]))
    try:
        time.sleep(1.0)
        if process.poll() is not None:
            raise RuntimeError("nginx does not run")
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)


def probe(path: str, name: str, *trust: str) -> Contender:
    def argv(scenario: Scenario, seconds: float) -> list[str]:
        options = [] if scenario.keep_alive else ["--new-connections"]
        pace = ["--workers", str(CONNECTIONS), "--duration", f"{seconds}s", "--json"]
        return [path, "load", URL, *trust, *pace, *options]

    return Contender(name, argv, lambda output: int(json.loads(output)["requests"]["completed"]))


def s_time() -> Contender:
    """OpenSSL's own measure of new connections, one after another."""

    def argv(scenario: Scenario, seconds: float) -> list[str] | None:
        if scenario.keep_alive:
            return None
        return ["openssl", "s_time", "-new", "-connect", f"127.0.0.1:{PORT}", "-www", "/", "-time", peer.whole(seconds)]

    return Contender("s_time", argv, peer.found(r"(\d+) connections in"))


def main() -> int:
    root = Path(__file__).parents[2]
    parser = argparse.ArgumentParser(prog="bench/load/tls.py", description=__doc__)
    parser.add_argument("--probe", default=str(root / ".venv/bin/nearmetal-probe"), help="the probe to measure")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement")
    chosen = parser.parse_args()
    nginx = shutil.which("nginx")
    if os.geteuid() != 0 or nginx is None:
        print(
            "bench/load/tls.py takes root, for a network namespace, and nginx (apt-get install nginx)", file=sys.stderr
        )
        return 3
    peer.URL = URL
    met = True
    with tempfile.TemporaryDirectory(prefix="nmtls") as name, bed(ORDINARY) as place:
        folder = Path(name)
        folder.chmod(0o755)
        ca = certify(folder)
        here = [probe(chosen.probe, "nearmetal", "--insecure"), probe(chosen.probe, "checked", "--ca", str(ca))]
        for tool in ("wrk", "h2load"):
            path = peers.found(tool)
            if path is None:
                print(f"LEFT OUT  {tool}: not installed; bench/load/peers.py installs it")
            else:
                here.append(peer.PEERS[tool](path))
        here.append(s_time())
        for scenario in SCENARIOS:
            with serving(place, nginx, folder, scenario.body):
                costs, memory = measure(place, here, scenario, chosen.rounds, chosen.seconds)
            met &= table(scenario, costs, memory)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
