"""Every command that prints JSON for scripts says by which schema, and what it prints meets it.

The commands are those of the command line itself: a new one is asked for its schema here before anybody relies on it.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from nearmetal import cli
from nearmetal.commands import isolate_action, isolate_prove_action
from nearmetal.commands.calibrate import calibrate
from nearmetal.commands.group import LazyGroup
from nearmetal.dashboard import server
from nearmetal.lab.doctor import Diagnosis
from nearmetal.lab.image import Recipe
from nearmetal.lab.vagrant import box
from nearmetal.model import Finding
from nearmetal.progress_messages import Say
from nearmetal.store.journal_lock import hold_journal
from nearmetal.store.run_folder import RunFolder
from tests import captures, plausible_run
from tests.command_line import call, called, started
from tests.golden.make_run import FOLDER
from tests.order import mock_run
from tests.unit import test_cli_calibrate as calibrations
from tests.unit.isolate_host import Pretended
from tests.unit.test_image_store import finished

pytestmark = pytest.mark.usefixtures("one_picture")

ROOT = Path(__file__).parents[2]
KEPT = {file.name.removesuffix(".json"): file for file in (ROOT / "schemas").rglob("*.json")}


# ── What is promised ──────────────────────────────────────────────────────────────────────────────────────────────────


def prints_json(option: click.Parameter) -> bool:
    forms = option.type.choices if isinstance(option.type, click.Choice) else ()
    return "--json" in option.opts or "json" in forms


def promises(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, frozenset[str]]]:
    """Each command that prints JSON, with the schemas that its help names."""
    if isinstance(command, click.Group):
        commands = command.load_commands() if isinstance(command, LazyGroup) else command.commands
        for name, one in commands.items():
            yield from promises(one, (*words, name))
    for option in command.params:
        if isinstance(option, click.Option) and prints_json(option):
            yield " ".join(words), frozenset(re.findall(r"\b[a-z.]+\.v[0-9]+\b", option.help or ""))


PROMISED: dict[str, frozenset[str]] = {}
for _words, _schemas in promises(cli.cli):
    PROMISED[_words] = PROMISED.get(_words, frozenset()) | _schemas


# ── How each is asked ─────────────────────────────────────────────────────────────────────────────────────────────────


class Asked:
    """What commands printed on stdout, each with its exit code."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.patch = patch
        self.printed: list[str] = []

    def __call__(self, *words: object, status: int = 0, option: str = "--json", call: Any = called) -> None:
        ended = call(*map(str, words), *option.split())
        assert ended.returncode == status, ended.stderr
        self.printed.append(ended.stdout)

    def run(self, name: str, change: Callable[[list[dict[str, Any]]], object] | None = None) -> Path:
        """The golden run as if it had been made again, with another journal."""
        copy = shutil.copytree(FOLDER, self.folder / name)
        folder = RunFolder(copy)
        another = folder.read_manifest().created.replace("2026", f"20{27 + len(list(self.folder.iterdir()))}")
        folder.write_manifest(folder.read_manifest().model_copy(update={"created": another}))
        if change is not None:
            lines = [json.loads(line) for line in (copy / "journal.jsonl").read_text().splitlines()]
            change(lines)
            (copy / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return copy

    def study(self, name: str, **environment: str) -> Path:
        file = self.folder / f"{name}.toml"
        told = "".join(f'{key} = "{value}"\n' for key, value in environment.items())
        file.write_text(mock_run.STUDY.replace("speed = 0.5\n", f"speed = 0.5\n{told}"))
        return file


def without_end(lines: list[dict[str, Any]]) -> None:
    lines.pop()


def without_limit(lines: list[dict[str, Any]]) -> None:
    for line, value in zip(
        (one for one in lines if one["schema"].startswith("record.")), ("inf", "nan", "-inf"), strict=False
    ):
        line["responses"]["throughput"]["value"] = float(value)


def of_studies(ask: Asked) -> None:
    ask("studies")


def of_plans(ask: Asked) -> None:
    call(calibrate, made=calibrations.write(ask.folder / "made"), gate=True, as_json=False, **calibrations.NOTHING)
    ask("plan", ask.study("plain"))
    ask("plan", ask.study("lacking", missing="wings"), status=3)
    factors = '[factors]\nenvironment = ["mock"]\nthreads = [1, 2]\n'
    later = ask.folder / "later.toml"
    later.write_text(
        f'name = "later"\nreference = {{ threads = 1 }}\n{factors}[[workloads]]\nname = "primes"\n'
        'kind = "sysbench"\ntest = "cpu"\nthreads = "{threads}"\n'
    )
    ask("plan", later)
    assert json.loads(ask.printed[1])["missing"] and json.loads(ask.printed[2])["sees"]


def of_runs(ask: Asked) -> None:
    ask("run", ask.study("plain"), "-o", ask.folder / "run")
    assert json.loads(ask.printed[0])["state"] == "ended"


def of_runs_that_go_on(ask: Asked) -> None:
    ask("run", ask.study("plain"), "-o", ask.folder / "run")
    journal = ask.folder / "run" / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-8]))
    ask("resume", ask.folder / "run")
    ask("resume", ask.folder / "run")
    assert [json.loads(text)["state"] for text in ask.printed] == ["ended"] * 3


