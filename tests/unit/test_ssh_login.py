"""Logging in to a host of the user's own: what their configuration says of it, and what is told when it fails."""

import asyncio
import contextlib
import hashlib
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from nearmetal.errors import BadInput, HostCannot, ToolFailed
from nearmetal.lab.ssh import login
from nearmetal.lab.ssh.login import log_in, parse, refuse_unusable
from nearmetal.lab.ssh.login_shell import ask_shell
from nearmetal.lab.ssh.openssh_settings import OpensshSettings
from nearmetal.model import HostSpec
from tests import ssh_server
from tests.ports import free_port
from tests.ssh_server import CLIENT, HOST, OTHER, serving

WHERE = "the host far"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's ~/.ssh, with nobody's agent."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    folder = tmp_path / ".ssh"
    folder.mkdir()
    return folder


@contextlib.asynccontextmanager
async def far(home: Path, known: asyncssh.SSHKey | None = HOST) -> AsyncIterator[HostSpec]:
    """A host that answers, and what known_hosts has of it."""
    async with serving() as server:
        port = server.get_port()
        if known is not None:
            (home / "known_hosts").write_text(f"[127.0.0.1]:{port} {public(known)}\n")
        yield HostSpec(ssh=f"root@127.0.0.1:{port}")


def public(key: asyncssh.SSHKey) -> str:
    return key.export_public_key().decode().strip()


async def refused(spec: HostSpec) -> HostCannot:
    with pytest.raises(HostCannot) as error:
        (await log_in(spec, WHERE)).abort()
    return error.value


# ── Keys ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_key_file_of_the_configuration_that_is_not_there_is_passed_over(home: Path) -> None:
    CLIENT.write_private_key(str(home / "mine"))
    (home / "config").write_text("Host *\n  IdentityFile ~/.ssh/none\n  IdentityFile ~/.ssh/mine\n")
    async with far(home) as spec:
        (await log_in(spec, WHERE)).abort()
        (home / "mine").unlink()
        assert "none of your keys" in (await refused(spec)).what
        (home / "config").write_text("Host *\n  IdentityFile ~/.ssh/none\n  IdentitiesOnly yes\n")
        CLIENT.write_private_key(str(home / "id_ed25519"))
        assert "none of your keys" in (await refused(spec)).what, "it is not among the only ones"


def test_a_file_that_is_no_key_is_told_apart_from_one_with_a_passphrase(home: Path) -> None:
    text, locked = home / "text", home / "locked"
    text.write_text("no key\n")
    with pytest.raises(HostCannot) as error:
        refuse_unusable(HostSpec(ssh="far", key=str(text)), WHERE)
    assert f"{text} cannot be used: it is no private key" in error.value.what
    assert "passphrase" not in str(error.value)
    CLIENT.write_private_key(str(locked), "pkcs8-pem", passphrase="secret")
    with pytest.raises(HostCannot) as error:
        refuse_unusable(HostSpec(ssh="far", key=str(locked)), WHERE)
    assert f"{locked} cannot be used: it has a passphrase" in error.value.what
    assert f"ssh-add {locked}" in error.value.remedy


@pytest.mark.parametrize(("said", "taken"), [("", "aes128-gcm@openssh.com"), ("  Ciphers aes256-ctr\n", "aes256-ctr")])
async def test_the_configuration_may_name_another_cipher(home: Path, said: str, taken: str) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    (home / "config").write_text(f"Host *\n{said}")
    async with far(home) as spec:
        connection = await log_in(spec, WHERE)
        assert connection.get_extra_info("send_cipher") == taken
        connection.abort()


# ── The configuration, as OpenSSH reads it ───────────────────────────────────────────────────────────────────────────

_BY_HAND = """
import socket, sys, threading
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def carry():
    while piece := far.recv(65536):
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
threading.Thread(target=carry, daemon=True).start()
while piece := sys.stdin.buffer.read1(65536):
    far.sendall(piece)
"""


