"""The dropped page cache of sysbench's files: whose, when, and what makes the trial invalid."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nearmetal.model import Completed, Measurement
from nearmetal.units import AS_WRITTEN
from nearmetal.workloads.sysbench import Sysbench
from nearmetal.workloads.sysbench.parameters import SysbenchParameters
from tests.unit.workloads_stage import ScriptedMachine, ScriptedStage, golden, said

FOLDER = "/var/tmp/server0-sysbench"
DROP = ["tee", "/proc/sys/vm/drop_caches"]
FILES = 8 * 2**20
BEFORE, AFTER = 992840 * 1024, 208400 * 1024
"""`Cached` of the golden files."""


def cold(**parameters: Any) -> Sysbench:
    given = {"test": "fileio", "total_size": "8MiB", "files": 4, "cache": "dropped", **parameters}
    return Sysbench(SysbenchParameters.model_validate(given, context=AS_WRITTEN))


class Kernel:
    """Answers as a kernel did before and after; `refusals` are for the programs that are to fail."""

    def __init__(self, refusals: dict[str, Completed] | None = None, after: str = "dropped") -> None:
        self._refusals = refusals or {}
        self._after = after
        self._state = "prepared"

    def answer(self, argv: list[str]) -> Completed:
        if argv[0] in self._refusals:
            return self._refusals[argv[0]]
        if argv == DROP:
            self._state = self._after
        if argv[0] == "find":
            return said(f"fincore/{self._state}.out")
        if argv[0] == "cat":
            return said(f"fincore/meminfo-{'before' if self._state == 'prepared' else 'after'}.out")
        return said("sysbench/fileio-rndrw.out")


def machine(answer: Callable[[list[str]], Completed]) -> ScriptedMachine:
    return ScriptedMachine("server0", "10.0.0.1", answer)


async def life(one: Sysbench, server: ScriptedMachine, disk_cache: str = "writeback") -> Measurement:
    stage = ScriptedStage([server], [])
    stage.spec = stage.spec.model_copy(update={"disk_cache": disk_cache})
    try:
        await one.prepare(stage)
        return await one.run(stage)
    finally:
        await one.finish(stage)


def kept(found: Measurement) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(found.artifacts["cache.json"])
    return document


async def test_it_is_written_back_and_dropped_after_the_files_are_prepared_and_before_they_are_read() -> None:
    server = machine(Kernel().answer)
    found = await life(cold(), server)
    looked = ["find", FOLDER, "-type", "f", "-exec", "fincore", "--bytes", "--noheadings", "--output", "RES", "{}", "+"]
    meminfo = ["cat", "/proc/meminfo"]
    prepared = [argv[-1] for argv in server.ran].index("prepare")
    assert server.ran[prepared + 1 : -2] == [["sync"], looked, meminfo, DROP, looked, meminfo]
    assert server.ran[-2][-1] == "run"
    assert found.invalid is None
    assert kept(found) == {
        "kernel": "own",
        "files_before": FILES,
        "files_after": 0,
        "cached_before": BEFORE,
        "cached_after": AFTER,
        "problem": None,
    }


async def test_a_machine_on_its_hosts_kernel_has_the_hosts_dropped_by_the_host() -> None:
    """In a container the setting is read-only; its files are seen in the container alone."""
    kernel = Kernel()
    server, host = machine(kernel.answer), machine(kernel.answer)
    server.boot_id = "boot+17.4"
    server.site = host  # type: ignore[assignment]
    found = await life(cold(), server)
    assert [argv[0] for argv in host.ran] == ["sync", "cat", "tee", "cat"]
    assert DROP not in server.ran
    assert (kept(found)["kernel"], kept(found)["files_after"]) == ("host", 0)
    assert found.warnings == ()


@pytest.mark.parametrize("cache", ["page", "direct"])
async def test_nothing_is_dropped_where_that_was_not_asked_for(cache: str) -> None:
    server = machine(Kernel().answer)
    found = await life(cold(cache=cache), server)
    assert {"sync", "tee", "find"}.isdisjoint(argv[0] for argv in server.ran)
    assert "cache.json" not in found.artifacts


@pytest.mark.parametrize(
    ("program", "ended", "reason"),
    [
        (
            "tee",
            Completed(status=1, stdout=b"3\n", stderr=b"tee: /proc/sys/vm/drop_caches: Permission denied\n"),
            "was not dropped: tee /proc/sys/vm/drop_caches ended with status 1: tee: /proc/sys/vm/drop_caches: "
            "Permission denied; it takes root",
        ),
        ("find", Completed(status=1, stderr="find: ‘fincore’: No such file or directory\n".encode()), "‘fincore’: No"),
        ("find", Completed(status=0, stdout=b"2.0M\n"), "fincore printed no sizes: '2.0M"),
        ("cat", Completed(status=0, stdout=b"MemTotal: 1 kB\nrubbish\n"), "/proc/meminfo has no `Cached`"),
        ("sync", Completed(status=1, stderr=b"sync: error syncing: Input/output error"), "sync ended with status 1"),
    ],
)
async def test_what_refuses_makes_the_trial_invalid_and_is_told(program: str, ended: Completed, reason: str) -> None:
    server = machine(Kernel({program: ended}).answer)
    found = await life(cold(), server)
    assert found.invalid is not None
    assert found.invalid.startswith("server0: the page cache of its kernel was not dropped: ")
    assert reason in found.invalid
    assert 'cache = "direct"' in found.invalid
    assert kept(found)["problem"] == found.invalid
    assert found.responses == {}
    assert "run" not in [argv[-1] for argv in server.ran], "nobody waits for a run that does not count"
    assert server.ran[-1] == ["rm", "-rf", FOLDER]


async def test_files_that_stay_in_memory_make_the_trial_invalid() -> None:
    """As on a tmpfs, whose files are nowhere else."""
    found = await life(cold(), machine(Kernel(after="prepared").answer))
    assert found.invalid is not None
    assert "was dropped, and 8 MiB of 8 MiB of files are still in memory" in found.invalid
    assert kept(found)["files_after"] == FILES


async def test_a_single_page_in_use_is_no_cache() -> None:
    kernel = Kernel()

    def answer(argv: list[str]) -> Completed:
        ended = kernel.answer(argv)
        is_dropped = ended.stdout == golden("fincore/dropped.out")
        return Completed(status=0, stdout=b"  0\n  4096\n  0\n  0\n") if is_dropped else ended

    found = await life(cold(), machine(answer))
    assert found.invalid is None
    assert kept(found)["files_after"] == 4096


@pytest.mark.parametrize(
    ("cache", "disk_cache", "codes"),
    [
        ("dropped", "writeback", ["host-cache"]),
        ("dropped", "unsafe", ["host-cache"]),
        ("direct", "writethrough", ["host-cache"]),
        ("dropped", "none", []),
        ("direct", "directsync", []),
        ("page", "writeback", []),
    ],
)
async def test_what_the_host_of_a_guest_may_keep_of_its_disk_is_said(
    cache: str, disk_cache: str, codes: list[str]
) -> None:
    found = await life(cold(cache=cache), machine(Kernel().answer), disk_cache)
    assert [warning.code for warning in found.warnings] == codes


@pytest.mark.parametrize(
    ("parameters", "disk_cache", "codes"),
    [
        ({"total_size": "768MiB"}, "writeback", ["host-cache"]),
        ({"total_size": "512MiB"}, "writeback", ["host-cache"]),  # of its memory the kernel takes some itself
        ({"total_size": "511MiB"}, "writeback", []),
        ({"total_size": "768MiB"}, "none", []),
        ({"total_size": "768MiB", "cache": "direct"}, "writeback", ["host-cache"]),
    ],
)
async def test_so_are_files_that_a_guests_memory_does_not_hold(
    parameters: dict[str, Any], disk_cache: str, codes: list[str]
) -> None:
    """Through its page cache, too: what does not fit there is read from its disk, which is its host's memory."""
    found = await life(cold(**{"cache": "page", **parameters}), machine(Kernel().answer), disk_cache)
    assert [warning.code for warning in found.warnings] == codes


async def test_arithmetic_and_machines_on_their_hosts_kernel_have_no_disk_to_be_said_of() -> None:
    arithmetic = Sysbench(SysbenchParameters.model_validate({"test": "cpu"}, context=AS_WRITTEN))
    found = await life(arithmetic, machine(lambda argv: said("sysbench/cpu-1-thread.out")))
    assert found.warnings == ()
    server = machine(Kernel().answer)
    server.boot_id = f"{server.site.boot_id}+17.4"
    assert (await life(cold(cache="page", total_size="768MiB"), server)).warnings == ()