def of_verdicts(ask: Asked) -> None:
    runs = ask.run("golden"), ask.run("interrupted", without_end), ask.run("odd", without_limit)
    for run in runs:
        ask("show", run)
    with hold_journal(RunFolder(runs[0]).journal):
        ask("show", runs[0])
        ask("ls", ask.folder)
    *shown, listed = map(json.loads, ask.printed)
    assert [one["state"] for one in shown] == ["ended", "interrupted", "ended", "running"]
    assert {run["run"]: run["state"] for run in listed["runs"]}[str(runs[1])] == "interrupted"
    ask.printed.pop()


def of_reports(ask: Asked) -> None:
    for run in (ask.run("golden"), ask.run("odd", without_limit)):
        ask("report", run, option="--format json")
    assert None in [value for cell in json.loads(ask.printed[1])["cells"] for value in cell["values"]]
    run = ask.folder / "golden"
    for form in ("html", "svg", "vega"):
        ask("report", run, "--format", form)
    ask("report", run, "--format", "md", "-o", ask.folder / "report.md")
    told = [json.loads(text)["files"] for text in ask.printed[2:]]
    assert [files[0] for files in told] == [
        str(run / "report.html"),
        str(run / "report" / "charts" / "verdicts.svg"),
        str(run / "report" / "charts" / "verdicts.vl.json"),
        str(ask.folder / "report.md"),
    ]
    assert all(Path(file).is_file() for files in (told[0], *told[2:]) for file in files)


def of_whole_and_damaged_runs(ask: Asked) -> None:
    run = plausible_run.make(ask.folder / "whole", 2).path
    ask("verify", run)
    (run / "manifest.json").write_text("{")
    ask("verify", run, status=2)
    assert [json.loads(text)["is_whole"] for text in ask.printed] == [True, False]


def of_two_runs(ask: Asked) -> None:
    golden, odd = ask.run("golden"), ask.run("odd", without_limit)
    ask("compare", golden, ask.run("again"))
    ask("compare", golden, odd)
    ask("compare", odd, golden, "--gate", "--gate=throughput > -5%", status=5)
    ask("compare", "--before", golden, odd, "--after", ask.run("later"), ask.run("last"), "--gate=strict", status=5)


def of_lists(ask: Asked) -> None:
    ask("ls")
    (ask.run("damaged") / "manifest.json").write_text("{")
    ask.run("golden")
    called("up", "mock", "--name", "one")
    try:
        ask("ls", ask.folder)
    finally:
        called("down", "one")
    assert all(json.loads(ask.printed[1]).values())


def of_questions(ask: Asked) -> None:
    ask("query")
    ask("query", "FROM trials JOIN runs USING (run)", "--run", ask.run("golden"))
    ask("query", "SELECT value, [value], {'it': value} FROM responses", "--run", ask.run("odd", without_limit))
    ask("query", "SELECT now(), 1.5::DECIMAL, 2::HUGEINT ** 100, 'x'::BLOB, NULL, uuid(), DATE '2026-01-01', [true]")


def of_dashboards(ask: Asked) -> None:
    async def served(*_: object) -> None:
        """At once at its end."""

    ask.patch.setattr(server, "serve_dashboard", served)
    ask.patch.setattr(os, "nice", lambda _: None)
    ask("dashboard")


def of_machines_up(ask: Asked) -> None:
    ask("up", "mock", "--name", "one", call=started)
    called("down", "one")


def of_machines_down(ask: Asked) -> None:
    async def leaving(_: str, say: Say) -> list[str]:
        return ["bridge nm-1: busy"]

    called("up", "mock", "--name", "one")
    ask("down", "one")
    ask.patch.setattr("nearmetal.by_hand.down.remove_machine", leaving)
    ask("down", "one", status=3)


def of_hosts(ask: Asked) -> None:
    lacking = Finding(what="probe", ok=False, detail="it is not there", remedy="make setup")
    for findings, status in (([Finding(what="root", ok=True)], 0), ([lacking], 3)):

        async def examined(environments: object, told: list[Finding] = findings) -> Diagnosis:
            return Diagnosis.of(told)

        ask.patch.setattr("nearmetal.lab.doctor.examine", examined)
        ask("doctor", status=status)


def of_calibrations(ask: Asked) -> None:
    ask("calibrate", "--from", calibrations.write(ask.folder / "sound"))
    ask("calibrate", "--from", calibrations.write(ask.folder / "unsound", calibrations.again_is_slower))


def of_cleaning(ask: Asked) -> None:
    ask("clean")


def pretended(ask: Asked) -> Pretended:
    host = Pretended()
    for module in (isolate_action, isolate_prove_action):
        ask.patch.setattr(module, "LocalSite", lambda: host)
    ask.patch.setattr(os, "geteuid", lambda: 0)
    return host


