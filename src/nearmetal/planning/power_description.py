"""In words what a study as it is planned can see here, by noise that was measured before. Pure."""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from nearmetal.model import DesignSpec, Plan
from nearmetal.report import figures, words
from nearmetal.report.block_count import describe_source, show_aim
from nearmetal.units import show_share

if TYPE_CHECKING:
    from nearmetal.store.calibration_document import Sensitivity
    from nearmetal.store.pilot import Pilot


def write_sentences(found: "Sequence[Sensitivity]", design: DesignSpec, labels: words.Labels) -> Iterator[str]:
    """One for each workload, response and source: of the comparison that sees the least."""
    groups: dict[tuple[str, str, str, object], list[Sensitivity]] = {}
    for one in found:
        apart = one.environments if one.source == "calibration" else one.made
        groups.setdefault((one.workload, one.response, one.source, apart), []).append(one)
    for group in groups.values():
        yield write_sentence(max(group, key=lambda one: one.finds.smallest), design.margin, labels, len(group))


def write_sentence(one: "Sensitivity", margin: float, labels: words.Labels, comparisons: int = 1) -> str:
    """ "web: by the calibration of 23 Nov 2026 (host), 8 blocks find a difference of 4 % …".

    `margin` is the study's, a share: what lies within it counts as equivalent, told from none or not.
    """
    finds = one.finds
    shown = format_share if one.scale == "ratio" else partial(figures.format_quantity, unit=one.unit)
    upto = f" to {shown(finds.high)}" if finds.high is not None else " or more"
    is_within = one.scale == "ratio" and finds.smallest < margin
    within = f"; within the margin of {format_share(margin)} it counts as equivalent" if is_within else ""
    title = labels.name_response(one.workload, one.response)
    least = f" (in that of {comparisons} comparisons which varies most)" if comparisons > 1 else ""
    return (
        f"{words.name_workload(one.workload)}: by {describe_source(one)}, "
        f"{figures.format_count(finds.blocks, 'block')} find a difference of {shown(finds.smallest)} in "
        f"{title} in {show_share(one.power)} of studies{least}{within}. So few boots show "
        f"the noise only roughly: it may take a difference of {shown(finds.low)}{upto}"
    )


def about_aim(found: "Sequence[Sensitivity]", design: DesignSpec) -> str | None:
    """How many blocks the study's aim takes, as far as noise is known; None without an aim."""
    if (design.detect is None and design.precision is None) or not found:
        return None
    aim = f"{show_aim(design)} with a power of {design.power:g}"
    if any(one.blocks_wanted is None for one in found):
        return f"{aim} takes more blocks than can be counted"
    most = max(found, key=lambda one: one.blocks_wanted or 0)
    return (
        f"{aim} takes {figures.format_count(most.blocks_wanted or 0, 'block')} "
        f"({words.name_workload(most.workload)} the most)"
    )


def about_repeats(pilot: "Pilot | None", design: DesignSpec) -> str | None:
    """What the pilot tells of repeats; None where it tells nothing, or what the study does already."""
    if pilot is None or pilot.repeats is None or pilot.repeats == design.repeats:
        return None
    return f"by the pilot, repeats = {pilot.repeats} in place of {design.repeats} finds the most in a given time"


def about_unknown(unknown: int, plan: Plan, pilot: "Pilot | None") -> str | None:
    """That there is no noise to go by, and how to come by it; None where all is known."""
    if not unknown:
        return None
    of = "" if len(plan.contrasts) == 1 else f" in {unknown} of {len(plan.contrasts)} comparisons"
    if pilot is not None:
        return f"how small a difference is found is not known{of}: in too few boots of the pilot both sides worked"
    return (
        f"how small a difference is found is not known{of}: add --pilot to measure the noise here, or run the study "
        "once, or `nearmetal calibrate` this host"
    )


def format_share(value: float) -> str:
    """ "0.042 %", "4.2 %", "31 %": two digits, and all before the point; never an exponent."""
    percent = value * 100
    return f"{percent:.0f} %" if value >= 0.0995 else f"{Decimal(f'{percent:#.2g}'):f} %"
