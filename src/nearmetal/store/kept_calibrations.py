"""Calibrations of this host that are kept: the last of each environment, a small file each in the state folder."""

import hashlib
import json
from pathlib import Path

from nearmetal.store.calibration_document import Calibration
from nearmetal.system.files import write_whole

_FOLDER = "calibrations"


def locate_folder(state: Path) -> Path:
    return state / _FOLDER


def keep_calibration(calibration: Calibration, state: Path) -> Path | None:
    """In the place of the one before. Its file; None where a later one is kept already."""
    path = state / _FOLDER / f"{_name_file(calibration)}.json"
    before = _read(path) if path.exists() else None
    if before is not None and before.made > calibration.made:
        return None
    write_whole(path, (calibration.model_dump_json() + "\n").encode())
    return path


def _name_file(calibration: Calibration) -> str:
    """The kind of the environment, and a hash of what else was set of it."""
    if not calibration.options:
        return calibration.environment
    options = json.dumps(dict(calibration.options), sort_keys=True)
    return f"{calibration.environment}-{hashlib.sha256(options.encode()).hexdigest()[:8]}"


def read_calibrations(state: Path, kernel: str) -> list[Calibration]:
    """Those made under this kernel release. What cannot be read, or is of another version, is none."""
    try:
        files = sorted((state / _FOLDER).glob("*.json"))
        found = [_read(file) for file in files]
    except OSError:
        return []
    return [one for one in found if one is not None and one.kernel == kernel]


def _read(file: Path) -> Calibration | None:
    try:
        calibration: Calibration = Calibration.from_json(json.loads(file.read_text("utf-8")))
    except ValueError:
        return None
    return calibration
