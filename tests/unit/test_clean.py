"""What `clean` says of what a dead run left: each thing once, and as it is when all is done."""

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from nearmetal import progress_messages
from nearmetal.environments import docker, mock
from nearmetal.errors import ExitCode, HostCannot
from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import Ledger, Origin, held, ledgers_folder, outstanding, read_origin
from nearmetal.lab.mock.world import World
from nearmetal.model import Change, Handle, Site
from nearmetal.run import study_execution
from tests.command_line import called

_SYSCTL = "net.ipv4.tcp_autocorking"


def machine(ledger: Ledger, name: str, *, alive: bool = True, kind: str = "mock", stays: bool = False) -> None:
    """One that a run made, and whose sysctl it set."""
    world = World("local")
    state = world.make(name)
    world.save({**state, "sysctls": {**state["sysctls"], _SYSCTL: "0"}, "alive": alive})
    ledger.creating(Handle(kind=kind, name=name, site="local", role="server", stays=stays))
    ledger.changing(Change(on=name, kind="sysctl", target=_SYSCTL, before="1", after="0"))


def ledger_of_a_dead_run() -> Ledger:
    folder = ledgers_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return Ledger(folder / "abc123.jsonl")


async def test_values_of_what_is_gone_are_owed_to_nobody() -> None:
    """The first process of a killed run's machine is dead, and a switch that is gone took its links' offloads along."""
    ledger = ledger_of_a_dead_run()
    machine(ledger, "nm-abc123-1", alive=False)
    ledger.changing(Change(on="site:local", kind="ethtool", target="nm-abc123/port2 tso", before="tso=on", after="off"))
    ledger.close()
    cleaned = await clean.clean()
    assert cleaned == clean.CleanOutput(ledgers=1, removed=("mock nm-abc123-1",))
    assert not list(ledgers_folder().iterdir())


async def test_what_is_really_left_is_told_once() -> None:
    ledger = ledger_of_a_dead_run()
    machine(ledger, "nm-abc123-1")
    ledger.changing(Change(on="site:local", kind="sysctl", target="no.such", before="1", after="0"))
    ledger.changing(Change(on="site:far", kind="sysctl", target="a", before="1", after="0"))
    ledger.close()
    cleaned = await clean.clean()
    assert cleaned.removed == ("mock nm-abc123-1",)
    assert cleaned.restored == (f"nm-abc123-1: sysctl {_SYSCTL}",)
    assert [what.rpartition(": ")[0].partition(": sysctl ")[0] for what in cleaned.left] == ["site:local", "site:far"]
    with held(ledgers_folder() / "abc123.jsonl") as ledger:
        assert [change.on for _, change in ledger.outstanding().changes] == ["site:far"], "it is tried again"


async def test_what_takes_long_is_told_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guest that does not answer is waited for, for minutes: whoever waits reads what for."""
    ledger, said = ledger_of_a_dead_run(), list[str]()
    machine(ledger, "nm-abc123-1")
    ledger.close()
    monkeypatch.setattr(progress_messages, "_AT_FIRST", 0.05)
    monkeypatch.setattr(progress_messages, "_THEN", 60.0)
    destroy = mock.plugin.destroy

    async def slow(handle: Handle, site: Site) -> None:
        await asyncio.sleep(0.5)
        await destroy(handle, site)

    monkeypatch.setattr(mock.plugin, "destroy", slow)
    assert (await clean.clean(said.append)).removed == ("mock nm-abc123-1",)
    assert said == ["still putting right what a dead run left: mock nm-abc123-1"]


def test_one_clean_suffices() -> None:
    ledger = ledger_of_a_dead_run()
    machine(ledger, "nm-abc123-1", alive=False)
    ledger.close()
    first, second = called("clean"), called("clean")
    assert (first.returncode, first.stdout) == (ExitCode.DONE, "removed: mock nm-abc123-1\n")
    assert (second.returncode, second.stdout.partition(" of ")[0]) == (ExitCode.DONE, "nothing")


def test_where_nothing_was_left_to_do_that_is_said() -> None:
    ledger = ledger_of_a_dead_run()
    ledger.changing(Change(on="nm-abc123-1", kind="sysctl", target=_SYSCTL, before="1", after="0"))
    ledger.close()
    ended = called("clean")
    assert (ended.returncode, ended.stdout.partition(" of ")[0]) == (ExitCode.DONE, "nothing")


async def test_a_run_does_not_begin_by_contradicting_itself() -> None:
    ledger = ledger_of_a_dead_run()
    ledger.changing(Change(on="nm-abc123-1", kind="sysctl", target=_SYSCTL, before="1", after="0"))
    ledger.close()
    (ledgers_folder() / "damaged.jsonl").write_text("rubbish\n")
    said: list[str] = []
    await study_execution._restore_host(said.append)
    assert [what.partition(": ")[0] for what in said] == ["still there"]


def of_another_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger of a dead run of `far`, which sees the same folder of state."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(
            "nearmetal.lab.changes.ledger.read_origin", lambda: Origin(machine="f00", name="far", boot_id="its own")
        )
        ledger = ledger_of_a_dead_run()
        machine(ledger, "nm-abc123-1")
        ledger.changing(Change(on="site:local", kind="file", target="/no/such", before=None, after="0"))
        ledger.close()


async def test_what_another_host_has_is_named_and_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    of_another_host(monkeypatch)
    path = ledgers_folder() / "abc123.jsonl"
    before = path.read_bytes()
    with held(ledgers_folder() / "ours.jsonl") as ours:
        ours.creating(Handle(kind="mock", name="nm-ours-1", site="local", stays=True))
    assert clean.left_behind() == ["mock nm-ours-1"], "clean has nothing to do with the other"
    cleaned = await clean.clean()
    assert cleaned.removed == ("mock nm-ours-1",)
    assert cleaned.left == (
        f"{path}: it is of the host far, which has mock nm-abc123-1, site:local: file /no/such, "
        f"nm-abc123-1: sysctl {_SYSCTL}\n"
        "  remedy: give `nearmetal clean` there; if that host is no more, remove the file",
    )
    said: list[str] = []
    await study_execution._restore_host(said.append)
    assert said == [f"still there: {cleaned.left[0]}"]
    assert path.read_bytes() == before


def test_no_command_takes_what_another_host_has_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    of_another_host(monkeypatch)
    path = ledgers_folder() / "abc123.jsonl"
    with pytest.raises(HostCannot, match="it is of the host far"):
        Ledger(path)
    assert outstanding(path).changes_of_boot("any") == ()


async def test_a_boot_has_put_back_what_it_took_along(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has the same value now has it from somebody else."""
    earlier = read_origin().model_copy(update={"boot_id": "earlier"})
    kept = Change(on="site:local", kind="file", target="/no/such", before=None, after="0")
    taken = Change(on="site:local", kind="sysctl", target="no.such", before="1", after="0")
    with monkeypatch.context() as before:
        before.setattr("nearmetal.lab.changes.ledger.read_origin", lambda: earlier)
        ledger = ledger_of_a_dead_run()
        for change in (
            taken,
            taken.model_copy(update={"kind": "file", "target": "/sys/no/such"}),
            taken.model_copy(update={"on": "site:far"}),
            kept,
        ):
            ledger.changing(change)
        ledger.close()
    held_still = outstanding(ledgers_folder() / "abc123.jsonl").changes_of_boot(read_origin().boot_id)
    assert [(change.on, change.target) for _, change in held_still] == [
        ("site:local", "/no/such"),
        ("site:far", "no.such"),
    ]
    cleaned = await clean.clean()
    assert cleaned.restored == ("site:local: file /no/such",)
    assert [what.partition(": ")[0] for what in cleaned.left] == ["site:far"]


