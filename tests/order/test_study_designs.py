"""Study designs from plan to verdict on the mock environment: borrowed machines, pairs, nested factors."""

from pathlib import Path

import pytest

from nearmetal.analysis.analyse import analyse
from nearmetal.analysis.results import Analysis, Contrast, Verdict
from nearmetal.errors import ExitCode, MachineLost, Unreachable
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.mock.world import World
from nearmetal.model import Site, TrialRecord, TrialStatus
from nearmetal.progress_messages import ignore_text
from nearmetal.run import block_main, plan_execution, study_execution, versions
from nearmetal.store.journal import read_events, read_records
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.resolve import resolve_treatments
from tests.order import mock_run
from tests.order.in_process import InProcess

WEB = """
[[workloads]]
name = "web"
kind = "http"
duration = "1s"
"""


async def analysed(folder: Path, text: str) -> tuple[Analysis, list[TrialRecord]]:
    _, found = await mock_run.run(folder, text)
    return analysis_of(folder), found


def analysis_of(folder: Path) -> Analysis:
    run = RunFolder(folder)
    manifest = run.read_manifest()
    return analyse(manifest, read_records(run.journal), read_events(run.journal), manifest.plan.primaries)


def primary(analysis: Analysis, **treatment: object) -> Contrast:
    """The one primary contrast of a treatment."""
    (found,) = (c for c in analysis.contrasts if c.primary and treatment.items() <= dict(c.treatment).items())
    return found


async def test_isolation_of_a_borrowed_machine_reboots_it_and_back(tmp_path: Path) -> None:
    text = f"""
    name = "isolation"
    [environments.metal]
    kind = "mock"
    borrowed = true
    address = "lab3"
    provision = "reuse"
    effects = {{ isolcpus = 1.5 }}
    [factors]
    environment = ["metal"]
    isolation = ["none", "kernel"]
    [machine]
    vcpus = 2
    [clients]
    environment = "mock"
    {WEB}
    """
    analysis, found = await analysed(tmp_path / "run", text)
    isolated = [r for r in found if r.trial.treatment["isolation"] == "kernel"]
    assert {
        (r.readback["isolation"]["lab3"]["cpu"], r.readback["isolation"]["lab3"]["isolated"]) for r in isolated
    } == {("1", "1")}
    contrast = primary(analysis, isolation="kernel")
    assert contrast.verdict is Verdict.DIFFERENT
    assert contrast.ratio == pytest.approx(1.5, rel=0.05)
    assert "one-boot" in [warning.code for warning in contrast.warnings], "a reused machine is but one boot"
    after = World("local").read("lab3")
    assert after is not None
    assert (after["running_arguments"], after["files"]) == ([], {}), "it is as it was found"


async def test_a_physical_server_with_virtual_clients(tmp_path: Path) -> None:
    text = f"""
    name = "physical-server"
    reference = {{ environment = "metal" }}
    [environments.metal]
    kind = "mock"
    borrowed = true
    address = "lab3"
    provision = "reuse"
    [environments.vm]
    kind = "mock"
    speed = 0.7
    [factors]
    environment = ["metal", "vm"]
    [clients]
    environment = "vm"
    {WEB}
    """
    analysis, found = await analysed(tmp_path / "run", text)
    assert {(m.role, m.environment) for r in found for m in r.machines} == {
        ("server", "metal"),
        ("server", "vm"),
        ("client", "vm"),
    }
    assert primary(analysis, environment="vm").verdict is Verdict.DIFFERENT


async def test_five_clients_have_a_value_each_and_one_in_sum(tmp_path: Path) -> None:
    text = mock_run.STUDY.replace("[clients]", "[clients]\ncount = 5")
    _, found = await analysed(tmp_path / "run", text)
    assert len(found) == 4
    for record in found:
        throughput = record.responses["throughput"]
        assert throughput.by_client is not None
        assert len(throughput.by_client) == 5
        assert throughput.value == pytest.approx(sum(throughput.by_client))


@pytest.mark.long
async def test_forty_pairs_load_each_their_own_server(tmp_path: Path) -> None:
    text = mock_run.STUDY.replace("[clients]", '[clients]\ncount = 40\nconnect = "pairs"').replace(
        "blocks = 2", "blocks = 1"
    )
    _, found = await analysed(tmp_path / "run", text)
    assert len(found) == 2
    for record in found:
        assert sum(machine.role == "server" for machine in record.machines) == 40
        assert sum(machine.role == "client" for machine in record.machines) == 40
        assert record.status is TrialStatus.OK


