"""Which connections domains of nearmetal's own are made at, and what is told of the others."""

import pytest

from nearmetal.environments import libvirt
from nearmetal.lab.site import LocalSite


@pytest.mark.parametrize(
    "uri",
    [
        "nonsense",
        "qemu",
        "test:///default",
        "xen:///system",
        "qemu+ssh://root@elsewhere/system",
        "qemu://[system",
        "/x",
    ],
)
async def test_a_uri_that_is_none_of_qemus_here_is_told_with_one_that_is(uri: str) -> None:
    told = await libvirt._connected(uri, LocalSite())
    assert (told.what, told.ok) == (f"libvirt at {uri}", False)
    assert "this URI is none of QEMU's driver on this host" in told.detail
    assert 'uri = "qemu:///system"' in told.remedy and "domain = " in told.remedy


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu:///session", "qemu+unix:///system?socket=/run/x"])
def test_one_of_qemus_here_is(uri: str) -> None:
    assert libvirt._is_qemus_here(uri)
