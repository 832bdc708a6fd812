"""What a calibration says, as data: `calibrate.v1`; and what a plan sees by calibrations, a part of `plan.v1`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from nearmetal.model import Better, Document, Frozen, Level, Number, Scale, TrialCounts, Warned


class CalibrationPair(Frozen):
    """Two treatments in one response, of which the right answer is known."""

    workload: str
    response: str
    unit: str
    scale: Scale
    treatment: Mapping[str, Level]
    reference: Mapping[str, Level]
    blocks: int
    estimate: float | None
    """Treatment over reference on a ratio scale, else treatment less reference."""
    interval: tuple[Number, Number] | None
    reason: str | None = None
    """Why nothing can be told: as of a contrast, "too-few-blocks" or what keeps its values from being compared."""


class AAComparison(CalibrationPair):
    """Two names of the same thing, in a primary response."""

    is_different: bool | None
    """Whether the interval excludes that there is no difference, which is wrong however small the difference is. None
    where nothing can be told."""

    @property
    def is_right(self) -> bool | None:
        return None if self.is_different is None else not self.is_different


class InjectedDifference(CalibrationPair):
    """A difference of known size, and what was found of it."""

    truth: tuple[Number, Number]
    """On the scale of `estimate`; both ends are equal where it is known exactly."""
    is_covered: bool | None
    """Whether the interval holds the truth. None where nothing can be told."""
    is_found: bool | None
    """Whether the interval excludes that there is no difference."""

    @property
    def is_right(self) -> bool | None:
        return self.is_covered


class Finds(Frozen):
    """What so many blocks tell from none in 80 % of studies that make one comparison at a level of 5 %."""

    blocks: int
    smallest: Number
    """On a ratio scale as a share (0.03 is 3 % more), else in the response's unit."""
    low: Number
    high: float | None
    """A range of 95 % for `smallest`, whose noise was seen in few blocks. Without an upper end if that is None."""


class Noise(Frozen):
    """How much boots vary that should not, in one response."""

    workload: str
    """"" for what a boot has whatever it ran."""
    kind: str
    variant: str
    """The workload's `test` or `mode`, where its kind has one."""
    response: str
    unit: str
    scale: Scale
    better: Better
    typical: Number
    """Median of all values."""
    spread: Number
    """Standard deviation of a boot's value about its block's; on a ratio scale of the logarithm."""
    doubt: float | None
    """By what factor `spread`, and with it what is found, may be off at most: at 95 %. None where that is not known."""
    arms: int
    """Boots of each block that were alike."""
    differences: tuple[tuple[Number, ...], ...]
    """Of each block, between each two of them; on a ratio scale of the logarithm."""
    finds: tuple[Finds, ...]


class Disturbance(Frozen):
    """Shares of the time of the CPUs in use, over the trials of which they are known."""

    what: Literal["stolen", "others"]
    """Denied by the host's own host; used by programs that are not the trial's."""
    median: float
    most: float
    trials: int


class Calibration(Document):
    """`calibrate.v1`."""

    schema_: Annotated[Literal["calibrate.v1"], Field(alias="schema")] = "calibrate.v1"
    run: str
    made: str
    kernel: str
    """Release of the host's kernel."""
    environment: str
    """Its kind."""
    options: Mapping[str, Any]
    """What the study sets of that kind."""
    quick: bool
    trials: TrialCounts
    level: float
    """At which each comparison was made, over all looks where the run looked: 5 % shared by all that it makes."""
    verdict: Literal["sound", "unsound", "unknown"]
    """`unsound`: something alike was called different, or an injected difference lies outside its interval. `unknown`:
    none was wrong, but some of them cannot be told, or no injected difference was told from none: a fault of that size
    would not have been seen either."""
    alike: tuple[AAComparison, ...]
    injected: tuple[InjectedDifference, ...]
    noise: tuple[Noise, ...]
    disturbances: tuple[Disturbance, ...]
    warnings: tuple[Warned, ...]
    """Of the run and of these comparisons."""

    @property
    def compared(self) -> tuple[AAComparison | InjectedDifference, ...]:
        """All of which the right answer is known."""
        return (*self.alike, *self.injected)

    @property
    def untold(self) -> tuple[AAComparison | InjectedDifference, ...]:
        """Those of which nothing can be told."""
        return tuple(one for one in self.compared if one.is_right is None)

    @property
    def unseen(self) -> tuple[InjectedDifference, ...]:
        """Injected differences that were not told from none."""
        return tuple(one for one in self.injected if one.is_found is False)


Source = Literal["pilot", "runs", "calibration"]
"""Where noise is known from: a pilot of the study, earlier runs of it on this host, or calibrations of this host."""


class Sensitivity(Frozen):
    """The smallest difference that is told from none in a share `power` of a plan's studies, by noise as measured."""

    workload: str
    response: str
    environments: tuple[str, ...]
    """The kinds that are compared; one, where both sides are of it."""
    made: tuple[str, ...]
    """When each of them was calibrated; when the pilot or each of the earlier runs was made."""
    level: float
    finds: Finds
    """With the plan's blocks. On a difference scale in the response's unit."""
    source: Source = "calibration"
    treatment: Mapping[str, Level] | None = None
    """The comparison whose noise it is; None of a calibration, which stands for all of these environments."""
    reference: Mapping[str, Level] | None = None
    unit: str = ""
    scale: Scale = "ratio"
    power: float = 0.8
    half_width: Number | None = None
    """Half the width that intervals keep to in a share `power` of studies; as `finds`."""
    blocks_wanted: int | None = None
    """How many blocks the study's `detect` or `precision` takes. None without such an aim, or beyond 10^6."""


class Sizing(Frozen):
    """How the number of blocks was fixed before a run whose study says `blocks = "auto"`."""

    blocks: int
    aim: Literal["detect", "precision"]
    wanted: float
    """The share that the study asks for."""
    power: float
    level: float
    source: Source
    """Where the noise of the comparison that takes the most is known from."""
    made: tuple[str, ...]
    workload: str
    """Of that comparison."""