async def test_capture_as_a_factor(tmp_path: Path) -> None:
    text = f"""
    name = "capture"
    [environments.box]
    kind = "mock"
    [environments.client]
    kind = "mock"
    [factors]
    environment = ["box"]
    capture = [false, true]
    [clients]
    environment = "client"
    {WEB}
    """
    analysis, found = await analysed(tmp_path / "run", text)
    assert {record.trial.treatment["capture"] for record in found} == {False, True}
    for record in found:
        captured = [a.path for a in record.artifacts if a.path.endswith(".pcap")]
        assert len(captured) == (2 if record.trial.treatment["capture"] else 0)
        assert ("capture" in record.observers) == record.trial.treatment["capture"]
    assert primary(analysis, capture=True).reference == {"environment": "box", "capture": False}


async def test_a_nested_factor_is_compared_only_where_it_means_something(tmp_path: Path) -> None:
    text = f"""
    name = "nested"
    reference = {{ environment = "metal", nic = "virtio-net" }}
    [environments.metal]
    kind = "mock"
    [environments.vm]
    kind = "mock"
    effects = {{ e1000 = 0.5 }}
    [factors]
    environment = ["metal", "vm"]
    [factors.nic]
    levels = ["virtio-net", "e1000"]
    when = {{ environment = "vm" }}
    [clients]
    environment = "mock"
    {WEB}
    """
    analysis, _ = await analysed(tmp_path / "run", text)
    compared = {(str(c.treatment.get("nic")), str(c.reference["environment"])) for c in analysis.contrasts if c.primary}
    assert compared == {("virtio-net", "metal"), ("e1000", "metal"), ("e1000", "vm")}
    within = next(c for c in analysis.contrasts if c.primary and c.reference["environment"] == "vm")
    assert within.ratio == pytest.approx(0.5, rel=0.05)


async def test_the_same_under_two_names_is_not_called_different(tmp_path: Path) -> None:
    text = f"""
    name = "same-and-same"
    [environments.one]
    kind = "mock"
    [environments.other]
    kind = "mock"
    [factors]
    environment = ["one", "other"]
    [clients]
    environment = "mock"
    [design]
    blocks = 12
    margin = "5%"
    {WEB}
    """
    analysis, _ = await analysed(tmp_path / "run", text)
    assert primary(analysis, environment="other").verdict is Verdict.EQUIVALENT


class FarSite(LocalSite):
    """Another host: in the mock world every site has machines of its own."""

    name = "far"


async def test_machines_on_two_sites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        mock_run.STUDY.replace("[clients]", '[hosts.far]\nssh = "far.example"\n[clients]\nhost = "local"')
        .replace("[design]", '[machine]\nhost = "far"\n[design]')
        .replace('kind = "http"', 'kind = "sysbench"\ntest = "cpu"')
    )
    study = mock_run.study(text)

    class Opened:
        async def __call__(self, name: str) -> Site:
            return FarSite() if name == "far" else LocalSite()

        async def aclose(self) -> None:
            """Nothing was reached."""

    monkeypatch.setattr(block_main, "Sites", lambda hosts, say: Opened())
    request = study_execution.RunRequest(study, text, (), False, tmp_path / "run", available=False)
    folder = await study_execution.open_folder(request, resolve_treatments(study), Opened())
    await plan_execution.run_plan(folder, InProcess(ignore_text), {})
    found = list(read_records(folder.journal))
    assert {record.site for record in found} == {"far"}
    assert all(record.status is TrialStatus.OK for record in found)


async def test_a_host_that_is_lost_before_any_trial_ends_the_command_and_blames_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose_host(manifest: Manifest, open_site: OpenSite) -> None:
        raise MachineLost("its SSH connection is gone", "far")

    folder = tmp_path / "run"
    with monkeypatch.context() as patched:
        patched.setattr(versions, "prepare_environments", lose_host)
        for again in (mock_run.run, mock_run.resume):
            with pytest.raises(Unreachable, match="far: its SSH connection is gone") as told:
                await again(folder)
            assert told.value.exit_code == ExitCode.HOST_CANNOT and "nearmetal resume" in told.value.remedy
    _, records = await mock_run.resume(folder)
    assert [record.status for record in records] == [TrialStatus.OK] * 4
