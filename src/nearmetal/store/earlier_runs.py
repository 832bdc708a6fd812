"""How often a study was run on this host before: by the runs that lie beside it. Who repeats until a result pleases is
wrong more often than the level says, and the reader of one report cannot see it."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nearmetal.errors import BadInput
from nearmetal.store import runs
from nearmetal.store.folder import RunFolder
from nearmetal.store.manifest import Manifest
from nearmetal.study.measurement_digest import digest_measurement

_HOST = (("processor", "model"), ("memory", "total_bytes"), ("kernel", "architecture"))
"""Facts that a host keeps while its software changes."""


def count_earlier_runs(folder: RunFolder) -> int:
    """Runs beside this one that began before it, on a host of the same processor and memory, and measured the same.

    Each draws a seed of its own, and may have another number of blocks.
    Runs that were moved elsewhere or removed are not known. What cannot be read does not count.
    """
    mine = folder.read_manifest()
    measured = digest_measurement(mine.study)
    return sum(
        one.created < mine.created and _find_host(one) == _find_host(mine) and digest_measurement(one.study) == measured
        for one in _read_beside(folder.path.resolve(), mine.study.name)
    )


def _read_beside(path: Path, study: str) -> Iterator[Manifest]:
    try:
        places = runs.find_runs(path.parent)
    except (BadInput, OSError):
        return
    named = re.compile(rb'"name":\s*' + re.escape(json.dumps(study, ensure_ascii=False).encode()))
    for place in places:
        other = RunFolder(place)
        try:
            # A manifest may hold a million trials: those of other studies are not parsed.
            if place.resolve() != path and named.search((place / "manifest.json").read_bytes()):
                yield other.read_manifest()
        except (BadInput, OSError):
            continue


def _find_host(manifest: Manifest) -> tuple[Any, ...]:
    groups = [manifest.host.get(group) for group, _ in _HOST]
    return tuple(
        group.get(name) if isinstance(group, Mapping) else None for group, (_, name) in zip(groups, _HOST, strict=True)
    )
