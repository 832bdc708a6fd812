"""What the documentation shows of commands: each block is run as it stands, and what it prints is put in its place.

python -m tests.pasted      run them, and paste what they print

Pretended machines have the same figures each time here. A line of the page that is `…` stands for lines left out, and
how long something took is not compared. What takes engines, hosts or root is in `ELSEWHERE`.
"""

import itertools
import json
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearmetal.lab.changes import ledger
from nearmetal.run import study_execution
from tests import captures
from tests.command_line import called
from tests.order.in_process import InProcess

DOCS = Path(__file__).parents[1] / "docs"

ELSEWHERE: Mapping[str, str] = {
    "docker": "takes an engine",
    "dask": "takes hosts",
    "pipx": "takes the wheel",
    "apt-get": "takes a mirror",
    "reboot": "ends the test",
    "$(command": "takes root",
    "nearmetal calibrate": "takes minutes",
    "nearmetal doctor": "tells of one host",
    "nearmetal up": "takes QEMU",
    "nearmetal exec": "takes a machine that is up",
    "nearmetal down": "takes a machine that is up",
    "nearmetal image": "takes an image",
    "nearmetal load": "takes a server, and its figures are of one host",
    "nearmetal-probe": "takes a CPU for itself",
    "nearmetal run quickstart": "takes Docker and QEMU",
    "nearmetal compare old new": "is of runs with Docker and QEMU",
    "nearmetal compare --before b1": "is shown without what it prints",
    "nearmetal run study.toml": "takes hosts",
    "nearmetal run two-kernels.toml": "takes QEMU",
    "nearmetal show kernels": "is of a run with QEMU",
    "nearmetal run two-servers.toml": "takes QEMU",
    "nearmetal run class.toml": "takes Docker",
    "nearmetal bundle class": "is of a run with Docker",
    "nearmetal run own-service.toml": "takes Docker and QEMU",
    "nearmetal resume first": "is of a run that was interrupted",
    "nearmetal show first": "is of a run with Docker and QEMU",
    "nearmetal compare first second": "is shown without what it prints",
    "lab-of-hosts.md": "takes hosts",
}
"""Beginnings of commands, or pages, that are not run here, and why."""

PAIR = """
name = "mine"
reference = { environment = "base" }
[environments.base]
kind = "mock"
[environments.slow]
kind = "mock"
speed = 0.5
[factors]
environment = ["base", "slow"]
[[workloads]]
name = "page"
kind = "http"
duration = "1s"
[design]
blocks = 8
"""

_FASTER = PAIR.replace('kind = "mock"\n[', 'kind = "mock"\nspeed = 1.5\n[').replace("speed = 0.5", "speed = 0.75")

_OF_THIS_HOST = re.compile(
    r"^cannot run here: (.*\n)*|^! (?:each run: )?The host of this run is itself .*\n| \(or nested\)", re.MULTILINE
)
"""What is printed because of the host alone: that it has no Docker, or is a virtual machine."""

_TOOK = re.compile(
    r"(?<= in )[0-9][0-9 a-z]*$|(?<=takes about )[0-9][0-9 a-z]*$|(?<=blocks, some )[0-9][0-9 a-z]*(?=, would)"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:+]+"
)
"""How long a run took, and when."""


@dataclass(frozen=True)
class Shown:
    """A command of a page, and the lines that the page shows of what it prints."""

    page: Path
    line: int
    """Of the page, where what it prints begins; from 0 on."""
    command: str
    prints: tuple[str, ...]

    @property
    def words(self) -> list[str]:
        return [word for word in shlex.split(self.command, comments=True) if word != "sudo"]

    def explain_absence(self) -> str:
        """Why it is not run here; "" if it is."""
        told = " ".join(self.words)
        return next((why for start, why in ELSEWHERE.items() if told.startswith(start) or self.page.name == start), "")


def list_shown(page: Path) -> Iterator[list[Shown]]:
    """The commands of each block of a page, whose prompt is a dollar."""
    lines = page.read_text("utf-8").splitlines()
    fence, inside, block = False, False, list[Shown]()
    for number, line in enumerate(lines):
        if line.startswith("```"):
            if block:
                yield block
            fence = not fence
            inside, block = fence and line in ("```console", "```"), []
        elif inside and line.startswith("$ "):
            block.append(Shown(page, number + 1, line[2:], ()))
        elif inside and block:
            last = block[-1]
            if not last.prints and lines[number - 1].endswith("\\"):
                block[-1] = Shown(page, number + 1, f"{last.command[:-1]}{line}", ())
            else:
                block[-1] = Shown(page, last.line, last.command, (*last.prints, line))


