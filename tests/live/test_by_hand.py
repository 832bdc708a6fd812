"""Machines to work in by hand: real ones, entered and left again by the command line."""

import json
import os
import pty
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nearmetal.by_hand import ssh_config
from nearmetal.lab.image import Image
from nearmetal.lab.machines import registry
from nearmetal.lab.machines.init_process import FirstProcess
from tests.live.leftovers import stays

from .by_hand import command, done, nearmetal, up

pytestmark = pytest.mark.live


@pytest.fixture(params=["host", "docker"])
def machine(
    request: pytest.FixtureRequest, lab_image: object, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, Any]]:
    if request.param == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("engine"))
    told = up(request.param)
    token = told["switch"].removeprefix("nm-")
    yield told
    nearmetal("down", "m")
    assert stays(token) == []


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.long)])
def socket(
    request: pytest.FixtureRequest, lab_image: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> tuple[str, Path]:
    """A kind of container, and a name by which its engine is reached: without it, no engine answers."""
    if request.param == "podman" and shutil.which("podman") is None:
        pytest.skip("there is no podman: apt-get install podman runc")
    variable, engine = ("DOCKER_HOST", "engine") if request.param == "docker" else ("CONTAINER_HOST", "podman")
    name = tmp_path / "socket"
    name.symlink_to(request.getfixturevalue(engine).removeprefix("unix://"))
    monkeypatch.setenv(variable, f"unix://{name}")
    return request.param, name


@pytest.fixture
def container(socket: tuple[str, Path]) -> Iterator[dict[str, Any]]:
    told = up(socket[0])
    yield told
    nearmetal("down", "m")
    assert stays(told["switch"].removeprefix("nm-")) == []


def in_a_terminal(*words: str, typed: bytes) -> tuple[int, bytes]:
    """The status of a command that has a terminal, and all that was shown there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, command(*words))
    os.write(terminal, typed)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # its other end was closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown


def check_commands() -> None:
    assert done("exec", "m", "--", "cat", given=b"\0\xff" * 100_000) == b"\0\xff" * 100_000
    assert done("exec", "m", "--", "printf", "%s|", "a b", "$HOME", "'", "--help") == b"a b|$HOME|'|--help|"
    assert done("exec", "m", "--", "pwd") == done("ssh", "m", "pwd") == b"/root\n"
    for status in (1, 125, 126, 255):
        assert nearmetal("exec", "m", "--", "sh", "-c", f"exit {status}").returncode == status
    missing = nearmetal("exec", "m", "--", "no-such-program")
    assert missing.returncode == 127
    assert b"no-such-program" in missing.stderr
    unread = ["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "bash", *command("exec", "m", "--", "yes")]
    ended = subprocess.run(unread, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"y\n", b"")
    assert nearmetal("ssh", "m", given=b"exit 5\n").returncode == 5
    ended = nearmetal("ssh", "m", "echo", "a  b;", "test ! -t 0 && echo $((41+1)); exit 7")
    assert (ended.returncode, ended.stdout) == (7, b"a b\n42\n")
    status, shown = in_a_terminal("ssh", "m", "test -t 0 && echo is$((41+1)); exit 8", typed=b"")
    assert status == 8
    assert b"is42" in shown
    status, shown = in_a_terminal("ssh", "m", typed=b"test -t 0 && echo is$((41+1)); exit 9\n")
    assert status == 9
    assert b"is42" in shown


def check_copies(folder: Path) -> None:
    tree = folder / "tree"
    odd = tree / "-odd \n'ä\""
    odd.mkdir(parents=True)
    (odd / "-f").write_bytes(os.urandom(3_000_000))
    (odd / "-f").chmod(0o751)
    (tree / "link").symlink_to("/nowhere")
    done("cp", str(tree), "m:there")
    done("cp", "m:/root/there", str(folder / "back"))
    subprocess.run(["diff", "-r", "--no-dereference", tree, folder / "back"], check=True)
    assert (folder / "back" / odd.name / "-f").stat().st_mode & 0o777 == 0o751
    done("cp", str(odd / "-f"), "m:/tmp/")
    done("cp", "m:/tmp/-f", str(folder))
    assert (folder / "-f").read_bytes() == (odd / "-f").read_bytes()
    for source, target in ((str(tree), "m:/nosuch/x"), (str(tree), "m:"), ("m:/nosuch", str(folder / "x"))):
        if target == "m:":
            done("cp", source, target)  # the second time, it is there already
        ended = nearmetal("cp", source, target)
        assert ended.returncode == 2
        assert b"could not be copied" in ended.stderr
    said = nearmetal("cp", str(tree), "m:/nosuch/x").stderr
    assert b"there is no folder /nosuch/" in said
    assert b"mktemp" not in said
    done("exec", "m", "--", "touch", "/tmp/file")
    assert b"there is a file of that name already" in nearmetal("cp", str(tree), "m:/tmp/file").stderr
    (folder / "full/there").mkdir(parents=True)
    ended = nearmetal("cp", "m:/root/there", str(folder / "full"))
    assert ended.returncode == 2
    assert b"remedy: remove it first" in ended.stderr
    assert not (folder / "x").exists()
    ended = nearmetal("cp", "m:/root/there", f"{folder}/missing/")
    assert (ended.returncode, b"there is no such folder" in ended.stderr) == (2, True)
    assert not (folder / "missing").exists()
    assert b".nearmetal-" not in done("exec", "m", "--", "ls", "-A", "/tmp", "/root")
    assert not list(folder.glob(".nearmetal-*"))


_ODD = """
cp /bin/true /tmp/suid && chown nobody:nogroup /tmp/suid && chmod 6755 /tmp/suid
mkdir /tmp/odd && mkfifo /tmp/odd/fifo
"""


def check_rights_and_devices_stay_there(folder: Path) -> None:
    done("exec", "m", "--", "sh", "-ec", _ODD)
    done("cp", "m:/tmp/suid", str(folder))
    came = (folder / "suid").stat()
    assert (stat.S_IMODE(came.st_mode), came.st_uid, came.st_gid) == (0o755, os.geteuid(), os.getegid())
    for source, named in (("m:/dev/zero", b"/dev/zero"), ("m:/tmp/odd", b"/tmp/odd/fifo")):
        ended = nearmetal("cp", source, str(folder / "zz"))
        assert ended.returncode == 3
        assert named in ended.stderr
    assert not (folder / "zz").exists()
    assert not list(folder.glob(".nearmetal-*"))


def check_a_pull_that_is_cut_off(folder: Path, number: signal.Signals) -> None:
    folder.mkdir()
    done("exec", "m", "--", "truncate", "-s", "8G", "/root/vast")
    with subprocess.Popen(command("cp", "m:/root/vast", str(folder))) as running:
        deadline = time.monotonic() + 30
        while not any(file.stat().st_size > 2**20 for file in folder.glob(".nearmetal-*/vast")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        running.send_signal(number)
        assert running.wait(30) == (-9 if number == signal.SIGKILL else 4)
    left = list(folder.rglob("vast"))
    assert left == [] or number == signal.SIGKILL
    assert not (folder / "vast").exists()
    sizes = [file.stat().st_size for file in left]
    deadline = time.monotonic() + 15
    while b"vast" in done(
        "exec", "m", "--", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | grep -a 'tar.*-[c]'; :"
    ):
        assert time.monotonic() < deadline, "it goes on there"
    assert [file.stat().st_size for file in left] == sizes
    shutil.rmtree(folder)


@pytest.mark.parametrize("machine", ["host", pytest.param("docker", marks=pytest.mark.long)], indirect=True)
def test_commands_and_copies(machine: dict[str, Any], tmp_path: Path) -> None:
    """In one machine, as to make one takes longer than most of this."""
    check_commands()
    check_copies(tmp_path)
    check_rights_and_devices_stay_there(tmp_path)
    for number in (signal.SIGTERM, signal.SIGKILL):
        check_a_pull_that_is_cut_off(tmp_path / "pulled", number)
        check_a_push_that_is_cut_off(tmp_path / "large", number)
    check_output_comes_while_the_program_goes_on()
    check_what_exec_started_ends_with_it_even_when_it_is_killed()
    assert done("down", "m") == b"m is down\n"
    assert nearmetal("down", "m").returncode == 2


def check_output_comes_while_the_program_goes_on() -> None:
    words = command("exec", "m", "--", "sh", "-c", "echo first; read line; echo $line")
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None and running.stdout is not None
        assert running.stdout.readline() == b"first\n"
        running.stdin.write(b"second\n")
        running.stdin.close()
        assert running.stdout.read() == b"second\n"


def check_what_exec_started_ends_with_it_even_when_it_is_killed() -> None:
    length = "5432.1"  # what tells this sleep from others
    words = command("exec", "m", "--", "sh", "-c", f"trap '' TERM; sleep {length} & echo there; wait; sleep {length}")
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None and running.stdout.readline() == b"there\n"
        until = time.monotonic() + 30
        while not sleeping(length) and time.monotonic() < until:  # the shell may speak before its child is a sleep
            time.sleep(0.1)
        began = sleeping(length)
        running.kill()
    assert began
    until = time.monotonic() + 30
    while sleeping(length):
        assert time.monotonic() < until, "it goes on"
        time.sleep(0.1)


def sleeping(length: str) -> list[str]:
    """Processes of this host, those of containers among them, that sleep so long."""
    asked = subprocess.run(["pgrep", "-f", f"^sleep {length}$"], capture_output=True, text=True)
    return asked.stdout.split()


_ON_AND_ON = "while :; do echo y; done"


def test_programs_in_containers(container: dict[str, Any], socket: tuple[str, Path]) -> None:
    """When they end, and when they go on. In one container, as to make one takes longer than most of this."""
    check_what_nobody_reads_any_more_ends()
    check_what_cannot_say_any_more_ends()
    check_what_a_program_left_in_the_background_goes_on()
    check_what_exec_started_ends_when_it_is_told_to()
    for how in ("Ctrl-C", "closed"):
        check_a_terminal_that_ends(how)
    check_an_engine_that_is_away_is_told(*socket)


def check_what_nobody_reads_any_more_ends() -> None:
    for words in (("exec", "m", "--", "sh", "-c", _ON_AND_ON), ("ssh", "m", _ON_AND_ON)):
        word = f"before-head-{time.monotonic_ns()}"
        unread = ["bash", "-c", '"$@" | head -1; exit ${PIPESTATUS[0]}', "bash", *command(*words, f"#{word}")]
        ended = subprocess.run(unread, capture_output=True, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"y\n", b""), words
        assert still_running(word) == [], words


def check_what_cannot_say_any_more_ends() -> None:
    """Its client ends by itself then, with a status of its own."""
    word = f"into-full-{time.monotonic_ns()}"
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(command("exec", "m", "--", "sh", "-c", _ON_AND_ON, word), stdout=full, timeout=60)
    assert ended.returncode != 0
    assert still_running(word) == []


def check_what_a_program_left_in_the_background_goes_on() -> None:
    length = f"{time.monotonic_ns() / 1e9:.3f}"
    ended = nearmetal("exec", "m", "--", "sh", "-c", f"setsid sleep {length} >/dev/null 2>&1 </dev/null & exit 3")
    assert ended.returncode == 3
    until_sleeping(length)
    time.sleep(0.5)
    assert sleeping(length)


def check_what_exec_started_ends_when_it_is_told_to() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        length = f"{time.monotonic_ns() / 1e9:.3f}"
        with subprocess.Popen(command("exec", "m", "--", "sh", "-c", f"sleep {length}; :")) as running:
            until_sleeping(length)
            running.send_signal(number)
            assert running.wait(30) == 128 + number
        assert still_running(length) == [], number


def check_a_terminal_that_ends(how: str) -> None:
    length = f"{time.monotonic_ns() / 1e9:.3f}"
    words = ("exec", "m", "--", "sleep", length) if how == "Ctrl-C" else ("ssh", "m", f"sleep {length}; :")
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, command(*words))
    until_sleeping(length)
    if how == "Ctrl-C":
        os.write(terminal, b"\x03")
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 128 + signal.SIGINT
        os.close(terminal)
    else:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert still_running(length) == [], how


def until_sleeping(length: str) -> None:
    until = time.monotonic() + 30
    while not sleeping(length):
        assert time.monotonic() < until, "it never began"
        time.sleep(0.05)


def still_running(word: str) -> list[str]:
    """Processes of this host, those of containers among them, that were started with this word."""
    return subprocess.run(["pgrep", "-a", "-f", word], capture_output=True, text=True).stdout.splitlines()


def check_an_engine_that_is_away_is_told(kind: str, name: Path) -> None:
    engine = name.readlink()
    name.unlink()
    try:
        ended = nearmetal("exec", "m", "--", "true")
        assert (ended.returncode, ended.stdout) == (125, b"")
        said = ended.stderr.decode()
        assert said.count("\n") == 2 and said.startswith("nearmetal: m: "), "nothing of the engine's own client"
        assert "there is no such socket" in said and f"systemctl start {kind}" in said and "nearmetal down m" in said
        ended = nearmetal("cp", "m:/etc/hosts", "/tmp/nowhere")
        assert (ended.returncode, b"there is no such socket" in ended.stderr) == (3, True)
        (listed,) = json.loads(done("ls", "--json"))["machines"]
        assert (listed["name"], listed["state"]) == ("m", "unreachable")
        assert b"unreachable: its engine does not answer" in done("ls")
    finally:
        name.symlink_to(engine)
    assert done("exec", "m", "--", "echo", "again") == b"again\n"
    assert json.loads(done("ls", "--json"))["machines"][0]["state"] == "up"


def test_a_killed_keeper_takes_its_machine_along_and_clean_removes_the_rest(machine: dict[str, Any]) -> None:
    with subprocess.Popen(command("exec", "m", "--", "sleep", "1000")) as running:
        os.kill(machine["keeper"], signal.SIGKILL)
        assert running.wait(30) != 0
    assert nearmetal("exec", "m", "--", "true").returncode == 125
    assert json.loads(nearmetal("ls", "--json").stdout)["machines"][0]["state"] == "lost"
    done("clean")
    assert json.loads(nearmetal("ls", "--json").stdout)["machines"] == []
    assert stays(machine["switch"].removeprefix("nm-")) == []


def test_an_image_stays_while_a_machine_of_it_is_up(
    lab_image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own/cache/images" / lab_image.folder.name
    own.parent.mkdir(parents=True)
    subprocess.run(["cp", "-a", "--reflink=auto", lab_image.folder, own], check=True)
    monkeypatch.setenv("NEARMETAL_HOME", str(tmp_path / "own"))
    up("host")
    try:
        for name in ("lab", lab_image.digest[:12]):
            refused = nearmetal("image", "rm", name)
            assert refused.returncode == 3
            assert b"m is up" in refused.stderr
        assert done("exec", "m", "--", "id", "-u") == b"0\n"
    finally:
        done("down", "m")
    assert b"removed lab" in done("image", "rm", "lab")
    assert not own.exists()


def check_a_push_that_is_cut_off(large: Path, number: signal.Signals) -> None:
    """It leaves no half file."""
    with large.open("wb") as file:
        file.truncate(2**33)
    with subprocess.Popen(command("cp", str(large), "m:/root/large")) as running:
        deadline = time.monotonic() + 30
        while b".nearmetal-" not in done("exec", "m", "--", "ls", "-A", "/root"):
            assert time.monotonic() < deadline
        running.send_signal(number)
        assert running.wait(30) != 0
    time.sleep(0.5)
    assert b"large" not in done("exec", "m", "--", "ls", "-A", "/root").split()


def check_one_that_ends_by_itself_is_lost(told: dict[str, Any], remove: tuple[str, ...]) -> None:
    deadline = time.monotonic() + 30
    while json.loads(done("ls", "--json"))["machines"][0]["state"] != "lost":
        assert time.monotonic() < deadline
    ended = nearmetal("exec", "m", "--", "true")
    assert ended.returncode == 125
    assert b"it ended by itself" in ended.stderr
    assert b"nearmetal down m" in ended.stderr
    for ends in (("m:/etc/hosts", "/nowhere"), (__file__, "m:/x")):
        ended = nearmetal("cp", *ends)
        assert ended.returncode == 3
        assert b"nearmetal down m" in ended.stderr
    while Path(f"/proc/{told['keeper']}").exists():
        assert time.monotonic() < deadline, "its keeper goes on"
    done(*remove)
    assert json.loads(done("ls", "--json"))["machines"] == []
    assert stays(told["switch"].removeprefix("nm-")) == []


@pytest.mark.parametrize("remove", [("down", "m"), ("clean",)])
def test_a_machine_that_ends_by_itself_is_lost(machine: dict[str, Any], remove: tuple[str, ...]) -> None:
    handle = registry.find("m").handle
    assert handle is not None
    os.kill(FirstProcess.in_ledger(handle).pid, signal.SIGKILL)
    check_one_that_ends_by_itself_is_lost(machine, remove)


@pytest.mark.long
def test_a_guest_that_powers_off_is_lost(lab_image: object) -> None:
    told = up("qemu")
    try:
        nearmetal("exec", "m", "--", "sh", "-c", "echo o >/proc/sysrq-trigger")
        check_one_that_ends_by_itself_is_lost(told, ("down", "m"))
    finally:
        done("clean")


def check_openssh_reaches_it(folder: Path) -> None:
    config = ssh_config.locate_file()
    said = subprocess.check_output(["ssh", "-F", config, "m", "hostname; id -u"], stdin=subprocess.DEVNULL, timeout=60)
    assert said.splitlines()[-1] == b"0"
    (folder / "sent").write_bytes(b"by scp")
    subprocess.run(["scp", "-q", "-F", config, folder / "sent", "m:/tmp/sent"], check=True, timeout=60)
    subprocess.run(["scp", "-q", "-F", config, "m:/tmp/sent", folder / "again"], check=True, timeout=60)
    assert (folder / "again").read_bytes() == b"by scp"


@pytest.mark.long
def test_a_guest(lab_image: object, tmp_path: Path) -> None:
    """One boot for all."""
    told = up("qemu")
    try:
        assert told["ssh_port"]
        check_commands()
        check_copies(tmp_path)
        check_rights_and_devices_stay_there(tmp_path)
        check_a_pull_that_is_cut_off(tmp_path / "pulled", signal.SIGTERM)
        check_a_pull_that_is_cut_off(tmp_path / "pulled", signal.SIGKILL)
        check_openssh_reaches_it(tmp_path)
        os.kill(told["keeper"], signal.SIGKILL)
        ended = nearmetal("exec", "m", "--", "true")
        assert ended.returncode == 125
        assert b"its keeper died" in ended.stderr
    finally:
        done("clean")
    assert not registry.ssh_config("m").exists()
    assert stays(told["switch"].removeprefix("nm-")) == []
