"""A plugin of somebody else's that cannot be imported, or is none, is told as that, and troubles nobody who does not
use it."""

import json
import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest

from nearmetal import plugins
from nearmetal.errors import HostCannot
from nearmetal.plugins import Group
from nearmetal.study.study_file import read
from tests.command_line import forked, started

STUDY = """
name = "theirs"
[factors]
environment = ["lame"]
[[workloads]]
name = "work"
kind = "ping"
"""


ODD = """
class Odd:
    def __getattr__(self, name):
        raise RuntimeError("not yet")
plugin = Odd()
"""


def beside_nearmetal(folder: Path, group: Group, module: str, name: str = "lame") -> dict[str, str]:
    """A package with this module, which its plugin is in."""
    described = folder / "theirs-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (described / "entry_points.txt").write_text(f"[nearmetal.{group}]\n{name} = lame_one:plugin\n")
    (folder / "lame_one.py").write_text(f"{module}\n")
    return {"PYTHONPATH": f"{folder}:{':'.join(sys.path)}"}


@pytest.fixture(
    params=["1 / 0", "import nowhere", "x = 1", "raise SystemExit('needs Linux 7')", "plugin = object()", ODD]
)
def package(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """One whose plugin breaks, lacks what it needs, is not where it should be, ends Python, is none, or breaks where it
    is looked at."""
    return beside_nearmetal(tmp_path, "environments", request.param)


@pytest.fixture
def study(tmp_path: Path) -> str:
    file = tmp_path / "study.toml"
    file.write_text(STUDY)
    return str(file)


@pytest.mark.parametrize("command", ["plan", "run", "up"])
def test_who_uses_it_is_told_whose_it_is(package: dict[str, str], study: str, command: str) -> None:
    ended = forked(command, "lame" if command == "up" else study, environment=package)
    assert ended.returncode == 3, ended.stderr
    assert "'lame' in environments, of the package theirs, cannot be loaded" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "pip uninstall theirs" in ended.stderr
    assert "nearmetal[lame]" not in ended.stderr


def test_nobody_else_is_troubled(package: dict[str, str]) -> None:
    ended = forked("plan", "quickstart", "--json", environment=package)
    assert ended.returncode in (0, 3)
    assert json.loads(ended.stdout)["schema"] == "plan.v1"


def test_an_observer_that_ends_python_is_told_too(tmp_path: Path) -> None:
    theirs = beside_nearmetal(tmp_path, "observers", "raise SystemExit(3)")
    ended = started("plan", "quickstart", "--set", "observe.lame=true", environment=theirs)
    assert ended.returncode == 3
    assert "'lame' in observers, of the package theirs, cannot be loaded: SystemExit: 3" in ended.stderr


def told_by_doctor(theirs: dict[str, str]) -> list[str]:
    """Each finding about what others' packages bring, and about environments, on a line."""
    print_them = (
        "import asyncio\n"
        "from nearmetal.lab import doctor\n"
        "from nearmetal.lab.local_site import LocalSite\n"
        "doctor._environment = lambda name, *_: asyncio.sleep(0, [name])\n"
        "print(*doctor._plugins_of_others(), *asyncio.run(doctor._environments(LocalSite())), sep='\\n')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", print_them], env={**os.environ, **theirs}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return [line for line in ended.stdout.splitlines() if "ok=False" in line]


@pytest.mark.parametrize(
    ("group", "module"),
    [
        ("treatments", "1 / 0"),
        *(pytest.param(group, "1 / 0", marks=pytest.mark.long) for group in ("workloads", "observers", "sections")),
        ("treatments", ODD),
    ],
)
def test_doctor_tells_of_it_whatever_it_would_be(tmp_path: Path, group: Group, module: str) -> None:
    (told,) = told_by_doctor(beside_nearmetal(tmp_path, group, module))
    assert f"'{group[:-1]} lame'" in told and "pip uninstall theirs" in told
    assert "fatal=False" in told


@pytest.mark.parametrize(
    ("group", "name"), [("environments", "mock"), pytest.param("sections", "method", marks=pytest.mark.long)]
)
def test_doctor_goes_on_where_two_packages_provide_a_name(tmp_path: Path, group: Group, name: str) -> None:
    (told,) = told_by_doctor(beside_nearmetal(tmp_path, group, "plugin = 1", name))
    assert f"what='{group}'" in told and "lame_one:plugin and nearmetal itself both provide" in told
    assert "rename its entry point" in told and "fatal=True" in told


class Half:
    """Some of what each group asks for."""

    kind = name = "half"
    around = True

    async def prepare(self) -> None: ...


@pytest.mark.parametrize(
    ("group", "half", "lacks"),
    [
        ("environments", Half(), "is no Environment: it has no Options, attach, check, and 7 more"),
        ("environments", Half, "is a class, not an object"),
        ("treatments", Half(), "is no Treatment: it has no changes, problem, shape, verify"),
        ("workloads", Half, "is no Workload: it has no Parameters, finish, run"),
        ("workloads", Half(), "is an object, not a class"),
        ("observers", Half, "is no Observer: it has no start, takes"),
        ("sections", Half(), "is no SectionPlugin: it has no order, render, title"),
        ("sections", ModuleType("theirs.half"), "is a module; its entry point has to name .*: theirs.half:plugin"),
    ],
)
def test_what_is_not_what_its_group_asks_for_is_told_by_what_it_lacks(
    group: Group, half: object, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {"half": EntryPoint("half", "theirs:half", group)})
    monkeypatch.setattr(EntryPoint, "load", lambda point: half)
    with pytest.raises(HostCannot, match=f"'half' in {group}, of the package theirs, cannot be loaded: it {lacks}"):
        plugins.load(group, "half")


class Whole:
    """All that each group asks for, but for its name."""

    kind = name = "other"

    def __getattr__(self, asked: str) -> object:
        return None


class WholeClass(type):
    kind = name = "other"

    def __getattr__(cls, asked: str) -> object:
        return None


@pytest.mark.parametrize(
    ("group", "word"),
    [
        ("environments", "kind"),
        ("treatments", "name"),
        ("workloads", "kind"),
        ("observers", "name"),
        ("sections", "name"),
    ],
)
def test_what_calls_itself_otherwise_than_its_entry_point_is_refused(
    group: Group, word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ledger has its machines by the name that it calls itself, by which nobody could remove them."""
    plugin = WholeClass("Theirs", (), {}) if group in ("workloads", "observers") else Whole()
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {"mine": EntryPoint("mine", "theirs:mine", group)})
    monkeypatch.setattr(EntryPoint, "load", lambda point: plugin)
    with pytest.raises(HostCannot, match=f"its {word} is 'other', and its entry point is called 'mine'"):
        plugins.load(group, "mine")


WORKLOAD = """
from nearmetal.model import Frozen, ResponseKind
class plugin:
    kind = "lame"
    Parameters = Frozen
    responses = {"hashed": ResponseKind(unit="B/s", better="higher")}
    primary = "hashed"
    has_clients, duration, limit, preparing = False, 1.0, 2.0, 0.0
    def __init__(self, parameters): ...
    async def prepare(self, stage): ...
    async def run(self, stage): ...
    async def finish(self, stage): ...
"""


TREATMENT = """
from nearmetal.model import Readback
class Lame:
    name = "lame"
    def problem(self, level): return None
    def shape(self, spec, level): return spec
    def changes(self, stage, level): return []
    async def verify(self, stage, level): return Readback()
plugin = Lame()
"""
OBSERVER = """
class plugin:
    name, around, takes = "lame", True, 0.0
    def __init__(self, setting): ...
    async def start(self, stage): ...
"""
ENVIRONMENT = """
from nearmetal.model import Description, Frozen
class Lame:
    kind, Options, provisions, typical_ready = "lame", Frozen, ("boot",), 1.0
    def describe(self, options, spec): return Description(family="container", kernel="host", placement="switch")
    check = versions = prepare = create = attach = open_door = destroy = None
plugin = Lame()
"""
RAISE = "raise RuntimeError('one\\x1b[2J')"
"""What a terminal obeys is shown, not done."""
BROKE = "broke: RuntimeError: one"
SECONDS = "does not fit: its `{}` is {}, not a number of seconds from 0 on"
NO_MAPPING = "def __init__(self, parameters): self.responses = 3"


def plan_with(folder: Path, group: Group, module: str, *words: str) -> str:
    """What planning a study that uses the plugin prints as an error; the exit code is 3."""
    theirs = beside_nearmetal(folder, group, module)
    file = folder / "study.toml"
    used = {
        "environments": STUDY,
        "workloads": STUDY.replace('"lame"', '"mock"').replace('"ping"', '"lame"'),
        "treatments": STUDY.replace('"lame"', '"mock"') + "[machine]\nlame = true\n",
        "observers": STUDY.replace('"lame"', '"mock"') + "[observe]\nlame = true\n",
    }
    file.write_text(used[group])
    ended = forked(*(words or ["plan"]), str(file), environment=theirs)
    assert ended.returncode == 3, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "ask whoever made it (docs/extending.md), or do without it: pip uninstall theirs" in ended.stderr
    return " ".join(ended.stderr.split())


@pytest.mark.parametrize(
    ("group", "module", "written", "instead", "why"),
    [
        ("workloads", WORKLOAD, "parameters): ...", f"parameters): {RAISE}", BROKE),
        ("workloads", WORKLOAD, "parameters): ...", "parameters): exit('one')", "broke: SystemExit: one"),
        (
            "workloads",
            WORKLOAD,
            "    def __init__",
            f"    @property\n    def limit(self): {RAISE}\n    def __init__",
            BROKE,
        ),
        ("workloads", WORKLOAD, "def __init__(self, parameters): ...", NO_MAPPING, "its `responses` are 3, no mapping"),
        ("workloads", WORKLOAD, '"higher"', '"higher", clause="{ration} ×"', "'hashed' has {ration}, which is none"),
        ("workloads", WORKLOAD, "False, 1.0, 2.0", "False, 'long', 2.0", SECONDS.format("duration", "'long'")),
        ("workloads", WORKLOAD, "False, 1.0, 2.0", "False, 1.0, -1", SECONDS.format("limit", "-1")),
        ("workloads", WORKLOAD, "False, 1.0, 2.0", "0, 1.0, 2.0", "does not fit: its `has_clients` is 0, neither"),
        ("workloads", WORKLOAD, ", preparing = False, 1.0, 2.0, 0.0", " = False, 1.0, 2.0", "it has no preparing"),
        ("workloads", WORKLOAD, '"hashed":', '"ready":', "have 'ready', which nearmetal adds to every trial itself"),
        ("workloads", WORKLOAD, 'primary = "hashed"', 'primary = "hash"', "is 'hash', and its `responses` are hashed"),
        ("treatments", TREATMENT, "return None", RAISE, BROKE),
        ("treatments", TREATMENT, "return None", "return 3", "its `problem` of True is 3, neither a text nor None"),
        ("treatments", TREATMENT, "return spec", RAISE, BROKE),
        ("treatments", TREATMENT, "return spec", "return None", "its `shape` of True is None, not a MachineSpec"),
        ("observers", OBSERVER, "setting): ...", f"setting): {RAISE}", BROKE),
        ("observers", OBSERVER, "True, 0.0", "True, None", SECONDS.format("takes", "None")),
        (
            "environments",
            ENVIRONMENT,
            'return Description(family="container", kernel="host", placement="switch")',
            RAISE,
            BROKE,
        ),
        (
            "environments",
            ENVIRONMENT,
            'return Description(family="container", kernel="host", placement="switch")',
            "return 3",
            "returns no Description",
        ),
        ("environments", ENVIRONMENT, '("boot",)', '("boots",)', "its `provisions` are ('boots',), not of boot"),
        ("environments", ENVIRONMENT, "1.0", "float('nan')", SECONDS.format("typical_ready", "nan")),
    ],
)
def test_a_plugin_that_breaks_while_a_study_is_planned_is_named(
    tmp_path: Path, group: Group, module: str, written: str, instead: str, why: str
) -> None:
    assert module.count(written) == 1
    told = plan_with(tmp_path, group, module.replace(written, instead))
    assert why in told and "\x1b" not in told
    assert f"the {group[:-1]} 'lame' of the package theirs" in told


def test_run_names_it_too(tmp_path: Path) -> None:
    module = WORKLOAD.replace("parameters): ...", f"parameters): {RAISE}")
    assert f"the workload 'lame' of the package theirs {BROKE}" in plan_with(tmp_path, "workloads", module, "run")


@pytest.mark.parametrize("instead", [RAISE, "return 3"])
def test_an_environment_whose_check_breaks_is_named(tmp_path: Path, instead: str) -> None:
    checked = f"    async def check(self, *asked): {instead}\n    versions"
    module = ENVIRONMENT.replace("    check = versions", checked)
    assert "the environment 'lame' of the package theirs broke: " in plan_with(
        tmp_path, "environments", module, "plan", "--ask"
    )


def test_a_plugin_of_nearmetal_itself_that_breaks_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(self: object, parameters: object) -> None:
        raise RuntimeError("one")

    monkeypatch.setattr(plugins.load("workloads", "ping"), "__init__", break_down)
    with pytest.raises(RuntimeError, match="one"):
        read(STUDY.replace('"lame"', '"mock"'), "study.toml")
