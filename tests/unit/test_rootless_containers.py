"""Containers of an ordinary user's: what Podman is asked for, and whose processes go with one."""

import docker

from nearmetal.environments.podman import list_monitors
from nearmetal.lab.containers import config
from nearmetal.model import ControlGroup, MachineSpec, Order

_RUNNING = """
  10     1 conmon          /usr/bin/conmon --api-version 1 -c 5ce5 -n nm-5e1f3a-1 --exit-dir /run/x
  11    10 runc:[2:INIT]   /usr/bin/runc init
  12     1 conmon          /usr/bin/conmon --api-version 1 -c 5ce5 -n nm-5e1f3a-10 --exit-dir /run/x
  13    12 nearmetal-probe /run/nearmetal/nearmetal-probe hold
  14     1 grep            grep -n nm-5e1f3a-1
"""


def test_what_a_monitor_started_goes_with_it() -> None:
    assert list_monitors(_RUNNING.strip("\n"), "nm-5e1f3a-1") == ["10", "11"]


def test_a_machine_that_can_have_no_control_group_is_asked_for_without_limits() -> None:
    client = docker.APIClient(base_url="unix:///nowhere", version="1.40")
    spec = MachineSpec()
    order = Order(name="nm-1", role="server", spec=spec, options={}, provision="boot", port=None, cpus="1")
    group = ControlGroup("", "", "", 0, cpus="1", spent="/state/spent")
    limited, free = (
        config.build_machine(client, order, "lab", config.NO_NETWORK, "/probe", one) for one in (None, group)
    )
    limits = {"CpusetCpus", "Memory", "MemorySwap", "PidsLimit"}
    assert limits <= limited["host_config"].keys()
    assert not limits & free["host_config"].keys()
    assert free["entrypoint"] == [*limited["entrypoint"], "--cpus", "1"]
    assert [one["Source"] for one in free["host_config"]["Mounts"] if not one["ReadOnly"]] == ["/state/spent"]
