"""The engine of changes: written down, made, read back, put back, and never somebody else's undone."""

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nearmetal.config import LIMITS
from nearmetal.errors import HostCannot, MachineGone, MachineLost
from nearmetal.lab.changes import change_applier
from nearmetal.lab.changes.kinds import GRUB_DROP_IN, KINDS
from nearmetal.lab.changes.ledger import Ledger, held
from nearmetal.model import Change, Commands, Completed, Running


class Box:
    """A machine of settings: what a handful of programs read and write, and what was written in which order."""

    def __init__(self) -> None:
        self.sysctls = {"a": "1", "b": "2"}
        self.files: dict[str, bytes] = {}
        self.features = {"tso": "on", "lro": "off [fixed]"}
        self.affinity = {"7": "0-1"}
        self.stubborn: set[str] = set()
        self.running = "quiet"
        self.reboots = 0
        self.grub = 0
        """The status of its update-grub."""
        self.lost = False
        self.refuses: HostCannot | None = None
        """What its kernel says to whoever writes a file."""
        self.wrote: list[str] = []

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = LIMITS.command,
    ) -> Completed:
        if self.lost:
            raise MachineLost("gone", "box")
        match list(argv):
            case ["sysctl", "-n", name]:
                return self._told(self.sysctls.get(name))
            case ["sysctl", "-q", "-w", setting]:
                name, _, value = setting.partition("=")
                self.wrote.append(setting)
                if name not in self.stubborn:
                    self.sysctls[name] = value
                return Completed(status=0)
            case ["cat", "/proc/cmdline"]:
                return self._told(self.running)
            case ["cat", path]:
                found = self.files.get(path)
                return Completed(status=0, stdout=found) if found is not None else Completed(status=1)
            case ["tee", path]:
                self.files[path] = stdin + b"\n"
                return Completed(status=0)
            case ["rm", "-f", path]:
                self.files.pop(path, None)
                return Completed(status=0)
            case ["ethtool", "-k", _]:
                return self._told("Features:\n" + "".join(self._feature(*one) for one in self.features.items()))
            case ["ethtool", "-K", _, *words]:
                pairs = list(zip(words[::2], words[1::2], strict=True))
                if all("fixed" in self.features[name] for name, _ in pairs):
                    return Completed(status=1, stderr=b"Could not change any device features")
                for name, value in pairs:
                    if "fixed" in self.features[name]:
                        continue
                    for part in [name, *(part for part in self.features if part.startswith(f"tx-{name}-"))]:
                        self.features[part] = value
                return Completed(status=0)
            case ["ip", "netns", "exec", "nm-1", *inside]:
                return await self.exec(inside)
            case ["taskset", "-pc", pid]:
                return self._told(f"pid {pid}'s current affinity list: {self.affinity[pid]}")
            case ["taskset", "-pc", cpus, pid]:
                self.affinity[pid] = cpus
                return Completed(status=0)
            case ["update-grub"]:
                return Completed(status=self.grub)
        raise AssertionError(f"nobody expects {argv}")

    @staticmethod
    def _feature(name: str, value: str) -> str:
        """As ethtool prints it: what the kernel calls a feature stands below what ethtool does."""
        return f"\t{name}: {value}\n" if name.startswith("tx-") else f"{name}: {value}\n"

    @staticmethod
    def _told(text: str | None) -> Completed:
        return Completed(status=1) if text is None else Completed(status=0, stdout=f"{text}\n".encode())

    async def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Running:
        raise AssertionError("nothing is spawned")

    async def put(self, content: bytes, path: str, *, mode: int = 0o644) -> None:
        if self.refuses:
            raise self.refuses
        self.files[path] = content

    async def get(self, path: str) -> bytes:
        return self.files[path]

    async def reboot(self) -> None:
        self.reboots += 1
        text = (await KINDS["boot"].read(self, "")) or ""
        self.running = f"quiet {text}".strip()


