"""All runs that are known, at a glance, the newest first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.dashboard import glance, page
from nearmetal.dashboard.following import mark
from nearmetal.dashboard.live import Parts
from nearmetal.dashboard.run_view import RunView, number_of


@dataclass(frozen=True)
class _Kept:
    """What a run said when it was looked at."""

    seen: object
    item: page.Item


class ListView:
    """Runs are read again only when they have changed, and no more of them is kept than a line of the list."""

    def __init__(self, places: Callable[[], Sequence[Path]]) -> None:
        self._places = places
        self._kept: dict[Path, _Kept] = {}

    def runs(self) -> Parts:
        kept: dict[Path, _Kept] = {}
        for path in self._places():
            view = RunView(path)
            seen = (mark(view.folder.journal), mark(path / "manifest.json"), view.is_measured)
            known = self._kept.get(path)
            kept[path] = known if known and known.seen == seen else _Kept(seen, _item(view))
        self._kept = kept
        items = sorted((one.item for one in kept.values()), key=lambda item: item.created, reverse=True)
        items.sort(key=lambda item: item.state != "running")
        return page.listed(items)


def _item(view: RunView) -> page.Item:
    view.state()
    path = view.folder.path
    if view.course is None or view.manifest is None:
        return page.Item(number_of(path), path.name, str(path.parent), "", "", "cannot be read", (), "", "")
    course, manifest = view.course, view.manifest
    return page.Item(
        number=number_of(path),
        name=path.name,
        folder=str(path.parent),
        study=manifest.study.name,
        created=manifest.created,
        state=glance.state(course, view.is_measured),
        bar=glance.bar(course),
        how_far=glance.how_far(course),
        bad=glance.bad(course),
    )
