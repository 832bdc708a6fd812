"""Whether a plan's verdicts can do without unanimity. Pure."""

from collections.abc import Iterable

from nearmetal.analysis import degrees
from nearmetal.model import Plan, Warned


def count_spare(plan: Plan) -> int | None:
    """k of a plan's primary contrasts: blocks that may disagree at its last test, should their differences be the
    smallest. None where it has too few blocks for any verdict of `different`."""
    if plan.looks:
        return degrees.count_disagreeing(plan.looks[-1].blocks, plan.looks[-1].level)
    return degrees.count_disagreeing(plan.blocks, plan.level)


def warn_of_no_slack(plan: Plan) -> Iterable[Warned]:
    """That one block which disagrees, or is lost, leaves no verdict of `different`; or that none can come at all."""
    if not plan.contrasts or count_spare(plan):
        return
    if count_spare(plan) is None:
        text = f"{_blocks(plan)} decide nothing: every verdict is undecided"
    else:
        text = f"a difference is found only if all {_blocks(plan)} agree; one that is lost leaves no verdict"
    yield Warned(code="no-slack", text=text)


def _blocks(plan: Plan) -> str:
    return "1 block" if plan.blocks == 1 else f"{plan.blocks} blocks"
