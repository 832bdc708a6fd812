"""Having a machine kept up, and having it end."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from nearmetal.by_hand import kept as written
from nearmetal.by_hand.kept import Kept
from nearmetal.config import LIMITS
from nearmetal.errors import ExitCode, HostCannot, NearmetalError, ToolFailed
from nearmetal.lab import clean


class KeeperSaid(NearmetalError):
    """Why a machine did not come up, in its keeper's words."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = ExitCode(code)


def up(environment: str, name: str | None, overrides: Sequence[str], say: Callable[[str], None]) -> Kept:
    """Start a keeper and wait until its machine answers. KeeperSaid; interrupted, it takes down what it began."""
    keeper = subprocess.Popen(
        [sys.executable, "-P", "-m", "nearmetal.by_hand.keeper"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        with keeper.stdin as request:
            request.write(json.dumps({"environment": environment, "name": name, "set": list(overrides)}) + "\n")
        for line in keeper.stdout:
            answer: dict[str, Any] = json.loads(line)
            if "say" in answer:
                say(answer["say"])
            elif "up" in answer:
                keeper.returncode = 0  # it goes on without us: that it still runs is no oversight
                return Kept.model_validate(answer["up"])
            else:
                keeper.wait(LIMITS.boot)
                raise KeeperSaid(answer["error"], answer["code"])
    except BaseException:
        if keeper.returncode is None:
            keeper.terminate()
            keeper.wait(LIMITS.boot)
        raise
    raise ToolFailed(f"the keeper ended with status {keeper.wait(LIMITS.boot)} and said nothing")


async def down(name: str) -> list[str]:
    """Take a machine down, whether or not its keeper lives; what could not be removed. BadInput when none is up."""
    kept = written.find(name)
    _end(kept, asking=await kept.has_keeper())
    ledger = clean.ledgers_folder() / f"{kept.token}.jsonl"
    left: list[str] = []
    if ledger.exists():
        left = list((await clean.put_right([ledger])).left)
    written.forget(name)
    return left


def _end(kept: Kept, *, asking: bool) -> None:
    """Tell a keeper to end and wait until it has. By a descriptor, so that no other process is meant."""
    if not asking:
        return
    try:
        keeper = os.pidfd_open(kept.keeper)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(keeper, signal.SIGTERM)
        if not select.select([keeper], [], [], LIMITS.boot)[0]:
            raise HostCannot(
                f"its keeper (process {kept.keeper}) did not end within {LIMITS.boot:g} s",
                kept.name,
                f"kill -9 {kept.keeper}, then: nearmetal clean",
            )
    except ProcessLookupError:
        pass
    finally:
        os.close(keeper)
