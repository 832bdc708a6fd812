"""How containers hang on the network, as engines do it: loaded by each workload, and read back."""

from pathlib import Path

import pytest

from nearmetal.lab import probe
from nearmetal.lab.image import Image
from nearmetal.model import TrialStatus

from . import laboratory

pytestmark = pytest.mark.live

STUDY = """
name = "networks"
[design]
blocks = 1
seed = 1
share_boot = true
[environments.containers]
kind = "{kind}"
[factors]
environment = ["containers"]
network = ["lab", "bridge", "host", "macvlan"]
[services.api]
start = ["{probe}", "serve", "--listen", "$server:8080"]
port = 8080
ready = "http://$server:8080/"
[[workloads]]
name = "web"
kind = "http"
warmup = "0s"
duration = "300ms"
[[workloads]]
name = "own"
kind = "http"
server = "api"
warmup = "0s"
duration = "300ms"
[[workloads]]
name = "bulk"
kind = "iperf3"
duration = "1s"
intervals = 2
warmup = "0s"
[[workloads]]
name = "echo"
kind = "ping"
duration = "1s"
"""


@pytest.fixture(params=["docker", pytest.param("podman", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name, variable = {"docker": ("engine", "DOCKER_HOST"), "podman": ("podman", "CONTAINER_HOST")}[request.param]
    monkeypatch.setenv(variable, request.getfixturevalue(name))
    return str(request.param)


async def test_each_network_carries_each_workload(lab_image: Image, tmp_path: Path, kind: str) -> None:
    records = await laboratory.study(tmp_path / "run", STUDY.format(kind=kind, probe=probe.INSIDE))
    assert [one.reason for one in records if one.status is not TrialStatus.OK] == []
    found = {one.trial.treatment["network"]: one.readback["resources"]["network"] for one in records}
    assert found == {name: name for name in ("lab", "bridge", "host", "macvlan")}
