"""A guest that is ahead of its host: the box on that, and what is asked in it."""

from dataclasses import replace
from pathlib import Path

import pytest

from nearmetal.analysis.results import Verdict
from nearmetal.model import Description, Family, KernelSource
from nearmetal.report.blocks import Notice, Statements
from nearmetal.report.implausible_rankings import is_implausible
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.verdict_explanations import plugin as why
from nearmetal.report.write import render
from tests import journals, plausible_captures, plausible_run
from tests.unit.report_captured import clocks_unlike, in_terminal, notes

pytestmark = pytest.mark.usefixtures("one_engine")

OF_CLIENTS = ("Was the client at its limit?", "Do both sides carry the same packets?")


@pytest.fixture
def unlike_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks_unlike(monkeypatch)


@pytest.mark.usefixtures("unlike_clocks")
def test_a_guest_ahead_of_its_host_gets_a_box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = read_run_input(plausible_captures.make(tmp_path / "run", 8))
    assert {one.verdict for one in told.analysis.contrasts if one.primary} == {Verdict.DIFFERENT}
    section = why.render(told)
    assert section is not None
    (head,) = [block for block in section.blocks if isinstance(block, Statements)]
    assert head.items[0].detail.startswith("not plausible by itself, see below; ")
    assert "not plausible by itself: see the report" in in_terminal(told)
    boxes = [block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning"]
    assert len(boxes) == 2  # both workloads
    assert boxes[0].text.startswith("A virtual machine is ahead of its host, which is not plausible by itself: qemu ")
    seen = dict(boxes[0].items)
    assert "takes its time from hpet with qemu, and from tsc with host" in seen["Does the guest's clock keep time?"]
    assert seen["Do both sides carry the same packets?"].startswith("packets for each request, 8.9")
    assert seen["Was the client at its limit?"] == "no trial warns of it"
    assert seen["What differs most?"].count("×") == 3
    # The other workload sends nothing.
    assert [question for question, _ in boxes[1].items] == [question for question in seen if question not in OF_CLIENTS]
    for text in (str(render(told.folder, "html")), str(render(told.folder, "md"))):
        assert text.count("Was the client at its limit?") == 1
        assert text.count("Does the guest") == 2


def described(told: ReportInput, environment: str, description: Description) -> ReportInput:
    """The same run, with another description of an environment of a kind that nobody knows."""
    plan = told.manifest.plan
    resolved = tuple(
        one.model_copy(
            update={
                "environment": one.environment.model_copy(update={"kind": "theirs", "description": description})
                if one.environment.level == environment
                else one.environment
            }
        )
        for one in plan.resolved
    )
    manifest = told.manifest.model_copy(update={"plan": plan.model_copy(update={"resolved": resolved})})
    return replace(told, manifest=manifest)


@pytest.mark.parametrize(
    ("family", "kernel", "is_told"),
    [("guest", "own", True), ("container", "host", False), ("metal", "own", False), ("unknown", "own", False)],
)
def test_what_is_ahead_is_judged_by_the_family_that_its_environment_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: Family, kernel: KernelSource, is_told: bool
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = read_run_input(plausible_run.make(tmp_path / "run", 8, faults=False))
    theirs = described(told, "qemu", Description(family=family, kernel=kernel, placement="switch"))
    ahead = [one for one in theirs.analysis.contrasts if one.primary and one.treatment["environment"] == "qemu"]
    assert {is_implausible(one, theirs) for one in ahead} == {is_told}


@pytest.mark.parametrize(
    ("family", "kernel", "is_told"),
    [("metal", "own", True), ("container", "host", True), ("container", "emulated", False), ("guest", "own", False)],
)
def test_what_is_behind_is_judged_by_its_family_and_whose_kernel_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: Family, kernel: KernelSource, is_told: bool
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = read_run_input(plausible_run.make(tmp_path / "run", 8, faults=False))
    theirs = described(told, "host", Description(family=family, kernel=kernel, placement="switch"))
    ahead = [one for one in theirs.analysis.contrasts if one.primary and one.treatment["environment"] == "qemu"]
    assert {is_implausible(one, theirs) for one in ahead} == {is_told}


def uncaptured(path: Path, *environments: str) -> ReportInput:
    """A run in which nobody took packets of these."""
    folder = plausible_captures.make(path, 8)
    with journals.changed_records(folder.journal) as told:
        for record in told:
            if record["trial"]["treatment"]["environment"] in environments:
                record["observers"].pop("capture", None)
    return read_run_input(folder)


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (("host",), "not observed with host: "),
        (("host", "qemu"), "not observed with qemu and host: "),
    ],
)
def test_a_box_says_which_side_lacks_what_another_treatment_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: tuple[str, ...], said: str
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    told = uncaptured(tmp_path / "run", *lacking)
    section = why.render(told)
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    assert dict(box.items)["Do both sides carry the same packets?"].startswith(said)
    (partly,) = [text for text in notes(told) if "compared with nothing" in text]
    assert partly.startswith("Not observed with ") and partly.endswith(": packets, and what became of them.")
    assert all(name in partly for name in lacking)


def test_a_box_says_how_packets_are_observed_where_they_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    section = why.render(uncaptured(tmp_path / "run", "host", "docker", "qemu"))
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    told = dict(box.items)["Do both sides carry the same packets?"]
    assert told.startswith("not observed: capture = true in [observe] tells")


def test_a_box_says_that_captures_do_not_hold_what_they_would_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    section = why.render(read_run_input(plausible_captures.make(tmp_path / "run", 8, limit_reached=1)))
    assert section is not None
    box = next(block for block in section.blocks if isinstance(block, Notice) and block.tone == "warning")
    assert dict(box.items)["Do both sides carry the same packets?"].startswith("not known: their captures do not hold")


def test_a_guest_ahead_of_a_container_gets_a_box_where_that_has_the_hosts_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(plausible_run.SPEED, "qemu", 1.3)
    source = plausible_run.SOURCE.replace(
        'reference = { environment = "host" }', 'reference = { environment = "docker" }'
    )
    monkeypatch.setattr(plausible_run, "SOURCE", source)
    assert (
        "ahead of a container, which has the host's own kernel"
        in notes(read_run_input(plausible_captures.make(tmp_path / "a")))[0]
    )
    sandboxed = '[environments.docker]\nkind = "docker"\nruntime = "runsc"\n[machine]'
    monkeypatch.setattr(plausible_run, "SOURCE", source.replace("[machine]", sandboxed))
    assert not [text for text in notes(read_run_input(plausible_captures.make(tmp_path / "b"))) if "ahead" in text]
