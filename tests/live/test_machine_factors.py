"""What a guest is run by and on: QEMU's program and arguments, its board, its kernel; read back from the guest."""

import os
import shutil
from pathlib import Path

import pytest

from nearmetal.config import Paths
from nearmetal.environments.qemu import QemuEnvironment
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec, TrialStatus
from nearmetal.report import report_input
from nearmetal.store.run_folder import RunFolder

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


BOARDS = {"q35": "pc-q35-", "pc": "pc-i440fx-", "microvm": "microvm"}
"""What QEMU calls them, but for the version."""
ARGUMENTS = tuple(f"-global virtio-net-pci.mrg_rxbuf={how}" for how in ("off", "on"))


@pytest.mark.parametrize(
    ("names", "is_compared"),
    [
        pytest.param(("board", "vmm", "vmm_arguments", "kernel"), False, marks=pytest.mark.long),
        pytest.param(("board", "vmm"), True, marks=pytest.mark.long),
        pytest.param(("vmm_arguments", "kernel"), True, marks=pytest.mark.long),
    ],
)
async def test_what_factors_name_is_what_a_guest_is_run_by_and_on(
    lab_image: Image, tmp_path: Path, own_qemu: Path, names: tuple[str, ...], is_compared: bool
) -> None:
    """What is not usual of each at once, or all levels of two, since each treatment is a boot. Kernels are the image's
    own, by the image's name, and a file whose modules lie beside it, as a package has them."""
    release = lab_image.manifest["kernel"]
    kernel = tmp_path / "unpacked/boot" / f"vmlinux-{release}"
    kernel.parent.mkdir(parents=True)
    kernel.symlink_to(lab_image.kernel)
    modules = tmp_path / "unpacked/lib/modules" / release
    shutil.copytree(lab_image.root / "usr/lib/modules" / release, modules)
    all_levels = {
        "board": tuple(BOARDS),
        "vmm": ("qemu-system-x86_64", str(own_qemu)),
        "vmm_arguments": ARGUMENTS,
        "kernel": (lab_image.name, str(kernel)),
    }
    levels = {name: all_levels[name] if is_compared else all_levels[name][1:2] for name in names}
    reference = ", ".join(f'{name} = "{first}"' for name, (first, *_) in levels.items())
    text = STUDY.format(factor="\n".join(f"{name} = {list(those)}" for name, those in levels.items()), fixed="")
    text = text.replace("[design]", f'reference = {{ environment = "qemu", {reference} }}\n[design]')
    records = await laboratory.study(tmp_path / "run", text.replace("seed", 'crossing = "one-at-a-time"\nseed'))
    number = sum(map(len, levels.values())) - len(levels) + 1
    assert [(one.status, one.reason) for one in records] == [(TrialStatus.OK, None)] * number
    assert {(name, str(one.trial.treatment[name])) for one in records for name in levels} == {
        (name, level) for name, those in levels.items() for level in those
    }
    for one in records:
        usual = {name: those[0] for name, those in all_levels.items()} | {"vmm_arguments": ""}
        asked, found = {**usual, **one.trial.treatment}, one.readback["resources"]
        assert str(found["board"]).startswith(BOARDS[str(asked["board"])])
        assert str(found["vmm"]).startswith(f"{own_qemu}, ") == (asked["vmm"] == str(own_qemu))
        assert (found["vmm_arguments"], found["kernel"]) == (asked["vmm_arguments"], release)
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
    found = report_input.read_run_input(RunFolder(tmp_path / "run"))
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
