"""What the list of runs says of the host: machines that are up and calibrations, read from files alone."""

import platform
from pathlib import Path

from nearmetal.commands.dashboard import _HostWatcher
from nearmetal.dashboard import page
from nearmetal.dashboard.host import HostState, MachineLine
from nearmetal.lab.machines import registry
from nearmetal.model import MachineSpec, TrialCounts
from nearmetal.store import kept_calibrations
from nearmetal.store.calibration_document import Calibration
from tests.unit.test_dashboard_page import HOSTILE, Elements

CALIBRATION = Calibration(
    run="r",
    made="2025-03-01T12:00:00+00:00",
    kernel=platform.release(),
    environment="docker",
    options={},
    quick=True,
    trials=TrialCounts(ok=40, invalid=2, failed=0, lost=0),
    level=0.01,
    verdict="sound",
    alike=(),
    injected=(),
    noise=(),
    disturbances=(),
    warnings=(),
)


def shown(state: HostState) -> Elements:
    return Elements(page.render_host(state)["host"])


def test_machines_and_calibrations_are_seen_when_they_come_and_go(home: Path) -> None:
    watcher = _HostWatcher(home / "state")
    assert watcher.look() == HostState()
    assert "No machine of nearmetal up is up" in shown(watcher.look()).words
    assert "not calibrated" in shown(watcher.look()).words
    kept_calibrations.keep_calibration(CALIBRATION, home / "state")
    registry.folder().mkdir(parents=True)
    one = registry.KeptMachine(
        name="mine", environment="qemu", token="1", keeper=1, keeper_started=1, made="2025-03-02T", spec=MachineSpec()
    )
    (registry.folder() / "mine.json").write_text(one.model_dump_json())
    text = shown(watcher.look()).words
    assert "mine qemu, made 2025-03-02 UTC; nearmetal down mine removes it" in text
    assert "docker answers can be trusted, of 2025-03-01 12:00 UTC, 42 trials" in text
    assert watcher.look() is watcher.look(), "read once while nothing changes"
    (registry.folder() / "mine.json").write_text("{")
    (registry.folder() / "other.json").write_text("{")
    assert not watcher.look().machines, "what cannot be read is for `nearmetal ls` to tell"


def test_hostile_names_stay_text() -> None:
    found = shown(HostState((MachineLine(HOSTILE, HOSTILE, HOSTILE, HOSTILE),)))
    assert not {"script", "img"} & set(found.tags)
