"""Machines to work in by hand, pretended ones: names, what is listed, what is refused, and a keeper that dies."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from nearmetal import plugins, progress_messages, schemas
from nearmetal.by_hand import up
from nearmetal.by_hand.copying import Remote, parse_place
from nearmetal.by_hand.down import remove_machine
from nearmetal.by_hand.machine_request import choose_cpuset, parse_request, refuse_unavailable
from nearmetal.commands import by_hand as by_hand_commands
from nearmetal.config import Limits, Paths
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.cpus.limits import check_limits
from nearmetal.lab.image import Recipe, store
from nearmetal.lab.machines import registry
from nearmetal.lab.process_locks import lock_file, try_lock
from nearmetal.model import Door, EnvironmentSpec, Finding, Handle, MachineSpec, Resolved, Site
from nearmetal.progress_messages import Say
from tests.command_line import call, called, forked
from tests.order import mock_run
from tests.unit.test_image_store import finished
from tests.unit.test_unavailable_treatments import KeepingFree


def listed() -> list[dict[str, Any]]:
    machines: list[dict[str, Any]] = json.loads(called("ls", "--json").stdout)["machines"]
    return machines


def refused(status: int, *words: str) -> str:
    ended = called(*words)
    said = ended.stderr
    assert ended.returncode == status, said
    assert said.count("nearmetal: ") == 1
    return said


@pytest.fixture(autouse=True)
def nothing_stays_up(home: Path) -> Iterator[None]:
    yield
    for one in registry.everything():
        assert called("down", one.name).returncode == 0


def test_a_machine_is_up_until_down() -> None:
    told = json.loads(forked("up", "mock", "--name", "one", "--set", "machine.memory=1GiB", "--json").stdout)
    assert (told["schema"], told["name"], told["state"]) == ("up.v1", "one", "up")
    assert told["machine"]["memory"] == 2**30
    assert [(one["name"], one["state"], one["environment"]) for one in listed()] == [("one", "up", "mock")]
    ended = forked("down", "one", "--json")
    assert (ended.returncode, json.loads(ended.stdout)) == (0, {"schema": "down.v1", "name": "one", "left": []})
    assert listed() == []
    assert not list(Paths.default().state.glob("ledgers/*"))
    assert "no machine 'one' is up\n  remedy: nothing is up" in refused(2, "down", "one")


def test_a_run_says_beforehand_who_is_up_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for machines that are pretended: they use no CPU."""
    monkeypatch.setattr(Resolved, "is_pretended", False)
    assert forked("up", "mock", "--name", "idle").returncode == 0
    busy = registry.everything()[0].model_copy(update={"name": "busy", "environment": "host"})
    (registry.folder() / "busy.json").write_text(busy.model_dump_json())
    (tmp_path / "study.toml").write_text(mock_run.STUDY)
    said = called("run", str(tmp_path / "study.toml"), "-o", str(tmp_path / "run")).stdout.splitlines()
    (registry.folder() / "busy.json").unlink()
    assert not any("idle" in line for line in said)
    (told,) = (line for line in said if "busy" in line)
    begins = next(place for place, line in enumerate(said) if line.startswith("block 1/2"))
    assert told.endswith("nearmetal down busy") and said.index(told) < begins


def test_what_down_could_not_remove_is_told_scripts_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def leaving(name: str, say: Say) -> list[str]:
        return ["bridge nm-1: busy"]

    monkeypatch.setattr("nearmetal.by_hand.down.remove_machine", leaving)
    assert call(by_hand_commands.down, name="one", as_json=True) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["left"] == ["bridge nm-1: busy"]
    jsonschema.validate(told, schemas.list_documents()["down.v1"])


