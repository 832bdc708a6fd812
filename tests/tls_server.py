"""A server that speaks TLS, and certificates that are made for it."""

import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """A CA of its own, whose certificate lies in a file."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    file: Path

    def issue(self, folder: Path, *names: str, begins: int = -1, ends: int = 1, is_ca: bool = False) -> Path:
        """A file with a certificate for names and addresses, valid from and to so many days from now, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(key, "server", self.certificate.subject, self.key, names, begins, ends, is_ca)
        file = folder / f"{'-'.join(names)}{begins}{ends}{is_ca}.pem"
        file.write_bytes(_pem(certificate) + _pem_of_key(key))
        return file


def new_authority(folder: Path, name: str = "ca") -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = _certificate(key, name, subject, key, (), -1, 1, True)
    file = folder / f"{name}.pem"
    file.write_bytes(_pem(certificate))
    return Authority(key, certificate, file)


def _certificate(
    key: ec.EllipticCurvePrivateKey,
    name: str,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: tuple[str, ...],
    begins: int,
    ends: int,
    is_ca: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins * DAY)
        .not_valid_after(now + ends * DAY)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(list(map(_general_name, names))), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


@dataclass
class TlsServer:
    """What it was asked for, and how it answers."""

    port: int
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    """Heads without their ends, and bodies."""
    handshakes: int = 0
    resumed: int = 0


@contextmanager
def serving(
    certificate: Path,
    *,
    body: bytes = b"hello",
    keeps: bool = True,
    cuts: bool = False,
    version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> Iterator[TlsServer]:
    """A server on 127.0.0.1 with the certificate in that file.

    It `keeps` connections. If it `cuts` replies off, it says neither how long they are nor, by TLS, where they end.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.maximum_version = version
    listener = socket.create_server(("127.0.0.1", 0))
    server = TlsServer(listener.getsockname()[1])

    def answer(raw: socket.socket) -> None:
        with raw:
            try:
                with context.wrap_socket(raw, server_side=True, suppress_ragged_eofs=True) as stream:
                    server.handshakes += 1
                    server.resumed += stream.session_reused or False
                    converse(stream)
            except OSError:
                return

    def converse(stream: ssl.SSLSocket) -> None:
        reader = stream.makefile("rb")
        while head := _read_head(reader):
            lengths = [line for line in head.split("\r\n") if line.lower().startswith("content-length:")]
            server.requests.append((head, reader.read(int(lengths[0].split(":")[1])) if lengths else b""))
            if cuts:
                stream.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
                return
            stream.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            if not keeps or "Connection: close" in head:
                stream.unwrap()
                return

    def accept() -> None:
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(raw,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _read_head(reader: object) -> str:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()  # type: ignore[attr-defined]
        if not line:
            return ""
        head += line
    return head.decode()
