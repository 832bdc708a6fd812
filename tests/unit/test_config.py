"""Limits on waiting: for real hardware as they are, longer where the processor is emulated or somebody says so."""

import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.config import Limits, read_patience
from nearmetal.errors import BadInput

_EMULATED = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: QEMU TCG CPU version 2.5+\n"
_EMULATED_ARM = "processor\t: 0\nFeatures\t: fp\nCPU implementer\t: 0x00\nCPU variant\t: 0x0\nCPU part\t: 0x051\n"
_REAL_ARM = "processor\t: 0\nFeatures\t: fp\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU part\t: 0xd0c\n"
_REAL = "processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC 7B13\n"


def test_an_emulated_processor_gets_more_time_than_a_real_one(tmp_path: Path) -> None:
    for emulated, real in ((_EMULATED_ARM, _REAL_ARM), (_EMULATED, _REAL)):
        (tmp_path / "emulated").write_text(emulated)
        (tmp_path / "real").write_text(real)
        assert read_patience({}, tmp_path / "real") == 1
        assert read_patience({}, tmp_path / "emulated") > 1
    assert read_patience({}, tmp_path / "not there") == 1
    assert read_patience({"NEARMETAL_PATIENCE": "2.5"}, tmp_path / "emulated") == 2.5


def test_patience_scales_each_limit() -> None:
    assert Limits(1, 2, 3, 4, 5, 6).scaled(2) == Limits(2, 4, 6, 8, 10, 12)


@pytest.mark.parametrize("named", ["", "much", "0.5", "nan", "-3", "1000"])
def test_a_patience_that_is_no_factor_is_refused(named: str) -> None:
    with pytest.raises(BadInput, match="NEARMETAL_PATIENCE"):
        read_patience({"NEARMETAL_PATIENCE": named})


def test_a_command_refuses_it_without_a_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "nearmetal", "clean"],
        capture_output=True,
        text=True,
        env={"NEARMETAL_PATIENCE": "much", "PYTHONPATH": ":".join(sys.path)},
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("nearmetal: NEARMETAL_PATIENCE: 'much' is no number")
