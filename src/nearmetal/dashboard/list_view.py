"""All runs that are known, at a glance, the newest first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.dashboard import page, run_overview
from nearmetal.dashboard.file_follower import mark_file
from nearmetal.dashboard.live_updates import Parts
from nearmetal.dashboard.run_view import RunView, number_of
from nearmetal.errors import NearmetalError
from nearmetal.store import runs


@dataclass(frozen=True)
class _Kept:
    """What a run said when it was looked at; and what follows it, while it is measured."""

    seen: object
    item: page.Item
    view: RunView | None


class ListView:
    """Runs are read again only when they have changed, and of those that rest a line of the list is kept alone."""

    def __init__(self, places: Callable[[], Sequence[Path]]) -> None:
        self._places = places
        self._kept: dict[Path, _Kept] = {}

    def render_runs(self) -> Parts:
        self._kept = {path: self._looked_at(path, self._kept.get(path)) for path in self._places()}
        items = sorted((one.item for one in self._kept.values()), key=lambda item: item.created, reverse=True)
        items.sort(key=lambda item: item.state != "running")
        return page.render_list(items)

    def _looked_at(self, path: Path, before: _Kept | None) -> _Kept:
        view = (before and before.view) or RunView(path)
        is_measured = view.is_measured
        seen = (mark_file(view.folder.journal), mark_file(path / "manifest.json"), is_measured)
        if before and before.seen == seen:
            return before
        return _Kept(seen, _make_item(view, is_measured), view if is_measured else None)


def _make_item(view: RunView, is_measured: bool) -> page.Item:
    path = view.folder.path
    number, name, folder = number_of(path), path.name, str(path.parent)
    try:
        course = view.follow_run()
    except (OSError, NearmetalError) as error:
        return page.Item(number, name, folder, state="cannot be read", why=runs.describe_unreadable(error, path))
    assert view.manifest is not None  # what follow() begins with
    return page.Item(
        number=number,
        name=name,
        folder=folder,
        state=runs.describe_state(course, is_measured),
        study=course.study.name,
        created=view.manifest.created,
        bar=run_overview.make_bar(course),
        how_far=run_overview.how_far(course),
        bad=run_overview.describe_bad(course),
    )
