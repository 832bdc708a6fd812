"""Clients that are what the servers are: made so, read back so, and refused where they cannot be."""

from pathlib import Path

import pytest

from nearmetal.lab.cpus.allocation import Share
from nearmetal.lab.mock import programs
from nearmetal.lab.mock.programs import Call
from nearmetal.lab.stage import LabStage
from nearmetal.model import Completed, MachineSpec, Resolved, TrialStatus
from nearmetal.planning import plan
from nearmetal.run import boot, site_resources
from tests.order import mock_run
from tests.unit.study_text import refused

SAME = mock_run.STUDY.replace('[clients]\nenvironment = "mock"', '[clients]\nenvironment = "same"')
GUESTS = """
name = "guests"
[factors]
environment = ["host", "qemu"]
vcpus = [1, 2]
[factors.nic]
levels = ["virtio-net", "e1000"]
when = { environment = "qemu" }
[machine]
memory = "256MiB"
cpus = "3"
[clients]
environment = "same"
memory = "1GiB"
[[workloads]]
name = "web"
kind = "http"
[design]
blocks = 1
"""


def resolved(text: str) -> tuple[Resolved, ...]:
    return plan.make_plan(mock_run.study(text)).resolved


def test_factors_of_the_machine_are_of_both_ends_and_what_clients_have_of_their_own_stays() -> None:
    for one in resolved(GUESTS.replace('cpus = "3"\n', "")):
        client = one.clients.machine
        assert client is not None
        assert one.clients.environment.level == one.environment.level == one.assignment["environment"]
        assert (client.nic, client.vcpus) == (one.server.nic, one.server.vcpus)
        assert (client.memory, one.server.memory) == (2**30, 2**28)


def test_a_factor_can_name_one_end_and_the_client_itself_be_a_factor() -> None:
    own = '[factors.client]\nlevels = ["host", "same"]\nsets = "clients.environment"\n[machine]'
    for one in resolved(GUESTS.replace("[machine]", own).replace('cpus = "3"', "")):
        is_same = one.assignment["client"] == "same"
        assert one.clients.environment.level == (one.environment.level if is_same else "host")
        assert one.clients.has_own_cpus == is_same
    text = GUESTS.replace("[factors.nic]", "[factors.card]").replace("when", 'sets = "clients.nic"\nwhen')
    for one in resolved(text.replace('cpus = "3"', "")):
        assert one.clients.machine is not None
        assert one.clients.machine.nic == one.assignment.get("card", "virtio-net")
        assert one.server.nic == "virtio-net"


def test_what_is_of_servers_alone_is_not_of_clients() -> None:
    text = GUESTS.replace('cpus = "3"', 'isolation = "kernel"\ncontention = "cpu"').replace(
        "vcpus = [1, 2]", "vcpus = [2]"
    )
    for one in resolved(text):
        client = one.clients.machine
        assert client is not None and one.server.alone and one.server.neighbours
        assert (client.alone, client.neighbours, client.kernel_arguments) == (False, (), ())
        assert client.settings == {}


def test_each_client_has_as_many_cpus_as_it_is_to_have_in_turn() -> None:
    (one,) = resolved(
        SAME.replace('["base", "slow"]', '["base"]').replace("[clients]", "[clients]\nvcpus = 2\ncount = 3")
    )
    assert site_resources.client_cpus(one, Share(("7",), "0-3")) == ["0-1", "2-3", "0-1"]
    assert site_resources.client_cpus(one, Share(("7",), "0-2")) == ["0-1", "0,2", "1-2"]
    assert site_resources.client_cpus(one, Share(("7",), "0")) == ["0", "0", "0"]
    shared = one.model_copy(update={"clients": one.clients.model_copy(update={"has_own_cpus": False})})
    assert site_resources.client_cpus(shared, Share(("7",), "0-3")) == ["0-3"] * 3
    assert site_resources.make_client_spec(shared, "0-3").vcpus == 4


def test_clients_with_keys_of_their_own_in_another_environment_keep_the_rest_as_it_was() -> None:
    text = SAME.replace('environment = "same"', 'environment = "mock"\nnic = "e1000"')
    for one in resolved(text):
        assert one.clients.machine == MachineSpec(nic="e1000", memory=2**30)
        assert site_resources.make_client_spec(one, "0-2").vcpus == 3


async def test_both_ends_are_made_and_read_back(tmp_path: Path) -> None:
    text = SAME.replace("[clients]", '[machine]\nvcpus = 2\nmemory = "256MiB"\n[clients]\nmemory = "1GiB"')
    _, records = await mock_run.run(tmp_path / "run", text)
    assert {(record.status, record.reason) for record in records} == {(TrialStatus.OK, None)}
    for record in records:
        assert {one.environment for one in record.machines} == {record.trial.treatment["environment"]}
        ends = {role: record.readback[role] for role in ("resources", "clients")}
        assert [end["vcpus"] for end in ends.values()] == [2, 2]
        assert [end["memory"] for end in ends.values()] == [2**28, 2**30]


async def test_a_client_that_is_not_what_was_asked_makes_a_trial_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell = programs._facts

    async def lie(call: Call) -> Completed:
        of_client = call.state["memory"] == 2**30
        state = {**call.state, "memory": 2**28} if of_client else call.state
        return await tell(Call(call.world, state, call.argv, call.stdin, call.env))

    monkeypatch.setattr(programs, "_facts", lie)
    _, records = await mock_run.run(tmp_path / "run", SAME.replace("[clients]", '[clients]\nmemory = "1GiB"'))
    assert {record.status for record in records} == {TrialStatus.INVALID}
    assert all(str(record.reason).startswith("clients: it has 268435456 bytes of memory") for record in records)


def test_clients_have_a_level_of_a_treatment_of_their_own() -> None:
    text = SAME.replace("[clients]", "[machine]\noffload = true\n[clients]\noffload = false")
    for one in resolved(text):
        assert (one.treatments, one.clients.treatments) == ({"offload": True}, {"offload": False})
    varied = SAME.replace("[factors]", '[factors]\ncards = { levels = [true, "gro"], sets = "clients.offload" }')
    assert {one.clients.treatments["offload"] for one in resolved(varied)} == {True, "gro"}
    error = refused(SAME.replace("[clients]", '[clients]\noffload = "no-such-feature"'))
    assert "offload cannot be" in error.what


@pytest.mark.parametrize(("server", "client"), [(True, False), (False, True)])
def test_each_end_is_treated_by_its_own_level(server: bool, client: bool) -> None:
    text = SAME.replace("[clients]", f"[machine]\noffload = {server}\n[clients]\noffload = {client}".lower())
    (one, *_) = resolved(text)
    stage = LabStage(("a server",), ("a client",), {}, one.server, one.link, "shared", {})  # type: ignore[arg-type]
    found: dict[str, object] = {
        called: (level, those.servers, those.clients) for called, _, level, those in boot._list_treatments(one, stage)
    }
    assert found == {"offload": (server, ("a server",), ()), "clients.offload": (client, (), ("a client",))}
