"""The process that forks a process for each block of a run, once all that blocks need is imported.

docs/adr/a-block-is-a-process.md says why. It is told of each block by a socket, which is its standard input: a line of
JSON, with the two pipes of the block's process. It answers with lines of JSON: which process that is, and how each
ended. It ends when the socket does; processes that it forked go on.
"""

import array
import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_LONGEST = 1 << 20
"""Bytes of an order."""


def main() -> None:
    from nearmetal.model import Frozen
    from nearmetal.run import block_main
    from nearmetal.system.held_secrets import take_passed

    take_passed()
    # What plugins print goes to standard error, which a block's process flushes: standard output is for results.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the controller's, which tells us
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("nm-forks")
    order = socket.socket(fileno=os.dup(0))
    woken, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        readable, _, _ = select.select([order.fileno(), woken], [], [])
        if woken in readable:
            os.read(woken, 4096)
            _tell_ended(order)
        if order.fileno() in readable:
            taken = _receive_order(order)
            if taken is None:
                return
            request, descriptors = taken
            for name in request["preload"]:
                # What cannot be imported here is the block's to say.
                with contextlib.suppress(Exception):
                    importlib.import_module(name)
            Frozen.build_all()
            process = os.fork()
            if not process:
                _be_block(block_main, order, (woken, waking), descriptors, request)
            for descriptor in descriptors:
                os.close(descriptor)
            _send(order, {"forked": process})


def _receive_order(order: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next order, with the descriptors that came along; None at the end."""
    try:
        content, ancillary, _, _ = order.recvmsg(_LONGEST, socket.CMSG_SPACE(2 * array.array("i").itemsize))
    except ConnectionResetError:  # whoever gave orders is gone, and has not read our last answer
        return None
    if not content:
        return None
    descriptors = array.array("i")
    for _, _, sent in ancillary:
        descriptors.frombytes(sent)
    return json.loads(content), list(descriptors)


def _send(order: socket.socket, answer: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):  # whoever wanted to know is gone
        order.send(json.dumps(answer).encode())


def _tell_ended(order: socket.socket) -> None:
    while True:
        try:
            process, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not process:
            return
        _send(order, {"ended": process, "status": os.waitstatus_to_exitcode(status)})


def _be_block(
    block_main: Any, order: socket.socket, own: tuple[int, int], descriptors: list[int], request: dict[str, Any]
) -> None:
    """Never returns."""
    status = 125
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for descriptor in (order.fileno(), *own):
            os.close(descriptor)
        tasks, events = descriptors
        for descriptor in descriptors:
            os.set_inheritable(descriptor, False)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        from nearmetal.lab import concurrent_runs

        concurrent_runs.act_for(request["controller"])
        status = block_main.run_block_process(open(tasks, "rb"), events)  # noqa: SIM115, PTH123
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
