"""What is varied in vain: hardware and tunnels where there are none."""

import json
from pathlib import Path

import pytest

from nearmetal.model import VIRTUAL_HARDWARE, MachineSpec
from nearmetal.planning import plan
from nearmetal.run import verify
from nearmetal.study import study_file
from nearmetal.study.checks.treatments import find_idle_keys
from tests.command_line import called
from tests.unit.study_text import refused


def compared(factors: str, more: str = "") -> str:
    return f"""name = "s"
[factors]
environment = ["host", "qemu"]
{factors}
[[workloads]]
name = "w"
kind = "ping"
{more}"""


@pytest.mark.parametrize("key", sorted(VIRTUAL_HARDWARE))
def test_hardware_is_not_varied_where_there_is_none(key: str) -> None:
    levels = {
        "nic": ("virtio-net", "e1000"),
        "disk": ("virtio-blk", "ide"),
        "disk_format": ("raw", "qcow2"),
        "disk_cache": ("none", "unsafe"),
        "vmm_arguments": ("-no-hpet", "-mem-prealloc"),
    }
    one, other = levels.get(key, ("auto", "max"))
    error = refused(compared(f'{key} = ["{one}", "{other}"]'))
    assert error.where == "s.toml:4" and "'host'" in error.what and 'environment = ["qemu"]' in error.remedy
    alone = refused(compared(f'{key} = ["{one}"]'))
    assert alone.what == f"`{key}` has a level for 'host', to which machine.{key} means nothing"
    assert alone.remedy == error.remedy
    nested = f'[factors.{key}]\nlevels = ["{one}", "{other}"]\nwhen = {{ environment = "qemu" }}'
    study_file.read(compared(nested), "s.toml")


def test_tunnels_are_not_varied_on_one_host() -> None:
    far = '[hosts.far]\nssh = "far"\n[clients]\nhost = "far"'
    assert "on one host" in refused(compared('tunnel = ["vxlan", "gre"]')).what
    study_file.read(compared('tunnel = ["vxlan", "gre"]', far), "s.toml")


def test_kernel_arguments_are_varied_where_a_machine_has_a_kernel_of_its_own() -> None:
    text = """name = "arguments"
[factors]
environment = ["host", "qemu"]
[factors.kernel_arguments]
levels = ["", "mitigations=off quiet"]
when = { environment = "qemu" }
[[workloads]]
name = "web"
kind = "http"
"""
    told = [one.server.kernel_arguments for one in plan.make_plan(study_file.read(text, "s.toml")).resolved]
    assert told == [(), (), ("mitigations=off", "quiet")]
    error = refused(text.replace('when = { environment = "qemu" }\n', ""))
    assert error.what == "`kernel_arguments` is varied for 'host', to which machine.kernel_arguments means nothing"
    assert 'when = { environment = ["qemu"] }' in error.remedy


def test_kernel_arguments_that_a_guest_was_started_without_are_found() -> None:
    spec = MachineSpec(kernel_arguments=("mitigations=off", "quiet"))
    facts = {"kernel": {"command_line": "console=ttyS0 quiet mitigations=auto"}}
    assert verify.lacking_arguments(spec, facts) == ["mitigations=off"]
    assert verify.lacking_arguments(MachineSpec(), facts) == []


@pytest.mark.parametrize(
    ("line", "what", "remedy"),
    [
        ('vmm_arguments = ["", "-m 2G"]', "QEMU's -m is set by a key of the study", "machine.memory"),
        ('kernel = ["host", "relative/path"]', "kernel", ""),
    ],
)
def test_what_no_guest_can_have_names_the_factor(line: str, what: str, remedy: str) -> None:
    error = refused(compared(line).replace('["host", "qemu"]', '["qemu"]'))
    assert error.where == "s.toml:4"
    assert what in error.what and remedy in error.remedy


def test_a_network_is_varied_for_containers_on_the_hosts_kernel_alone() -> None:
    text = compared('network = ["lab", "bridge"]')
    error = refused(text)
    assert "varied for 'host', to which machine.network means nothing" in error.what
    study_file.read(text.replace('["host", "qemu"]', '["docker", "podman"]'), "s.toml")
    sandboxed = '[environments.sandboxed]\nkind = "docker"\nruntime = "runsc"'
    error = refused(compared('network = ["lab", "bridge"]', sandboxed).replace('["host", "qemu"]', '["sandboxed"]'))
    assert error.where == "s.toml:4" and "network stack of their own" in error.what


def test_a_board_is_written_once() -> None:
    twice = '[environments.qemu]\nkind = "qemu"\nmachine = "pc"\n[machine]\nboard = "q35"'
    error = refused(compared("", twice))
    assert "another word for it" in error.what and error.where == "s.toml:12"


def test_a_key_that_means_nothing_to_any_machine_is_told(tmp_path: Path) -> None:
    text = compared("", '[machine]\nnic = "e1000"\nkernel_arguments = ["quiet"]\nmemory = "256MiB"')
    assert find_idle_keys(study_file.read(text, "s.toml")) == []
    hosts = text.replace('["host", "qemu"]', '["host", "docker"]')
    assert find_idle_keys(study_file.read(hosts, "s.toml")) == ["kernel_arguments", "nic"]
    file = tmp_path / "s.toml"
    file.write_text(hosts)
    assert json.loads(called("plan", str(file), "--json").stdout)["idle_keys"] == ["kernel_arguments", "nic"]
    assert "machine.nic means nothing to any machine of this study" in called("plan", str(file)).stdout
