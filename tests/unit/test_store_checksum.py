"""A line, a manifest or a ledger of which a bit was flipped is told, by every reader, and never read as another."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nearmetal.commands import compare_output, run_action
from nearmetal.commands import runs as runs_commands
from nearmetal.dashboard.run_view import RunView
from nearmetal.errors import BadInput
from nearmetal.lab.changes import ledger
from nearmetal.model import Handle, TrialRecord
from nearmetal.report.report_input import read_run_input as read_run
from nearmetal.store import journal, query, runs
from nearmetal.store.checksum import ChecksumMismatch, add_checksum, without_checksum
from nearmetal.store.journal import Journal
from nearmetal.store.run_folder import RunFolder
from tests import plausible_run
from tests.command_line import call
from tests.journals import changed

DOCUMENT = (
    b'{"schema":"event.v1","event":"LeftBehind","at_ns":1700000000000000000,"what":"lab \\"a\\", of it a bridge"}'
)
POLYNOMIAL = 0xEDB88320
"""Of CRC-32, its lowest power first."""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """A run whose lines have checksums."""
    made = plausible_run.make(tmp_path / "run", blocks=2, faults=False)
    with changed(made.journal):
        pass
    return made


def flip(content: bytes, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def is_told(read: Callable[[], object]) -> bool:
    try:
        read()
    except BadInput as error:
        return bool(error.remedy) and "line " in error.what
    return False


def test_a_journal_writes_each_line_with_a_checksum_that_readers_do_not_see(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    lines = Journal(path)
    lines.append_line({"schema": "event.v1", "event": "LeftBehind", "at_ns": 1, "what": "a bridge"})
    lines.close()
    assert path.read_bytes() == (
        b'{"schema":"event.v1","event":"LeftBehind","at_ns":1,"what":"a bridge","sum":"c88b4949"}\n'
    )
    expected = {"schema": "event.v1", "event": "LeftBehind", "at_ns": 1, "what": "a bridge"}
    assert list(journal.read_entries(path)) == list(journal.read_lines(path)) == [expected]


def test_each_flipped_bit_of_each_kind_of_line_is_told_with_its_line(folder: RunFolder) -> None:
    record = folder.journal.read_bytes().splitlines(keepends=True)[-1]
    event = add_checksum(DOCUMENT) + b"\n"
    for before, line, after in ((b"", event, record), (record, event, b""), (event, record, b"")):
        number = before.count(b"\n") + 1
        # Of the record each seventh, which comes to each bit of a byte in turn.
        for bit in range(0, 8 * len(line), 1 if line == event else 7):
            folder.journal.write_bytes(before + flip(line, bit) + after)
            with pytest.raises(BadInput) as told:
                journal.read_lines(folder.journal)
            assert told.value.what.startswith(f"line {number} cannot be read: "), bit
            assert told.value.where == str(folder.journal)


def test_what_was_torn_by_a_crash_never_counted_and_is_not_told(folder: RunFolder) -> None:
    lines = folder.journal.read_bytes().splitlines(keepends=True)
    whole = len(lines[-1])
    for length in (*range(0, whole - 25, 20), *range(whole - 25, whole)):
        folder.journal.write_bytes(lines[0] + lines[-1][:length])
        assert len(journal.read_lines(folder.journal)) == 1
        assert RunView(folder.path).follow_run().lines == 1


def readers(folder: RunFolder, cache: Path) -> Iterator[Callable[[], object]]:
    yield lambda: read_run(folder)
    yield lambda: call(runs_commands.show, run=folder.path, as_json=True)
    yield lambda: call(runs_commands.report, run=folder.path, form="md", output=None, as_json=False)
    yield lambda: run_action.resume_run(folder.path, form="json")
    yield lambda: compare_output.compare_runs([folder.path], [folder.path.parent / "other"], form="json")
    yield RunView(folder.path).follow_run
    yield lambda: query.answer_query("SELECT count(*) FROM trials", [folder.path], cache, lambda _: None)
    yield lambda: list(journal.read_records(folder.journal))
    yield lambda: list(journal.read_events(folder.journal))


def test_every_reader_tells_of_it_and_so_does_the_listing(folder: RunFolder, tmp_path: Path) -> None:
    other = plausible_run.make(tmp_path / "other", blocks=2, faults=False)
    assert other.journal.exists()
    whole = folder.journal.read_bytes()
    drawn = random.Random(7)
    bits = [drawn.randrange(8 * len(whole)) for _ in range(25)]
    # A digit of a value, a letter of the checksum's own name, the end of the last line.
    digit, name, end = whole.index(b'"value":9') + 8, whole.index(b'"sum"') + 1, len(whole) - 1
    for bit in (8 * digit, 8 * name + 1, 8 * end + 2, *bits):
        folder.journal.write_bytes(flip(whole, bit))
        for number, read in enumerate(readers(folder, tmp_path / "cache")):
            assert is_told(read), (bit, number)
        listed, unreadable = runs.list_entries([folder.path])
        assert not listed and unreadable[0].reason.startswith("journal.jsonl: line "), bit
    folder.journal.write_bytes(whole)
    assert len(read_run(folder).records) == 12


@pytest.mark.parametrize("extra", [b' {"schema":"event.v1","event":"Later","sum":"00000000"}\n'])
def test_a_line_that_was_written_again_by_another_program_is_told(folder: RunFolder, extra: bytes) -> None:
    """Its checksum stands where ours does not look for it."""
    folder.journal.write_bytes(folder.journal.read_bytes() + extra.replace(b'"sum":', b'"sum": '))
    assert is_told(lambda: journal.read_lines(folder.journal))


def test_lines_of_earlier_versions_have_no_checksum_and_are_read_as_before(folder: RunFolder) -> None:
    with_checksums = journal.read_lines(folder.journal)
    plain = b"".join(without_checksum(line) + b"\n" for line in folder.journal.read_bytes().split(b"\n")[:-1])
    assert b'"sum"' not in plain
    folder.journal.write_bytes(plain)
    assert journal.read_lines(folder.journal) == with_checksums
    assert sum(isinstance(line, TrialRecord) for line in with_checksums) == 12


def test_each_flipped_bit_of_a_manifest_is_told(folder: RunFolder) -> None:
    file = folder.path / "manifest.json"
    whole = file.read_bytes()
    end = 8 * (len(whole) - 40)
    for bit in (*range(0, end, 31), *range(end, 8 * len(whole))):
        file.write_bytes(flip(whole, bit))
        with pytest.raises(BadInput) as told:
            RunFolder(folder.path).read_manifest()
        assert told.value.what.startswith("the run's manifest cannot be read: it was changed"), bit
        assert told.value.where == str(file) and told.value.remedy
    file.write_bytes(whole)
    assert RunFolder(folder.path).read_manifest() == folder.read_manifest()


def test_a_manifest_of_an_earlier_version_has_no_checksum_and_is_read_as_before(folder: RunFolder) -> None:
    file = folder.path / "manifest.json"
    file.write_bytes(without_checksum(file.read_bytes()[:-1]) + b"\n")
    assert b'"sum"' not in file.read_bytes()
    assert RunFolder(folder.path).read_manifest() == folder.read_manifest()


# ── Two bits ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.long
def test_each_pair_of_flipped_bits_is_told_of_which_one_is_in_the_checksum() -> None:
    line = add_checksum(DOCUMENT)
    bits = 8 * len(line)
    for first in range(8 * len(DOCUMENT) - 8, bits):
        once = flip(line, first)
        for second in range(bits):
            if second != first:
                with pytest.raises(ChecksumMismatch):
                    without_checksum(flip(once, second))


def test_no_pair_of_flipped_bits_passes_in_a_line_of_128_kib() -> None:
    """What a flipped bit adds to a CRC depends on how far it is from the end, and on nothing else."""
    digits = "0123456789abcdef"
    near = {int(a, 16) ^ int(b, 16) for a in digits for b in digits if (ord(a) ^ ord(b)).bit_count() == 1}
    in_the_checksum = {one << 4 * place for one in near for place in range(8)}
    begin = adds = POLYNOMIAL
    for bit in range(8 * 128 * 1024):
        assert adds not in in_the_checksum, bit
        adds = adds >> 1 ^ (POLYNOMIAL if adds & 1 else 0)
        assert adds != begin, bit


# ── Ledgers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_ledger_with_a_flipped_bit_undoes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "abc.jsonl"
    with ledger.held(path) as held:
        held.creating(Handle(kind="bridge", name="nm-abc", site="local"))
        whole = path.read_bytes()
    line = whole.splitlines(keepends=True)[-1]
    for bit in range(8 * (len(whole) - len(line)), 8 * len(whole)):
        path.write_bytes(flip(whole, bit))
        with pytest.raises(BadInput) as told:
            ledger.outstanding(path)
        assert told.value.what.startswith("line 2 ") and told.value.remedy.startswith("see by hand what it names"), bit
