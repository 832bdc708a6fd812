"""`nearmetal trace` on captures of a server's first replies: words, a page, lines, one document; and bad input."""

import asyncio
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import duckdb
import pytest

from nearmetal import cli
from nearmetal.errors import BadInput
from nearmetal.report import drawing
from nearmetal.trace import analyser, parquet
from tests import captures, fork_server

CLIENT, SERVER = "client.pcap", "server.pcap"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def both_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder that a test runs in lie the captures of a connection with five requests."""
    captures.both_ends(tmp_path, captures.conversation(5))
    monkeypatch.chdir(tmp_path)


def _records(capture: bytes) -> Iterator[int]:
    """Where each record's microseconds stand."""
    at = 24
    while at < len(capture):
        yield at + 4
        at += 16 + int(struct.unpack_from("<I", capture, at + 8)[0])


def _with_times(capture: bytes, times: Sequence[int]) -> bytes:
    changed = bytearray(capture)
    for at, time in zip(_records(capture), times, strict=True):
        struct.pack_into("<I", changed, at, time)
    return bytes(changed)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Its status, and what it printed where."""

    def one(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nearmetal", "trace", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        printed = capsys.readouterr()
        return int(str(ended.value.code)), printed.out, printed.err

    return one


def test_both_ends_are_told_in_words(trace: Run) -> None:
    status, out, err = trace(CLIENT, SERVER)
    assert (status, err) == (0, "")
    assert "requests on 1 connection" in out
    assert "Where that time went, by both captures" in out
    assert out.index("request leaves") < out.index("request arrives") < out.index("reply arrives")


def test_packets_of_one_way_say_nothing_of_the_clocks(trace: Run) -> None:
    both, one_way = Path(SERVER).read_bytes(), bytearray()
    ends = [*[at - 4 for at in _records(both)][1:], len(both)]
    for begin, end in zip([24, *ends], ends, strict=False):
        # From the client's address: behind a record's header, Ethernet's, and as far into IP's.
        if both[begin + 16 + 26 : begin + 16 + 30] == both[24 + 16 + 26 : 24 + 16 + 30]:
            one_way += both[begin:end]
    Path("one-way.pcap").write_bytes(both[:24] + one_way)
    status, out, _ = trace(CLIENT, "one-way.pcap")
    assert status == 0
    assert "nothing tells how their clocks differ" in out
    assert "median delay" not in out
    assert "request arrives" not in out
    assert "request leaves" in out


def test_requests_are_printed_where_they_are_piped_on(trace: Run) -> None:
    trace(CLIENT, "--requests", "lines.jsonl")
    assert trace(CLIENT, "--requests", "-") == (0, Path("lines.jsonl").read_text(), "")
    assert not Path("-").exists()
    status, out, err = trace(CLIENT, "--requests", "-", "--json")
    assert (status, out) == (2, "")
    assert "leave one of them out" in err
    assert trace(CLIENT, "--requests", "-", "--request", "1")[:2] == (2, "")
    # What is to be known before relying on them goes where it does not mix with them.
    short = Path(CLIENT).read_bytes()
    Path("cut.pcap").write_bytes(short[: len(short) - 5])
    status, out, err = trace("cut.pcap", "--requests", "-")
    assert status == 0
    assert "warning: cut.pcap:" in err
    assert all(line.startswith("{") for line in out.splitlines())


def test_the_page_is_printed_where_it_is_piped_on(trace: Run) -> None:
    status, out, err = trace(CLIENT, "--html", "-")
    assert (status, err) == (0, "")
    assert out.startswith("<!doctype html>") and out.endswith("</html>\n")
    assert not Path("-").exists()
    for other in (("--json",), ("--requests", "-")):
        status, out, err = trace(CLIENT, "--html", "-", *other)
        assert (status, out) == (2, "")
        assert f"{' '.join(other)}" in err and "standard output can hold one of them" in err


def test_the_slowest_requests_stand_before_the_details(trace: Run, tmp_path: Path) -> None:
    """On the page and in the terminal."""
    captures.both_ends(tmp_path, captures.conversation(6))
    for more in ((), ("--html", "-")):
        _, out, _ = trace(CLIENT, *more)
        assert 0 < out.index("The slowest requests") < out.index("What was sent") < out.index("Size of requests")


def test_a_name_promises_nothing_that_is_not_written(trace: Run) -> None:
    status, _, err = trace(CLIENT, "--requests", "lines.csv")
    assert status == 2
    assert "lines.csv: requests are written as JSON lines or Parquet" in err
    assert "lines.jsonl or lines.parquet" in err
    assert not Path("lines.csv").exists()


def test_the_clock_that_is_ahead_is_named_and_stamps_in_microseconds_leave_one_open(trace: Run) -> None:
    document = json.loads(trace(CLIENT, SERVER, "--json")[1])
    # Seven microseconds each way, up to one more by the stamps, and what clocks may gain between the few packets.
    assert (document["joined"]["offset_ns"], document["joined"]["uncertainty_ns"]) == (0, 8_556)
    assert document["joined"]["is_end_known"]
    late = Path(SERVER).read_bytes()
    moved = [struct.unpack_from("<I", late, at)[0] for at in _records(late)]
    Path("late.pcap").write_bytes(_with_times(late, [time + 50 for time in moved]))
    assert "the server's clock is 50 µs ahead, within 8.5" in trace(CLIENT, "late.pcap")[1]
    assert "the client's clock is 50 µs behind, within 8.5" in trace("late.pcap", CLIENT)[1]


def test_of_captures_with_nothing_in_common_nothing_is_told_of_both(trace: Run) -> None:
    other = Path(SERVER).read_bytes().replace(socket.inet_aton("10.0.0.2"), socket.inet_aton("10.0.0.3"))
    Path("other.pcap").write_bytes(other)
    status, out, _ = trace(CLIENT, "other.pcap", "--html", "page.html")
    assert status == 0 and out.startswith("Two captures with no TCP packet in common")
    assert "warning: the captures have no TCP packet in common" in " ".join(out.split())
    assert "request" not in out.split("warning")[0] and "<svg" not in Path("page.html").read_text()
    for option in (["--request", "1"], ["--requests", "lines.jsonl"]):
        status, _, err = trace(CLIENT, "other.pcap", *option)
        assert status == 2 and option[0] + ": these captures have no TCP packet in common" in " ".join(err.split())
    assert not Path("lines.jsonl").exists()
    assert [one["end"] for one in json.loads(trace(CLIENT, "other.pcap", "--json")[1])["captures"]] == [None, None]


def test_the_first_request_has_the_handshake(trace: Run) -> None:
    _, out, _ = trace(CLIENT, "--request", "1")
    assert out.index("SYN leaves") < out.index("request leaves")
    assert "request arrives" not in out  # one end cannot tell


def test_the_order_of_the_captures_does_not_matter(trace: Run) -> None:
    ladders = [trace(*ends, "--request", "2")[1].split("server\n")[-1] for ends in ((CLIENT, SERVER), (SERVER, CLIENT))]
    assert [line.split("  ")[-1] for line in ladders[0].splitlines()] == [
        line.split("  ")[-1] for line in ladders[1].splitlines()
    ]


def test_a_page_lines_and_a_document(trace: Run, tmp_path: Path) -> None:
    page, lines = tmp_path / "page.html", tmp_path / "requests.jsonl"
    status, out, _ = trace(CLIENT, SERVER, "--html", str(page), "--requests", str(lines), "--json")
    document = json.loads(out)
    assert status == 0 and document["schema"] == "trace.v1"
    assert len(lines.read_text().splitlines()) == document["requests"]
    assert "client.pcap" in page.read_text() and "<svg" in page.read_text()


@pytest.mark.parametrize("ends", [(CLIENT,), (CLIENT, SERVER)])
def test_parquet_holds_what_the_lines_hold(trace: Run, tmp_path: Path, ends: tuple[str, ...]) -> None:
    """Also where no request has a field: of one capture there is nothing of both."""
    lines, table = tmp_path / "requests.jsonl", tmp_path / "requests.parquet"
    assert trace(*ends, "--requests", str(lines))[0] == 0
    assert trace(*ends, "--requests", str(table)) == (0, f"{trace(*ends)[1]}requests: {table}\n", "")
    with duckdb.connect() as database:
        found = database.read_parquet(str(table))
        types = dict(zip(found.columns, map(str, found.types), strict=True))
        rows = [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]
    assert rows == [{"joined": None, **json.loads(line)} for line in lines.read_text().splitlines()]
    assert (types["request_first"], types["status"], types["flags"]) == ("BIGINT", "BIGINT", "VARCHAR[]")
    assert "network_ns BIGINT" in types["joined"] and "head BIGINT" in types["response"]


def test_times_in_parquet_can_be_taken_from_each_other_either_way(trace: Run, tmp_path: Path) -> None:
    table = tmp_path / "requests.parquet"
    assert trace(CLIENT, "--requests", str(table))[0] == 0
    took = "request_first - response_last, response.bytes - request.bytes, request.bytes - response.bytes"
    with duckdb.connect() as database:
        rows = database.read_parquet(str(table)).project(took).fetchall()
    assert rows and all(back < 0 and more == -less for back, more, less in rows)


def test_a_number_that_no_column_of_parquet_holds_is_told(trace: Run, tmp_path: Path) -> None:
    lines, table = tmp_path / "requests.jsonl", tmp_path / "requests.parquet"
    assert trace(CLIENT, "--requests", str(lines))[0] == 0
    request = json.loads(lines.read_text().splitlines()[0])
    lines.write_text(json.dumps({**request, "request_first": 2**64 - 1}))
    with pytest.raises(BadInput, match="cannot write Parquet") as told:
        parquet.write(lines, table)
    assert "a file that does not end in .parquet" in told.value.remedy
    assert not table.exists()


def test_parquet_without_its_library_is_told_before_anything_is_read(
    trace: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    status, out, err = trace("/nonexistent.pcap", "--requests", "x.parquet")
    assert (status, out) == (3, "") and "pip install duckdb" in err


def test_a_page_without_what_draws_it_is_told_before_anything_is_read(
    trace: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    status, out, err = trace("/nonexistent.pcap", "--html", "-")
    assert (status, out) == (3, "") and drawing.INSTALL_ENGINE in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/nonexistent.pcap",), "cannot open /nonexistent.pcap"),
        (("/dev/null",), "the file is empty"),
        ((__file__,), "capture"),
        (("/tmp",), "folder"),
        (("-", "-"), "one capture twice"),
        ((CLIENT, SERVER, CLIENT), "3 captures"),
        ((CLIENT, CLIENT), "one capture twice"),
        ((CLIENT, "--request", "4711"), "there is no request 4711"),
        ((CLIENT, "--request", "0"), "there is no request 0"),
        ((CLIENT, "--requests", "/sys/x.parquet"), "cannot write Parquet"),
        ((CLIENT, "--requests", CLIENT), "a capture to be read"),
        ((CLIENT, "--html", CLIENT), "a capture to be read"),
        ((CLIENT, "--requests", "/nonexistent/x"), "there is no folder /nonexistent"),
        ((CLIENT, "--html", "/nonexistent/x"), "there is no folder /nonexistent"),
        ((CLIENT, "--requests", "/tmp"), "this is a folder"),
        ((CLIENT, "--html", "/tmp"), "this is a folder"),
        ((CLIENT, "--html", "/dev/null"), "not a regular file"),
        ((CLIENT, "--html", "one", "--requests", "one"), "cannot be one file"),
        ((CLIENT, "--request", "4711", "--json"), "there is no request 4711"),
    ],
)
def test_bad_input_is_one_message_with_a_remedy(trace: Run, words: tuple[str, ...], said: str) -> None:
    before = Path(CLIENT).read_bytes()
    status, out, err = trace(*words)
    assert (status, out) == (2, "")
    assert said in err and "remedy: " in err and err.count("nearmetal: ") == 1
    assert Path(CLIENT).read_bytes() == before


@pytest.mark.parametrize("width", [40, 60])
def test_tables_fit_a_narrow_terminal_and_are_whole(trace: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    wide = trace(CLIENT, SERVER)[1]
    monkeypatch.setenv("COLUMNS", str(width))
    narrow = trace(CLIENT, SERVER)[1]
    assert max(map(len, narrow.splitlines())) <= width
    tables = wide.partition("\nRequest ")[0].split()
    assert set(tables) <= set(narrow.split()), set(tables) - set(narrow.split())


def piped(*words: str, capture: str = CLIENT) -> "subprocess.CompletedProcess[str]":
    """`nearmetal trace WORDS` at the end of a pipe."""
    ended = fork_server.run("trace", *words, given=Path(capture).read_bytes(), patience=60)
    said = (stream.decode() for stream in (ended.stdout, ended.stderr))
    return subprocess.CompletedProcess(ended.args, ended.returncode, *said)


@pytest.mark.parametrize("name", ["-", "/dev/stdin", "/dev/fd/0"])
def test_what_is_piped_in_is_read_as_a_file_is(trace: Run, name: str) -> None:
    ended = piped(name, "--json")
    assert (ended.returncode, ended.stderr) == (0, "")
    found, known = json.loads(ended.stdout), json.loads(trace(CLIENT, "--json")[1])
    assert [one.pop("file") for one in found["captures"]] == ["/dev/fd/0" if name == "/dev/fd/0" else "/dev/stdin"]
    del known["captures"][0]["file"]
    assert found == known


def test_what_is_piped_in_by_another_descriptor_is_read_too() -> None:
    command = f"{sys.executable} -m nearmetal trace <(cat {CLIENT}) --request 1"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "SYN leaves" in ended.stdout


@pytest.mark.parametrize("words", [("-", SERVER), (SERVER, "/dev/stdin")])
def test_of_two_captures_none_is_piped_in(words: tuple[str, ...]) -> None:
    ended = piped(*words)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "two captures are read twice" in ended.stderr and "remedy: write it to a file" in ended.stderr


def test_a_terminal_is_not_waited_for(trace: Run) -> None:
    ours, theirs = os.openpty()
    try:
        command = [sys.executable, "-m", "nearmetal", "trace", "-"]
        ended = subprocess.run(command, stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert ended.returncode == 2 and "nothing is piped in" in ended.stderr


def test_a_full_disk_is_not_the_captures_fault() -> None:
    # Even root finds no room in /dev/full, which the command itself refuses as no regular file.
    with pytest.raises(BadInput) as told:
        asyncio.run(analyser.analyse_captures([Path(CLIENT)], Path("/dev/full")))
    assert "No space left" in str(told.value) and "make room in /dev" in str(told.value)


def test_a_link_to_a_capture_is_the_capture(trace: Run) -> None:
    Path("symbolic").symlink_to(CLIENT)
    Path("hard").hardlink_to(CLIENT)
    for name in ("symbolic", "hard"):
        status, _, err = trace(CLIENT, "--html", name)
        assert status == 2 and "a capture to be read" in err


def test_other_files_are_replaced(trace: Run, tmp_path: Path) -> None:
    page, lines = tmp_path / "page.html", tmp_path / "requests.jsonl"
    for file in (page, lines):
        file.write_text("before")
    status, out, _ = trace(CLIENT, "--html", str(page), "--requests", str(lines))
    assert status == 0 and out.endswith(f"\npage: {page}\nrequests: {lines}\n")
    assert "before" not in lines.read_text() and page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("name", ["requests.jsonl", "requests.parquet"])
def test_a_link_in_the_place_of_what_is_unfinished_is_not_followed(trace: Run, tmp_path: Path, name: str) -> None:
    """In a folder of somebody else's it would lead root anywhere."""
    there = tmp_path / "there"
    there.write_bytes(b"as it was")
    (tmp_path / f".{name}.new").symlink_to(there)
    assert trace(CLIENT, "--requests", str(tmp_path / name))[0] == 0
    assert there.read_bytes() == b"as it was" and (tmp_path / name).is_file()


