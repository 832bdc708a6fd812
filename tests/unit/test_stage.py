"""What a stage starts, together or to serve, and where: with the real probe on this host."""

import os
from pathlib import Path
from typing import Any

import pytest

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.stage import LabStage, PlacedProgram, judge_placement
from nearmetal.model import Completed, LinkSpec, MachineSpec


class Here(LocalSite):
    """This host, as far as a stage needs a machine."""

    def __init__(self, name: str = "here") -> None:
        super().__init__()
        self.name = name


class Mute(Here):
    """Another host, whose probe does not answer."""

    def __init__(self) -> None:
        super().__init__("mute")
        self.boot_id = "another"

    async def exec(self, *_: Any, **__: Any) -> Completed:
        return Completed(status=125, stderr=b"no such program")


def stage() -> LabStage:
    return LabStage((), (), {}, MachineSpec(), LinkSpec(), "shared", {})


async def ended(*argv: str, limit: float = 60) -> Any:
    (one,) = await stage().together([(Here(), argv)], limit)  # type: ignore[list-item]  # no address, no NIC
    return one


async def test_status_and_output_are_the_programs_own() -> None:
    one = await ended("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (one.status, one.stdout, one.stderr) == (3, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("stream", "redirected"), [("stdout", "head -c 68000000 /dev/zero"), ("stderr", "head -c 68000000 /dev/zero >&2")]
)
async def test_output_that_was_cut_off_is_never_taken_for_the_whole(stream: str, redirected: str) -> None:
    with pytest.raises(ToolFailed, match=f"`sh` printed more than 16 MiB to its {stream}") as caught:
        await ended("sh", "-c", redirected)
    assert caught.value.where == "here"
    assert caught.value.remedy


async def test_output_without_an_end_has_one_reason_however_slow_the_machine_is() -> None:
    """It is cut off long before the limit ends it."""
    with pytest.raises(ToolFailed, match="`sh` printed more than 16 MiB to its stdout"):
        await ended("sh", "-c", "yes", limit=2)


async def test_who_killed_what_runs_is_told_with_what_it_ran() -> None:
    with pytest.raises(ToolFailed, match=r"sh, or what started it,.*SIGKILL"):
        await ended("sh", "-c", "kill -9 $PPID; sleep 60")


async def test_a_daemon_that_a_program_leaves_is_named() -> None:
    one = await ended("sh", "-c", "setsid -f sleep 12 >/dev/null 2>&1; echo 1")
    assert (one.stdout, one.left) == (b"1\n", ("sleep",))


async def test_any_machines_of_a_stage_can_start_together() -> None:
    both: list[Any] = [(Here("one"), ["echo", "1"]), (Here("other"), ["echo", "2"])]
    ended = await stage().together(both, 60)
    assert [one.stdout for one in ended] == [b"1\n", b"2\n"]
    assert all(one.late is not None for one in ended)


async def test_a_machine_that_does_not_tell_its_time_is_told() -> None:
    both: list[Any] = [(Here(), ["true"]), (Mute(), ["true"])]
    with pytest.raises(ToolFailed, match="mute: the probe does not tell the time: no such program"):
        await stage().together(both, 60)


async def test_what_does_not_end_in_time_is_told() -> None:
    with pytest.raises(TimedOut, match=r"did not end within 0\.2 s"):
        await ended("sleep", "30", limit=0.2)


# ── A CPU kept for what is measured ───────────────────────────────────────────────────────────────────────────────

LAST = max(os.sched_getaffinity(0))
ALLOWED = "grep Cpus_allowed_list /proc/self/status"


class Server(Here):
    role = "server"

    def __init__(self, folder: Path) -> None:
        super().__init__("server")
        (folder / "probe").symlink_to(super().probe)
        self._probe = str(folder / "probe")

    @property
    def probe(self) -> str:
        return self._probe


class Client(Server):
    role = "client"


