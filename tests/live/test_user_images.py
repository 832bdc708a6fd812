"""Machines of images that are not ours: a container of a strange image, and a distribution's cloud image by QEMU."""

import io
import json
import shutil
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from nearmetal.environments.docker import DockerEnvironment
from nearmetal.lab import probe
from nearmetal.lab.containers import image as container_image
from nearmetal.lab.containers.api import DOCKER, PODMAN, Brand, ContainerEngine
from nearmetal.lab.image import Image
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import EnvironmentSpec, MachineSpec
from tests.command_line import called
from tests.conftest import WORKER

from . import cloud_image, laboratory

pytestmark = pytest.mark.live

REFERENCE = f"nearmetal-tests/own:{WORKER}"
"""Of this test process: others share the engine."""
STUDY = """\
name = "own"
[factors]
environment = ["host", "docker"]
[factors.made]
levels = ["{image}"]
when = {{ environment = "docker" }}
sets = "machine.image"
[machine]
memory = "256MiB"
[[workloads]]
name = "true"
kind = "command"
argv = ["echo", "1"]
response = "one"
match = "(1)"
duration = "1s"
better = "higher"
[design]
blocks = 1
"""


@pytest.fixture
async def client(engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[ContainerEngine]:
    """An engine that has an image of busybox alone, whose own program would end at once as nobody."""
    monkeypatch.setenv("DOCKER_HOST", engine)
    connected = await ContainerEngine.connect(engine)
    root = tmp_path / "root.tar"
    with tarfile.open(root, "w") as tar:
        tar.add(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        for name in ("sh", "cat", "mkdir", "chmod", "sha256sum", "echo", "env", "sleep"):
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        nobody = b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
        member = tarfile.TarInfo("etc/passwd")
        member.size = len(nobody)
        tar.addfile(member, io.BytesIO(nobody))
    repository, _, tag = REFERENCE.partition(":")
    changes = ["ENTRYPOINT exit 1", "USER nobody", "WORKDIR /nowhere", "ENV OWN=1"]
    connected.client.import_image_from_file(str(root), repository=repository, tag=tag, changes=changes)
    yield connected
    connected.client.remove_image(REFERENCE, force=True)


async def test_a_container_is_made_of_a_reference_or_an_archive(client: ContainerEngine, tmp_path: Path) -> None:
    archive = tmp_path / "own.tar"
    with archive.open("wb") as file:
        file.writelines(client.client.get_image(REFERENCE))
    id = client.client.inspect_image(REFERENCE)["Id"].removeprefix("sha256:")[:12]
    for image in (REFERENCE, str(archive)):
        async with laboratory.laboratory() as lab:
            machine = await laboratory.machine(lab, "docker", laboratory.spec(image=image))
            await probe.ensure(machine)
            assert (await machine.exec(["cat", "/etc/passwd"])).text.count("\n") == 2
            assert (await machine.exec(["lighttpd", "-v"])).status == 127
            assert "OWN=1" not in (await machine.exec(["env"])).text.split("\n"), "environments are alike everywhere"
            (handle,) = lab.machines()
            assert handle.image.name == f"{image} {id}", "a reference may be given to another image meanwhile"
        client.client.remove_image(REFERENCE, force=True)  # the archive brings it again
        client.client.load_image(archive.read_bytes())


@pytest.mark.parametrize(("service", "brand"), [("engine", DOCKER), ("podman", PODMAN)], ids=["docker", "podman"])
async def test_an_archive_takes_no_name_from_an_image_that_the_engine_has(
    service: str, brand: Brand, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    client = (await ContainerEngine.connect(request.getfixturevalue(service), brand)).client
    name, ids = "nearmetal-tests/named:1", []
    for file in ("theirs", "operators"):
        root = tmp_path / f"{file}.tar"
        with tarfile.open(root, "w") as tar:
            tar.addfile(tarfile.TarInfo(file))
        client.import_image_from_file(str(root), repository=name)
        ids.append(client.inspect_image(name)["Id"])
        (tmp_path / f"{file}.image").write_bytes(b"".join(client.get_image(name)))
    theirs, operators = ids
    client.remove_image(theirs)
    try:
        assert container_image.provide_image(client, str(tmp_path / "theirs.image"), brand.client) == theirs
        assert client.inspect_image(name)["Id"] == operators
        assert [tag.removeprefix("docker.io/") for tag in client.inspect_image(theirs)["RepoTags"]] == [
            f"nearmetal/archive:{container_image.shorten_id(theirs)}"
        ]
    finally:
        for id in ids:
            client.remove_image(id, force=True)


async def test_an_image_that_the_engine_has_not_is_told(client: ContainerEngine, site: LocalSite) -> None:
    spec = MachineSpec(image="nearmetal-tests/none:1")
    findings = await DockerEnvironment().check(EnvironmentSpec(kind="docker"), spec, site)
    (bad,) = [finding for finding in findings if not finding.ok]
    assert bad.detail == "the engine has no such image" and bad.remedy == "docker pull nearmetal-tests/none:1"


@pytest.fixture(params=[("sh",), pytest.param(("cat", "sha256sum"), marks=pytest.mark.long)], ids=" ".join)
def short(
    request: pytest.FixtureRequest, client: ContainerEngine, tmp_path: Path
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """An image without some programs, and which those are."""
    lacking: tuple[str, ...] = request.param
    root = tmp_path / "short.tar"
    with tarfile.open(root, "w") as tar:
        tar.add(shutil.which("busybox") or "/bin/busybox", "bin/busybox")
        for name in {"sh", "cat", "mkdir", "chmod", "sha256sum"} - {*lacking}:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    client.client.import_image_from_file(str(root), repository="nearmetal-tests/short", tag=str(WORKER))
    yield f"nearmetal-tests/short:{WORKER}", lacking
    client.client.remove_image(f"nearmetal-tests/short:{WORKER}", force=True)


def test_an_image_without_what_gets_us_in_does_not_come_up(short: tuple[str, tuple[str, ...]]) -> None:
    image, lacking = short
    ended = called("up", "docker", "--name", "short", "--set", f"machine.image={image}")
    try:
        assert (ended.returncode, "is up" in ended.stdout) == (3, False)
        assert f"its image {image} has no {', '.join(lacking)}\n  remedy: " in ended.stderr
        assert json.loads(called("ls", "--json").stdout)["machines"] == []
    finally:
        called("down", "short")


@pytest.mark.usefixtures("one_attempt")
async def test_a_run_with_an_image_without_what_gets_us_in_says_so(
    short: tuple[str, tuple[str, ...]], tmp_path: Path, lab_image: Image
) -> None:
    image, lacking = short
    records = await laboratory.study(tmp_path / "run", STUDY.format(image=image))
    reasons = {record.reason for record in records if record.trial.treatment["environment"] == "docker"}
    assert all(f"its image {image} has no {', '.join(lacking)}" in str(reason) for reason in reasons), reasons


async def test_a_run_says_that_its_machines_are_made_of_different_images(
    client: ContainerEngine, tmp_path: Path, lab_image: Image
) -> None:
    from nearmetal.report.report_input import read_run_input
    from nearmetal.store.run_folder import RunFolder

    records = await laboratory.study(tmp_path / "run", STUDY.format(image=REFERENCE))
    assert [record.status for record in records] == ["ok", "ok"], [record.reason for record in records]
    (row,) = [row for row in read_run_input(RunFolder(tmp_path / "run")).analysis.fairness if row.group == "image"]
    id = client.client.inspect_image(REFERENCE)["Id"].removeprefix("sha256:")[:12]
    assert set(row.values.values()) == {f"lab {lab_image.digest[:12]}", f"{REFERENCE} {id}"}


@pytest.mark.long
@pytest.mark.skipif(bool(cloud_image.missing()), reason=f"apt-get install {' '.join(cloud_image.missing())}")
async def test_a_cloud_image_is_booted_and_let_in_by_cloud_init(lab_image: Image, tmp_path: Path) -> None:
    disk = tmp_path / "cloud.qcow2"
    cloud_image.make(disk, tmp_path)
    before = disk.read_bytes()
    spec = laboratory.spec(image=str(disk), memory="512MiB")
    async with laboratory.laboratory() as lab:
        machine = await laboratory.machine(lab, "qemu", spec)
        await probe.ensure(machine)
        facts = await machine.exec([machine.probe, "facts", "--json"])
        assert facts.status == 0
        assert (await machine.exec(["cloud-init", "status"])).text.startswith("status:")
        assert "inet 10." in (await machine.exec(["ip", "-4", "address", "show", "data"])).text
        told = next(handle.image.name for handle in lab.machines() if handle.name == machine.name)
        assert told.startswith(f"{disk} of 20")
        boot_id = machine.boot_id
        await machine.reboot()
        assert machine.boot_id != boot_id
    assert disk.read_bytes() == before