@pytest.mark.parametrize("words", [("bad.pcap",), (CLIENT, "--request", "99")])
@pytest.mark.parametrize("name", ["old.jsonl", "old.parquet"])
def test_what_goes_wrong_leaves_other_files_as_they_were(
    trace: Run, tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    Path("bad.pcap").write_bytes(b"no capture")
    Path(name).write_text("kept")
    there = sorted(tmp_path.iterdir())
    assert trace(*words, "--requests", name)[0] == 2
    assert Path(name).read_text() == "kept"
    assert sorted(tmp_path.iterdir()) == there


def test_nothing_is_made_where_nothing_can_be_written(trace: Run) -> None:
    assert trace(CLIENT, "--html", "missing/page.html")[0] == 2
    assert not Path("missing").exists()


def test_one_request_is_a_document_of_its_own(trace: Run, tmp_path: Path) -> None:
    lines = tmp_path / "requests.jsonl"
    status, out, err = trace(CLIENT, SERVER, "--request", "2", "--requests", str(lines), "--json")
    assert (status, err) == (0, "")
    assert out == lines.read_text().splitlines(keepends=True)[1]


def test_a_file_that_is_no_capture_has_a_document_all_the_same(trace: Run) -> None:
    status, out, err = trace("/dev/null", "--json")
    assert status == 2 and "the file is empty" in err
    assert json.loads(out)["requests"] == 0
