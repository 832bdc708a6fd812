"""The factor `offload`: which levels there are, what they change in which order, and what is believed of a card."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from nearmetal.lab.changes.ethtool import FEATURES
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Completed, Level, Readback
from nearmetal.treatments.offload import plugin
from tests.order import mock_run

from .workloads_stage import ScriptedMachine, ScriptedStage

GIVEN = dict.fromkeys(FEATURES, "on") | {"lro": "off [fixed]", "gro": "off"}
OFF = dict.fromkeys(FEATURES, "off") | {"lro": "off [fixed]"}


def card(features: Mapping[str, str]) -> Completed:
    return Completed(status=0, stdout="".join(f"{FEATURES[name]}: {one}\n" for name, one in features.items()).encode())


class Outside(LocalSite):
    """A host that knows one link."""

    def __init__(self, features: Mapping[str, str]) -> None:
        super().__init__()
        self._features = features

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Completed:
        assert argv == ("ip", "netns", "exec", "nm-1", "ethtool", "-k", "port1")
        return card(self._features)


def stage(inside: Mapping[str, str], outside: Mapping[str, str] | None = None) -> ScriptedStage:
    """A server whose data link has these features at its ends."""
    machine = ScriptedMachine("server", "10.111.0.1", lambda argv: card(inside))
    if outside is not None:
        machine.peer = "nm-1/port1"
        machine.site = Outside(outside)
    return ScriptedStage([machine], [])


async def found(level: Level, inside: Mapping[str, str], outside: Mapping[str, str] | None = None) -> Readback:
    return await plugin.verify(stage(inside, outside), level)


# ── Levels ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("level", [True, False, "tx", "tx,sg,tso", "tx, sg", "gro", "rx,lro", "sg,gso"])
def test_levels_that_there_are(level: Level) -> None:
    assert plugin.problem(level) is None


@pytest.mark.parametrize("level", [1, 0, 0.5, "", ",", "on", "off", "tx,tx", "tx,ufo", "TX"])
def test_others_are_told_what_there_is(level: Level) -> None:
    told = plugin.problem(level)
    assert told is not None
    assert all(name in told for name in ("true", "false", *FEATURES))


@pytest.mark.parametrize(
    ("level", "told"),
    [
        ("tso", "tso works only with tx and sg"),
        ("tso,tx", "tso works only with sg"),
        ("gso", "gso works only with sg"),
        ("lro", "lro works only with rx"),
    ],
)
def test_what_the_kernel_does_only_together_is_asked_for_together(level: str, told: str) -> None:
    assert told in (plugin.problem(level) or "")


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_true_changes_nothing() -> None:
    assert plugin.changes(stage(GIVEN, GIVEN), True) == []


def test_false_switches_everything_off_at_both_ends_the_inside_first() -> None:
    changes = plugin.changes(stage(GIVEN, GIVEN), False)
    everything = "tso,gso,lro,gro,tx,rx,sg"
    assert [(one.on, one.target, one.after) for one in changes] == [
        ("server", f"data {everything}", "off"),
        ("site:local", f"nm-1/port1 {everything}", "off"),
    ]
    assert not any(one.required for one in changes), "what does not stick is judged when it is read back"


def test_names_are_switched_on_inside_and_the_others_off() -> None:
    changes = [(one.on, one.target, one.after) for one in plugin.changes(stage(GIVEN, GIVEN), "tso,tx,sg")]
    assert changes == [
        ("server", "data gso,lro,gro,rx", "off"),
        ("server", "data tso,tx,sg", "on"),
        ("site:local", "nm-1/port1 gso,lro,gro,rx", "off"),
    ]


def test_clients_are_treated_as_servers_are() -> None:
    server, client = (ScriptedMachine(name, "", lambda argv: card(GIVEN)) for name in ("server", "client"))
    changes = plugin.changes(ScriptedStage([server], [client]), False)
    assert [one.on for one in changes] == ["server", "client"]


# ── Reading back ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_everything_is_told_as_ethtool_tells_it() -> None:
    readback = await found(True, GIVEN, OFF)
    assert readback.ok
    assert readback.values == {"server inside": GIVEN, "server outside": OFF}
    assert readback.warnings == ()


async def test_where_the_outside_cannot_be_known_only_the_inside_is_read() -> None:
    assert (await found(True, GIVEN)).values == {"server inside": GIVEN}


@pytest.mark.parametrize("name", ["tx", "sg", "tso", "gso"])
async def test_true_is_not_believed_of_a_card_that_does_not_send_so(name: str) -> None:
    readback = await found(True, GIVEN | {name: "off"})
    assert not readback.ok
    assert readback.reason == f"server inside: {name} reads back as 'off'"


async def test_true_with_what_a_driver_cannot_do_is_a_warning() -> None:
    readback = await found(True, GIVEN | {"tso": "off [fixed]"})
    assert readback.ok
    assert [(one.code, one.text) for one in readback.warnings] == [
        ("offload-fixed", "server inside: the card's driver does not let tso be switched: it stays off [fixed]")
    ]


@pytest.mark.parametrize("name", ["tx", "sg", "tso", "gso", "gro", "rx"])
@pytest.mark.parametrize("end", ["inside", "outside"])
async def test_false_is_not_believed_while_something_is_on(name: str, end: str) -> None:
    ends = {"inside": OFF, "outside": OFF} | {end: OFF | {name: "on"}}
    readback = await found(False, **ends)
    assert not readback.ok
    assert readback.reason == f"server {end}: {name} reads back as 'on'"


async def test_false_with_what_cannot_be_switched_off_counts() -> None:
    """A virtio card checks what it receives in any case."""
    readback = await found(False, OFF | {"rx": "on [fixed]"}, OFF)
    assert readback.ok
    told = "server inside: the card's driver does not let rx be switched: it stays on [fixed]"
    assert [(one.code, one.text) for one in readback.warnings] == [("offload-fixed", told)]


async def test_false_does_not_mind_what_was_asked_for_and_is_off() -> None:
    assert (await found(False, OFF | {"lro": "off [requested on]"}, OFF)).ok


async def test_a_name_that_cannot_be_had_makes_it_invalid() -> None:
    readback = await found("rx,lro", OFF | {"rx": "on"}, OFF)
    assert not readback.ok
    assert readback.reason == "server inside: lro is off, and its driver cannot switch it on"


async def test_names_leave_the_outside_as_its_card_has_it() -> None:
    """A tap cannot do what the card in the guest does not take; what is not named is off there too."""
    inside = OFF | {"tx": "on", "sg": "on"}
    assert (await found("tx,sg", inside, OFF)).ok
    assert (await found("tx,sg", inside, OFF | {"tx": "on"})).ok
    assert not (await found("tx,sg", inside, OFF | {"tso": "on"})).ok
    assert not (await found("tx,sg", OFF, OFF)).ok


@pytest.mark.parametrize("level", [True, "tx,sg,tso"])
async def test_a_tap_that_stays_off_makes_it_invalid(level: Level) -> None:
    inside = GIVEN if level is True else OFF | dict.fromkeys(("tx", "sg", "tso"), "on")
    outside = OFF | {"tso": "off [requested on]"}
    readback = await found(level, inside, outside)
    assert not readback.ok
    assert "server outside: tso was asked for and stays off" in readback.reason


async def test_a_name_that_a_card_does_not_know_makes_it_invalid() -> None:
    readback = await found("rx,lro", {name: state for name, state in OFF.items() if name != "lro"} | {"rx": "on"})
    assert not readback.ok
    assert readback.reason == "server inside: lro is unknown to its driver"


async def test_a_card_that_tells_nothing_is_not_believed() -> None:
    readback = await found(False, {}, OFF)
    assert not readback.ok
    assert readback.reason == "server inside: ethtool tells no features"


# ── A whole run ───────────────────────────────────────────────────────────────────────────────────────────────────

STUDY = mock_run.STUDY.replace("[clients]", 'offload = [true, false, "tx,sg", "rx,lro"]\n[clients]').replace(
    "blocks = 2", "blocks = 1"
)


async def test_a_study_counts_what_could_be_had_and_tells_why_not_the_rest(tmp_path: Path) -> None:
    """The pretended card has its lro fixed, as rtl8139 has."""
    _, records = await mock_run.run(tmp_path / "run", STUDY)
    ends: dict[object, set[tuple[str, str | None]]] = {}
    for record in records:
        ends.setdefault(record.trial.treatment["offload"], set()).add((record.status, record.reason))
    assert ends[True] == ends[False] == ends["tx,sg"] == {("ok", None)}
    ((status, reason), *_) = ends["rx,lro"]
    assert status == "invalid"
    assert "inside: lro is off, and its driver cannot switch it on" in str(reason)
    assert await mock_run.left_over() == []
