"""A machine of vSphere's that is booted again: the API is govmomi's simulator, the guest one of QEMU's."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from nearmetal.config import Paths
from nearmetal.lab.image import Image
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.lab import Lab
from nearmetal.lab.machines import kernel
from nearmetal.model import EnvironmentSpec, MachineSpec
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU
from tests.vcenter import PASSWORD, PASSWORD_ENV, Vcenter, machine, vcenter

from .laboratory import laboratory, spec

pytestmark = [pytest.mark.live, pytest.mark.long]

MACHINES = [
    machine("fits", cpus=1, memory=128, running=True, address="127.0.0.1"),
    machine("differs", cpus=2, memory=64, running=True, address="127.0.0.1"),
]
SMALL = MachineSpec(memory=128 * 2**20)


@pytest.fixture
def simulated(vcenter_program: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vcenter]:
    monkeypatch.setenv(PASSWORD_ENV, PASSWORD)
    with vcenter(vcenter_program, MACHINES) as found:
        yield found


@pytest_asyncio.fixture
async def lab(lab_image: Image) -> AsyncIterator[Lab]:
    async with laboratory() as made:
        yield made


@pytest_asyncio.fixture
async def inside(lab: Lab) -> Mapping[str, Any]:
    """A guest that stands for what is inside of vSphere's machine: how one logs in."""
    site = await lab.site("local")
    handle = await lab.create(
        resolve_alone(EnvironmentSpec(kind="qemu"), spec()), spec(), "server", str(OWN_CPU), site, logins=True
    )
    guest = await lab.attach(handle)
    return {
        "address": "127.0.0.1",
        "port": handle.data["ssh_port"],
        "data": guest.address,
        "key": str(Paths.default().state / "keys/client"),
        "host_key": lab_keys(Paths.default().state).host.public.decode(),
    }


@pytest.mark.parametrize("name", ["fits", "differs"])
async def test_it_is_booted_again_and_runs_on_as_it_was(
    name: str, lab: Lab, inside: Mapping[str, Any], simulated: Vcenter, tmp_path: Path
) -> None:
    """One that runs otherwise than the study asks is stopped and changed for it, and changed back."""
    before = simulated.machines()
    options = simulated.options(tmp_path, vm=name, provision="restart", **inside)
    site = await lab.site("local")
    handle = await lab.create(
        resolve_alone(EnvironmentSpec.model_validate(options).model_copy(update={"provision": "restart"}), SMALL),
        SMALL,
        "server",
        "",
        site,
    )
    lent = simulated.machines()[name]
    assert (lent["Cpus"], lent["Memory"], lent["Running"]) == (1, 128, True)
    made = await lab.attach(handle)
    first = made.boot_id
    await made.reboot()
    assert made.boot_id != first and not kernel.is_its_hosts(made)
    assert (await made.exec(["cat", "/proc/sys/kernel/random/boot_id"])).text.strip() == made.boot_id
    assert "nearmetal-nm-" in (await made.exec(["cat", "/proc/self/cgroup"])).text
    await lab.destroy(handle)
    assert simulated.machines() == before