async def test_one_of_earlier_states_of_the_source_is_of_this_host_and_boot() -> None:
    change = Change(on="site:local", kind="sysctl", target="no.such", before="1", after="0")
    ledgers_folder().mkdir(parents=True)
    line = {"op": "change", "number": 0, "change": change.model_dump(mode="json")}
    (ledgers_folder() / "abc123.jsonl").write_text(json.dumps(line) + "\n")
    (told,) = (await clean.clean()).left
    assert told.startswith("site:local: sysctl no.such: it is None now")


def full(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


async def test_a_full_disk_keeps_clean_from_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = read_origin().model_copy(update={"boot_id": "earlier"})
    with monkeypatch.context() as before:
        before.setattr("nearmetal.lab.changes.ledger.read_origin", lambda: earlier)
        ledger = ledger_of_a_dead_run()
        ledger.changing(Change(on="site:local", kind="sysctl", target="no.such", before="1", after="0"))
        ledger.close()
    with held(ledgers_folder() / "other.jsonl") as other:
        other.changing(Change(on="site:local", kind="file", target="/no/such", before="1", after="0"))

    monkeypatch.setattr(os, "fsync", full)
    told = [what.partition(": ")[0] for what in (await clean.clean()).left]
    assert told == [str(ledger.path), "site:local", str(other.path)]


async def test_after_a_boot_a_full_disk_keeps_nothing_from_being_put_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "value"
    file.write_text("new\n")
    earlier = read_origin().model_copy(update={"boot_id": "earlier"})
    with monkeypatch.context() as before:
        before.setattr("nearmetal.lab.changes.ledger.read_origin", lambda: earlier)
        ledger = ledger_of_a_dead_run()
        machine(ledger, "nm-abc123-1")
        taken = Change(on="site:local", kind="sysctl", target=_SYSCTL, before="1", after="0")
        ledger.changing(taken)
        ledger.changing(Change(on="site:local", kind="file", target=str(file), before="old\n", after="new\n"))
        ledger.close()

    with monkeypatch.context() as now:
        now.setattr(os, "fsync", full)
        cleaned = await clean.clean()
    assert file.read_text() == "old\n"
    assert World("local").read("nm-abc123-1") is None
    unnoted = [what.partition(": ")[0] for what in cleaned.left]
    assert unnoted == ["mock nm-abc123-1 on local", str(ledger.path)]
    assert (await clean.clean()).left == ()
    assert not list(ledgers_folder().iterdir())


async def test_what_could_not_be_put_back_on_a_machine_of_the_users_is_told() -> None:
    """It is given back, not removed, and what was changed there stays with it."""
    ledger = ledger_of_a_dead_run()
    machine(ledger, "lab3", alive=False, stays=True)
    ledger.close()
    (told,) = (await clean.clean()).left
    assert told.startswith(f"lab3: sysctl {_SYSCTL}: ") and "the machine is gone" in told


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ('{"schema":"hold.v1","pid":1}\n', ""),
        ('{"schema":"hold.v1","pid":1}\nno space left\n', "no space left"),
        ("exec format error", "exec format error"),
    ],
)
def test_of_a_container_that_has_ended_only_its_complaint_is_told(said: str, complaint: str) -> None:
    assert docker._find_complaint(said) == complaint
