"""What a guest is run by and on: QEMU's program and arguments, its board, its kernel; read back from the guest."""

import os
import shutil
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.lab.image import Image
from nearmetal.lab.site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec, TrialStatus
from nearmetal.report import reading
from nearmetal.store.folder import RunFolder

from . import debian, laboratory, later_kernel

pytestmark = pytest.mark.live

STUDY = """
name = "machines"
[design]
blocks = 1
seed = 1
[factors]
environment = ["qemu"]
{factor}
[machine]
accel = "tcg"
memory = "256MiB"
{fixed}
[[workloads]]
name = "cpu"
kind = "sysbench"
test = "cpu"
duration = "1s"
"""


def spec(**settings: object) -> MachineSpec:
    return MachineSpec.model_validate({"accel": "tcg", "memory": "256MiB", **settings})


@pytest.fixture
def own_qemu(tmp_path: Path) -> Path:
    """The same program installed in another place."""
    found = shutil.which("qemu-system-x86_64")
    assert found is not None
    (tmp_path / "own/bin").mkdir(parents=True)
    for name in ("lib", "share"):  # it finds its modules and its firmware from where it lies
        (tmp_path / "own" / name).symlink_to(Path("/usr") / name)
    return Path(shutil.copy(found, tmp_path / "own/bin/qemu-of-mine"))


async def run(folder: Path, factor: str, fixed: str = "") -> dict[str, dict[str, object]]:
    """The server's readback of each level of the factor, whose trial is ok."""
    records = await laboratory.study(folder, STUDY.format(factor=factor, fixed=fixed))
    name = factor.partition(" ")[0]
    assert [(one.status, one.reason) for one in records] == [(TrialStatus.OK, None)] * len(records)
    return {str(one.trial.treatment[name]): one.readback["resources"] for one in records}


async def test_boards_are_compared(lab_image: Image, tmp_path: Path) -> None:
    found = await run(tmp_path / "run", 'board = ["q35", "pc", "microvm"]')
    boards = {level: str(one["board"]) for level, one in found.items()}
    assert boards["q35"].startswith("pc-q35-")
    assert boards["pc"].startswith("pc-i440fx-")
    assert boards["microvm"] == "microvm"


async def test_two_qemus_are_compared(lab_image: Image, tmp_path: Path, own_qemu: Path) -> None:
    found = await run(tmp_path / "run", f'vmm = ["qemu-system-x86_64", "{own_qemu}"]')
    assert str(found[str(own_qemu)]["vmm"]).startswith(f"{own_qemu}, ")
    assert not str(found["qemu-system-x86_64"]["vmm"]).startswith(str(own_qemu))


async def test_arguments_of_qemu_are_compared(lab_image: Image, tmp_path: Path) -> None:
    levels = ["-global virtio-net-pci.mrg_rxbuf=off", "-global virtio-net-pci.mrg_rxbuf=on"]
    found = await run(tmp_path / "run", f"vmm_arguments = {levels}")
    assert {level: one["vmm_arguments"] for level, one in found.items()} == {level: level for level in levels}


async def test_two_kernels_are_compared(lab_image: Image, tmp_path: Path) -> None:
    """The image's own, by the image's name, and a file whose modules lie beside it, as a package has them."""
    release = lab_image.manifest["kernel"]
    kernel = tmp_path / "unpacked/boot" / f"vmlinux-{release}"
    kernel.parent.mkdir(parents=True)
    kernel.symlink_to(lab_image.kernel)
    modules = tmp_path / "unpacked/lib/modules" / release
    shutil.copytree(lab_image.root / "usr/lib/modules" / release, modules)
    found = await run(tmp_path / "run", f'kernel = ["{lab_image.name}", "{kernel}"]')
    assert {one["kernel"] for one in found.values()} == {release}
    assert len(found) == 2
    assert os.uname().release != release


@pytest.mark.long
async def test_two_kernels_of_different_releases_are_compared(lab_image: Image, tmp_path: Path) -> None:
    """Debian's for clouds, three years later than the image's, packed by LZ4 with modules that are packed too."""
    try:
        kernel = await later_kernel.fetch(Paths.default().cache)
    except debian.CannotBeHad as error:
        pytest.skip(f"two kernels were NOT compared: {error}")
    levels = (lab_image.name, str(kernel))
    text = STUDY.format(factor=f"kernel = {list(levels)}", fixed="").replace("blocks = 1", "blocks = 2")
    records = await laboratory.study(tmp_path / "run", text)
    assert [(one.status, one.reason) for one in records] == [(TrialStatus.OK, None)] * 4
    releases = dict(zip(levels, (lab_image.manifest["kernel"], kernel.name.removeprefix("vmlinuz-")), strict=True))
    assert len(set(releases.values())) == 2
    for one in records:
        assert one.readback["resources"]["kernel"] == releases[str(one.trial.treatment["kernel"])]
    found = reading.read(RunFolder(tmp_path / "run"))
    assert {fact.facts["kernel"]["release"] for fact in found.manifest.fairness} >= set(releases.values())


@pytest.mark.parametrize(
    ("asked", "what", "detail"),
    [
        ({"vmm": "/bin/true"}, "machine.vmm /bin/true", "this is no QEMU"),
        ({"vmm": "/nowhere/qemu"}, "machine.vmm /nowhere/qemu", "there is no such program"),
        ({"kernel": "/bin/true"}, "machine.kernel /bin/true", "this is no Linux kernel"),
        ({"kernel": "/nowhere"}, "machine.kernel /nowhere", "No such file or directory"),
        ({"vmm_arguments": "-global no-such.thing=1 -device none"}, "machine.vmm_arguments", "refuses them"),
        ({"board": "q99"}, "machine type q99", "this QEMU does not have it"),
    ],
)
async def test_what_no_guest_can_have_is_told_before_any_is_made(
    lab_image: Image, asked: dict[str, str], what: str, detail: str
) -> None:
    findings = await QemuEnvironment().check(EnvironmentSpec(kind="qemu"), spec(**asked), LocalSite())
    (bad,) = [one for one in findings if not one.ok]
    assert bad.what.startswith(what)
    assert detail in bad.detail
    assert bad.remedy


async def test_a_kernel_without_virtio_is_told(lab_image: Image, tmp_path: Path) -> None:
    """The lab's own, without its modules."""
    kernel = tmp_path / "vmlinux"
    kernel.write_bytes(lab_image.kernel.read_bytes().replace(b"6.1.0-", b"6.1.9-"))
    findings = await QemuEnvironment().check(EnvironmentSpec(kind="qemu"), spec(kernel=str(kernel)), LocalSite())
    (bad,) = [one for one in findings if not one.ok]
    assert "has no virtio_pci, virtio_blk, virtio_net, ext4" in bad.detail
    assert "/lib/modules" in bad.remedy
