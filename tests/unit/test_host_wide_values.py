"""One ledger at a time holds changes of the host itself, of whatever home."""

import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal.errors import HostCannot
from nearmetal.lab.changes.host_wide_values import HERE, change_host, release_host
from nearmetal.lab.changes.ledger import Ledger, held
from nearmetal.model import Change

MOVED = Change(on=HERE, kind="bystanders", target="/probe 1", before="{}", after="clear", required=False)


def change(ledger: Ledger, on: str = HERE) -> int:
    with change_host(ledger.path):
        return ledger.changing(MOVED.model_copy(update={"on": on}))


def test_the_second_home_waits_until_the_first_has_put_all_back(tmp_path: Path) -> None:
    with held(tmp_path / "one.jsonl") as one, held(tmp_path / "two.jsonl") as two:
        number = change(one)
        change(one)
        with pytest.raises(HostCannot, match="another nearmetal has changed this host") as refused:
            change(two)
        assert refused.value.where == str(one.path)
        assert not two.outstanding().changes
        one.undone(number)
        with pytest.raises(HostCannot):
            change(two)
        one.undone(number + 1)
        change(two)
        with pytest.raises(HostCannot):
            change(one)


def test_whose_owner_was_killed_still_holds(tmp_path: Path) -> None:
    def die() -> None:
        change(Ledger(tmp_path / "one.jsonl"))

    assert _run_apart(die) == 0
    with held(tmp_path / "two.jsonl") as two, pytest.raises(HostCannot):
        change(two)


def test_the_file_goes_when_all_is_put_back(tmp_path: Path) -> None:
    file = tmp_path / "nearmetal-changes"
    with held(tmp_path / "one.jsonl") as one, held(tmp_path / "two.jsonl") as two:
        number = change(one)
        release_host(one.path)
        assert file.exists()
        one.undone(number)
        release_host(two.path)
        assert file.exists()
        release_host(one.path)
        assert not file.exists()
        change(two)


def test_what_cannot_be_put_back_keeps_nobody_out(tmp_path: Path) -> None:
    with held(tmp_path / "one.jsonl") as one, held(tmp_path / "two.jsonl") as two:
        change(one)
        one.path.unlink()
        change(two)
        two.path.write_text("not a ledger\n")
        change(one)
        change(one, on="a-machine")
        (tmp_path / "nearmetal-changes").unlink()
        (tmp_path / "nearmetal-changes").symlink_to(two.path)
        change(one)


def _run_apart(work: Callable[[], None]) -> int | None:
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(30)
    return process.exitcode
