"""`nearmetal isolate` on a pretended host: what it plans, that it stands, and what `off` and `clean` put back."""

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from nearmetal.errors import BadInput, HostCannot, MachineLost
from nearmetal.isolate import active_isolation, isolation_changes, proof
from nearmetal.isolate import host as hosts
from nearmetal.isolate.host import Bystanders, Host, HostCpu
from nearmetal.lab import clean
from nearmetal.lab.changes import change_applier
from nearmetal.lab.changes.kinds import GRUB_DROP_IN
from nearmetal.lab.changes.ledger import held, outstanding
from nearmetal.lab.cpus.noise import Heard
from nearmetal.model import Change, Commands

from .isolate_host import BOOT_ID, CPU, PROBE, Pretended

ERRORS = "/sys/devices/system/machinecheck/machinecheck{}/ignore_ce"


@pytest.fixture
def box() -> Pretended:
    return Pretended()


@pytest.fixture
def path() -> Path:
    return active_isolation.ledger_path()


async def changes(box: Commands, strict: bool = False, boot: bool = False) -> list[Change]:
    host = await hosts.survey_host(box)
    first = [isolation_changes.make_boot_change([1])] if boot else []
    return [
        *first,
        *isolation_changes.list_changes(host, [1], await hosts.read_cpusets(box, PROBE, [1]), PROBE, strict),
    ]


def cpus(*siblings: tuple[int, ...]) -> Host:
    made = tuple(HostCpu(number, shared, "0", None) for number, shared in enumerate(siblings))
    return Host(made, {}, "", "", (), False)


# ── What there is, and which CPUs ─────────────────────────────────────────────────────────────────────────────────


async def test_a_host_is_read_with_what_it_has(box: Pretended) -> None:
    host = await hosts.survey_host(box)
    assert host.cpus == (HostCpu(0, (0, 1), "0", None, True), HostCpu(1, (0, 1), "0", "powersave", True))
    assert host.knobs == box.sysctls
    assert (host.isolated, host.nohz_full, host.arguments) == ("", "", ("quiet",))


async def test_a_watchdog_without_counters_is_none(box: Pretended) -> None:
    """The kernel of an emulated guest shows the knob, and takes no value."""
    box.sysctls["kernel.nmi_watchdog"] = "1"
    assert "kernel.nmi_watchdog" not in (await hosts.survey_host(box)).knobs
    box.files["/sys/bus/event_source/devices/cpu/type"] = "4\n"
    assert (await hosts.survey_host(box)).knobs["kernel.nmi_watchdog"] == "1"
    assert {one.target: one.after for one in await changes(box)}["kernel.nmi_watchdog"] == "0"


