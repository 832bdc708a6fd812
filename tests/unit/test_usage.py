"""The observer `usage`: what it starts, how it stops, and what it does when a sampler fails."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from nearmetal.errors import MachineLost, TimedOut, ToolFailed
from nearmetal.model import CPU_STATES, Completed, Machine, ObserveSpec, Running, Site, SiteRunning
from nearmetal.observers.usage import UsageObserver
from nearmetal.units import AS_WRITTEN

from .workloads_stage import ScriptedStage

MINUTE = 60_000_000_000
AHEAD = 7_000_000_000_000
"""How far the guest's clock is ahead: two hours."""


def lines(ahead: int = 0, boot: int = 0, whole: bool = True, **more: Any) -> bytes:
    """A sampler that began a minute ago, and whose one interval ends in a minute. `boot`: its monotonic clock's lag."""
    begun = time.monotonic_ns() - MINUTE - boot
    shares = dict.fromkeys(CPU_STATES, 0.0) | {"usr": 30.0, "idle": 70.0}
    began = {"time_ns": time.time_ns() - MINUTE + ahead, "monotonic_ns": begun}
    header = {"schema": "sample.header.v1", **began, **more}
    sample = {
        "schema": "sample.v1",
        "monotonic_ns": begun + 2 * MINUTE,
        "elapsed_ns": 2 * MINUTE,
        "cpus": {"0": shares, "all": shares},
        "interfaces": {},
        "cgroups": {"server-0": {"cpu_percent": 12.5}},
        "disks": {},
        "pressure": {},
        "context_switches": 0,
        "interrupts": {},
        "memory": {"total": 2**30},
    }
    usage = {"user_ns": MINUTE // 1000, "system_ns": MINUTE // 1000}
    end = {"schema": "sample.end.v1", "missed": 0, "elapsed_ns": 2 * MINUTE, "usage": usage}
    return "".join(json.dumps(one) + "\n" for one in ([header, sample, end] if whole else [header, sample])).encode()


FILE = "/run/guest-usage.jsonl"


class Sampler:
    """A `SiteRunning` that ends as it is told to."""

    def __init__(self, ended: Completed, begun: bool = True, lost: bool = False) -> None:
        self._ended = ended
        self._begun = begun
        self._lost = lost
        self.stopped = 0

    async def first_line(self, timeout: float) -> bytes:
        return b"{}" if self._begun else b""

    async def wait(self, timeout: float) -> Completed:
        if self._begun:
            raise TimedOut("it goes on")
        return self._ended

    async def stop(self) -> Completed:
        self.stopped += 1
        if self._lost:
            raise MachineLost("gone", "guest")
        return self._ended


class Place:
    """A site or a machine: it has one sampler, and one file."""

    spec = None
    bound = ("--die-with-parent=1",)

    def __init__(self, name: str, boot_id: str, sampler: Sampler, file: bytes = b"", ahead: int = 0) -> None:
        self.name = name
        self.boot_id = boot_id
        self.probe = f"/{name}/probe"
        self.site: Place = self
        self.sampler = sampler
        self.ran: list[list[str]] = []
        self._file = file
        self._ahead = ahead

    async def exec(
        self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] | None = None, timeout: float = 1
    ) -> Completed:
        self.ran.append(list(argv))
        if "at" in argv:
            now = time.time_ns() + self._ahead
            told = json.dumps({"started_ns": now, "ended_ns": now})
            return Completed(status=0, stdout=told.encode())
        return Completed(status=0, stdout=self._file if argv[0] == "cat" else b"")

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        self.ran.append(list(argv))
        return cast(SiteRunning, self.sampler)

    async def get(self, path: str) -> bytes:
        if path == FILE:
            return self._file
        raise ToolFailed(f"cannot read {path}", self.name)


def stage(host: Place, guest: Place) -> ScriptedStage:
    guest.site = host
    made = ScriptedStage([cast(Machine, guest)], [])
    made.cpus = {guest.name: [0]}
    made.sites = {"local": cast(Site, host)}
    return made


def places(guest: Sampler | None = None, host: Sampler | None = None, file: bytes | None = None) -> tuple[Place, Place]:
    done = Completed(status=0)
    told = lines(AHEAD, boot=999) if file is None else file
    return (
        Place("local", "host-boot", host or Sampler(Completed(status=0, stdout=lines())), b"host\n"),
        Place("guest", "guest-boot", guest or Sampler(done), told, AHEAD),
    )


@pytest.fixture(autouse=True)
def one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "nearmetal.lab.clocks.LocalSite", lambda: Place("local", "host-boot", Sampler(Completed(status=0)))
    )


