"""Equal kernels on real machines: what each has while it is measured, and what the host has afterwards."""

from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.model import TrialStatus, is_per_namespace
from nearmetal.report import report_input
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.kernel_table import TABLE

from .laboratory import study

pytestmark = pytest.mark.live

CONTROL = "net.ipv4.tcp_congestion_control"
STUDY = """
name = "kernels"
[factors]
environment = [{environments}]
[machine]
memory = "256MiB"
accel = "tcg"
[kernel.sysctl]
net.ipv4.tcp_congestion_control = "reno"
[[workloads]]
name = "web"
kind = "http"
requests = 5
[design]
blocks = 1
seed = 1
"""


def of_host(name: str) -> str:
    return " ".join(Path("/proc/sys", *name.split(".")).read_text().split())


@pytest.mark.long
async def test_cubic_is_had_at_both_ends_also_where_namespaces_may_not_set_it(tmp_path: Path, lab_image: Image) -> None:
    """A host whose default is bbr: its routes name what the table says, so that nothing confounds host and guest."""
    study_text = STUDY.format(environments='"host", "qemu"')
    records = await study(
        tmp_path / "run", study_text.replace('[kernel.sysctl]\nnet.ipv4.tcp_congestion_control = "reno"\n', "")
    )
    assert {record.status for record in records} == {TrialStatus.OK}, [record.reason for record in records]
    for record in records:
        assert {role: found[CONTROL] for role, found in record.readback["kernels"].items()} == {
            "server": "cubic",
            "client": "cubic",
        }
        assert "change-refused" not in {warned.code for warned in record.warnings}
    found = report_input.read_run_input(RunFolder(tmp_path / "run"))
    assert {one.facts["sysctls"][CONTROL] for one in found.manifest.fairness} == {"cubic"}
    assert found.analysis.contrasts
    assert not any(CONTROL in name for one in found.analysis.contrasts for name in one.confounded_by)


@pytest.mark.long
@pytest.mark.skipif(of_host(CONTROL) == "cubic", reason="this host's default is what the image's kernel has")
async def test_where_nothing_is_aligned_congestion_control_confounds(tmp_path: Path, lab_image: Image) -> None:
    """A host's own bbr against a guest's cubic, over a link that loses: what differs is told on the contrast."""
    unaligned = STUDY.format(environments='"host", "qemu"').partition("[kernel.sysctl]")
    link = '[link]\nrate = "50Mbit/s"\ndelay = "10ms"\nloss = "1%"\n[[workloads]]'
    text = f'{unaligned[0]}[kernel]\nalign = "off"\n{link}{unaligned[2].partition("[[workloads]]")[2]}'
    records = await study(tmp_path / "run", text)
    assert {record.status for record in records} == {TrialStatus.OK}, [record.reason for record in records]
    found = report_input.read_run_input(RunFolder(tmp_path / "run"))
    assert {one.facts["sysctls"][CONTROL] for one in found.manifest.fairness} == {"cubic", of_host(CONTROL)}
    assert any(CONTROL in name for one in found.analysis.contrasts for name in one.confounded_by)


@pytest.mark.parametrize(
    "environments", [("host", "docker"), pytest.param(("host", "docker", "qemu"), marks=pytest.mark.long)], ids=len
)
async def test_servers_and_clients_have_the_same_settings_and_the_host_keeps_its_own(
    environments: tuple[str, ...], tmp_path: Path, lab_image: Image, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """reno is in every kernel and allowed in every namespace; a host's own bbr or cubic is set aside."""
    monkeypatch.setenv("DOCKER_HOST", engine)
    before = {one.name: of_host(one.name) for one in TABLE.values}
    assert before[CONTROL] != "reno"
    records = await study(tmp_path / "run", STUDY.format(environments=", ".join(f'"{name}"' for name in environments)))
    assert {record.status for record in records} == {TrialStatus.OK}, [record.reason for record in records]
    aligned = {one.name: one.value for one in TABLE.values if is_per_namespace(one.name)} | {CONTROL: "reno"}
    for record in records:
        for role, found in record.readback["kernels"].items():
            assert {name: found[name] for name in aligned} == aligned, (record.trial.treatment, role)
    for guest in (record for record in records if record.trial.treatment["environment"] == "qemu"):
        assert guest.readback["kernels"]["server"] == {one.name: one.value for one in TABLE.values} | {CONTROL: "reno"}
    assert {one.name: of_host(one.name) for one in TABLE.values} == before