def test_by_default_it_is_the_last_cpu() -> None:
    assert hosts.choose_cpus(None, cpus((0,), (1,), (2,))) == (2,)
    assert hosts.choose_cpus("1-2", cpus((0,), (1,), (2,))) == (1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "there is no CPU 2"),
        ("0-1", "these are all CPUs"),
        ("", "no CPU"),
        ("x", "is not a list"),
        ("-1", "not a"),
    ],
)
def test_cpus_that_cannot_be_isolated(text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as raised:
        hosts.choose_cpus(text, cpus((0,), (1,)))
    assert raised.value.where == "--cpus"
    assert "--cpus 1" in raised.value.remedy


def test_of_one_cpu_none_can_be_kept_free() -> None:
    with pytest.raises(HostCannot, match="of one CPU"):
        hosts.choose_cpus(None, cpus((0,)))


def test_a_core_that_is_shared_is_told() -> None:
    assert any("shares its core with CPU 0" in note for note in isolation_changes.list_notes(cpus((0, 1), (0, 1)), [1]))
    assert not any("shares its core" in note for note in isolation_changes.list_notes(cpus((0,), (1,)), [1]))
    assert not any("shares" in note for note in isolation_changes.list_notes(cpus((0,), (1, 2), (1, 2)), [1, 2]))


async def test_each_change_is_told_in_words(box: Pretended) -> None:
    host = await hosts.survey_host(box)
    there = await hosts.find_bystanders(box, PROBE, [1])
    cpusets = await hosts.read_cpusets(box, PROBE, [1])
    words = [isolation_changes.describe_change(one, host, there, cpusets) for one in await changes(box, boot=True)]
    assert words[0].startswith("the boot loader adds isolcpus=1 nohz_full=1 rcu_nocbs=1")
    assert words[1].startswith("kernel.timer_migration from 1 to 0")
    assert "to performance" in words[-3] and "ignore_ce: to 1" in words[-2]
    assert words[-1].startswith("2 threads and 1 interrupt lines that may run on CPU 1")
    assert "1 kernel threads are bound there" in words[-1]


def test_interrupts_to_come_are_no_line() -> None:
    there = Bystanders({"irq:default": "", "workqueue": "", "irq:7": "", "task:1:1": ""}, {})
    assert there.count_movable() == {"threads": 1, "interrupts": 1, "bound": 0}


# ── On, off ───────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_it_stands_until_off_and_then_all_is_as_before(box: Pretended, path: Path) -> None:
    before = box.snapshot()
    applied = await active_isolation.isolate_cpus(await changes(box, boot=True), box, path)
    assert (applied.refused, applied.warnings, bool(applied.reboot)) == ((), (), True)
    assert box.sysctls == {"kernel.timer_migration": "0", "kernel.sched_rt_runtime_us": "-1", "vm.stat_interval": "10"}
    assert box.files[f"{CPU}/cpu1/cpufreq/scaling_governor"] == "performance\n"
    assert [box.files[ERRORS.format(number)] for number in (0, 1)] == ["0\n", "1\n"]
    assert "isolcpus=1" in box.files[GRUB_DROP_IN]
    assert set(box.tasks.values()) == {"0"}
    assert {one.state for one in await active_isolation.list_active(box, path)} == {"holds"}
    assert active_isolation.isolated_cpus(await active_isolation.held_changes(box, path)) == "1"
    assert {one.outcome for one in await active_isolation.release_cpus(box, path)} == {"restored"}
    assert box.snapshot() == before
    assert not path.exists()
    assert await active_isolation.release_cpus(box, path) == []


async def test_a_boot_takes_along_all_but_what_the_boot_loader_was_told(box: Pretended, path: Path) -> None:
    fresh = Pretended().snapshot()
    await active_isolation.isolate_cpus(await changes(box, boot=True), box, path)
    drop_in = box.files[GRUB_DROP_IN]
    box.sysctls, box.files, box.tasks = Pretended().snapshot()
    box.files |= {GRUB_DROP_IN: drop_in, BOOT_ID: "second\n"}
    assert [one.change.kind for one in await active_isolation.list_active(box, path)] == ["boot"]

    with pytest.raises(HostCannot, match="isolated already"):
        await active_isolation.isolate_cpus([isolation_changes.make_boot_change([0])], box, path)
    assert (await active_isolation.isolate_cpus(await changes(box, boot=True), box, path)).refused == ()
    assert active_isolation.isolated_cpus(await active_isolation.held_changes(box, path)) == "1"
    assert {one.state for one in await active_isolation.list_active(box, path)} == {"holds"}

    box.tasks["task:99:1"] = "0"  # somebody's own
    assert {one.outcome for one in await active_isolation.release_cpus(box, path)} <= {"restored", "already so"}
    assert (box.sysctls, {**box.files, BOOT_ID: "first\n"}) == fresh[:2]
    assert not path.exists()


async def test_after_a_boot_a_full_disk_does_not_keep_off_from_putting_back(
    box: Pretended, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await active_isolation.isolate_cpus(await changes(box, boot=True), box, path)
    drop_in = box.files[GRUB_DROP_IN]
    box.sysctls, box.files, box.tasks = Pretended().snapshot()
    box.files |= {GRUB_DROP_IN: drop_in, BOOT_ID: "second\n"}
    box.tasks["task:99:1"] = "0"  # somebody's own, set as we had set it

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as now, pytest.raises(change_applier.UndoNotRecorded) as told:
        now.setattr(os, "fsync", full)
        await active_isolation.release_cpus(box, path)
    assert [one.change.kind for one in told.value.undone] == ["boot"]
    assert GRUB_DROP_IN not in box.files or not box.files[GRUB_DROP_IN]
    assert {one.outcome for one in await active_isolation.release_cpus(box, path)} == {"already so"}
    assert not path.exists()


async def test_what_is_refused_after_a_boot_leaves_what_the_boot_loader_was_told(box: Pretended, path: Path) -> None:
    await active_isolation.isolate_cpus(await changes(box, boot=True), box, path)
    drop_in = box.files[GRUB_DROP_IN]
    box.sysctls, box.files, box.tasks = Pretended().snapshot()
    box.files |= {GRUB_DROP_IN: drop_in, BOOT_ID: "second\n"}
    box.immovable.add("irq:5")
    with pytest.raises(HostCannot, match="everything was put back"):
        await active_isolation.isolate_cpus(await changes(box, strict=True), box, path)
    assert box.files[GRUB_DROP_IN] == drop_in
    assert [one.change.kind for one in await active_isolation.list_active(box, path)] == ["boot"]


async def test_off_does_not_boot_a_host_again(box: Pretended, path: Path) -> None:
    await active_isolation.isolate_cpus([isolation_changes.make_boot_change([1])], box, path)
    box.files["/proc/cmdline"] = "quiet isolcpus=1 nohz_full=1 rcu_nocbs=1\n"
    assert [one.outcome for one in await active_isolation.release_cpus(box, path)] == ["restored"]


@pytest.mark.parametrize("last", ["vm.stat_interval=10", "away", "kernel.timer_migration=0"])
async def test_whatever_it_dies_at_off_puts_back_what_it_had_done(box: Pretended, path: Path, last: str) -> None:
    before = box.snapshot()
    box.dies_at = last
    with pytest.raises(MachineLost):
        await active_isolation.isolate_cpus(await changes(box), box, path)
    box.dies_at = None
    assert {one.outcome for one in await active_isolation.release_cpus(box, path)} <= {"restored", "already so"}
    assert box.snapshot() == before


async def test_what_somebody_else_changed_is_told_and_left(box: Pretended, path: Path) -> None:
    await active_isolation.isolate_cpus(await changes(box), box, path)
    box.sysctls["vm.stat_interval"] = "5"
    box.tasks["task:10:1"] = "1"
    states = {one.change.target: one.state for one in await active_isolation.list_active(box, path)}
    assert (states["vm.stat_interval"], states["kernel.timer_migration"]) == ("changed since", "holds")
    left = [one for one in await active_isolation.release_cpus(box, path) if one.outcome == "left"]
    assert {one.change.kind for one in left} == {"sysctl", "bystanders"}
    assert (box.sysctls["vm.stat_interval"], box.tasks["task:10:1"]) == ("5", "1")
    assert box.tasks["task:11:1"] == "0-1"


async def test_an_interrupt_that_cannot_be_moved_is_told(box: Pretended, path: Path) -> None:
    box.immovable = {"irq:5"}
    applied = await active_isolation.isolate_cpus(await changes(box), box, path)
    (warning,) = applied.warnings
    assert "not clear of tirq:5" in warning.text
    assert box.tasks["task:10:1"] == "0"


async def test_strictly_it_isolates_nothing_then(box: Pretended, path: Path) -> None:
    before = box.snapshot()
    box.immovable = {"irq:5"}
    with pytest.raises(HostCannot, match="everything was put back"):
        await active_isolation.isolate_cpus(await changes(box, strict=True), box, path)
    assert box.snapshot() == before
    assert not path.exists()


async def test_twice_is_refused(box: Pretended, path: Path) -> None:
    await active_isolation.isolate_cpus(await changes(box), box, path)
    with pytest.raises(HostCannot, match="isolated already") as raised:
        await active_isolation.isolate_cpus(await changes(box), box, path)
    assert "isolate off" in raised.value.remedy
    assert {one.state for one in await active_isolation.list_active(box, path)} == {"holds"}


async def test_while_another_changes_it_nobody_does(box: Pretended, path: Path) -> None:
    with held(path), pytest.raises(HostCannot, match="another nearmetal"):
        await active_isolation.isolate_cpus(await changes(box), box, path)


async def programs_in_a_cpuset(box: Pretended) -> None:
    box.unfit, box.programs, box.others = "", {"task:10:1"}, "0-1"


async def test_where_a_cpuset_is_fit_programs_are_moved_by_it(box: Pretended, path: Path) -> None:
    await programs_in_a_cpuset(box)
    before = box.snapshot()
    cpuset, bystanders = (await changes(box))[-2:]
    assert (cpuset.kind, bystanders.kind) == ("cpuset", "bystanders")
    host, there = await hosts.survey_host(box), await hosts.find_bystanders(box, PROBE, [1])
    cpusets = await hosts.read_cpusets(box, PROBE, [1])
    assert isolation_changes.describe_change(cpuset, host, there, cpusets) == (
        "1 threads of programs go to a control group without CPU 1, which 1 other control groups lose"
    )
    assert isolation_changes.describe_change(bystanders, host, there, cpusets).startswith(
        "1 threads and 1 interrupt lines"
    )
    await active_isolation.isolate_cpus(await changes(box), box, path)
    assert set(box.tasks.values()) == {"0"}
    held = await active_isolation.held_changes(box, path)
    assert await active_isolation.list_prefix(box, held, PROBE) == (
        "probe",
        "launch",
        "--cgroup",
        "/cpuset",
        "--cpus",
        "1",
        "--",
    )
    assert {one.outcome for one in await active_isolation.release_cpus(box, path)} == {"restored"}
    assert box.snapshot() == before


async def test_where_a_cpuset_cannot_be_made_after_all_nobody_is_sent_there(box: Pretended, path: Path) -> None:
    await programs_in_a_cpuset(box)
    box.is_busy = True
    applied = await active_isolation.isolate_cpus(await changes(box), box, path)
    assert any("could not be set apart by a cpuset" in warning.text for warning in applied.warnings)
    assert set(box.tasks.values()) == {"0"}, "moved by their affinities instead"
    held = await active_isolation.held_changes(box, path)
    assert await active_isolation.list_prefix(box, held, PROBE) == ("probe", "launch", "--cpus", "1", "--")


async def test_what_a_cpuset_does_not_keep_away_is_named(box: Pretended, path: Path) -> None:
    """A control group that somebody has widened since, and a program that was put among the others."""
    await programs_in_a_cpuset(box)
    applied = await active_isolation.isolate_cpus(await changes(box), box, path)
    (warning,) = applied.warnings
    assert warning.text.endswith("by a cpuset: it reads back as not apart: control group /cpuset/others")
    box.others = "0"
    kinds = {one.change.kind: one.state for one in await active_isolation.list_active(box, path)}
    assert kinds["cpuset"] == "holds"
    box.tasks["task:10:1"] = "0-1"
    states = {one.change.kind: (one.state, one.now) for one in await active_isolation.list_active(box, path)}
    assert states["cpuset"] == ("in part", "not apart: ttask:10:1")
    box.changed_since = ["/cpuset/others"]
    left = [one.detail for one in await active_isolation.release_cpus(box, path) if one.outcome == "left"]
    assert left == ["/cpuset/others: it has others now"]


# ── Who undoes it ─────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def one_file_isolated(path: Path, file: Path) -> Iterator[None]:
    """A change of this host that hurts nobody."""
    file.write_text("old\n")
    with held(path) as ledger:
        ledger.changing(Change(on=isolation_changes.ON, kind="file", target=str(file), before="old\n", after="new\n"))
        file.write_text("new\n")
    yield


async def test_a_run_leaves_it_and_clean_puts_it_back(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "value"
    with one_file_isolated(path, file):
        assert (await clean.clean()).ledgers == 0
        assert file.read_text() == "new\n"
        assert len(outstanding(path).changes) == 1
        cleaned = await clean.clean_everything()
        assert (cleaned.ledgers, len(cleaned.restored), cleaned.left) == (1, 1, ())
        assert file.read_text() == "old\n"
        assert not path.exists()


# ── Proof ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def listened(lost: float, ticks: int | None = 100) -> Heard:
    gaps = round(lost * 1000)
    return Heard(seconds=1.0, gaps=gaps, share=lost, longest=lost / 10, ticks=ticks, interrupts=ticks)


async def test_rounds_begin_in_turns_with_either() -> None:
    order: list[str] = []

    def listen(name: str) -> proof.Listen:
        async def hear() -> Heard:
            order.append(name)
            return listened(0.5 if name == "without" else 0.1)

        return hear

    pairs = await proof.run_rounds(3, listen("without"), listen("isolated"))
    assert order == ["without", "isolated", "isolated", "without", "without", "isolated"]
    assert [(one.without.share, one.isolated.share) for one in pairs] == [(0.5, 0.1)] * 3


def pairs(differences: Sequence[float]) -> list[proof.ListeningRound]:
    return [proof.ListeningRound(listened(0.5), listened(0.5 + difference)) for difference in differences]


def test_a_difference_has_an_interval_and_a_verdict() -> None:
    random = np.random.default_rng(1)
    noise = random.uniform(0.0, 0.01, 8)
    for shift, verdict in ((-0.2, "quieter"), (0.2, "noisier"), (-0.005, "undecided")):
        found = proof.find_differences(pairs([shift + one for one in noise]))["lost"]
        assert proof.find_verdict(found) == verdict
        assert found.interval is not None
        assert found.interval[0] <= found.estimate <= found.interval[1]


def test_too_few_rounds_decide_nothing() -> None:
    found = proof.find_differences(pairs([-0.2, -0.21, -0.22]))["lost"]
    assert (found.interval, proof.find_verdict(found)) == (None, "undecided")


def test_ticks_that_were_not_always_told_are_left_out() -> None:
    some = [
        proof.ListeningRound(listened(0.5), listened(0.1, ticks=None)),
        proof.ListeningRound(listened(0.5), listened(0.1)),
    ]
    assert set(proof.find_differences(some)) == {"lost", "gaps", "longest"}
