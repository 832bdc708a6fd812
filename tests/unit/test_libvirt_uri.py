"""Which connections a study may name, at which domains of nearmetal's own are made, and what is told of the others."""

import shutil
from pathlib import Path

import pytest

from nearmetal.environments import _own_domain
from nearmetal.errors import BadInput
from nearmetal.lab.libvirt import virsh
from nearmetal.lab.libvirt.options import Options
from nearmetal.lab.libvirt.virsh import Connection
from nearmetal.lab.local_site import LocalSite
from nearmetal.study.study_file import read


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
    told = await _own_domain._check_connected(Connection(uri, LocalSite()))
    assert (told.what, told.ok) == (f"libvirt at {uri}", False)
    assert "this URI is none of QEMU's driver on its own host" in told.detail
    assert 'uri = "qemu:///system"' in told.remedy and "domain = " in told.remedy


@pytest.mark.skipif(shutil.which(virsh.PROGRAM) is None, reason="there is no virsh: apt-get install libvirt-clients")
async def test_where_none_answers_the_package_is_named_without_which_libvirtd_ends_at_once(tmp_path: Path) -> None:
    """Its daemon by itself has no user for QEMU, and does not come up."""
    connection = Connection(f"qemu+unix:///system?socket={tmp_path}/none", LocalSite())
    told = await _own_domain._check_connected(connection)
    assert not told.ok
    assert "apt-get install libvirt-daemon-system" in told.remedy and "systemctl start libvirtd" in told.remedy


@pytest.mark.parametrize("uri", ["qemu:///system", "qemu:///session", "qemu+unix:///system?socket=/run/x"])
def test_one_of_qemus_here_is(uri: str) -> None:
    assert _own_domain._is_qemus_here(uri)


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
        "qemu:///embed?root=/tmp/x/emb",
        "qemu:///EMBED?root=/tmp/x/emb",
        "qemu:///%65mbed?root=/tmp/x/emb",
        "qemu:////embed",
        "qemu:/embed?root=/tmp/x/emb",
        "qemu+ssh://host/embed?root=/tmp/x/emb",
        "qemu+unix:///system?name=qemu%3A%2F%2F%2Fembed%3Froot%3D%2Ftmp%2Fx",
        "qemu:/%65mbed?root=/tmp/x/emb",
        "qemu+ext:/system?command=/tmp/x",
        "qemu+ssh:/system?netcat=/tmp/x",
        "qemu+unix:/system?name=qemu:/embed%3Froot=/tmp/x",
        "qemu:///system?root=/tmp/x/emb",
        "ch:///embed",
        "secret:///embed",
        "other:///system",
        "qemu+other://host/system",
        "qemu+ssh://`x`@host/system",
        "qemu+ssh://%60x%60@host/system",
    ],
)
def test_a_uri_by_which_a_study_might_start_a_program_is_refused(uri: str) -> None:
    with pytest.raises(BadInput, match="a study may not choose") as refused:
        read(STUDY.format(uri), "s.toml", [])
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("test:///tmp/x/machines.xml", "/tmp/x/machines.xml"),
        ("test:/tmp/x/machines.xml", "/tmp/x/machines.xml"),
        ("test+unix:///default?name=test:///x.xml", "/x.xml"),
        ("test:///system", "/system"),
    ],
)
def test_one_by_which_libvirt_reads_a_file_is_refused_as_that(uri: str, file: str) -> None:
    with pytest.raises(BadInput, match=f"a study may not choose '{file}', since libvirt would read that file"):
        read(STUDY.format(uri), "s.toml", [])


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+ssh://-oProxyCommand=x/system",
        "qemu+ssh://root@-oProxyCommand=x/system",
        "vpx://-oProxyCommand=x/system",
        "qemu+ssh://[%2doProxyCommand%3dx]/system",
        "qemu+ssh://[%2d%65]/system",
        "qemu+ssh://[fe80::1%2deth0]/system",
        "qemu+ssh://[fe80::1%25eth0%20x]/system",
        "qemu+ssh://[fe80::1%25`x`]/system",
        "qemu+unix:///system?name=qemu%3Asystem",
        "qemu:",
        "qemu:system",
        "qemu:///system#x",
        "qemu:///system x",
        "-c",
        "/x",
    ],
)
def test_one_that_is_not_read_is_told_with_how_one_is_written(uri: str) -> None:
    with pytest.raises(BadInput, match=r"nearmetal does not read '.*write it like qemu\+ssh://root@host/system"):
        read(STUDY.format(uri), "s.toml", [])


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///system",
        "qemu:/system",
        "test:/default",
        "qemu+unix:/session?mode=direct",
        "qemu+ssh://[fe80::1%25eth0]/system",
        "qemu+ssh://root@[fe80::1%25enp1s0.7]:2222/system",
        "qemu:///session",
        "qemu:///system?socket=/run/x/libvirt-sock",
        "QEMU:///system",
        "qemu+unix:///session?mode=direct",
        "qemu+tcp://10.0.0.2:16509/system",
        "qemu://[fd00::2]/system?no_verify=1;authfile=/root/auth.conf",
        "qemu+ssh://host.example.org/system?socket=/run/x&proxy=native&no_tty=1",
        "qemu+libssh://root@host/system?known_hosts=/root/known&known_hosts_verify=auto",
        "qemu+ssh://root@host:2222/system?keyfile=/root/.ssh/lab&no_verify=1&sshauth=privkey",
        "qemu+tls://host/system?pkipath=/etc/pki/lab",
        "qemu+unix:///system?socket=/run/x&name=qemu%3A%2F%2F%2Fsession",
        "esx://root@host/?no_verify=1",
        "vpx://administrator%40vsphere.local@vcenter/Lab/folder/cluster/10.0.0.2?no_verify=1",
        "hyperv://host",
        "lxc:///",
        "test:///default",
        "of-the-users-own_configuration",
    ],
)
def test_one_that_does_not_is_taken(uri: str) -> None:
    assert Options(domain="web", uri=uri).connect(LocalSite()).uri == uri


def test_whoever_runs_nearmetal_may_have_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIBVIRT_DEFAULT_URI", "qemu+ext:///system?command=/usr/local/bin/tunnel")
    assert Options(domain="web").connect(LocalSite()).uri.startswith("qemu+ext:")
