"""Which connections a study may name, at which domains of nearmetal's own are made, and what is told of the others."""

import pytest

from nearmetal.environments import libvirt
from nearmetal.errors import BadInput
from nearmetal.lab.libvirt.options import Options
from nearmetal.lab.site import LocalSite
from nearmetal.study import read


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


STUDY = """\
name = "s"
[environments.web]
kind = "libvirt"
domain = "web"
uri = "{}"
[factors]
environment = ["web"]
[[workloads]]
name = "w"
kind = "ping"
"""


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ext:///system?command=/tmp/x",
        "QEMU+Ext:///system",
        "qemu+ssh://host/system?no_tty=1&command=/tmp/x",
        "qemu+ssh://host/system?Command=/tmp/x",
        "qemu+ssh://host/system?%63ommand=/tmp/x",
        "qemu+ssh://host/system?no_tty=1;command=/tmp/x",
        "qemu+libssh2://host/system?netcat=/tmp/x",
        "qemu+unix:///system?name=qemu%2Bext%3A%2F%2F%2Fsystem%3Fcommand%3D%2Ftmp%2Fx",
        "qemu+unix:///system?name=qemu%2Bssh%3A%2F%2Fhost%2Fsystem%3Fcommand%3D%2Ftmp%2Fx",
    ],
)
def test_a_uri_that_starts_a_program_of_the_studys_is_refused(uri: str) -> None:
    with pytest.raises(BadInput, match="starts a program") as refused:
        read(STUDY.format(uri), "s.toml", [])
    assert refused.value.remedy


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ssh://root@host:2222/system?keyfile=/root/.ssh/lab&no_verify=1&sshauth=privkey",
        "qemu+tls://host/system?pkipath=/etc/pki/lab",
        "qemu+unix:///system?socket=/run/x&name=qemu%3A%2F%2F%2Fsession",
        "esx://root@host/?no_verify=1",
    ],
)
def test_one_that_does_not_is_taken(uri: str) -> None:
    assert Options(domain="web", uri=uri).connection == uri


def test_whoever_runs_nearmetal_may_have_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", "qemu+ext:///system?command=/usr/local/bin/tunnel")
    assert Options(domain="web").connection.startswith("qemu+ext:")
