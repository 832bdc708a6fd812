"""Clients that are what the servers are, on real machines: what each end was given, and that it answers."""

from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.model import TrialStatus

from .laboratory import study

pytestmark = pytest.mark.live

STUDY = """
name = "both-ends"
[factors]
environment = ["{environment}"]
[machine]
memory = "256MiB"
accel = "tcg"
nic = "e1000"
kernel_arguments = ["nearmetal_told=1"]
[clients]
environment = "same"
memory = "192MiB"
[[workloads]]
name = "web"
kind = "http"
requests = 5
[design]
blocks = 1
seed = 1
"""


@pytest.mark.parametrize("environment", ["docker", pytest.param("qemu", marks=pytest.mark.long)])
async def test_both_ends_are_containers_or_guests_with_the_same_card_and_cpus(
    environment: str, tmp_path: Path, lab_image: Image, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    (record,) = await study(tmp_path / "run", STUDY.format(environment=environment))
    assert (record.status, record.reason) == (TrialStatus.OK, None)
    assert {one.role: one.environment for one in record.machines} == {"server": environment, "client": environment}
    server, client = record.readback["resources"], record.readback["clients"]
    assert {key for key in server if server[key] != client[key]} == {"memory"}
    assert server["vcpus"] == 1
    assert client["memory"] <= 192 * 2**20 < server["memory"]
    if environment == "qemu":
        assert server["nic"] == "e1000"
        assert server["accel"] == "tcg"