async def test_one_that_goes_down_slowly_is_told_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    assert forked("up", "mock", "--name", "slow").returncode == 0
    monkeypatch.setattr(progress_messages, "_AT_FIRST", 0.05)
    keeper, said = registry.find("slow").keeper, list[str]()
    os.kill(keeper, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(0.5, os.kill, keeper, signal.SIGCONT)
    assert await remove_machine("slow", said.append) == []
    assert said == ["still taking slow down"]


_SLOW = """
import asyncio
from nearmetal import plugins, progress_messages
from nearmetal.by_hand import keeper

progress_messages._AT_FIRST = 0.05
mock = plugins.load("environments", "mock")

def slowly(call):
    async def late(*args):
        await asyncio.sleep(0.5)
        return await call(*args)
    return late

mock.prepare, mock.create = slowly(mock.prepare), slowly(mock.create)
keeper.main()
"""
"""A keeper whose machines are prepared and made slowly, for somebody who is soon impatient."""


def test_what_is_waited_for_is_told_while_one_comes_up_slowly() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as keeper:
        assert keeper.stdin is not None and keeper.stdout is not None
        with keeper.stdin as request:
            request.write(json.dumps({"environment": "mock", "name": "slow", "set": []}) + "\n")
        try:
            *said, up = map(json.loads, keeper.stdout)
        except BaseException:
            keeper.kill()  # it would be waited for
            raise
        assert called("down", "slow").returncode == 0  # before anything is judged: it is waited for until it ends
        assert up["up"]["name"] == "slow"
        assert [one["say"] for one in said] == [
            "still preparing what all machines of mock begin with; the next finds it there",
            "still waiting for slow to start",
        ]


def test_names_are_found_by_themselves_and_refused_when_taken() -> None:
    assert forked("up", "mock").returncode == 0
    assert forked("up", "mock").returncode == 0
    assert [one["name"] for one in listed()] == ["mock", "mock-2"]
    assert "nearmetal down mock-2" in refused(2, "up", "mock", "--name", "mock-2")


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ä", "a\n", "x" * 65, "-x", "--help"])
def test_what_cannot_be_a_name(name: str) -> None:
    with pytest.raises(BadInput, match="cannot be a machine's name"):
        registry.check_name(name)


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("machine.memroy=1GiB", "memory"),
        ("machine.memory=much", "memory"),
        ("machine.vcpus=0", "vcpus"),
        ("design.blocks=3", "machine"),
        ("memory=1GiB", "a machine has no such key"),
        ("machine", "is not KEY=VALUE"),
        ("machine.isolation=user", "treatment"),
        ('"machine" . "isolation"=user', "treatment"),
        ('machine={nic="e1000"}', "a machine has no such key"),
    ],
)
def test_what_a_machine_cannot_be_given(setting: str, hint: str) -> None:
    with pytest.raises(BadInput, match=hint):
        parse_request("mock", [setting])


@pytest.mark.parametrize(("kind", "key"), [("host", "disk=ide"), ("docker", "accel=kvm"), ("host", "nic=e1000")])
def test_what_means_nothing_to_a_machine(kind: str, key: str) -> None:
    with pytest.raises(BadInput, match=f"machine.{key.partition('=')[0]} means nothing"):
        parse_request(kind, ["machine.vcpus=1", f"machine.{key}"])
    quoted = '"{}"={}'.format(*key.split("="))
    with pytest.raises(BadInput, match=f"machine.{key.partition('=')[0]} means nothing"):
        parse_request(kind, [f"machine.{quoted}"])
    assert parse_request("qemu", [f"machine.{key}"])


def test_what_another_environment_takes_is_refused() -> None:
    with pytest.raises(BadInput, match=r"environments\.docker\.runtime is another's: this machine is of 'host'"):
        parse_request("host", ["environments.docker.runtime=runc"])


def test_an_environment_that_is_none() -> None:
    assert "mock" in refused(2, "up", "mocc", "--name", "../x")
    with pytest.raises(BadInput, match="there is no environment"):
        parse_request('x"]\n[y', [])


def test_what_a_host_lacks_and_a_machine_that_does_not_come_up() -> None:
    assert "as the study asked" in refused(3, "up", "mock", "--set", "environments.mock.missing=wings")
    assert "did not come up" in refused(3, "up", "mock", "--set", "environments.mock.fault=create")
    second = ("--set", "environments.mock.fault_on=[2]")
    assert "did not answer" in refused(3, "up", "mock", "--set", "environments.mock.fault=attach", *second)
    assert listed() == []


@pytest.mark.parametrize(("kernel", "cpus"), [("[]", "1"), ('["isolcpus=0"]', "3")])
async def test_it_is_given_the_cpus_that_a_study_would_give_it(kernel: str, cpus: str) -> None:
    async def open_keeping(name: str) -> Site:
        return KeepingFree()

    want = parse_request("qemu", ["machine.vcpus=1", f"machine.kernel_arguments={kernel}"])
    assert await choose_cpuset(want, open_keeping) == cpus


