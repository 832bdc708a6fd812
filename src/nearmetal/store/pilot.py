"""A study's noise as a pilot or an earlier run measured it, as data; and the pilots that are kept.

Each is a small file in the state folder, the last of each study.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from nearmetal.model import Document, Frozen, Level, Number, Scale
from nearmetal.system.files import write_whole

_FOLDER = "pilots"


class Components(Frozen):
    """Where the noise of a comparison comes from, after Kalibera and Jones (ISMM 2013, section 6)."""

    between: Number
    """Variance of a block's difference that no repeat in its boots lessens; 0 where none was seen."""
    within: Number
    """Variance of the difference of two single trials, within their boots."""
    boot_seconds: float
    """Of both boots together, without their trials."""
    trial_seconds: float
    """Of one trial on both sides."""
    repeats: int
    """Trials in a boot that find the most in a given time."""


class PairedNoise(Frozen):
    """How a comparison varied from block to block, in its workload's primary response."""

    workload: str
    response: str
    unit: str
    scale: Scale
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]
    typical: Number
    """Median of the reference's values."""
    differences: tuple[Number, ...]
    """Of each block about their centre; on a ratio scale of logarithms. As wide as those of the whole population."""
    components: Components | None = None
    """None where no boot had two trials, or where their time is not known."""
    failing: float = 0.0
    """The share of blocks in which one side failed and the other did not."""


class Pilot(Document):
    """`pilot.v1`."""

    schema_: Annotated[Literal["pilot.v1"], Field(alias="schema")] = "pilot.v1"
    run: str
    made: str
    kernel: str
    """Release of the host's kernel."""
    measured: str
    """Digest of what was measured: `digest_measurement` of the study."""
    boots: int
    """Of each treatment and workload."""
    trials: int
    """In each of these boots."""
    repeats: int | None
    """For the study as a whole: trials in a boot that find the most in a given time. None where that is not known."""
    noise: tuple[PairedNoise, ...]
    """Of each comparison that was measured often enough, and varied."""


def keep_pilot(pilot: Pilot, state: Path) -> Path:
    """In the place of the one before. Its file."""
    path = _locate_pilot(pilot.measured, state)
    write_whole(path, (pilot.model_dump_json() + "\n").encode())
    return path


def find_pilot(measured: str, kernel: str, state: Path) -> Pilot | None:
    """The last one of what is measured, made under this kernel release. One that cannot be read is none."""
    try:
        pilot: Pilot = Pilot.from_json(json.loads(_locate_pilot(measured, state).read_text("utf-8")))
    except (OSError, ValueError):
        return None
    return pilot if pilot.kernel == kernel else None


def _locate_pilot(measured: str, state: Path) -> Path:
    return state / _FOLDER / f"{measured[:16]}.json"
