"""The chapter on noise: what the observer heard before and after trials, in servers and on their hosts."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nearmetal.model import TrialAddress, TrialRecord, TrialStatus
from nearmetal.report.blocks import Chart, Quantity, Table
from nearmetal.report.report_input import ReportInput, read_run_input
from nearmetal.report.sections.noise import plugin
from nearmetal.store import journal
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run


def heard(record: TrialRecord) -> dict[str, Any]:
    """A guest's CPU 1 has a gap more with each block, its timer is silent, and its host kept it waiting."""
    cpu = {"gaps": 10 + record.trial.block, "share": 0.25, "longest": 0.001 * (record.trial.block + 1), "ticks": 0}
    told: dict[str, Any] = {"1": cpu}
    if record.trial.treatment["environment"] == "qemu":
        told |= {"0": {**cpu, "ticks": None}, "host": {"ran": 0.75, "waited": 0.25, "turns": 7}}
    return {"before": {"server-0": told}, "after": {"server-0": {"1": {**cpu, "share": 0.5}}}}


def made(path: Path, heard: Callable[[TrialRecord], dict[str, Any]] = heard) -> RunFolder:
    folder = plausible_run.make(path, 3, faults=False)
    records = list(journal.read_records(folder.journal))
    told = [one.model_copy(update={"observers": {"noise": heard(one)}}) for one in records]
    folder.journal.write_text("".join(one.model_dump_json() + "\n" for one in told))
    return folder


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> ReportInput:
    return read_run_input(made(tmp_path_factory.mktemp("noise") / "run"))


def rows(report: ReportInput, name: str) -> list[dict[str, Any]]:
    section = plugin.render(report)
    assert section is not None
    (block,) = (block for block in section.blocks if isinstance(block, Table) and block.name == name)
    return [dict(zip((column.title for column in block.columns), row, strict=True)) for row in block.rows]


def test_a_run_in_which_nobody_listened_has_no_such_chapter(tmp_path: Path) -> None:
    assert plugin.render(read_run_input(plausible_run.make(tmp_path / "run", 2, faults=False))) is None


def test_the_time_that_each_cpu_lost_is_drawn(report: ReportInput) -> None:
    section = plugin.render(report)
    assert section is not None
    (chart,) = (block for block in section.blocks if isinstance(block, Chart))
    drawn = json.dumps(chart.panels[0].spec)
    assert "qemu" in chart.description and ", CPU 0: 25 %" in chart.description
    assert drawn.count('"value": 25.0') > drawn.count('"value": 50.0') > 0


def test_each_cpu_before_and_after(report: ReportInput) -> None:
    of_guest = [row for row in rows(report, "noise-cpus") if "qemu" in str(row["treatment"])]
    assert [(row["when"], row["CPU"], row["% lost"]) for row in of_guest] == [
        ("before", 0, 25.0),
        ("before", 1, 25.0),
        ("after", 1, 50.0),
    ]
    assert [row["timer ticks"] for row in of_guest] == [None, 0, 0]
    assert {row["gaps"] for row in of_guest} == {11}
    assert {row["longest"] for row in of_guest} == {Quantity(0.003, "s")}


def test_only_a_guest_has_a_host_beside_it(report: ReportInput) -> None:
    (row,) = rows(report, "noise-hosts")
    assert "qemu" in str(row["treatment"])
    assert (row["when"], row["% waiting"], row["longest in all"], row["turns"]) == (
        "before",
        25.0,
        Quantity(0.25, "s"),
        7,
    )


def test_shares_are_as_they_were_heard_however_small(tmp_path: Path) -> None:
    def quiet(record: TrialRecord) -> dict[str, Any]:
        told = {"1": {"gaps": 1, "share": 3.21e-6, "longest": 3e-6, "ticks": None}}
        host = {"host": {"ran": 3.0, "waited": 1e-5, "turns": 1}}
        return {"before": {"server-0": {**told, **host}}}

    found = read_run_input(made(tmp_path / "run", quiet))
    assert {row["% lost"] for row in rows(found, "noise-cpus")} == {100 * 3.21e-6}
    assert {row["% waiting"] for row in rows(found, "noise-hosts")} == {100 * (1e-5 / 3.00001)}


def test_trials_that_do_not_count_are_in_no_figure(report: ReportInput, tmp_path: Path) -> None:
    """Block 0 failed for all, and what was heard then was twice as much; then it was repeated."""
    folder = made(tmp_path / "run")
    first = list(journal.read_records(folder.journal))
    loud = {"gaps": 500, "share": 0.9, "longest": 9.0, "ticks": 0}
    failed = [
        one.model_copy(
            update={
                "status": TrialStatus.FAILED,
                "reason": "it broke",
                "observers": {"noise": {when: {"server-0": {"1": loud}} for when in ("before", "after")}},
            }
        )
        for one in first
        if one.trial.block == 0
    ]
    again = [one.model_copy(update={"trial": repeated(one.trial)}) if one.trial.block == 0 else one for one in first]
    folder.journal.write_text("".join(one.model_dump_json() + "\n" for one in [*failed, *again]))
    for name in ("noise-cpus", "noise-hosts"):
        assert rows(read_run_input(folder), name) == rows(report, name)


def repeated(trial: TrialAddress) -> TrialAddress:
    return replace(trial, attempt=1, id=f"{trial.id}-1")
