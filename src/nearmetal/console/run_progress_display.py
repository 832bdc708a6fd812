"""A run as a person watches it: one line that moves in a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from nearmetal.console.running_estimates import RunningEstimates
from nearmetal.control_characters import strip_controls
from nearmetal.model import TrialStatus
from nearmetal.report.figures import format_count
from nearmetal.run.events import Step, TrialEnded, TrialStarted
from nearmetal.store import events
from nearmetal.store.progress import RunProgress, estimate_time_left
from nearmetal.study.levels import format_assignment, format_level
from nearmetal.units import show_duration, show_elapsed


class _ProgressBar(Progress):
    below: Iterable[Text] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield from self.below


class RunProgressDisplay:
    """Listens to a run's events and shows them. `estimate`: seconds that a trial takes before any has been seen.

    `trials` and `blocks` are planned; with `looks`, they are the most that there may be. `progress` is how far the run
    had come before. `estimates`, in a terminal, are shown below the bar after each block.
    """

    def __init__(
        self,
        console: Console,
        trials: int,
        blocks: int,
        estimate: float,
        looks: int = 0,
        progress: RunProgress | None = None,
        estimates: RunningEstimates | None = None,
    ) -> None:
        self._console = console
        self._blocks = blocks
        self._looks = looks
        self._trials = trials
        self._estimate = estimate
        self._progress = progress or RunProgress()
        self._before = self._progress.trials
        self._began = time.monotonic()
        self._place = ""
        self._workload = ""
        self._is_made = self._is_left = False
        self._estimates = estimates
        self._bar: _ProgressBar | None = None
        if console.is_terminal and not console.is_dumb_terminal:
            self._bar = _ProgressBar(
                BarColumn(bar_width=max(6, console.width // 6)),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]} · {task.description}", markup=False),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task(
                "starting", completed=self._before, total=self._total, left=self._show_left()
            )

    def __enter__(self) -> Self:
        if self._bar:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    @property
    def _total(self) -> int:
        """Trials that are planned, and those of repeated blocks as far as these were begun."""
        return self._trials + self._progress.again

    def _show_left(self) -> str:
        done = self._progress.trials
        elapsed, measured = time.monotonic() - self._began, done - self._before
        left = show_elapsed(estimate_time_left(self._total - done, elapsed, measured, self._estimate))
        return f"at most ~{left} left" if self._looks else f"~{left} left"

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, TrialEnded):
            self._progress.take_line(event.record)
            if self._estimates:
                self._estimates.take_record(event.record)
        elif event.durable:
            self._progress.take_line(event.to_line())
        show: Callable[..., None] | None = getattr(self, f"_on_{type(event).__name__}", None)
        if show:
            show(event)

    def _on_RunResumed(self, event: events.RunResumed) -> None:
        self._console.print(f"going on after {format_count(event.finished, 'trial')}")

    def _on_BlockStarted(self, event: events.BlockStarted) -> None:
        again = f", attempt {event.attempt + 1}" if event.attempt else ""
        self._place = f"block {event.block + 1}/{self._blocks}{again}"
        if not self._bar:
            self._console.print(f"{self._place}: {format_count(event.trials, 'trial')}, {self._show_left()}")

    def _on_BootStarted(self, event: events.BootStarted) -> None:
        self._treatment = " ".join(format_level(level) for level in event.treatment.values())
        self._workload = ""
        self._is_made = self._is_left = False

    def _on_Step(self, event: Step) -> None:
        if event.name == "paused":
            self._console.print("paused by the dashboard" if event.state == "begins" else "going on")
        if self._bar and event.state == "begins":
            what = " · ".join(word for word in (self._place, self._treatment, self._workload, event.name) if word)
            room = max(8, self._console.width - self._console.width // 6 - 34)
            self._bar.update(self._task, description=strip_controls(what)[:room], left=self._show_left())

    def _on_TrialStarted(self, event: TrialStarted) -> None:
        self._workload = event.trial.workload

    def _on_TrialEnded(self, event: TrialEnded) -> None:
        record = event.record
        self._is_made |= record.boot is not None
        if record.status is not TrialStatus.OK:
            self._print_about(
                str(record.status),
                f"{format_assignment(record.trial.treatment)} {record.trial.workload}: {record.reason}",
            )
        if self._bar:
            self._bar.update(self._task, completed=self._progress.trials, total=self._total, left=self._show_left())

    def _on_BootEnded(self, event: events.BootEnded) -> None:
        if not self._bar:
            took = show_duration(sum(event.phases_ns.values()) / 1e9)
            told = "made, and not all of it removed," if self._is_left else "made and removed"
            what = f"{told} in {took}" if self._is_made else f"not made, given up after {took}"
            self._console.print(f"  {strip_controls(format_assignment(event.treatment))}: {what}")

    def _on_BlockEnded(self, event: events.BlockEnded) -> None:
        if self._bar and self._estimates:
            lines = self._estimates.list_lines()
            self._bar.below = [
                Text(strip_controls(line), style="dim", no_wrap=True, overflow="ellipsis") for line in lines
            ]
        if not event.whole:
            self._console.print(f"block {event.block + 1} is not whole: a trial of it is not ok", style="yellow")

    def _on_LookTaken(self, event: events.LookTaken) -> None:
        end = "no more blocks" if event.stops else f"{event.undecided} open"
        self._console.print(
            f"look {event.look}/{self._looks}, after {format_count(event.blocks, 'block')}: {event.decided} "
            f"decided, {end}"
        )

    def _on_Withdrawn(self, event: events.Withdrawn) -> None:
        self._print_about("withdrawn", f"{format_assignment(event.treatment)}: {event.reason}", "red")

    def _on_NothingToCompare(self, event: events.NothingToCompare) -> None:
        self._print_about(
            "no more blocks", f"after {format_count(event.blocks, 'block')} nothing is left that can be compared"
        )

    def _on_LeftBehind(self, event: events.LeftBehind) -> None:
        self._is_left = True
        self._print_about("left behind (nearmetal clean tries again)", event.what)

    def _print_about(self, what: str, of: str, style: str = "yellow") -> None:
        self._console.print(Text.assemble((what, style), ": ", strip_controls(of)))
