"""What the golden runs of iperf3 were asked for, for tests of what is read of them and of how they are made."""

from typing import Any

from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.iperf3 import Iperf3
from nearmetal.workloads.iperf3.parameters import Iperf3Parameters
from tests.unit.workloads_stage import golden

TWO: dict[str, Any] = {"duration": "2s", "intervals": 4, "warmup": "0s"}
"""What the golden runs were asked for."""
TCP = golden("iperf3/tcp.json")


def workload(**parameters: Any) -> Iperf3:
    return Iperf3(Iperf3Parameters.model_validate({**TWO, **parameters}, context=AS_WRITTEN))