@pytest.mark.parametrize("openssh", [True, False])
@pytest.mark.parametrize(
    ("lines", "needs_openssh"),
    [
        ("HostName 127.0.0.1 # the old one", True),
        ("HostName 127.0.0.1\n  ServerAliveInterval 1m\n  ConnectTimeout 1m", True),
        ("HostName 127.0.0.1\n  ProxyCommand python3 ~/.ssh/nc.py %h %p", True),
        ("HostName 127.0.0.1\n  GlobalKnownHostsFile ~/.ssh/global\n  UserKnownHostsFile none", True),
        ("HostName 127.0.0.1\n  GlobalKnownHostsFile {home}/global", False),
        ("HostName 127.0.0.1\n  UserKnownHostsFile {home}/global", False),
        ("HostName 127.0.0.1\n  HostKeyAlias known", False),
    ],
)
async def test_what_ssh_gets_in_by_gets_nearmetal_in(
    home: Path, lines: str, needs_openssh: bool, openssh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if openssh and shutil.which("ssh") is None:
        pytest.skip("OpenSSH is not installed")
    if needs_openssh and not openssh:
        pytest.skip("asyncssh does not read it so")
    if not openssh:
        monkeypatch.setattr(login, "ask_openssh", lambda name, user, port: None)
    CLIENT.write_private_key(str(home / "id_ed25519"))
    monkeypatch.setenv("SHELL", "/bin/sh")  # which has ~, as whoever gives the command thinks of it
    (home / "nc.py").write_text(_BY_HAND)
    async with far(home) as spec:
        port = spec.ssh.rpartition(":")[2]
        known = (home / "known_hosts").read_text()
        if "KnownHostsFile" in lines:
            (home / "known_hosts").rename(home / "global")
        if "HostKeyAlias" in lines:
            (home / "known_hosts").write_text(known.replace(known.split()[0], f"[known]:{port},known"))
        config = f"Host metal\n  Port {port}\n  User root\n  {lines.format(home=home)}\n"
        (home / "config").write_text(config)
        (await log_in(HostSpec(ssh="metal"), WHERE)).abort()


@pytest.mark.parametrize(
    ("jumps", "last"),
    [("none", ""), ("ann@bast.example:2200", "bast.example"), ("a,b@c", "c"), ("x@[fd00::1]:22", "fd00::1")],
)
def test_tokens_of_the_connection_are_openssh_s(jumps: str, last: str) -> None:
    told = {"hostname": ["ex.org"], "port": ["22"], "user": ["u"], "proxyjump": [jumps], "identityfile": ["/%C/%j"]}
    (file,) = OpensshSettings("ex", told).list_paths("identityfile")
    hashed = hashlib.sha1(f"{socket.gethostname()}ex.org22u{last}".encode()).hexdigest()
    assert str(file) == str(Path("/", hashed, last))
    if not last and shutil.which("ssh") is not None:
        command = ["ssh", "-F", "none", "-o", "ControlPath=%C", "-l", "u", "-G", "ex.org"]
        assert f"controlpath {hashed}\n" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


async def test_a_configuration_that_openssh_cannot_read_is_told_in_its_words(home: Path) -> None:
    (home / "config").write_text("Host *\n  NoSuchOption yes\n")
    told = await refused(HostSpec(ssh="root@127.0.0.1:1"))
    assert "your SSH configuration cannot be used" in told.what and "nosuchoption" in told.what.lower()
    assert told.remedy == "try: ssh -p 1 root@127.0.0.1"


async def test_lines_of_known_hosts_that_make_no_sense_are_passed_over(home: Path) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    async with far(home) as spec:
        known = (home / "known_hosts").read_text()
        (home / "known_hosts").write_bytes(b"rubbish\n@odd far ssh-rsa AAAA\n\xff\xfe\n|1|x ssh-rsa\n" + known.encode())
        (await log_in(spec, WHERE)).abort()


async def test_a_login_shell_may_speak_before_it_starts_what_it_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    noisy = home / "noisy"
    noisy.write_text('#!/bin/sh\necho hello\nprintf "no newline" >&2\nexec /bin/sh "$@"\n')
    noisy.chmod(0o755)
    monkeypatch.setattr(ssh_server, "SHELL", str(noisy))
    async with far(home) as spec:
        connection = await log_in(spec, WHERE)
        assert await ask_shell(connection, "echo out; echo err >&2") == ("out\n", "err\n")
        noisy.write_text("#!/bin/sh\necho This account is not available. >&2\nexit 1\n")
        with pytest.raises(ToolFailed, match="does not start commands: This account is not available") as error:
            await ask_shell(connection, "true")
        assert "chsh" in error.value.remedy
        connection.abort()


# ── Host keys ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_another_host_key_than_the_known_one_is_told_as_such(home: Path) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    async with far(home, known=OTHER) as spec:
        told = await refused(spec)
    name = spec.ssh.removeprefix("root@127.0.0.1:")
    assert "ANOTHER" in told.what and str(home / "known_hosts") in told.what
    assert HOST.get_fingerprint() in told.what and OTHER.get_fingerprint() in told.what
    assert "ask whoever runs it" in told.remedy and f"-R '[127.0.0.1]:{name}'" in told.remedy


async def test_a_host_of_which_nothing_is_known_is_not_told_as_changed(home: Path) -> None:
    """Nor one at another port of a known one's address, as forwarded ports of machines are."""
    async with far(home, known=None) as spec:
        assert "not one that you know" in (await refused(spec)).what
        (home / "known_hosts").write_text(f"127.0.0.1 {public(OTHER)}\n")
        assert "not one that you know" in (await refused(spec)).what


async def test_a_host_key_of_another_kind_than_the_known_one_is_told_as_such(home: Path) -> None:
    """Such a server just ends the connection."""
    CLIENT.write_private_key(str(home / "id_ed25519"))
    known = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    async with far(home, known=known) as spec:
        told = await refused(spec)
    assert f"of another kind, {HOST.get_algorithm()} {HOST.get_fingerprint()}" in told.what
    assert known.get_fingerprint() in told.what and "compare the key" in told.remedy


# ── The way there ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_jump_host_of_the_configuration_is_gone_through(home: Path) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    async with far(home) as spec:
        jump = f"root@127.0.0.1:{free_port()}"
        (home / "config").write_text(
            f"Host metal\n  HostName 127.0.0.1\n  Port {spec.ssh.rpartition(':')[2]}\n  User root\n  ProxyJump {jump}\n"
        )
        told = await refused(HostSpec(ssh="metal"))
    assert told.where == f"the jump host {jump} of {WHERE}" and "Connection refused" in told.what


async def test_a_jump_host_behind_which_nobody_answers_is_let_go(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CLIENT.write_private_key(str(home / "id_ed25519"))
    made, connect = [], asyncssh.connect

    async def connected(*arguments: Any, **options: Any) -> asyncssh.SSHClientConnection:
        made.append(await connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(asyncssh, "connect", connected)
    async with far(home) as jump:
        told = await refused(HostSpec(ssh=f"root@127.0.0.1:{free_port()}", jump=jump.ssh))
        assert told.where == WHERE
        (left,) = made
        await asyncio.wait_for(left.wait_closed(), 10)


async def test_a_jump_host_may_be_a_uri(home: Path) -> None:
    port = free_port()
    (home / "config").write_text(f"Host metal\n  ProxyJump ssh://root@127.0.0.1:{port} # the gate\n")
    told = await refused(HostSpec(ssh="metal"))
    assert told.where == f"the jump host root@127.0.0.1:{port} of {WHERE}" and "Connection refused" in told.what


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail\r\n", b"\0\xff" * 9999, b""])
async def test_what_is_no_ssh_server_is_told_as_that(home: Path, answer: bytes) -> None:
    async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await reader.readline()
        writer.close()

    async with await asyncio.start_server(answered, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        told = await refused(HostSpec(ssh=f"root@127.0.0.1:{port}"))
    assert "what answers there is no SSH server" in told.what and f"ssh -p {port}" in told.remedy


@pytest.mark.parametrize(
    ("given", "place", "told"),
    [
        *(({"ssh": f"root@far:{port}"}, "[hosts.far], `ssh`", "is no address") for port in ("99999", "0", "22a", "")),
        ({"ssh": "far", "jump": "root@far:99999"}, "[hosts.far], `jump`", "is no address"),
        ({"ssh": "far", "key": "/no/such"}, "[hosts.far], `key`", "no such key file: /no/such"),
        ({"ssh": "far", "host_key": "rubbish"}, "[hosts.far], `host_key`", "no public key"),
    ],
)
def test_what_is_wrong_in_a_study_is_told_with_its_place(
    home: Path, given: dict[str, str], place: str, told: str
) -> None:
    with pytest.raises(BadInput, match=told) as error:
        refuse_unusable(HostSpec.model_validate(given), "[hosts.far]")
    assert error.value.where == place


def test_the_last_at_sign_ends_the_user() -> None:
    """As for OpenSSH: a directory's users have one in their names."""
    assert parse(HostSpec(ssh="jo@corp.example@far:2222")) == ("far", "jo@corp.example", 2222)
    assert parse(HostSpec(ssh="jo@corp.example@[fe80::1]")) == ("fe80::1", "jo@corp.example", None)
