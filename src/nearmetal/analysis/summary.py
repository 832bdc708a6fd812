"""An analysis in short, for scripts: the last line of `nearmetal run --json`."""

from typing import Annotated, Literal

from pydantic import Field

from nearmetal.analysis.gates import GateOutcome
from nearmetal.analysis.results import Analysis, ContrastResult
from nearmetal.model import Document, TrialCounts, Warned
from nearmetal.store.runs import State


class Summary(Document):
    """`summary.v1`."""

    schema_: Annotated[Literal["summary.v1"], Field(alias="schema")] = "summary.v1"
    run: str
    """The run's folder."""
    study: str
    """Its name."""
    state: State
    """As `ls` has it."""
    trials: TrialCounts
    contrasts: tuple[ContrastResult, ...]
    warnings: tuple[Warned, ...]
    """About the run as a whole."""
    gates: tuple[GateOutcome, ...] = ()
    """What became of those that the run was started with; none while it has not come to its end."""


def summary(analysis: Analysis, run: str, study: str, state: State, gates: tuple[GateOutcome, ...] = ()) -> Summary:
    return Summary(
        run=run,
        study=study,
        state=state,
        trials=analysis.trials,
        contrasts=analysis.contrasts,
        warnings=analysis.warnings,
        gates=gates,
    )