async def test_server_and_host_are_sampled_at_once_and_averaged_over_the_measuring() -> None:
    host, guest = places()
    watch = await UsageObserver(0.5).start(stage(host, guest))
    seen = await watch.stop()
    assert [guest.probe, "sample", "--json", "--interval", "0.5s", "--output", FILE] in guest.ran
    (sampling,) = (argv for argv in host.ran if "sample" in argv)
    assert sampling[:4] == [host.probe, "launch", *host.bound, "--"]
    assert seen.artifacts.keys() == {"usage-host.jsonl", "usage-server-0.jsonl"}
    for place in ("host", "server-0"):
        told = seen.counters[place]
        assert (told["cpu.all.usr"], told["cpu.0.idle"], told["samples"], told["interval"]) == (30, 70, 1, 0.5)
        assert told["cost"] == pytest.approx(0.001)
        assert "problem" not in told
        assert told["seconds"] < 1, "the minutes before and after are not the measuring's"
    assert seen.counters["host"]["group.server-0.cpu"] == 12.5
    assert (guest.sampler.stopped, host.sampler.stopped) == (1, 1)
    assert ["rm", "-f", FILE] in guest.ran


async def test_clients_are_sampled_once_for_each_kernel() -> None:
    host, guest = places()
    watched = stage(host, guest)
    alike = [Place(f"client{index}", "host-boot", Sampler(Completed(status=0)), b"{}\n") for index in range(2)]
    own = Place("virtual", "own-boot", Sampler(Completed(status=0)), b"{}\n")
    for client in (*alike, own):
        client.site = host
    watched.clients = tuple(cast(Machine, client) for client in (*alike, own))
    seen = await (await UsageObserver(1).start(watched)).stop()
    assert seen.counters.keys() == {"host", "server-0", "client-0", "client-2"}
    assert [client.sampler.stopped for client in (*alike, own)] == [1, 0, 1]


async def test_the_guests_samples_are_brought_on_the_hosts_clock() -> None:
    """Its clock is hours ahead and its monotonic clock began at another instant; the measuring begins once."""
    host, guest = places()
    seen = await (await UsageObserver(1).start(stage(host, guest))).stop()
    of_host, of_guest = (seen.counters[place]["began_ns"] for place in ("host", "server-0"))
    assert of_host - of_guest == pytest.approx(999, abs=20_000_000)


@pytest.mark.parametrize("counts, told", [(True, None), (False, "untold")])
async def test_a_kernel_that_counts_no_steal_is_told(counts: bool, told: str | None) -> None:
    host, guest = places(file=lines(AHEAD, counts_steal=counts))
    seen = await (await UsageObserver(1).start(stage(host, guest))).stop()
    assert seen.counters["server-0"].get("steal") == told
    assert "steal" not in seen.counters["host"], "an older probe does not say"


async def test_a_sampler_that_was_killed_is_told_and_what_it_left_counts() -> None:
    host, guest = places(Sampler(Completed(status=137)), file=lines(AHEAD, whole=False))
    seen = await (await UsageObserver(1).start(stage(host, guest))).stop()
    told = seen.counters["server-0"]
    assert "was killed before the trial was over" in told["problem"]
    assert told["cpu.all.usr"] == 30
    assert "cost" not in told
    assert "problem" not in seen.counters["host"]


async def test_what_a_sampler_said_last_is_told() -> None:
    host, guest = places(Sampler(Completed(status=1, stderr=b"No space left on device\n")))
    seen = await (await UsageObserver(1).start(stage(host, guest))).stop()
    assert seen.counters["server-0"]["problem"].endswith(
        "ended with status 1 before the trial was over: No space left on device"
    )


async def test_a_machine_that_is_lost_does_not_take_the_hosts_samples_with_it() -> None:
    host, guest = places(Sampler(Completed(status=0), lost=True))
    seen = await (await UsageObserver(1).start(stage(host, guest))).stop()
    assert "was lost" in seen.counters["server-0"]["problem"]
    assert seen.counters["host"]["cpu.all.usr"] == 30


async def test_a_sampler_that_does_not_begin_is_an_error_and_the_other_is_stopped() -> None:
    refused = Sampler(Completed(status=2, stderr=b"no such verb"), begun=False)
    host, guest = places(refused, file=b"")
    with pytest.raises(ToolFailed, match="no such verb"):
        await UsageObserver(1).start(stage(host, guest))
    assert host.sampler.stopped == 1


@pytest.mark.parametrize("setting", [True, False, 0.0, -1.0, "1s", None])
def test_the_setting_is_seconds(setting: Any) -> None:
    with pytest.raises(ValueError, match="how often to sample"):
        UsageObserver(setting)


@pytest.mark.parametrize(("written", "seconds"), [(True, 1.0), ("250ms", 0.25), (False, None)])
def test_a_study_says_true_or_how_often(written: Any, seconds: float | None) -> None:
    chosen = ObserveSpec.model_validate({"usage": written}, context=AS_WRITTEN).chosen
    assert chosen == ({} if seconds is None else {"usage": seconds})
