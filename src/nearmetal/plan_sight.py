"""What a study as it is planned can see here: by the calibrations that are kept of this host."""

import datetime
import os
from decimal import Decimal
from typing import TYPE_CHECKING

from nearmetal.config import Paths
from nearmetal.model import Plan
from nearmetal.report import figures, words

if TYPE_CHECKING:
    from nearmetal.store.calibration import Sight


def by_calibrations(plan: Plan) -> "list[Sight]":
    """One for each workload and pair of environments that are calibrated; none where nothing is kept."""
    state = Paths.default().state
    if not (state / "calibrations").is_dir():
        return []
    from nearmetal.analysis.sight import sights  # loads numpy, which a host without calibrations need not wait for
    from nearmetal.store import calibrations

    return list(sights(plan, calibrations.kept(state, os.uname().release)))


def sentence(one: "Sight", margin: float) -> str:
    """ "web: by the calibration of 23 Nov 2026 (host), 8 blocks tell a difference of 4 % …".

    `margin` is the study's, a share: what lies within it counts as equivalent, told from none or not.
    """
    finds = one.finds
    upto = f"to {share(finds.high)}" if finds.high is not None else "or more"
    dates = dict.fromkeys(_date(made) for made in one.made)
    were = "calibrations" if len(one.made) > 1 else "calibration"
    by = f"by the {were} of {figures.listing(dates)} ({' and '.join(one.environments)})"
    within = f"; within the margin of {share(margin)} it counts as equivalent" if finds.smallest < margin else ""
    return (
        f"{words.workload(one.workload)}: {by}, "
        f"{figures.count(finds.blocks, 'block')} tell a difference of {share(finds.smallest)} in "
        f"{words.response(one.response)} from none in 80 % of studies{within}; "
        f"noise is known so far that it is {share(finds.low)} {upto}"
    )


def share(value: float) -> str:
    """ "0.042 %", "4.2 %", "31 %": two digits, and all before the point; never an exponent."""
    percent = value * 100
    return f"{percent:.0f} %" if value >= 0.0995 else f"{Decimal(f'{percent:#.2g}'):f} %"


def _date(made: str) -> str:
    when = datetime.datetime.fromisoformat(made)
    return f"{when.day} {when:%b %Y}"
