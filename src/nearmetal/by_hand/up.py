"""Having a machine kept up."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from nearmetal.config import LIMITS
from nearmetal.errors import ExitCode, NearmetalError, ToolFailed

if TYPE_CHECKING:
    from nearmetal.lab.machines.registry import KeptMachine


class KeeperFailed(NearmetalError):
    """Why a machine did not come up, in its keeper's words."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.exit_code = ExitCode(code)


def start_machine(
    environment: str, name: str | None, overrides: Sequence[str], say: Callable[[str], None]
) -> "KeptMachine":
    """Start a keeper and wait until its machine answers. KeeperFailed; interrupted, it takes down what it began.

    HostCannot when the keeper does not come to its end.
    """
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
                from nearmetal.lab.machines.registry import KeptMachine

                keeper.returncode = 0  # it goes on without us: that it still runs is no oversight
                return KeptMachine.model_validate(answer["up"])
            else:
                _wait_keeper(keeper)
                raise KeeperFailed(answer["error"], answer["code"])
    except BaseException:
        if keeper.returncode is None:
            keeper.terminate()
            _wait_keeper(keeper)
        raise
    raise ToolFailed(f"the keeper ended with status {_wait_keeper(keeper)} and said nothing")


def _wait_keeper(keeper: "subprocess.Popen[str]") -> int:
    """Its status. HostCannot when it does not come to its end."""
    try:
        return keeper.wait(LIMITS.boot)
    except subprocess.TimeoutExpired:
        from nearmetal.by_hand.down import make_stuck_error

        raise make_stuck_error(keeper.pid, "up") from None
