"""One run, looked at again and again: its folder followed, and the parts of its page that have changed."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from nearmetal.dashboard import page, run_overview
from nearmetal.dashboard.current_step import CurrentStep, describe_step
from nearmetal.dashboard.early_verdicts import render_early_verdicts
from nearmetal.dashboard.file_follower import Follower, mark_file
from nearmetal.dashboard.live_updates import Parts
from nearmetal.dashboard.run_history import RunHistory
from nearmetal.errors import BadInput, NearmetalError
from nearmetal.report.chapters import describe_charts
from nearmetal.report.drawing import draw_svg, has_engine
from nearmetal.report.words import Labels
from nearmetal.store import journal
from nearmetal.store.journal_lock import is_locked
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_control import LiveNote, Wish, read_wish, write_wish
from nearmetal.store.run_folder import RunFolder
from nearmetal.store.runs import describe_state

_CHANGES_VERDICTS = frozenset({"BlockEnded", "LookTaken", "RunEnded"})
"""Events after which there is more to compare than before."""

Expect = Callable[[Manifest], float | None]
"""Seconds that a trial of a run takes by its plan; None if that cannot be told here."""


def expect_nothing(manifest: Manifest) -> None:
    """For those who have no plugins to ask."""


def number_of(path: Path) -> str:
    """What stands for a run in an address: never its path."""
    return hashlib.sha256(str(path.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]


class RunView:
    """What is known of a run so far. Its methods are called one at a time.

    A folder that cannot be read, or is not there any more, is told in the page's own words.
    """

    def __init__(self, path: Path, expect: Expect = expect_nothing) -> None:
        self.folder = RunFolder(path)
        self.manifest: Manifest | None = None
        self.course: RunHistory | None = None
        self._follower = Follower(self.folder.journal)
        self._seen: object = None
        self._noted: object = None
        self._expect = expect
        self._expected: float | None = None
        self._compared: object = None
        self._warned: tuple[run_overview.Problem, ...] = ()

    @property
    def is_measured(self) -> bool:
        try:
            return is_locked(self.folder.journal)
        except (OSError, BadInput):
            return False

    @property
    def may_be_disturbed(self) -> bool:
        """Whether a trial may be going on."""
        note = LiveNote.read(self.folder) if self.is_measured else None
        return self.is_measured and (note is None or note.step != "paused")

    @property
    def has_report(self) -> bool:
        return self.folder.page.is_file()

    def render_state(self) -> Parts:
        """How far it is, what goes on and what went wrong; nothing where nothing has changed since the last time."""
        has_note = self.folder.live.is_file()
        seen = (self.is_measured, self.has_report, self.folder.path.is_dir(), has_note)
        if seen == self._seen and self.course is not None and not self._follower.has_changed():
            return {}
        self._seen = seen
        try:
            course = self.follow_run()
        except (OSError, NearmetalError) as error:
            return page.render_unreadable(self.folder.path, error)
        return self._render_parts(course, seen[0])

    def render_live(self) -> Parts:
        """The step that goes on; nothing where nothing has changed since the last time."""
        seen = (mark_file(self.folder.live), mark_file(self.folder.request), self.is_measured)
        if self.course is None or seen == self._noted:
            return {}
        self._noted = seen
        return page.render_live(self._read_going(self.course) if seen[2] else None, self.folder.path)

    def _read_going(self, course: RunHistory) -> CurrentStep | None:
        note = LiveNote.read(self.folder)
        if note is None:
            return None
        wish = read_wish(self.folder.request)
        return describe_step(note, wish, course, Labels.of_plan(course.plan), time.time_ns())

    def ask(self, wish: Wish | None) -> None:
        """Have the run pause after its trial, stop, or go on. BadInput if it does not take that, OSError."""
        where, resume = str(self.folder.path), f"nearmetal resume {quote(str(self.folder.path))}"
        if not self.is_measured:
            what = "nothing measures this run now"
            raise BadInput(what, where, f"`{resume}` goes on with it, if it has not ended and nothing else measures")
        if LiveNote.read(self.folder) is None:
            what = "this run takes no orders now"
            raise BadInput(what, where, "try again at its next step; the blocks of a fleet end by Ctrl-C alone")
        if read_wish(self.folder.request) == "stop":
            raise BadInput("this run was asked to stop", where, f"`{resume}` goes on when it has ended")
        write_wish(self.folder, wish)

    def render_verdicts(self) -> Parts:
        """What the blocks say that have ended since the last time."""
        if self.course is None or self.manifest is None:
            return {}
        course = self.course
        ended = sum(event["event"] in _CHANGES_VERDICTS for event in course.events)
        compared = (id(course), ended, course.is_over, len(course.reasons))
        if compared == self._compared:
            return {}
        self._compared = compared
        try:
            section, report = render_early_verdicts(self.manifest, course, self.folder)
            if not has_engine():
                (section,) = describe_charts([section])
            self._warned = tuple(run_overview.list_warnings(report))
            return {
                **page.render_verdicts(section, report, draw_svg),
                **page.render_troubles(course, report.labels, self._warned),
            }
        except (NearmetalError, ValueError, KeyError):
            return page.without_verdicts(self.folder.path)

    def follow_run(self) -> RunHistory:
        """The run as it is now. OSError and BadInput when its folder cannot be read; the next call begins anew."""
        try:
            return self._read_growth()
        except (OSError, NearmetalError):
            self.course = None
            raise

    def _read_growth(self) -> RunHistory:
        if self.course is None:
            self._follower = Follower(self.folder.journal)
            self.course = self._make_history()
        growth = self._follower.read()
        if growth.anew:
            self.course = self._make_history()
        try:
            journal.refuse_changed_end(growth.rest)
            for line in growth.lines:
                self.course.take_line(journal.parse_line(line))
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self._find_damage() from None
        return self.course

    def _make_history(self) -> RunHistory:
        self.manifest = RunFolder.open(self.folder.path).read_manifest()
        self._expected = self._expect(self.manifest)
        self._warned = ()
        return RunHistory(self.manifest.study, self.manifest.plan)

    def _find_damage(self) -> BadInput:
        """The journal's own readers say what is wrong with which of its lines."""
        try:
            list(journal.read_records(self.folder.journal))
        except BadInput as error:
            return error
        return BadInput("a line of the journal is neither a record nor an event", str(self.folder.journal))

    def _render_parts(self, course: RunHistory, is_measured: bool) -> Parts:
        labels = Labels.of_plan(course.plan)
        return page.render_parts(
            page.RunSnapshot(
                path=self.folder.path,
                number=number_of(self.folder.path),
                course=course,
                labels=labels,
                state=describe_state(course, is_measured),
                time_left=run_overview.time_left(course, self._expected, time.time_ns()) if is_measured else "",
                has_report=self.has_report,
                warned=self._warned,
                has_note=is_measured and self.folder.live.is_file(),
            )
        )
