"""In words how the number of blocks was fixed, and by what noise. Pure."""

import datetime

from nearmetal.model import DesignSpec
from nearmetal.report import figures, words
from nearmetal.store.calibration_document import Sensitivity, Sizing
from nearmetal.units import show_share


def describe_source(one: Sensitivity | Sizing) -> str:
    """ "the pilot of 28 Nov 2026", "2 runs of …", "the calibration of … (host)"."""
    dates = figures.join_listing(list(dict.fromkeys(_show_date(made) for made in one.made)))
    if one.source == "pilot":
        return f"the pilot of {dates}"
    if one.source == "runs":
        return f"the run of {dates}" if len(one.made) == 1 else f"{len(one.made)} runs of {dates}"
    were = "calibrations" if len(one.made) > 1 else "calibration"
    kinds = getattr(one, "environments", ())
    return f"the {were} of {dates}" + (f" ({' and '.join(kinds)})" if kinds else "")


def about_sizing(sizing: Sizing, design: DesignSpec) -> str:
    """ "blocks = "auto": 17, by the pilot of 28 Nov 2026 (detect 5 % with a power of 0.8; web takes the most)"."""
    return (
        f'blocks = "auto": {sizing.blocks}, by {describe_source(sizing)} '
        f"({show_aim(design)} with a power of {sizing.power:g}; {words.name_workload(sizing.workload)} takes the most)"
    )


def show_aim(design: DesignSpec) -> str:
    if design.detect is not None:
        return f"detect {show_share(design.detect)}"
    return f"precision {show_share(design.precision or 0.0)}"


def _show_date(made: str) -> str:
    when = datetime.datetime.fromisoformat(made)
    return f"{when.day} {when:%b %Y}"
