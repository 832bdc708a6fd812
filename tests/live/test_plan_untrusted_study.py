"""`plan` of a stranger's study: nothing of it runs, and nobody is contacted.

It is planned in a network namespace without an interface, with tripwires in place of programs, and with servers on the
sockets that the study names. strace notes what is started and who is contacted.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace: apt-get install strace"),
]

_STUDY = """
name = "hostile"
[hosts.far]
ssh = "root@127.0.0.1:{port}"
jump = "root@127.0.0.1:{port}"
[environments.metal]
kind = "ssh"
address = "root@127.0.0.1:{port}"
provision = "reuse"
[environments.box]
kind = "vagrant"
folder = "{folder}/box"
[environments.engine]
kind = "docker"
engine = "unix://{folder}/engine.sock"
[environments.virt]
kind = "libvirt"
uri = "qemu+ssh://127.0.0.1:{port}/system"
[environments.board]
kind = "qemu"
machine = "pc,firmware={folder}/fifo"
[services.api]
start = ["{folder}/evil", "--port", "8080"]
port = 8080
[factors.environment]
levels = [{levels}]
[[workloads]]
name = "own"
kind = "command"
argv = ["{folder}/evil", "$server"]
services = ["api"]
response = "rate"
unit = "1/s"
better = "higher"
match = "rate ([0-9]+)"
[design]
blocks = 6
"""
_PROGRAMS = ("ssh", "scp", "vagrant", "ruby", "virsh", "docker", "podman", "qemu-system-x86_64", "qemu-img", "evil")
_LOOKING = {"cat", "findmnt", "grep", "id", "sh", "test"}
"""What `plan` starts to look at this host."""


def assert_only_looked(calls: str, python: str) -> None:
    """Whether these system calls, as strace has them, start nothing but `python` and what looks at this host, and
    connect to nobody but the C library's cache of names."""
    begun = re.findall(r'execve(?:at)?\((?:AT_FDCWD, )?"([^"]*)".* = 0$', calls, re.MULTILINE)
    assert begun[0] == python
    assert {Path(program).name for program in begun[1:]} <= _LOOKING
    contacted = re.findall(r"(?:connect|sendto|sendmsg)\(.*sa_family=.*", calls)
    assert [call for call in contacted if "/nscd/socket" not in call and "AF_NETLINK" not in call] == []


@contextmanager
def listening(family: socket.AddressFamily, address: object) -> Iterator[socket.socket]:
    with socket.socket(family) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen()
        server.setblocking(False)
        yield server


@pytest.mark.parametrize(
    "level",
    ["box", *(pytest.param(level, marks=pytest.mark.long) for level in ("engine", "virt", "metal", "board")), "qemu"],
)
def test_a_strangers_study_is_previewed_without_running_or_contacting_anything(tmp_path: Path, level: str) -> None:
    trips, tools = tmp_path / "tripped", tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "box").mkdir()
    (tmp_path / "box/Vagrantfile").write_text(f'File.write("{trips}", "ruby")\n')
    os.mkfifo(tmp_path / "fifo")
    for program in _PROGRAMS:
        for file in (tools / program, *([tmp_path / program] if program == "evil" else [])):
            file.write_text(f"#!/bin/sh\necho {program} $* >>{trips}\nexit 1\n")
            file.chmod(0o755)
    with ExitStack() as made:
        ssh = made.enter_context(listening(socket.AF_INET, ("127.0.0.1", 0)))
        engine = made.enter_context(listening(socket.AF_UNIX, str(tmp_path / "engine.sock")))
        study = tmp_path / "study.toml"
        levels = f'"host", "{level}"'
        study.write_text(_STUDY.format(folder=tmp_path, port=ssh.getsockname()[1], levels=levels))

        def plan(*, alone: bool) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [
                    *(("unshare", "--net") if alone else ()),
                    *("strace", "-f", "-qq", "--seccomp-bpf", "-o", str(tmp_path / "calls")),
                    *("-e", "trace=execve,execveat,connect,sendto,sendmsg"),
                    sys.executable,
                    "-m",
                    "nearmetal",
                    "plan",
                    str(study),
                    *(("--set", f"machine.vmm={tmp_path}/evil") if level == "qemu" else ()),
                ],
                env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": "200"},
                capture_output=True,
                text=True,
                timeout=100,
            )

        for alone in (True, False):  # with the network that the servers are on, too: nobody comes by
            seen = plan(alone=alone)
            told = " ".join(seen.stdout.split())
            assert seen.returncode == 0, seen.stdout + seen.stderr
            assert not trips.exists(), trips.read_text()
            assert_only_looked((tmp_path / "calls").read_text(), sys.executable)
            for server in (ssh, engine):
                with pytest.raises(BlockingIOError):
                    server.accept()
            assert "not asked whether it can run, add --ask for that:" in told
            assert f"command (own): {tmp_path}/evil" in told
            assert "host (far): root@127.0.0.1" in told
    assert {
        "box": f"Vagrantfile (box): {tmp_path}/box",
        "engine": f"URI (engine): unix://{tmp_path}/engine.sock",
        "virt": "URI (virt): qemu+ssh://127.0.0.1",
        "metal": "host (metal): root@127.0.0.1",
        "board": "environment board (machine = 'pc,firmware=",
        "qemu": f"command (qemu): {tmp_path}/evil",
    }[level] in told


def test_with_ask_somebody_comes_by(tmp_path: Path) -> None:
    with listening(socket.AF_UNIX, str(tmp_path / "engine.sock")) as engine:
        study = tmp_path / "study.toml"
        study.write_text(
            f'name = "asked"\n[environments.engine]\nkind = "docker"\nengine = "unix://{tmp_path}/engine.sock"\n'
            '[factors.environment]\nlevels = ["host", "engine"]\n[[workloads]]\nname = "cpu"\nkind = "sysbench"\n'
            'test = "cpu"\n'
            "[design]\nblocks = 6\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "nearmetal", "plan", str(study), "--ask"], stdout=subprocess.PIPE, text=True
        )
        engine.settimeout(60)
        engine.accept()[0].close()
        engine.close()
        told, _ = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "Docker engine" in told and "not asked" not in told
