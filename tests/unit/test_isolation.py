"""The factor `isolation`: its levels, what each changes where, and what is believed of a machine."""

import json
from collections.abc import Callable, Mapping, Sequence

import pytest

from nearmetal.errors import BadInput
from nearmetal.lab.local_site import LocalSite
from nearmetal.model import Completed, Level, MachineSpec, Readback
from nearmetal.treatments.isolation import NAMED, SYSCTLS, plugin

from .workloads_stage import ScriptedMachine, ScriptedStage

PROBE = ScriptedMachine.probe
SPEC = MachineSpec(vcpus=2)


def bystanders(names: Sequence[str]) -> Completed:
    movable = {f"task:{tid}:1": {"name": name, "cpus": "0-1"} for tid, name in enumerate(names, start=100)}
    return Completed(status=0, stdout=json.dumps({"movable": movable}).encode())


def kernel(isolated: str = "", stayed: Sequence[str] = ()) -> Callable[[list[str]], Completed]:
    """What a kernel tells of CPUs, and the probe of who may run on the last."""

    def answer(argv: list[str]) -> Completed:
        match argv:
            case ["cat", path] if path.startswith("/sys/devices/system/cpu/"):
                return Completed(status=0, stdout=f"{isolated}\n".encode())
            case [_, "bystanders", "list", "--json", "--cpus", "1"]:
                return bystanders(stayed)
        raise AssertionError(f"nobody expects {argv}")

    return answer


class Outside(LocalSite):
    """A host on which the probe finds somebody."""

    def __init__(self, stayed: Sequence[str]) -> None:
        super().__init__()
        self._answer = kernel(stayed=stayed)

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Completed:
        return self._answer(list(argv))


def stage(server: ScriptedMachine, spec: MachineSpec = SPEC) -> ScriptedStage:
    made = ScriptedStage([server], [])
    made.spec = spec
    made.cpus = {server.name: list(range(spec.vcpus))}
    return made


def machine(isolated: str = "", stayed: Sequence[str] = ()) -> ScriptedMachine:
    return ScriptedMachine("server", "10.111.0.1", kernel(isolated, stayed))


def container(stayed: Sequence[str] = ()) -> ScriptedMachine:
    """A machine with its host's kernel."""
    made = machine()
    made.site = Outside(stayed)
    made.boot_id = f"{made.site.boot_id}+1.2"
    return made


async def found(level: Level, server: ScriptedMachine, spec: MachineSpec = SPEC) -> Readback:
    return await plugin.verify(stage(server, spec), level)


# ── Levels ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("level", ["none", "user", "kernel", "kernel+user"])
def test_levels_that_there_are(level: Level) -> None:
    assert plugin.problem(level) is None


@pytest.mark.parametrize("level", ["", "both", "user+kernel", "None", True, 1])
def test_others_are_told_what_there_is(level: Level) -> None:
    assert plugin.problem(level) == "it is one of none, user, kernel, kernel+user"


def test_a_machine_of_ours_has_the_kernels_part_on_its_command_line() -> None:
    arguments = ("isolcpus=3", "nohz_full=3", "rcu_nocbs=3")
    spec = MachineSpec(vcpus=4, kernel_arguments=("quiet",))
    assert plugin.shape(spec, "none") == spec
    for level, more in (("user", ()), ("kernel", arguments), ("kernel+user", arguments)):
        shaped = plugin.shape(spec, level)
        assert (shaped.kernel_arguments, shaped.alone) == (("quiet", *more), True)


@pytest.mark.parametrize("level", ["user", "kernel", "kernel+user"])
def test_of_one_cpu_none_can_be_kept_free(level: Level) -> None:
    with pytest.raises(BadInput, match="of one CPU none can be kept free") as told:
        plugin.shape(MachineSpec(vcpus=1), level)
    assert "set it to 2 or more" in str(told.value)
    assert plugin.shape(MachineSpec(vcpus=1), "none") == MachineSpec(vcpus=1)


# ── Changes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_none_and_kernel_change_nothing_in_a_machine_of_ours() -> None:
    assert plugin.changes(stage(machine()), "none") == []
    assert plugin.changes(stage(machine()), "kernel") == []


@pytest.mark.parametrize("level", ["user", "kernel+user"])
def test_user_sets_sysctls_and_then_moves_bystanders_away(level: Level) -> None:
    changes = plugin.changes(stage(machine()), level)
    assert [(one.on, one.kind, one.target, one.after) for one in changes] == [
        *(("server", "sysctl", name, value) for name, value in SYSCTLS.items()),
        ("server", "bystanders", f"{PROBE} 1", "clear"),
    ]
    assert not any(one.required for one in changes), "a kernel without a knob is no fault of the set-up"


def test_a_borrowed_machine_is_told_by_its_boot_loader() -> None:
    server = machine()
    server.owned = False
    (change,) = plugin.changes(stage(server), "kernel")
    assert (change.kind, change.after, change.required) == ("boot", "isolcpus=1 nohz_full=1 rcu_nocbs=1", True)


def test_of_a_container_the_bystanders_are_on_its_host() -> None:
    server = container()
    changes = plugin.changes(stage(server), "user")
    assert {one.on for one in changes} == {"site:local"}
    assert changes[-1].target == f"{server.site.probe} 1"


# ── Reading back ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_kernels_own_word_is_what_counts() -> None:
    readback = await found("kernel", machine(isolated="1"))
    assert readback.ok
    assert readback.values == {"server": {"cpu": "1", "isolated": "1", "nohz_full": "1"}}


@pytest.mark.parametrize("isolated", ["0-1", "1-3", "0,1,4"])
async def test_the_kernel_may_keep_others_free_too(isolated: str) -> None:
    assert (await found("kernel", machine(isolated=isolated))).ok


@pytest.mark.parametrize("isolated", ["", "0", "11"])
@pytest.mark.parametrize("level", ["kernel", "kernel+user"])
async def test_a_kernel_that_does_not_isolate_is_not_believed(level: Level, isolated: str) -> None:
    readback = await found(level, machine(isolated=isolated))
    assert not readback.ok
    assert readback.reason.startswith("server: CPU 1 is not isolated by the kernel")


async def test_who_stayed_is_listed_and_the_first_are_named() -> None:
    names = [f"task-{number:02}" for number in range(NAMED + 3)]
    readback = await found("user", machine(stayed=names))
    assert readback.ok
    assert readback.values["server"]["stayed"] == names
    (warning,) = readback.warnings
    assert warning.code == "isolation-stayed"
    assert names[NAMED - 1] in warning.text and names[NAMED] not in warning.text
    assert warning.text.endswith("and 3 more")


async def test_a_cpu_that_is_clear_is_no_warning() -> None:
    readback = await found("kernel+user", machine(isolated="1"))
    assert (readback.ok, readback.warnings) == (True, ())


async def test_who_stayed_beside_a_container_is_looked_for_on_its_host() -> None:
    readback = await found("user", container(stayed=["sshd"]))
    assert readback.values["server"]["stayed"] == ["sshd"]


async def test_none_reads_nothing() -> None:
    assert await found("none", machine()) == Readback()
