"""Who is to blame for what: the table of causes is closed, and what an error means follows from it."""

import errno
from pathlib import Path
from typing import get_args

import pytest

from nearmetal.errors import (
    BadInput,
    HostCannot,
    MachineLost,
    NearmetalError,
    NotProvisioned,
    TimedOut,
    ToolFailed,
    Unreachable,
)
from nearmetal.model import CAUSES, Blame, Cause, describe_cause, find_blame
from nearmetal.run.blame import Fault, Invalid, PluginBroke, TrialFailed, combine_faults, find_cause, find_fault


def test_the_table_is_closed() -> None:
    assert set(CAUSES) == set(Cause)
    assert {meaning.blame for meaning in CAUSES.values()} == set(get_args(Blame))
    assert len({meaning.words for meaning in CAUSES.values()}) == len(CAUSES)


def test_the_unknown_is_the_treatments() -> None:
    assert find_blame("of-another-version") == "treatment"
    assert describe_cause("of-another-version") == "of-another-version"


def test_the_docs_have_the_whole_table() -> None:
    page = (Path(__file__).parents[2] / "docs" / "validity.md").read_text()
    lines = {
        line.split("`")[1]: line for line in page.splitlines() if line.startswith(("| `t", "| `i", "| `h", "| `c"))
    }
    for cause, meaning in CAUSES.items():
        assert f"`{cause}`: {meaning.words}" in lines[meaning.blame]


CLIENTS, HOSTS = {"nm-1-2"}, {"far"}


@pytest.mark.parametrize(
    ("error", "cause", "blame"),
    [
        (MachineLost("gone", "nm-1-1"), "machine-lost", "treatment"),
        (MachineLost("gone", "nm-1-2"), "client-lost", "instrument"),
        (MachineLost("gone", "the host far (root@10.0.0.2)"), "site-lost", "host"),
        (Unreachable("no answer", "the host far (root@10.0.0.2)"), "site-lost", "host"),
        (NotProvisioned("panic", "nm-1-1"), "not-provisioned", "treatment"),
        (NotProvisioned("panic", "nm-1-2"), "client-not-provisioned", "instrument"),
        (TimedOut("it hangs", "nm-1-1"), "timed-out", "treatment"),
        (ToolFailed("no number", "nm-1-1"), "workload-failed", "treatment"),
        (ToolFailed("killed", "nm-1-2", cause="generator-died"), "generator-died", "instrument"),
        (TrialFailed(Fault(Cause.LINK_BROKEN, "cut")), "link-broken", "instrument"),
        (NearmetalError("whatever it is"), "workload-failed", "treatment"),
        (BadInput("whatever it is"), "workload-failed", "treatment"),
        (HostCannot("no such program"), "host-cannot", "host"),
        (Invalid("2 CPUs instead of 1"), "not-as-declared", "instrument"),
        (OSError(errno.ENOSPC, "full"), "disk-full", "instrument"),
        (OSError(errno.EPERM, "not allowed"), "broke", "instrument"),
        (PluginBroke("the workload 'x'", KeyError("y")), "broke", "instrument"),
        (ZeroDivisionError(), "broke", "instrument"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_an_error_has_its_cause(error: Exception, cause: str, blame: str) -> None:
    found = find_fault(error, "the trial", CLIENTS, HOSTS)
    assert (found.cause, found.blame) == (cause, blame)
    assert found.reason


def test_a_plugin_that_broke_is_named() -> None:
    error = PluginBroke("the workload 'x'", KeyError("y"))
    assert find_fault(error, "the trial").reason == "the workload 'x' broke: KeyError: 'y'"
    assert find_fault(ValueError("z"), "the trial").reason == "the trial broke: ValueError: z"


def test_what_explains_the_others_comes_first() -> None:
    died = Fault(Cause.SERVICE_DIED, "lighttpd ended")
    killed = Fault(Cause.OUT_OF_MEMORY, "the kernel killed it")
    cut = Fault(Cause.LINK_BROKEN, "it was set down")
    assert combine_faults([]) is None
    assert combine_faults([died, killed]) == Fault(Cause.OUT_OF_MEMORY, "the kernel killed it; lighttpd ended")
    assert combine_faults([died, cut, cut]) == Fault(Cause.LINK_BROKEN, "it was set down; lighttpd ended")


def test_an_error_without_a_cause_of_its_own_is_judged_by_its_class() -> None:
    assert find_cause(MachineLost("gone", "nm-1-2")) is Cause.MACHINE_LOST, "nobody said that it is a client"