@pytest.mark.parametrize(("kernel", "vcpus", "ok"), [("[]", 2, True), ("[]", 3, False), ('["isolcpus=3"]', 4, True)])
async def test_as_many_cpus_as_it_can_be_given_are_enough(
    monkeypatch: pytest.MonkeyPatch, kernel: str, vcpus: int, ok: bool
) -> None:
    async def check(spec: EnvironmentSpec, machine: MachineSpec, site: Site) -> list[Finding]:
        return (await check_limits(machine, site))[:1]

    async def open_keeping(name: str) -> Site:
        return KeepingFree()

    monkeypatch.setattr(plugins.load("environments", "qemu"), "check", check)
    want = parse_request("qemu", [f"machine.vcpus={vcpus}", f"machine.kernel_arguments={kernel}"])
    with contextlib.nullcontext() if ok else pytest.raises(HostCannot, match="3 CPUs: 2 of the host can be used"):
        await refuse_unavailable(want, open_keeping)


@pytest.mark.skipif(os.geteuid() != 0, reason="without root nothing is built")
@pytest.mark.parametrize(("wish", "said"), [("memory=99TiB", "99 TiB of memory"), ("vcpus=9999", "9999 CPUs")])
def test_what_this_host_cannot_give_is_refused_before_an_image_is_built(tmp_path: Path, wish: str, said: str) -> None:
    cache = tmp_path / "bare" / "cache"
    with lock_file(store.images(cache)) as another_build:
        assert try_lock(another_build)
        words = ("up", "host", "--set", f"machine.{wish}")
        ended = forked(*words, environment={"NEARMETAL_HOME": str(cache.parent)}, patience=20)
    assert ended.returncode == 3
    assert said in ended.stderr
    assert "waiting" not in ended.stdout + ended.stderr


def test_a_keeper_that_does_not_come_to_its_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper = tmp_path / "keeper"
    keeper.write_text('#!/bin/sh\ntrap \'\' TERM\necho \'{"error": "no wings", "code": 3}\'\nexec sleep 2\n')
    keeper.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(keeper))
    monkeypatch.setattr(up, "LIMITS", Limits(boot=0.2))
    said = refused(3, "up", "mock")
    assert "did not end within" in said and "kill -9" in said


def test_a_command_s_own_status_is_passed_on_and_ours_is_125() -> None:
    forked("up", "mock")
    assert forked("exec", "mock", "--", "true").returncode == 0
    assert forked("exec", "mock", "--", "no-such-program").returncode == 127
    refused(125, "exec", "mocc", "--", "true")
    assert "no terminal" not in refused(125, "exec", "../mock", "true")


