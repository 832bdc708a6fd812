"""A directory of this host in each kind of machine: read there, never written to, and gone with it."""

from pathlib import Path

import pytest

from nearmetal import plugins
from nearmetal.errors import BadInput
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machines import share
from nearmetal.model import EnvironmentSpec, MachineSpec
from nearmetal.study.resolve import resolve_alone
from tests.conftest import OWN_CPU

from .laboratory import laboratory, spec

pytestmark = pytest.mark.live


@pytest.fixture
def shared(tmp_path: Path) -> MachineSpec:
    """A directory with a comma and a space in its name, which programs like to take for something else."""
    folder = tmp_path / "my files, and more"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "page").write_text("before")
    return spec(share=f"{folder}:/mnt/my files")


@pytest.mark.parametrize("kind", ["host", "docker", pytest.param("qemu", marks=pytest.mark.long)])
async def test_it_is_read_and_not_written(
    kind: str, shared: MachineSpec, lab_image: Image, request: pytest.FixtureRequest
) -> None:
    options = {"engine": request.getfixturevalue("engine")} if kind == "docker" else {}
    folder = Path(str(shared.share).partition(":")[0])
    async with laboratory() as lab:
        environment = EnvironmentSpec.model_validate({"kind": kind, **options})
        handle = await lab.create(
            resolve_alone(environment, shared), shared, "server", str(OWN_CPU), await lab.site("local")
        )
        machine = await lab.attach(handle)
        readback = await share.verify(machine, shared)
        assert readback.ok, readback.reason
        assert (await machine.exec(["cat", "/mnt/my files/below/page"])).text == "before"
        # What the host changes is seen, and what the machine would change is refused.
        (folder / "below" / "page").write_text("after")
        assert (await machine.exec(["cat", "/mnt/my files/below/page"])).text == "after"
        for argv in (["touch", "/mnt/my files/mine"], ["rm", "/mnt/my files/below/page"]):
            assert b"Read-only file system" in (await machine.exec(argv)).stderr
        if kind == "qemu":  # not for the guest to decide
            await machine.exec(["mount", "-o", "remount,rw", "/mnt/my files"])
            assert (await machine.exec(["touch", "/mnt/my files/mine"])).status != 0
    assert sorted(path.name for path in folder.rglob("*")) == ["below", "page"]


async def test_a_restored_guest_has_none(shared: MachineSpec) -> None:
    environment = plugins.load("environments", "qemu")
    with pytest.raises(BadInput, match="cannot be restored"):
        await environment.check(EnvironmentSpec(kind="qemu", provision="restore"), shared, LocalSite())


@pytest.mark.parametrize("kind", ["host", "qemu"])
async def test_what_is_not_there_is_told_beforehand(kind: str) -> None:
    findings = await plugins.load("environments", kind).check(
        EnvironmentSpec(kind=kind), spec(share="/nowhere:/mnt/files"), LocalSite()
    )
    (bad,) = [one for one in findings if not one.ok]
    assert (bad.what, bad.detail) == ("directory /nowhere", "it is not there")
