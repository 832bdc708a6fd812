"""Commands that start together: what the probe tells of each, with the real probe on this host."""

from types import MappingProxyType
from typing import Any

import pytest

from nearmetal.errors import TimedOut, ToolFailed
from nearmetal.lab.site import LocalSite
from nearmetal.lab.stage import LabStage
from nearmetal.model import LinkSpec, MachineSpec


class Here(LocalSite):
    """This host, as far as a stage needs a machine."""

    name = "here"


def stage() -> LabStage:
    return LabStage((), (), {}, MachineSpec(), LinkSpec(), "shared", MappingProxyType({"here": 0}))


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


async def test_what_does_not_end_in_time_is_told() -> None:
    with pytest.raises(TimedOut, match=r"did not end within 0\.2 s"):
        await ended("sleep", "30", limit=0.2)