def test_that_nobody_reads_it_is_no_failure_of_ours() -> None:
    forked("up", "mock")
    shell = 'head -c 4M /dev/zero | "$@" | head -c 1; exit ${PIPESTATUS[1]}'
    words = ["bash", "-c", shell, "bash", sys.executable, "-m", "nearmetal", "exec", "mock", "--", "cat"]
    ended = subprocess.run(words, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (141, b"\0", b"")


def test_a_file_there_and_back(tmp_path: Path) -> None:
    forked("up", "mock")
    (tmp_path / "there").write_bytes(bytes(range(256)))
    assert forked("cp", str(tmp_path / "there"), "mock:/etc/x").returncode == 0
    assert called("cp", "mock:/etc/x", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == bytes(range(256))
    refused(3, "cp", "mock:/etc/y", str(tmp_path / "y"))
    assert not (tmp_path / "y").exists()
    refused(2, "cp", str(tmp_path / "nosuch"), "mock:/etc/x")
    refused(2, "cp", str(tmp_path / "there"), "mocc:/etc/x")
    refused(2, "cp", str(tmp_path / "there"), str(tmp_path / "back"))
    refused(2, "cp", "mock:/etc/x", "mock:/etc/y")


@pytest.mark.parametrize("ends", [("", "mock:/etc/x"), ("mock:/etc/x", "")])
def test_a_place_that_is_empty_is_not_the_folder_where_one_is(ends: tuple[str, str]) -> None:
    assert f"{'DESTINATION' if ends[0] else 'SOURCE'} is empty" in refused(2, "cp", *ends)


def lead_here(monkeypatch: pytest.MonkeyPatch, *by: str, own_failures: tuple[int, ...] = ()) -> None:
    """Pretended machines get a way in that leads to this host, by these words before a program's own."""

    async def open_door(handle: Handle) -> Door:
        return Door(lambda argv, env, terminal: [*by, *argv], own_failures)

    monkeypatch.setattr(plugins.load("environments", "mock"), "open_door", open_door)


@pytest.fixture
def door_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pretended machine that is up, and whose way in leads to this host: what is copied by one goes both ways."""
    forked("up", "mock")
    lead_here(monkeypatch)


def test_a_kind_gives_exec_and_ssh_its_own_way_in(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a kind of somebody else's: nothing here knows any by name."""
    forked("up", "mock")
    told = tmp_path / "told"
    lead_here(monkeypatch, "sh", "-c", f'echo "$@" >>{told}; exec "$@"', "way")
    assert called("exec", "mock", "--", "sh", "-c", "exit 7").returncode == 7
    assert called("ssh", "mock", "exit 8").returncode == 8
    assert told.read_text() == "sh -c exit 7\nbash -l -c exit 8\n"


def test_a_status_by_which_a_way_in_fails_itself_is_asked_about(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked("up", "mock")
    lead_here(monkeypatch, "sh", "-c", "echo no route >&2; exit 255")
    assert called("exec", "mock", "--", "true").returncode == 255, "it may be the program's"
    lead_here(monkeypatch, "sh", "-c", "echo no route >&2; exit 255", own_failures=(255,))
    assert "it does not answer: no route" in refused(125, "exec", "mock", "--", "true")
    lead_here(monkeypatch, own_failures=(255,))
    assert called("exec", "mock", "--", "sh", "-c", "exit 255").returncode == 255, "the way in answers"


def test_what_leads_there_may_be_away(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forked("up", "mock")

    async def open_door(handle: Handle) -> Door:
        raise HostCannot("no engine answers", "socket", "start its engine")

    monkeypatch.setattr(plugins.load("environments", "mock"), "open_door", open_door)
    said = refused(125, "exec", "mock", "--", "true")
    assert "it cannot be reached: no engine answers" in said
    assert "remedy: start its engine, or remove it: nearmetal down mock" in said
    assert [one["state"] for one in listed()] == ["unreachable"]


def test_a_place_in_a_machine_that_cannot_be_is_a_wrong_one_as_on_this_host(door_here: None, tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(b"x")
    (folder / "file").mkdir(parents=True)
    assert "there is no such file" in refused(2, "cp", f"mock:{tmp_path}/no/thing", str(tmp_path / "y"))
    said = refused(2, "cp", str(file), f"mock:{tmp_path}/no/such/y")
    assert f"remedy: make it: nearmetal exec mock -- mkdir -p {tmp_path}/no/such\n" in said
    assert "there is no such folder" in refused(2, "cp", str(file), f"mock:{tmp_path}/no/")
    said = refused(2, "cp", str(file), f"mock:{file}/x")
    assert f"{file} is no folder" in said and "mkdir" not in said
    assert "remove it first" in refused(2, "cp", str(file), f"mock:{folder}")
    assert "remove it first" in refused(2, "cp", str(folder), f"mock:{file}")
    assert called("cp", str(file), f"mock:{tmp_path}/y").returncode == 0
    assert called("cp", f"mock:{tmp_path}/y", f"{tmp_path}/z").returncode == 0
    assert (tmp_path / "z").read_bytes() == b"x"


_STRICT = """
status=0
"$@" || status=$?
exec >&-
[ -z "$(head -c 1)" ] || { echo "connection reset" >&2; exit 255; }
exit $status
"""
"""A way in that loses what was said by a program which left some of its input unread, as Podman's client does."""


def test_nothing_is_sent_to_a_place_that_is_refused(
    door_here: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_bytes(bytes(4_000_000))
    (folder / "file").mkdir(parents=True)
    lead_here(monkeypatch, "sh", "-c", _STRICT, "strict")
    said = refused(2, "cp", str(file), f"mock:{tmp_path}/no/such/y")
    assert f"there is no folder {tmp_path}/no/such/" in said and "mkdir -p" in said
    assert "there is a folder of that name already" in refused(2, "cp", str(file), f"mock:{folder}")
    assert called("cp", str(file), f"mock:{tmp_path}/y").returncode == 0
    assert (tmp_path / "y").read_bytes() == file.read_bytes()


@pytest.fixture
def greeted(door_here: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A way in by a login shell that runs some lines of its own before the program, "$@"."""

    def by(lines: str) -> None:
        lead_here(monkeypatch, "sh", "-c", lines, "login")

    return by


def test_what_a_login_shell_says_first_keeps_nothing_from_being_copied(
    greeted: Callable[[str], None], tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 4_000_000)
    greeted('echo Welcome; printf "last login: "; exec "$@"')
    assert called("cp", str(file), f"mock:{tmp_path}/y").returncode == 0
    assert (tmp_path / "y").read_bytes() == file.read_bytes()
    said = refused(2, "cp", str(file), f"mock:{tmp_path}/no/such/y")
    assert f"there is no folder {tmp_path}/no/such/" in said and "Welcome" not in said


@pytest.mark.parametrize("status", [0, 1])
def test_a_login_that_only_says_something_is_told(status: int, greeted: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    greeted(f"echo This account is not available; exit {status}")
    said = refused(3, "cp", str(tmp_path / "file"), f"mock:{tmp_path}/y")
    assert "could not be copied: This account is not available" in said


@pytest.mark.parametrize("lines", ["exec yes no", "exec cat /dev/zero"])
def test_a_login_that_says_ever_more_comes_to_an_end(
    lines: str, greeted: Callable[[str], None], tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    greeted(lines)
    assert "could not be copied" in refused(3, "cp", str(tmp_path / "file"), f"mock:{tmp_path}/y")


def test_a_place_of_this_host_that_cannot_be_is_named(door_here: None, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    for destination in (f"{file}/x", f"{file}/"):
        said = refused(2, "cp", f"mock:{file}", destination)
        assert f"{file}: this is a file, not a folder" in said
        assert "make it" not in said
    said = refused(3, "cp", f"mock:{file}", "/proc/x")
    assert "nearmetal: /proc/x: " in said
    assert ".nearmetal-" not in said and "doctor" not in said


def test_an_image_of_which_a_machine_is_up_stays() -> None:
    folder = finished(Paths.default().cache, Recipe(name="mine"))
    forked("up", "mock", "--set", "machine.image=mine")
    assert "mock is up" in refused(3, "image", "rm", "mine")
    assert (folder / "manifest.json").exists()
    called("down", "mock")
    assert called("image", "rm", "mine").returncode == 0
    assert not folder.exists()


def test_where_a_path_is() -> None:
    assert parse_place("a:b c\nd") == Remote("a", "/root/b c\nd")
    assert parse_place("a:") == Remote("a", "/root/")
    assert parse_place("a:/x/") == Remote("a", "/x/")
    assert parse_place("./a:b") is None
    assert parse_place("/a:b") is None
    assert parse_place("a") is None


@pytest.mark.parametrize("by", [["clean"], ["down", "mock"]])
def test_what_a_killed_keeper_leaves_is_removed(by: list[str]) -> None:
    forked("up", "mock")
    (one,) = listed()
    os.kill(one["keeper"], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while listed()[0]["state"] != "lost":
        assert time.monotonic() < deadline
    assert "its keeper died" in refused(125, "exec", "mock", "--", "true")
    assert "there is a machine 'mock' already" in refused(2, "up", "mock", "--name", "mock")  # not that it is up
    assert "nearmetal down mock" in refused(3, "cp", "mock:/etc/x", "/nowhere")
    assert forked(*by).returncode == 0
    assert listed() == []
    assert not list(Paths.default().state.glob("ledgers/*"))
    assert not list(Paths.default().state.glob("mock/local/*.json"))


def test_what_is_told_of_machines_meets_its_schema() -> None:
    up = json.loads(forked("up", "mock", "--name", "one", "--json").stdout)
    jsonschema.validate(up, schemas.list_documents()["up.v1"])
    jsonschema.validate(json.loads(forked("ls", "--json").stdout), schemas.list_documents()["ls.v1"])
    assert {name: value for name, value in up.items() if name != "schema"} == listed()[0]


def test_a_machine_that_is_on_no_switch_has_its_address_elsewhere() -> None:
    told = forked("up", "mock", "--name", "one").stdout
    assert "is its address\n" in told
    assert "lab's switch" not in told
    (one,) = listed()
    assert one["address"].startswith("mock-")
    assert one["switch"] is None
