"""The studies of networks ask for what was published, and their quick versions can decide what they ask in time."""

import pytest

from nearmetal import studies, units
from nearmetal.model import Study
from nearmetal.planning import plan
from nearmetal.run.estimate import estimate_plan
from nearmetal.studies.published.figures import find_published
from nearmetal.study import study_file
from nearmetal.study.resolve import build_workload

NAMES = ("virtual-vs-physical", "virtual-servers", "virtual-vs-physical-hosts", "shared-network")
TWENTY_MINUTES = 20 * 60.0


def read(name: str, quick: bool = False) -> Study:
    return study_file.read(studies.read_study_file(name), f"{name}.toml", quick=quick)


def setting(name: str, what: str) -> tuple[float, float]:
    """A setting as published."""
    found = find_published(name)
    assert found is not None
    (one,) = [statement for statement in found.statements if statement.kind == "setting" and what in statement.what]
    return one.low, one.high


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [False, True])
def test_there_are_blocks_enough_for_every_comparison(name: str, quick: bool) -> None:
    one = read(name, quick)
    made = plan.make_plan(one)
    assert made.contrasts
    assert made.blocks >= plan.enough_blocks(len(made.contrasts), one.design.alpha)


@pytest.mark.parametrize("name", NAMES)
def test_quick_takes_less_than_twenty_minutes_on_two_cores(name: str) -> None:
    one = read(name, quick=True)
    made = plan.make_plan(one)
    assert estimate_plan(made) < TWENTY_MINUTES < estimate_plan(plan.make_plan(read(name)))
    assert one.machine.vcpus == 1  # and one for the clients
    if name == "virtual-vs-physical":
        assert {resolved.clients.machine and resolved.clients.machine.vcpus for resolved in made.resolved} == {1}


def varied(one: Study) -> set[str]:
    """The factors in which some treatment differs from the reference."""
    return {
        name
        for treatment in plan.make_plan(one).treatments
        for name, level in treatment.items()
        if level != one.reference.get(name, one.factors[name].levels[0])
    }


def test_quick_varies_every_factor_one_at_a_time() -> None:
    for name in NAMES:
        one = read(name, quick=True)
        assert one.design.crossing == "one-at-a-time"
        assert varied(one) == set(one.factors)


def test_quick_compares_offloads_on_a_virtual_card() -> None:
    contrasts = plan.make_plan(read("virtual-vs-physical", quick=True)).contrasts
    offloads = [
        contrast
        for contrast in contrasts
        if contrast.treatment.get("offload") is False
        and contrast.reference.get("offload") is True
        and not contrast.response
    ]
    assert [(one.treatment["environment"], one.treatment["nic"]) for one in offloads] == [("qemu", "virtio-net")]


def test_transactions_are_counted_as_published() -> None:
    name = "virtual-vs-physical"
    one = read(name)
    found = find_published(name)
    assert found is not None
    assert one.machine.vcpus == setting(name, "virtual CPUs")[0]
    assert build_workload(one.workloads[0].model_copy(update={"workers": 1})).duration == pytest.approx(
        setting(name, "Client makes")[0] + 2
    )
    cells = found.find_table("one-host").figures
    assert set(one.factors["workers"].levels) == {cell.at["workers"] for cell in cells}
    assert set(one.factors["offload"].levels) == {cell.at["offloading"] for cell in cells}
    named = {
        found.name_environment(environment, str(nic))
        for environment in map(str, one.factors["environment"].levels)
        for nic in one.factors["nic"].levels
    }
    assert named == {cell.at["environment"] for cell in cells}


def test_both_ends_are_alike_as_published_and_its_variant_differs_in_nothing_else() -> None:
    for resolved in plan.make_plan(read("virtual-vs-physical")).resolved:
        assert resolved.clients.environment.level == resolved.environment.level
        client = resolved.clients.machine
        assert client == resolved.server
        assert client.vcpus == setting("virtual-vs-physical", "virtual CPUs")[0]
    whole, variant = (read(name).model_dump() for name in ("virtual-vs-physical", "virtual-servers"))
    assert {key for key in whole if whole[key] != variant[key]} == {"name", "question", "clients"}


def test_the_shared_network_is_loaded_as_published() -> None:
    name = "shared-network"
    one = read(name)
    tcp, udp, heavy = one.workloads
    assert one.factors["clients"].levels == (1, 2, 3, 4, 5)
    low, high = setting(name, "UDP")
    assert low * 1e6 <= units.parse_rate(udp.parameters["rate"]) <= high * 1e6
    assert tcp.parameters["intervals"] == 10 and tcp.parameters["duration"] == "100s"
    assert heavy.parameters["step"] == 1 and heavy.parameters["from"] == 1
    assert heavy.parameters["per_step"] == f"{setting(name, 'connections')[0]:g}x"
    assert heavy.parameters["timeout"] == f"{setting(name, 'timeout')[0]:g}s"
    assert one.link.rate == 10**9
