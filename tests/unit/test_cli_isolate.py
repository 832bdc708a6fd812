"""The commands of `isolate`: on this host those that change nothing, and all of them on a pretended one."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal import cli
from nearmetal.commands import isolate_action, isolate_prove_action
from nearmetal.isolate import active_isolation, isolation_changes, proof
from nearmetal.lab.changes.ledger import held
from nearmetal.model import Change
from tests.command_line import Ended, called, forked

from .isolate_host import BOOT_ID, Pretended

Run = Callable[..., tuple[int, str, str]]

CPUS = os.cpu_count() or 1
several = pytest.mark.skipif(CPUS < 2, reason="of one CPU none can be isolated")


def document(*words: str, ask: Callable[..., Ended] = called) -> dict[str, object]:
    ended = ask("isolate", *words, "--json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


@several
def test_a_plan_tells_cpus_changes_and_who_is_there() -> None:
    plan = document("plan", ask=forked)
    assert plan["schema"] == "isolate.plan.v1"
    topology = plan["topology"]
    assert isinstance(topology, list)
    assert plan["cpus"] == str(max(cpu["cpu"] for cpu in topology))
    assert all(cpu["cpu"] in cpu["siblings"] for cpu in topology)
    changes = plan["changes"]
    assert isinstance(changes, list)
    assert changes[-1]["kind"] == "bystanders"
    assert all(change["words"] for change in changes)
    assert called("isolate", "plan").stdout.startswith("CPU 0, package ")


@several
@pytest.mark.parametrize(
    ("verb", "cpus"), [("plan", "8000"), ("prove", "8000"), ("on", f"0-{CPUS - 1}"), ("on", "one"), ("on", "")]
)
def test_cpus_that_cannot_be_isolated_are_refused_before_anything_is_done(verb: str, cpus: str) -> None:
    ended = called("isolate", verb, "--cpus", cpus)
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("nearmetal: --cpus: ")
    assert "remedy: " in ended.stderr
    assert not active_isolation.ledger_path().exists()


def test_nothing_stands_and_nothing_is_undone() -> None:
    status = document("status", ask=forked)
    assert (status["on"], status["cpus"], status["changes"]) == (False, "", [])
    assert document("off") == {"schema": "isolate.off.v1", "restored": [], "left": [], "failed": [], "reboot": False}
    assert forked("isolate", "off").stdout == "nothing is isolated\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may undo")
def test_what_stands_is_shown_and_put_back_and_what_others_set_is_left(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("ours", "theirs")]
    with held(active_isolation.ledger_path()) as ledger:
        for file in files:
            ledger.changing(Change(on=isolation_changes.ON, kind="file", target=str(file), before="old", after="new"))
            file.write_text("new")
    files[1].write_text("newer")
    ended = called("isolate", "status", "--json")
    status = json.loads(ended.stdout)
    assert (ended.returncode, status["holds"]) == (1, False)
    assert "1 of 2 do not hold" in called("isolate", "status").stdout
    changes = status["changes"]
    assert isinstance(changes, list)
    assert status["on"] is True
    assert [change["state"] for change in changes] == ["holds", "changed since"]
    ended = called("isolate", "off")
    assert ended.returncode == 1
    assert "changed by somebody else meanwhile, and left" in ended.stdout
    assert [file.read_text() for file in files] == ["old", "newer"]
    assert document("status")["on"] is False


# ── A pretended host ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Pretended:
    made = Pretended()
    for module in (isolate_action, isolate_prove_action):
        monkeypatch.setattr(module, "LocalSite", lambda: made)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


@pytest.fixture
def run(box: Pretended, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, and what it printed."""

    def one(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearmetal", "isolate", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return one


WAY = {
    "by": "affinities",
    "words": "programs are moved by their affinities, not by a cpuset: this kernel forgets",
}


def test_on_status_and_off(box: Pretended, run: Run) -> None:
    before = box.snapshot()
    status, told, _ = run("on", "--boot", "--json")
    assert (status, json.loads(told)) == (
        0,
        {"schema": "isolate.on.v1", "cpus": "1", "way": WAY, "warnings": [], "reboot": True},
    )
    _, told, _ = run("status", "--json")
    assert (json.loads(told)["on"], json.loads(told)["cpus"]) == (True, "1")
    assert "kept free by nearmetal: CPU 1" in run("status")[1]
    assert run("on")[0] == 3
    assert run("off")[:2] == (0, "7 values are as they were\n")
    assert box.snapshot() == before


def test_status_says_in_a_line_and_by_its_code_whether_it_holds(box: Pretended, run: Run) -> None:
    assert run("status")[0] == 0
    run("on", "--boot")
    status, told, _ = run("status")
    assert status == 0
    assert told.endswith("all 7 hold\nboot this host again for the kernel's part\n")
    box.files["/proc/cmdline"] = "quiet isolcpus=1 nohz_full=1 rcu_nocbs=1\n"
    assert run("status")[1].endswith("all 7 hold\n")
    box.tasks["task:12:1"] = "0-1"
    status, told, _ = run("status")
    assert status == 1
    assert "in part        everybody else: not clear of ttask:12:1" in told
    assert "1 of 7 do not hold; what could be moved is moved again by: nearmetal isolate off, then on" in told
    assert json.loads(run("status", "--json")[1])["holds"] is False
    run("off")


def test_a_plan_says_what_stands_and_that_nothing_would_be_added(box: Pretended, run: Run) -> None:
    run("on")
    status, told, _ = run("plan", "--cpus", "0")
    assert status == 0
    assert "CPU 1 is kept free already: `isolate on` adds nothing. For other CPUs, first: nearmetal isolate off" in told
    assert "<- isolated" in told and "with --boot" not in told
    plan = json.loads(run("plan", "--json")[1])
    assert (plan["stands"], plan["changes"]) == ("1", [])
    run("off")
    assert json.loads(run("plan", "--json")[1])["stands"] == ""


def test_after_a_boot_a_plan_is_of_the_rest(box: Pretended, run: Run) -> None:
    run("on", "--boot")
    box.files[BOOT_ID] = "second\n"
    told = run("plan")[1]
    assert "the boot loader has been told already" in told
    assert "to be isolated" in told and "go elsewhere" in told


def test_what_does_not_move_is_told_and_strictly_too_much(box: Pretended, run: Run) -> None:
    box.immovable = {"irq:5"}
    status, told, _ = run("on")
    assert status == 1
    assert told.startswith("not all of it: CPU 1 could not be cleared of all others") and "tirq:5" in told
    assert "as far as that goes, " in told
    assert "CPU 1 is kept free until" in told
    assert run("off")[0] == 0
    status, told, _ = run("on", "--json")
    assert status == 1
    assert len(json.loads(told)["warnings"]) == 1
    assert run("off")[0] == 0
    status, told, said = run("on", "--strict")
    assert (status, told) == (3, "")
    assert "leave out --strict" in said


def test_only_root_may(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for verb in ("on", "prove"):
        status, _, said = run(verb)
        assert status == 3
        assert "only root" in said and "remedy: run nearmetal as root" in said
    assert run("plan")[0] == run("status")[0] == 0


def test_what_is_to_have_the_cpu_is_started_in_its_cpuset(
    box: Pretended, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    become: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, words: become.append(words))
    status, _, said = run("exec", "--", "true")
    assert status == 125
    assert "no CPU is isolated" in said and "nearmetal isolate on" in said
    run("on")
    run("exec", "--", "sh", "-c", "exit 3")
    assert become == [["probe", "launch", "--cpus", "1", "--", "sh", "-c", "exit 3"]]
    run("off")
    box.unfit, box.programs = "", {"task:10:1"}
    assert "by a cpuset: whoever is pinned meanwhile keeps that\n" in run("plan")[1]
    told = run("on")[1]
    assert "programs are moved by a cpuset" in told and "nearmetal isolate exec -- PROGRAM" in told
    run("exec", "sh", "-c", "exit 3")
    assert become[1] == ["probe", "launch", "--cgroup", "/cpuset", *become[0][2:]]
    assert "holds          programs: 'apart'" in run("status")[1]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run("exec", "true")[0] == 125
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    run("off")


def test_without_grub_the_arguments_are_told(box: Pretended, run: Run) -> None:
    box.has_grub = False
    before = box.snapshot()
    status, _, said = run("on", "--boot")
    assert status == 3
    assert "isolcpus=1 nohz_full=1 rcu_nocbs=1" in said
    assert box.snapshot() == before


def test_prove_listens_before_and_after_and_leaves_nothing(box: Pretended, run: Run) -> None:
    before = box.snapshot()
    status, told, _ = run("prove", "--json")
    found = json.loads(told)
    assert (status, found["verdict"], len(found["rounds"])) == (0, "quieter", 8)
    low, high = found["differences"]["lost"]["interval"]
    assert low < -0.02 < high + 0.02 and high < 0
    assert box.snapshot() == before
    assert not active_isolation.ledger_path().exists()


def test_prove_that_is_told_to_end_leaves_nothing(box: Pretended, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    before, listen = box.snapshot(), proof.hear_cpu
    came = 0

    async def hear(*arguments: Any) -> Any:
        nonlocal came
        came += 1
        if came == 2:  # isolated by now
            assert box.snapshot() != before
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(60)
        return await listen(*arguments)

    monkeypatch.setattr(proof, "hear_cpu", hear)
    status, told, said = run("prove")
    assert (status, told) == (4, "") and "interrupted" in said
    assert box.snapshot() == before
    assert not active_isolation.ledger_path().exists()


def test_prove_of_another_cpu_leaves_what_stands(box: Pretended, run: Run) -> None:
    assert run("on", "--boot", "--cpus", "1")[0] == 0
    before = run("status", "--json")[1]
    status, told, said = run("prove", "--cpus", "0")
    assert (status, told) == (3, "")
    assert "CPU 0 is not part of what is isolated already" in said and "prove CPU 1" in said
    assert run("status", "--json")[1] == before
    assert run("off")[0] == 0


def test_too_few_rounds_to_decide_are_told(box: Pretended, run: Run) -> None:
    assert "undecided; 6 rounds are the fewest that can decide" in run("prove", "--rounds", "3")[1]


@pytest.mark.parametrize(("rounds", "has_intervals"), [("2", False), ("6", True)])
def test_brackets_are_told_of_where_there_are_any(box: Pretended, run: Run, rounds: str, has_intervals: bool) -> None:
    told = run("prove", "--rounds", rounds)[1]
    assert ("in brackets" in told, " (" in told) == (has_intervals, has_intervals)


def test_prove_does_not_touch_what_stands(box: Pretended, run: Run) -> None:
    run("on")
    stands = box.snapshot()
    _, told, _ = run("prove", "--rounds", "6")
    assert told.startswith("CPU 1, which is isolated, against CPU 0, which is not, 6 rounds:")
    assert told.rstrip().endswith("about the time that is lost: quieter")
    assert box.snapshot() == stands
    assert run("off")[0] == 0