class Bench:
    def __init__(self, ledger: Ledger) -> None:
        self.box = Box()
        self.ledger = ledger
        self.removed = False

    async def reach(self, on: str) -> Commands:
        if self.removed:
            raise MachineGone("removed", on)
        return self.box

    async def apply(self, *wanted: Change) -> change_applier.ChangeOutcome:
        return await change_applier.apply_changes(wanted, self.ledger, self.reach)

    async def undo(self) -> list[str]:
        return [one.outcome for one in await change_applier.undo_changes(self.ledger, self.reach)]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    with held(tmp_path / "ledger.jsonl") as ledger:
        return Bench(ledger)


@pytest.fixture(autouse=True)
def _open(bench: Bench, tmp_path: Path) -> None:
    bench.ledger = Ledger(tmp_path / "again.jsonl")


def sysctl(name: str, after: str, required: bool = True) -> Change:
    return Change(on="box", kind="sysctl", target=name, after=after, required=required)


async def test_values_are_set_and_put_back_newest_first(bench: Bench) -> None:
    applied = await bench.apply(sysctl("a", "5"), sysctl("b", "6"), sysctl("a", "7"))
    assert applied == change_applier.ChangeOutcome((), (), ())
    assert bench.box.sysctls == {"a": "7", "b": "6"}
    assert await bench.undo() == ["restored"] * 3
    assert bench.box.wrote == ["a=5", "b=6", "a=7", "a=5", "b=2", "a=1"]
    assert bench.box.sysctls == {"a": "1", "b": "2"}
    assert await bench.undo() == []


async def test_what_is_so_already_is_neither_written_nor_undone(bench: Bench) -> None:
    await bench.apply(sysctl("a", "1"))
    assert bench.box.wrote == []
    assert await bench.undo() == []


async def test_what_somebody_else_set_meanwhile_is_left_and_told(bench: Bench) -> None:
    await bench.apply(sysctl("a", "5"))
    bench.box.sysctls["a"] = "9"
    (undone,) = await change_applier.undo_changes(bench.ledger, bench.reach)
    assert undone.outcome == "left"
    assert "it is '9' now" in undone.detail
    assert bench.box.sysctls["a"] == "9"
    assert await bench.undo() == []


async def test_what_somebody_else_put_back_is_no_news(bench: Bench) -> None:
    await bench.apply(sysctl("a", "5"))
    bench.box.sysctls["a"] = "1"
    assert await bench.undo() == ["already so"]


async def test_what_does_not_stick_is_refused_or_only_warned_of(bench: Bench) -> None:
    bench.box.stubborn = {"a"}
    applied = await bench.apply(sysctl("a", "5"), sysctl("a", "6", required=False), sysctl("none", "1"))
    assert ["it reads back as '1'" in applied.refused[0], "there is no such thing here" in applied.refused[1]] == [
        True
    ] * 2
    assert [warning.code for warning in applied.warnings] == ["change-refused"]
    assert await bench.undo() == ["already so", "already so"]


async def test_it_is_in_the_ledger_before_it_is_made(bench: Bench) -> None:
    """What a crash between the two leaves behind can be undone."""
    bench.box.stubborn = {"a"}
    await bench.apply(sysctl("a", "5"))
    ((_, change),) = bench.ledger.outstanding().changes
    assert (change.before, change.after) == ("1", "5")


async def test_a_file_that_was_not_there_is_taken_away_again(bench: Bench) -> None:
    await bench.apply(Change(on="box", kind="file", target="/x", after="text"))
    assert bench.box.files == {"/x": b"text"}
    assert await bench.undo() == ["restored"]
    assert bench.box.files == {}


async def test_a_file_that_was_there_is_as_before(bench: Bench) -> None:
    bench.box.files["/x"] = b"old\n"
    await bench.apply(Change(on="box", kind="file", target="/x", after="new"))
    assert await bench.undo() == ["restored"]
    assert bench.box.files == {"/x": b"old\n"}


