"""The ledger: what it still holds, whatever became of who wrote it."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.environments import mock
from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab import clean
from nearmetal.lab.changes.ledger import Ledger, held, ledgers_folder, outstanding, ownerless
from nearmetal.lab.process_locks import try_lock
from nearmetal.model import Change, Handle, HostSpec, Site


def handle(name: str, **data: object) -> Handle:
    return Handle(kind="mock", name=name, site="local", data=data)


def change(target: str, before: str | None = "0") -> Change:
    return Change(on="m", kind="sysctl", target=target, after="1", before=before)


def full(descriptor: int, content: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_was_made_last_is_removed_first(tmp_path: Path) -> None:
    with held(tmp_path / "l.jsonl") as ledger:
        for name in ("a", "b", "c"):
            ledger.creating(handle(name))
        ledger.destroyed(handle("b"))
        assert [one.name for one in ledger.outstanding().handles] == ["c", "a"]
        numbers = [ledger.changing(change(target)) for target in ("x", "y", "z")]
        ledger.undone(numbers[1])
        assert [(number, one.target) for number, one in ledger.outstanding().changes] == [(2, "z"), (0, "x")]
    assert [one.name for one in outstanding(tmp_path / "l.jsonl").handles] == ["c", "a"]


def test_more_is_learnt_of_a_machine_without_making_it_two(tmp_path: Path) -> None:
    with held(tmp_path / "l.jsonl") as ledger:
        ledger.creating(handle("a"))
        ledger.creating(handle("a", pid=7))
        assert ledger.outstanding().handles == (handle("a", pid=7),)
        ledger.destroyed(handle("a"))
        assert ledger.outstanding().handles == ()


def test_the_same_name_on_another_site_is_another_machine(tmp_path: Path) -> None:
    far = Handle(kind="mock", name="a", site="far", data={})
    with held(tmp_path / "l.jsonl") as ledger:
        ledger.creating(handle("a"))
        ledger.creating(far)
        ledger.destroyed(handle("a"))
        assert ledger.outstanding().handles == (far,)


def test_one_that_holds_nothing_is_removed_and_one_that_holds_something_stays(tmp_path: Path) -> None:
    folder = tmp_path / "ledgers"
    with held(folder / "empty.jsonl") as ledger:
        ledger.creating(handle("a"))
        ledger.destroyed(handle("a"))
    with held(folder / "full.jsonl") as ledger:
        ledger.changing(change("x"))
    assert [path.name for path in folder.iterdir()] == ["full.jsonl"]
    assert len(outstanding(folder / "full.jsonl").changes) == 1


def test_numbers_go_on_after_it_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with held(path) as ledger:
        ledger.changing(change("x"))
        ledger.undone(ledger.changing(change("y")))
    with held(path) as ledger:
        assert ledger.changing(change("z")) == 2
        assert [one.target for _, one in ledger.outstanding().changes] == ["z", "x"]


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_that_a_crash_cut_never_was(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "l.jsonl"
    with held(path) as ledger:
        ledger.creating(handle("a"))
        ledger.creating(handle("b"))
    path.write_bytes(path.read_bytes()[:-cut])
    assert [one.name for one in outstanding(path).handles] == ["a"]
    with held(path) as ledger:
        ledger.creating(handle("c"))
        assert [one.name for one in ledger.outstanding().handles] == ["c", "a"]
    assert [one.name for one in outstanding(path).handles] == ["c", "a"]


def test_a_line_in_the_middle_that_is_broken_is_told(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    path.write_text("rubbish\n" + json.dumps({"op": "undone", "number": 0}) + "\n")
    with pytest.raises(BadInput, match="line 1 cannot be read: it is not JSON"):
        outstanding(path)


async def test_one_that_is_damaged_is_told_and_keeps_clean_from_none_of_the_others() -> None:
    folder = ledgers_folder()
    folder.mkdir(parents=True)
    (folder / "a.jsonl").write_text("rubbish\n")
    (folder / "b.jsonl").write_text('{"schema": "of another tool"}\n')
    with held(folder / "c.jsonl") as ledger:
        ledger.creating(Handle(kind="mock", name="m", site="local", stays=True, data={"folder": str(folder / "m")}))
    cleaned = await clean.clean()
    assert cleaned.removed == ("mock m",)
    assert [what.partition(": ")[0] for what in cleaned.left] == [str(folder / "a.jsonl"), str(folder / "b.jsonl")]
    assert sorted(path.name for path in folder.iterdir()) == ["a.jsonl", "b.jsonl"]
    assert (await clean.clean()).left == cleaned.left  # also when it is asked again


async def test_what_a_living_nearmetal_has_is_named_and_left_alone() -> None:
    folder = ledgers_folder()
    folder.mkdir(parents=True)
    with held(folder / "a.jsonl") as ledger:
        ledger.creating(handle("m"))
        cleaned = await clean.clean()
        assert (cleaned.in_use, cleaned.alive, cleaned.removed) == (1, ("mock m",), ())
        assert [one.name for one in outstanding(ledger.path).handles] == ["m"]


async def test_one_that_is_taken_at_that_moment_keeps_clean_from_none_of_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = ledgers_folder()
    folder.mkdir(parents=True)
    with held(folder / "b.jsonl") as dead:
        dead.creating(Handle(kind="mock", name="m", site="local", stays=True))
    with held(folder / "a.jsonl") as taken:
        taken.creating(handle("mine"))
        monkeypatch.setattr(clean, "ownerless", lambda folder: [folder / "a.jsonl", folder / "b.jsonl"])
        cleaned = await clean.clean()
        assert (cleaned.in_use, cleaned.removed, cleaned.left) == (1, ("mock m",), ())
        assert [one.name for one in outstanding(taken.path).handles] == ["mine"]


def test_one_whose_owner_ends_at_that_moment_is_none(tmp_path: Path) -> None:
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert list(ownerless(tmp_path)) == []


async def test_an_environment_that_breaks_keeps_clean_from_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ledgers_folder()
    folder.mkdir(parents=True)
    with held(folder / "a.jsonl") as dead:
        for name in ("first", "broken", "last"):
            dead.creating(Handle(kind="mock", name=name, site="local"))

    async def destroy(handle: Handle, site: Site) -> None:
        if handle.name == "broken":
            raise KeyError("folder")

    monkeypatch.setattr(mock.plugin, "destroy", destroy)
    cleaned = await clean.clean()
    assert sorted(cleaned.removed) == ["mock first", "mock last"]
    assert cleaned.left == ("mock broken on local: KeyError: 'folder'",)
    assert [one.name for one in outstanding(folder / "a.jsonl").handles] == ["broken"]


def test_a_line_is_on_disk_before_the_call_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.jsonl"
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(path.read_bytes().count(b"\n"))

    monkeypatch.setattr(os, "fsync", fsync)
    with held(path) as ledger:
        ledger.creating(handle("a"))
        ledger.changing(change("x"))
        assert synced[-2:] == [2, 3]


HOLDER = """
import sys, time
from pathlib import Path
from nearmetal.lab.changes.ledger import Ledger
from nearmetal.model import Handle
ledger = Ledger(Path(sys.argv[1]))
ledger.creating(Handle(kind="mock", name="a", site="local", data={}))
print("held", flush=True)
time.sleep(60)
"""


def test_it_belongs_to_one_process_and_to_nobody_once_that_is_dead(tmp_path: Path) -> None:
    path = tmp_path / "l.jsonl"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"held\n"
        with pytest.raises(HostCannot, match="another nearmetal holds"):
            Ledger(path)
        assert list(ownerless(tmp_path)) == []
        owner.kill()
    assert list(ownerless(tmp_path)) == [path]
    assert [one.name for one in outstanding(path).handles] == ["a"]


def test_a_child_that_outlives_its_owner_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    """Between fork and exec a child has the lock too: one whose parent is killed then holds it for nobody."""
    path = tmp_path / "l.jsonl"
    forking = HOLDER.replace("time.sleep(60)", "import os\nif os.fork(): os._exit(0)\ntime.sleep(1)")
    with subprocess.Popen([sys.executable, "-c", forking, str(path)], stdout=subprocess.DEVNULL) as owner:
        owner.wait()
        assert list(ownerless(tmp_path)) == [path]


def test_one_that_is_removed_while_it_is_opened_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`clean` may lock a file between the moment that a run opens it and its lock, and finds nothing in it."""
    path = tmp_path / "l.jsonl"

    def late(descriptor: int) -> bool:
        monkeypatch.undo()
        with held(path):
            pass
        return try_lock(descriptor)

    monkeypatch.setattr("nearmetal.lab.changes.ledger.try_lock", late)
    with held(path) as ledger:
        ledger.creating(handle("a"))
        assert list(ownerless(tmp_path)) == [], "it has its owner's lock"
        assert [one.name for one in outstanding(path).handles] == ["a"]


def test_one_for_which_the_disk_has_no_room_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        Ledger(tmp_path / "ledgers" / "l.jsonl")
    assert list((tmp_path / "ledgers").iterdir()) == []


def test_how_a_host_is_reached_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever puts it right reaches it as is noted there: also where the disk takes no more."""
    far = HostSpec(ssh="root@192.0.2.1")
    with held(tmp_path / "l.jsonl") as ledger:
        ledger.reached("far", far)
        ledger.creating(handle("a"))
    monkeypatch.setattr(os, "write", full)
    with held(tmp_path / "l.jsonl") as ledger:
        ledger.reached("far", far)
        with pytest.raises(OSError, match="No space left"):
            ledger.reached("far", HostSpec(ssh="root@192.0.2.2"))
        assert ledger.outstanding().hosts == {"far": far}


def test_one_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert outstanding(tmp_path / "none.jsonl").handles == ()
