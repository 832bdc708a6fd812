"""What tests of the chapters on packets read of a report, and clocks that are not of one kind."""

import pytest
from rich.console import Console

from nearmetal.report.blocks import Notice, Section, Table
from nearmetal.report.report_input import ReportInput
from nearmetal.report.sections.verdict_explanations import plugin as why
from nearmetal.report.terminal import why_lines
from tests import plausible_run


def table(section: Section | None, name: str) -> Table:
    assert section is not None
    (found,) = [block for block in section.blocks if isinstance(block, Table) and block.name == name]
    return found


def notes(report: ReportInput) -> list[str]:
    section = why.render(report)
    assert section is not None
    return [block.text for block in section.blocks if isinstance(block, Notice)]


def in_terminal(report: ReportInput, width: int = 1000) -> str:
    lines = why_lines(report)
    assert lines is not None
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(lines)
    return capture.get()


def clocks_unlike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs made from now on have another clock in the guest than on the host."""
    facts = plausible_run._facts

    def told(environment: str) -> dict[str, object]:
        return {**facts(environment), "clock": {"source": "hpet" if environment == "qemu" else "tsc"}}

    monkeypatch.setattr(plausible_run, "_facts", told)
