"""Commands that start together: what the probe tells of each, with the real probe on this host."""

from typing import Any

import pytest

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.site import LocalSite
from nearmetal.lab.stage import LabStage
from nearmetal.model import Completed, LinkSpec, MachineSpec


class Here(LocalSite):
    """This host, as far as a stage needs a machine."""

    def __init__(self, name: str = "here") -> None:
        super().__init__()
        self.name = name


class Mute(Here):
    """Another host, whose probe does not answer."""

    def __init__(self) -> None:
        super().__init__("mute")
        self.boot_id = "another"

    async def exec(self, *_: Any, **__: Any) -> Completed:
        return Completed(status=125, stderr=b"no such program")


def stage() -> LabStage:
    return LabStage((), (), {}, MachineSpec(), LinkSpec(), "shared", {})


async def ended(*argv: str, limit: float = 60) -> Any:
    (one,) = await stage().together([(Here(), argv)], limit)  # type: ignore[list-item]  # no address, no NIC
    return one


async def test_status_and_output_are_the_programs_own() -> None:
    one = await ended("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (one.status, one.stdout, one.stderr) == (3, b"out\n", b"err\n")


@pytest.mark.parametrize(
    ("stream", "redirected"), [("stdout", "head -c 68000000 /dev/zero"), ("stderr", "head -c 68000000 /dev/zero >&2")]
)
async def test_output_that_was_cut_off_is_never_taken_for_the_whole(stream: str, redirected: str) -> None:
    with pytest.raises(ToolFailed, match=f"`sh` printed more than 64 MiB to its {stream}") as caught:
        await ended("sh", "-c", redirected)
    assert caught.value.where == "here"
    assert caught.value.remedy


async def test_any_machines_of_a_stage_can_start_together() -> None:
    both: list[Any] = [(Here("one"), ["echo", "1"]), (Here("other"), ["echo", "2"])]
    ended = await stage().together(both, 60)
    assert [one.stdout for one in ended] == [b"1\n", b"2\n"]
    assert all(one.late is not None for one in ended)


async def test_a_machine_that_does_not_tell_its_time_is_told() -> None:
    both: list[Any] = [(Here(), ["true"]), (Mute(), ["true"])]
    with pytest.raises(ToolFailed, match="mute: the probe does not tell the time: no such program"):
        await stage().together(both, 60)


async def test_what_does_not_end_in_time_is_told() -> None:
    with pytest.raises(TimedOut, match=r"did not end within 0\.2 s"):
        await ended("sleep", "30", limit=0.2)