async def test_a_file_that_the_kernel_does_not_take_is_refused_or_only_warned_of(bench: Bench) -> None:
    bench.box.files["/sys/governor"] = b"powersave\n"
    bench.box.refuses = HostCannot("cannot write /sys/governor: Invalid argument", "box")
    wanted = Change(on="box", kind="file", target="/sys/governor", after="performance\n", required=False)
    applied = await bench.apply(wanted, sysctl("a", "5"))
    assert [warning.text for warning in applied.warnings] == [
        "box: file /sys/governor could not be set to 'performance\\n': cannot write /sys/governor: Invalid argument"
    ]
    assert bench.box.sysctls["a"] == "5"


async def test_what_cannot_be_written_keeps_nothing_else_from_being_put_back(bench: Bench) -> None:
    bench.box.files["/sys/governor"] = b"powersave\n"
    await bench.apply(
        sysctl("a", "5"), Change(on="box", kind="file", target="/sys/governor", after="performance\n"), sysctl("b", "5")
    )
    bench.box.refuses = HostCannot("cannot write /sys/governor: Device or resource busy", "box")
    assert await bench.undo() == ["restored", "failed", "restored"]
    assert bench.box.sysctls == {"a": "1", "b": "2"}
    bench.box.refuses = None
    assert await bench.undo() == ["restored"]
    assert bench.box.files["/sys/governor"] == b"powersave\n"


async def test_offloads_affinities_and_interrupts_are_read_as_the_tools_tell_them(bench: Bench) -> None:
    bench.box.files["/proc/irq/9/smp_affinity_list"] = b"0-1\n"
    applied = await bench.apply(
        Change(on="box", kind="ethtool", target="data tso", after="off"),
        Change(on="box", kind="affinity", target="7", after="0"),
        Change(on="box", kind="irq", target="9", after="0"),
        Change(on="box", kind="ethtool", target="data lro", after="on", required=False),
    )
    assert applied == change_applier.ChangeOutcome((), (), ()), "what is fixed is for whoever reads it back to judge"
    assert (bench.box.features["tso"], bench.box.affinity["7"]) == ("off", "0")
    assert bench.box.files["/proc/irq/9/smp_affinity_list"] == b"0\n"
    assert set(await bench.undo()) == {"restored"}
    assert (bench.box.features["tso"], bench.box.affinity["7"]) == ("on", "0-1")
    assert bench.box.files["/proc/irq/9/smp_affinity_list"] == b"0-1\n"


async def test_a_feature_comes_back_with_just_the_parts_that_were_on(bench: Bench) -> None:
    """A driver can do more than it does by itself, and `ethtool -K tso on` would switch on all of it."""
    bench.box.features = {"tso": "on", "tx-tso-4": "on", "tx-tso-6": "off"}
    await bench.apply(Change(on="box", kind="ethtool", target="nm-1/port1 tso", after="off"))
    assert (bench.box.features["tso"], bench.box.features["tx-tso-4"]) == ("off", "off")
    ((_, change),) = bench.ledger.outstanding().changes
    assert change.before == "tso=tx-tso-4"
    assert await bench.undo() == ["restored"]
    assert (bench.box.features["tx-tso-4"], bench.box.features["tx-tso-6"]) == ("on", "off")


async def test_a_feature_of_which_something_is_on_is_on(bench: Bench) -> None:
    bench.box.features = {"tso": "on", "tx-tso-4": "on", "tx-tso-6": "off"}
    before = dict(bench.box.features)
    assert await bench.apply(
        Change(on="box", kind="ethtool", target="data tso", after="on")
    ) == change_applier.ChangeOutcome((), (), ())
    assert bench.box.features == before
    assert await bench.undo() == []


async def test_features_are_switched_together_but_for_those_that_are_fixed(bench: Bench) -> None:
    bench.box.features = {"tso": "on", "gro": "off", "rx": "on", "lro": "on [fixed]"}
    before = dict(bench.box.features)
    applied = await bench.apply(Change(on="box", kind="ethtool", target="data tso,gro,rx,lro", after="off"))
    assert applied == change_applier.ChangeOutcome((), (), ())
    assert bench.box.features == {"tso": "off", "gro": "off", "rx": "off", "lro": "on [fixed]"}
    assert await bench.undo() == ["restored"]
    assert bench.box.features == before


