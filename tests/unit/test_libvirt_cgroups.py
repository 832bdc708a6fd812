"""Which control group is a domain's own, on a hierarchy that is laid out as files."""

from pathlib import Path

import pytest

from nearmetal.lab.libvirt import cgroups
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import ControlGroup

OLD = "/sys/fs/cgroup/cpuset/machine/qemu-1-nm-a.libvirt-qemu"
SCOPE = "/sys/fs/cgroup/machine.slice/machine-qemu\\x2d1\\x2dnm\\x2da.scope"


@pytest.mark.parametrize(
    ("of_process", "of_domain"),
    [
        (f"{SCOPE}/libvirt/emulator", f"{SCOPE}/libvirt"),
        (f"{OLD}/vcpu12", OLD),
        ("/sys/fs/cgroup/memory/machine/qemu-1-emulator", "/sys/fs/cgroup/memory/machine/qemu-1-emulator"),
        ("/sys/fs/cgroup/iothread2", "/sys/fs/cgroup"),
        ("/sys/fs/cgroup", "/sys/fs/cgroup"),
    ],
)
def test_a_threads_group_is_below_that_of_the_domain(of_process: str, of_domain: str) -> None:
    assert cgroups.find_domain_group(ControlGroup(of_process, "/a/emulator", "/b", 1)) == ControlGroup(
        of_domain, "/a", "/b", 1
    )


@pytest.mark.parametrize(
    ("files", "is_own"),
    [
        ({"memory.stat": "", "cgroup.procs": "7\n", "emulator/cgroup.procs": "7\n"}, True),
        ({"memory.stat": "", "cgroup.procs": "", "emulator/cgroup.procs": "7\n7\n"}, True),
        (
            {"memory.stat": "", "cgroup.procs": "7\n", "other/cgroup.procs": "8\n"},
            False,
        ),
        ({"memory.stat": "", "cgroup.procs": "8\n"}, False),
        ({"memory.stat": "", "cgroup.procs": ""}, False),
        ({"cgroup.procs": "7\n"}, False),  # nobody counts memory there
        ({}, False),
    ],
)
async def test_it_is_a_domains_own_where_nobody_else_is_in_it(
    tmp_path: Path, files: dict[str, str], is_own: bool
) -> None:
    for name, text in files.items():
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).write_text(text)
    folder = str(tmp_path / "m")
    assert await cgroups.is_own(ControlGroup("", "", folder, 2), 7, LocalSite()) is is_own
