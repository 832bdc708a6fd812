"""Standard streams that are closed, as by `>&-`, are as good as /dev/null."""

import subprocess
import sys

import pytest

from tests.golden.make_run import FOLDER


def shell(text: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["sh", "-c", text, "sh", sys.executable], capture_output=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "closed"),
    [
        pytest.param(words, closed, marks=() if words == "ls" else pytest.mark.long)
        for words in ("--help", "ls", "ls --json", "studies")
        for closed in (">&-", "<&-", "<&- >&-")
    ],
)
def test_a_closed_stream_is_no_failure(words: str, closed: str) -> None:
    ended = shell(f'"$1" -m nearmetal {words} {closed}')
    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("form", ["json", pytest.param("csv", marks=pytest.mark.long)])
def test_that_nobody_reads_a_report_to_its_end_is_no_failure(form: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "nearmetal", "report", str(FOLDER), "--format", form],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, b"")


def test_what_is_wrong_is_still_a_status_with_all_closed() -> None:
    assert shell('"$1" -m nearmetal down nobody <&- >&- 2>&-').returncode == 2


def test_a_program_of_ours_has_streams_where_we_had_none() -> None:
    program = (
        "from nearmetal.system.pipes import wait_on_full_pipes; wait_on_full_pipes(); "
        "import subprocess; subprocess.run(['cat', '-'])"
    )
    ended = shell(f'"$1" -c "{program}" <&- >&-')
    assert (ended.returncode, ended.stderr) == (0, b"")