def isolated(*servers: Server) -> LabStage:
    cpus = {server.name: sorted(os.sched_getaffinity(0)) for server in servers}
    spec = MachineSpec(vcpus=2, alone=True)
    return LabStage(servers, (), {}, spec, LinkSpec(), "shared", {}, cpus)  # type: ignore[arg-type]  # no address


def told(program: str, cpus: str | None) -> dict[str, Any]:
    return {"server": {"cpu": LAST, "programs": [{"program": program, "cpus": cpus}]}}


async def test_a_command_is_placed_that_knows_nothing_of_it(tmp_path: Path) -> None:
    server: Any = Server(tmp_path)
    made = isolated(server)
    (one,) = await made.together([(server, ["sh", "-c", ALLOWED])], 60)
    assert one.text.split()[-1] == str(LAST)
    found = await made.verify_placement()
    assert (found.ok, found.values) == (True, told("sh", str(LAST)))


async def test_a_service_is_placed_and_leaves_nothing(tmp_path: Path) -> None:
    server: Any = Server(tmp_path)
    made = isolated(server)
    service = await made.serve(server, ["sleep", "60"], env={"A": "B"})
    try:
        assert not list(tmp_path.glob("*.pid"))
        found = await made.verify_placement()
        assert (found.ok, found.values) == (True, told("sleep", str(LAST)))
        with pytest.raises(TimedOut):
            await service.wait(0)
    finally:
        ended = await service.stop()
    assert ended.status == 143
    assert not await service.alive()
    assert await service.stop() == ended == made.services[0].ended


async def test_a_service_that_does_not_start_tells_why_and_leaves_nothing(tmp_path: Path) -> None:
    server: Any = Server(tmp_path)
    service = await isolated(server).serve(server, ["no-such-program"])
    ended = await service.wait(60)
    assert (ended.status, "no-such-program" in ended.complaint) == (127, True)
    assert not list(tmp_path.glob("*.pid"))


async def test_a_client_keeps_its_cpus_and_so_does_a_server_that_keeps_none(tmp_path: Path) -> None:
    client: Any = Client(tmp_path)
    both: list[tuple[LabStage, Any]] = [(isolated(client), client), (stage(), Here())]
    everywhere = (await Here().exec(["sh", "-c", ALLOWED])).text
    for made, machine in both:
        (one,) = await made.together([(machine, ["sh", "-c", ALLOWED])], 60)
        assert one.text == everywhere
        service = await made.serve(machine, ["sh", "-c", ALLOWED])
        assert (await service.wait(60)).text == everywhere


async def test_a_program_that_goes_elsewhere_by_itself_is_not_placed(tmp_path: Path) -> None:
    server: Any = Server(tmp_path)
    made = isolated(server)
    elsewhere = str(min(os.sched_getaffinity(0)))
    await made.together([(server, ["taskset", "-c", elsewhere, "true"])], 60)
    found = await made.verify_placement()
    where = f"CPUs {elsewhere} of server instead of CPU {LAST}"
    assert found.ok == (elsewhere == str(LAST))
    if not found.ok:
        assert found.reason == f"`taskset` could run on {where}, which is kept free for it"
        assert [warned.code for warned in found.warnings] == ["not-placed"]


async def test_what_is_never_started_by_the_stage_is_not_placed(tmp_path: Path) -> None:
    server: Any = Server(tmp_path)
    made = isolated(server)
    await server.exec(["true"])
    found = await made.verify_placement()
    assert not found.ok
    assert found.reason == (
        f"nothing of what is measured was placed on CPU {LAST} of server, which is kept free for it"
    )
    assert (await stage().verify_placement()).ok


def test_what_nobody_can_tell_is_not_taken_for_placed() -> None:
    kept = {"server": 1}
    assert not judge_placement([PlacedProgram("server", "gone", None)], kept).ok
    assert judge_placement([PlacedProgram("server", "gone", None), PlacedProgram("server", "here", "1")], kept).ok
    both = [PlacedProgram("server", "here", "1"), PlacedProgram("server", "there", "0-1")]
    assert not judge_placement(both, kept).ok
