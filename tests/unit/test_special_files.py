"""Files of the user's that are none: what never ends, or never opens, is refused by name before it is read."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal.errors import BadInput, HostCannot
from nearmetal.lab.containers.image import check_image
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu import cloud_image
from nearmetal.lab.ssh.login import refuse_unusable
from nearmetal.lab.vmware.account import Account
from nearmetal.model import HostSpec, MachineSpec
from nearmetal.system import files


def of_a_key(path: str) -> str:
    with pytest.raises(HostCannot) as told:
        refuse_unusable(HostSpec(ssh="far", key=path), "[hosts.far]")
    return str(told.value)


def of_a_public_key_beside(path: str) -> str:
    Path(path).rename(f"{path}.key.pub")
    Path(f"{path}.key").write_text("no key")
    return of_a_key(f"{path}.key")


def of_authorities(path: str) -> str:
    with pytest.raises(BadInput) as told:
        Account("vcenter", "me", "PASSWORD", path, None, False).trust()
    return str(told.value)


def of_an_image_for_containers(path: str) -> str:
    found = check_image(None, path, "x86_64", "docker")
    assert not found.ok
    return f"{found.what}: {found.detail}"


def of_a_disk(path: str) -> str:
    (found, *_) = asyncio.run(cloud_image.check_image(MachineSpec(image=path), "boot", LocalSite()))
    assert not found.ok
    return f"{found.what}: {found.detail}"


TAKERS = [of_a_key, of_a_public_key_beside, of_authorities, of_an_image_for_containers, of_a_disk]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).symlink_to("/dev/zero")], ids=["fifo", "zero"])
@pytest.mark.parametrize("take", TAKERS)
def test_what_does_not_end_is_refused_by_name(
    take: Callable[[str], str], make: Callable[[str], None], tmp_path: Path
) -> None:
    path = str(tmp_path / "file")
    make(path)
    told = take(path)
    assert path in told and "no regular file" in told


def test_what_is_read_as_a_whole_has_a_limit(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, 2**40)
    assert "cannot be read: it has 1099511627776 bytes, and at most 1048576 are read" in of_a_key(str(file))
    files.refuse_irregular(file)