class Place:
    """A folder in which the commands of one page are run, one after the other. Files come with the page."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder
        for text in re.findall(r"^```toml\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
            if name := re.search(r'^name\s*= "([^"]+)"', text, re.MULTILINE):
                (folder / f"{name[1]}.toml").write_text(text)
            for carried in re.findall(r'"\./([^:"]+):', text):
                (folder / carried).touch()
        prepare = _PREPARED.get(page.name)
        if prepare is not None:
            prepare(self)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def call(self, words: Sequence[str]) -> list[str]:
        """The lines that it prints, for people and for scripts. `> FILE` puts the latter into a file."""
        words, to = (words[:-2], words[-1]) if ">" in words[-2:-1] else (words, "")
        if words[:2] == ["run", "mine.toml"]:
            self.write("mine.toml", _FASTER if words[-1] == "after" else PAIR)
        with pytest.MonkeyPatch.context() as patched:
            tokens = itertools.count(1)
            patched.setattr(ledger, "new_token", lambda: f"{next(tokens):06x}")
            patched.setattr(study_execution, "BlockProcesses", InProcess)
            patched.setattr("nearmetal.run.study_execution.secrets.randbelow", lambda _: 1)
            ended = called(*words, cwd=self.folder, environment={"COLUMNS": "1000"})
        if to:
            self.write(to, ended.stdout)
        text = _OF_THIS_HOST.sub("", ("" if to else ended.stdout) + ended.stderr)
        return [line.rstrip() for line in text.splitlines()]


def _run_try(place: Place) -> None:
    page = (DOCS / "how-to" / "try-a-design.md").read_text("utf-8")
    (text,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    place.write("try.toml", text)
    place.call(["run", "try.toml", "-o", "first"])


def _damage_run(place: Place) -> None:
    """One line of the journal and one file of another trial are changed."""
    place.write("small.toml", PAIR.replace("blocks = 8", "blocks = 2"))
    place.call(["run", "small.toml", "-o", "quickstart-1"])
    run = place.folder / "quickstart-1"
    journal = run / "journal.jsonl"
    lines = journal.read_text("utf-8").splitlines(keepends=True)
    first, second = [number for number, line in enumerate(lines) if '"schema":"record' in line][:2]
    lines[first] = lines[first].replace('"status":"ok"', '"status":"OK"')
    journal.write_text("".join(lines), "utf-8")
    trial = json.loads(lines[second])["trial"]["id"]
    document = run / "artifacts" / trial / "load-0.json"
    document.write_text(document.read_text("utf-8") + "\n", "utf-8")


def _run_before_and_after(place: Place) -> None:
    for name in ("r1", "r2", "r3", "r4"):
        place.write("service.toml", PAIR.replace('"mine"', '"service"'))
        place.call(["run", "service.toml", "-o", name, "--seed", name[1:]])


def _misspell_study(place: Place) -> None:
    file = place.folder / "nic-models.toml"
    file.write_text(file.read_text("utf-8").replace("memory =", "memroy ="), "utf-8")


def _capture_both_ends(place: Place) -> None:
    captures.both_ends(place.folder, captures.conversation(3))


_PREPARED: Mapping[str, Callable[[Place], None]] = {
    "compare.md": _run_before_and_after,
    "safety.md": _damage_run,
    "study-file.md": _misspell_study,
    "trace.md": _capture_both_ends,
    "publish.md": _run_try,
    "pandas-polars-r.md": _run_try,
}


def align_lines(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """The lines of a page with those that were printed in their places; ValueError for one that was not.

    Where the page leaves lines out, those that follow are looked for.
    """
    found: list[str] = []
    at, may_skip = 0, False
    for line in shown:
        if line.strip() == "…":
            found.append(line)
            may_skip = True
            continue
        places = range(at, len(printed)) if may_skip else range(at, min(at + 1, len(printed)))
        place = next((one for one in places if _mask(printed[one]) == _mask(line)), None)
        if place is None:
            raise ValueError(f"not printed: {line!r}; printed: {list(printed[at : at + 6])}")
        found.append(line)
        at, may_skip = place + 1, False
    if at < len(printed) and not may_skip and shown:
        raise ValueError(f"left out without a sign: {printed[at]!r}")
    return found


def _mask(line: str) -> str:
    return _TOOK.sub("#", line)


def list_pages() -> list[Path]:
    """Those with a command that is run here."""
    pages = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("how-to/*.md"))]
    return [page for page in pages if any(not one.explain_absence() for block in list_shown(page) for one in block)]


def run_page(page: Path, folder: Path) -> Iterator[tuple[Shown, list[str]]]:
    """Each command of a page that is run here, and the lines that it prints."""
    place = Place(folder, page)
    for block in list_shown(page):
        for one in block:
            if not one.explain_absence() and one.words[0] == "nearmetal":
                yield one, place.call(one.words[1:])


def paste_page(page: Path) -> None:
    """Put what commands print in the place of what the page shows, if it is not the same. Lines left out stay so."""
    lines = page.read_text("utf-8").splitlines()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv("NEARMETAL_HOME", folder)
        for one, printed in reversed(list(run_page(page, Path(folder)))):
            try:
                align_lines(one.prints, printed)
            except ValueError as error:
                print(f"{page.name}:{one.line}: {one.command}: {error}")
                lines[one.line : one.line + len(one.prints)] = _shorten(one.prints, printed)
    page.write_text("\n".join(lines) + "\n", "utf-8")


def _shorten(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """As many lines as the page had, from where each of its pieces begins; its pieces are parted by lines left out."""
    found: list[str] = []
    at = 0
    for is_gap, piece in itertools.groupby(shown, lambda line: line.strip() == "…"):
        lines = list(piece)
        if is_gap:
            found += lines
            continue
        begins = (number for number, line in enumerate(printed) if number >= at and _mask(line) == _mask(lines[0]))
        at = next(begins, at)
        found += printed[at : at + len(lines)]
        at += len(lines)
    return [*found, "…"] if at < len(printed) and found[-1:] != ["…"] else found


def main() -> None:
    for page in list_pages():
        paste_page(page)


if __name__ == "__main__":
    main()