def of_isolation_planned(ask: Asked) -> None:
    pretended(ask)
    ask("isolate", "plan")
    called("isolate", "on")
    ask("isolate", "plan")
    called("isolate", "off")
    assert json.loads(ask.printed[0])["changes"] and json.loads(ask.printed[1])["stands"]


def of_isolation_begun(ask: Asked) -> None:
    host = pretended(ask)
    ask("isolate", "on", "--boot")
    called("isolate", "off")
    host.immovable = {"irq:5"}
    ask("isolate", "on", status=1)
    called("isolate", "off")


def of_isolation_as_it_stands(ask: Asked) -> None:
    host = pretended(ask)
    ask("isolate", "status")
    called("isolate", "on")
    host.tasks["task:12:1"] = "0-1"
    ask("isolate", "status", status=1)
    called("isolate", "off")


def of_isolation_proved(ask: Asked) -> None:
    pretended(ask)
    ask("isolate", "prove")
    ask("isolate", "prove", "--rounds", 2)
    assert json.loads(ask.printed[1])["differences"]["lost"]["interval"] is None


def of_isolation_ended(ask: Asked) -> None:
    host = pretended(ask)
    called("isolate", "on")
    host.sysctls["vm.stat_interval"] = "7"
    ask("isolate", "off", status=1)
    ask("isolate", "off")
    assert json.loads(ask.printed[0])["left"] and json.loads(ask.printed[0])["restored"]


def images(ask: Asked) -> None:
    """Built already, in a cache of their own."""
    ask.patch.setenv("NEARMETAL_HOME", str(ask.folder / "of images"))
    finished(ask.folder / "of images" / "cache", Recipe())


def of_images_built(ask: Asked) -> None:
    images(ask)
    ask("image", "build")


def of_images_boxed(ask: Asked) -> None:
    images(ask)
    ask.patch.setattr(box, "write_box", lambda image, file: file.write_bytes(image.digest.encode()))
    ask("image", "box", "-o", ask.folder / "lab.box")


def of_images_listed(ask: Asked) -> None:
    images(ask)
    ask("image", "ls")


def of_captures(ask: Asked) -> None:
    client, served = captures.both_ends(ask.folder, captures.conversation(5))
    ask("trace", client, served)
    ask("trace", client, served, "--request", 2)


ASKING: Mapping[str, Callable[[Asked], None]] = {
    "studies": of_studies,
    "plan": of_plans,
    "run": of_runs,
    "resume": of_runs_that_go_on,
    "show": of_verdicts,
    "verify": of_whole_and_damaged_runs,
    "report": of_reports,
    "compare": of_two_runs,
    "ls": of_lists,
    "query": of_questions,
    "dashboard": of_dashboards,
    "up": of_machines_up,
    "down": of_machines_down,
    "doctor": of_hosts,
    "calibrate": of_calibrations,
    "clean": of_cleaning,
    "isolate plan": of_isolation_planned,
    "isolate on": of_isolation_begun,
    "isolate status": of_isolation_as_it_stands,
    "isolate prove": of_isolation_proved,
    "isolate off": of_isolation_ended,
    "image build": of_images_built,
    "image box": of_images_boxed,
    "image ls": of_images_listed,
    "trace": of_captures,
}


# ── What is kept ──────────────────────────────────────────────────────────────────────────────────────────────────────


def is_no_number(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


@pytest.mark.parametrize("name", PROMISED)
def test_what_a_command_prints_for_scripts_meets_the_schema_that_it_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert PROMISED[name], f"the help of `nearmetal {name}` names no schema"
    assert PROMISED[name] <= KEPT.keys(), "python -m nearmetal.schemas schemas/run"
    assert name in ASKING, f"say here how `nearmetal {name}` is asked for JSON"
    ask = Asked(tmp_path, monkeypatch)
    ASKING[name](ask)
    met = set()
    for text in ask.printed:
        assert text.isascii() and text.endswith("\n")
        document = json.loads(text, parse_constant=is_no_number)
        assert name == "report" or text.count("\n") == 1
        met.add(document["schema"])
        Draft202012Validator(json.loads(KEPT[document["schema"]].read_text())).validate(document)
    assert met == PROMISED[name]


def test_the_manual_has_every_document() -> None:
    rows = re.findall(r"^\| `nearmetal ([^`]*)` \| (.*?) \| ", (ROOT / "docs" / "json.md").read_text(), re.MULTILINE)
    told = {re.sub(" (--.*|[A-Z].*)", "", command): cell for command, cell in rows}
    links = {
        name: set(re.findall(r"\[([a-z.]+\.v[0-9]+)\]\(\.\./(schemas/\S+)\)", cell)) for name, cell in told.items()
    }
    files = {schema: str(file.relative_to(ROOT)) for schema, file in KEPT.items()}
    assert {name: {(one, files[one]) for one in schemas} for name, schemas in PROMISED.items()} == {
        name: linked for name, linked in links.items() if name != "load"
    }