async def test_a_feature_that_somebody_else_switched_meanwhile_is_theirs(bench: Bench) -> None:
    bench.box.features = {"tso": "on", "gro": "off", "rx": "on"}
    await bench.apply(Change(on="box", kind="ethtool", target="data tso,gro,rx", after="off"))
    bench.box.features["gro"] = "on"
    (undone,) = await change_applier.undo_changes(bench.ledger, bench.reach)
    assert undone.outcome == "left"
    assert undone.detail == "gro is on now, which nearmetal did not set"
    assert bench.box.features == {"tso": "on", "gro": "on", "rx": "on"}


async def test_a_link_that_is_gone_is_owed_nothing(bench: Bench) -> None:
    await bench.apply(Change(on="box", kind="ethtool", target="nm-1/port1 tso", after="off"))
    bench.box.features.clear()
    assert await bench.undo() == ["gone"]
    assert await bench.undo() == []


async def test_what_does_not_come_and_go_is_not_given_up_when_it_cannot_be_read(bench: Bench) -> None:
    await bench.apply(sysctl("a", "5"))
    bench.box.sysctls.clear()
    assert await bench.undo() == ["left"]


async def test_kernel_arguments_take_a_boot_and_are_gone_after_another(bench: Bench) -> None:
    applied = await bench.apply(
        Change(on="box", kind="boot", target="kernel arguments", after="isolcpus=1 nohz_full=1")
    )
    assert applied.reboot == ("box",)
    await bench.box.reboot()
    assert bench.box.running == "quiet isolcpus=1 nohz_full=1"
    assert await bench.undo() == ["restored"]
    assert bench.box.running == "quiet"
    assert GRUB_DROP_IN not in bench.box.files
    assert bench.box.reboots == 2


async def test_kernel_arguments_that_never_took_effect_cost_no_boot(bench: Bench) -> None:
    await bench.apply(Change(on="box", kind="boot", target="kernel arguments", after="isolcpus=1"))
    assert await bench.undo() == ["restored"]
    assert bench.box.reboots == 0


async def test_without_a_grub_nothing_stays_of_kernel_arguments(bench: Bench) -> None:
    bench.box.grub = 127
    applied = await bench.apply(Change(on="box", kind="boot", target="kernel arguments", after="isolcpus=1"))
    (refused,) = applied.refused
    assert refused.endswith("isolcpus=1: it has no update-grub, by which kernel arguments are set")
    assert GRUB_DROP_IN not in bench.box.files
    assert await bench.undo() == ["already so"]


async def test_what_cannot_be_put_back_now_is_tried_again(bench: Bench) -> None:
    await bench.apply(sysctl("a", "5"), sysctl("b", "6"))
    bench.box.lost = True
    assert await bench.undo() == ["failed", "failed"]
    bench.box.lost = False
    assert await bench.undo() == ["restored", "restored"]
    assert await bench.undo() == []


async def test_a_machine_that_is_removed_takes_its_changes_with_it(bench: Bench) -> None:
    await bench.apply(sysctl("a", "5"), sysctl("b", "6"))
    bench.removed = True
    assert await bench.undo() == ["gone", "gone"]
    assert await bench.undo() == []


def full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_keeps_no_value_from_being_put_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.apply(sysctl("a", "5"), sysctl("b", "6"), sysctl("a", "7"))
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(change_applier.UndoNotRecorded, match="No space left on device") as told:
            await bench.undo()
    assert bench.box.sysctls == {"a": "1", "b": "2"}
    assert [one.outcome for one in told.value.undone] == ["restored"] * 3
    assert told.value.errno == errno.ENOSPC and told.value.filename == str(bench.ledger.path)
    assert await bench.undo() == [], "once it can be noted it is, and told no second time"
    assert bench.ledger.outstanding().changes == ()
