"""Inputs that nobody wrote, for what Python reads: `python -m tests.fuzz SECONDS [TARGET]`.

From small inputs that are right, bytes are changed, cut, doubled and put together. Each is read, or refused by an error
that is declared; anything else ends this with status 1, and leaves the input in `validation/results/fuzz`.
"""

import contextlib
import io
import json
import random
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from nearmetal import studies
from nearmetal.by_hand.copying import unpack_archive
from nearmetal.errors import BadInput, HostCannot
from nearmetal.planning.plan import make_plan
from nearmetal.store import journal
from nearmetal.store.facts import sift_facts
from nearmetal.study import study_file
from tests import plausible_run
from tests.unit import test_archives_hostile, test_store_facts
from tests.unit.study_text import GOOD

FOUND = Path("validation/results/fuzz")
WORDS = [
    *(b"\x00", b"\xff", b"\n", b'"', b"\\", b"{", b"}", b"[", b"]", b"null", b"NaN", b"-1", b"1e999", b"9" * 400),
    *(b"\xc3\xa4", b"\\ud800", b"\x1b[2J", b'"""', b"'''", b"[" * 5000, b'{"a":' * 5000),
]


class Target(NamedTuple):
    """What begins it, and what reads an input in a folder of its own. Only declared errors are caught there."""

    corpus: Callable[[Path], Iterable[bytes]]
    read: Callable[[bytes, Path], None]


# ── What is read ──────────────────────────────────────────────────────────────────────────────────────────────────────


def study_texts(_: Path) -> Iterable[bytes]:
    return [GOOD.encode(), *(studies.read_study_file(name).encode() for name in studies.list_names())]


def read_study(content: bytes, _: Path) -> None:
    try:
        make_plan(study_file.read(content.decode(errors="replace"), "s.toml"))
    except BadInput as error:
        assert error.what and error.remedy
        assert "\n" not in str(error.what)


def journals(folder: Path) -> Iterable[bytes]:
    whole = plausible_run.make(folder / "run", blocks=2).journal.read_bytes()
    lines = whole.splitlines(keepends=True)
    return [b"".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]


def read_journal(content: bytes, folder: Path) -> None:
    path = folder / "journal.jsonl"
    path.write_bytes(content)
    for read in (
        journal.read_journal,
        journal.read_entries,
        journal.read_records,
        journal.check_lines,
        journal.read_last_event,
        journal.is_changed,
    ):
        try:
            told: Any = read(path)
            list(told) if isinstance(told, Iterable) else None
        except BadInput as error:
            assert error.what and error.remedy


def facts(_: Path) -> Iterable[bytes]:
    return [json.dumps(test_store_facts.FACTS).encode()]


def read_facts(content: bytes, _: Path) -> None:
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return
    sifted, problems = sift_facts(told)
    assert sift_facts(sifted) == (sifted, ()), "what was let through is let through again"
    assert all(problem.isprintable() for problem in problems)


def archives(_: Path) -> Iterable[bytes]:
    chance = random.Random(43)
    return [test_archives_hostile.whole(chance) for _ in range(40)]


def read_archive(content: bytes, folder: Path) -> None:
    content = test_archives_hostile.spoiled(content or bytes(512), random.Random(len(content)))
    with tempfile.TemporaryDirectory(dir=folder) as place:
        inside = Path(place) / "in"
        inside.mkdir()
        with contextlib.suppress(HostCannot, OSError):
            unpack_archive(io.BytesIO(content), inside)
        assert {path.name for path in Path(place).iterdir()} == {"in"}


TARGETS = {
    "study": Target(study_texts, read_study),
    "journal": Target(journals, read_journal),
    "facts": Target(facts, read_facts),
    "tar": Target(archives, read_archive),
}


# ── How it is changed ─────────────────────────────────────────────────────────────────────────────────────────────────


def mutate(content: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """Some changes, each of a few bytes or of a piece."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at, length = chance.randrange(len(data) + 1), chance.choice((1, 2, 8, 100))
        match chance.randrange(6):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                data[at : at + chance.randrange(length)] = chance.choice(WORDS)
            case 2:
                del data[at : at + length]
            case 3:
                data[at:at] = data[at : at + length]
            case 4:
                other = chance.choice(others)
                begin = chance.randrange(len(other) + 1)
                data[at : at + length] = other[begin : begin + length]
            case _:
                data[at:at] = bytes(chance.randrange(256) for _ in range(min(length, 8)))
    return bytes(data)


def fuzz(name: str, seconds: float, chance: random.Random) -> bool:
    """Whether each input was read, or refused as declared."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        corpus = list(target.corpus(folder))
        for content in corpus:
            target.read(content, folder)
        tried, slowest, until = 0, 0.0, time.monotonic() + seconds
        while (began := time.monotonic()) < until:
            content = mutate(chance.choice(corpus), corpus, chance)
            tried += 1
            try:
                target.read(content, folder)
            except Exception:
                FOUND.mkdir(parents=True, exist_ok=True)
                kept = FOUND / f"{name}-{tried}"
                kept.write_bytes(content)
                traceback.print_exc()
                print(f"{name}: {kept} is neither read nor refused", file=sys.stderr)
                return False
            slowest = max(slowest, time.monotonic() - began)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name}: {tried:,} inputs in {seconds:g} s, nothing found; "
        f"the slowest took {slowest:.3f} s, at most {most:.0f} MiB so far"
    )
    return True


def main() -> int:
    seconds = float(sys.argv[1])
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    outcomes = [fuzz(name, seconds, chance) for name in sys.argv[2:] or TARGETS]
    return int(not all(outcomes))


if __name__ == "__main__":
    sys.exit(main())
