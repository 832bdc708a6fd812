"""The keeper of a machine: makes it, holds its ledger, and removes it when told to end (SIGTERM). Should
the machine end by itself, what is left of it is removed, and its name stays for `ls` to tell.

A process of its own, started by `up`, because machines end with whoever made them. It is given one JSON line,
{"environment", "name" or null, "set": [KEY=VALUE…]}, and answers in JSON lines: {"say": TEXT} while it works, then
{"up": what is written down} or {"error": TEXT, "code": EXIT CODE}.
"""

import asyncio
import contextlib
import datetime
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

from nearmetal import plugins
from nearmetal.by_hand import ssh_config
from nearmetal.by_hand.machine_request import MachineRequest, choose_cpuset, parse_request, refuse_unavailable
from nearmetal.config import Paths
from nearmetal.errors import ExitCode, MachineError, NearmetalError, ToolFailed
from nearmetal.lab import concurrent_runs
from nearmetal.lab.changes.ledger import held, ledgers_folder, new_token
from nearmetal.lab.lab import Lab, OpenSite
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.machine_files import require_programs
from nearmetal.lab.machine_image import has_sshd
from nearmetal.lab.machines import liveness
from nearmetal.lab.machines import registry as written
from nearmetal.lab.machines.init_process import FirstProcess
from nearmetal.lab.machines.registry import KeptMachine
from nearmetal.lab.site_registry import Sites
from nearmetal.model import Handle
from nearmetal.progress_messages import meanwhile
from nearmetal.run.versions import lacks_image
from nearmetal.system import system_errors


def send_to_waiter(**answer: Any) -> None:
    """To whoever waits for the machine; nobody may be left who does."""
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(answer), flush=True)


async def keep_machine(environment: str, name: str | None, overrides: Sequence[str]) -> None:
    """Until cancelled. NearmetalError when the machine does not come up, Ended when it ends by itself."""
    want = parse_request(environment, overrides)
    if name is not None:
        written.check_name(name)
    with written.claimed(await _draft_kept(name or environment, want), named=name is not None) as kept:
        # From here on what goes wrong is written down: the terminal that we were started from may go away.
        _redirect(2, written.log(kept.name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        async with aclosing(Sites({}, _send_text)) as open_site:
            await _prepare(want, open_site)
            with held(ledgers_folder() / f"{kept.token}.jsonl") as ledger:
                lab = Lab(kept.token, ledger, open_site)
                try:
                    await liveness.ended(await _make_machine(want, kept, lab))
                    raise written.MachineExit
                finally:
                    for left in await lab.close():
                        print(f"still there: {left}", file=sys.stderr, flush=True)


async def _draft_kept(name: str, want: MachineRequest) -> KeptMachine:
    me = await FirstProcess.of(os.getpid(), LocalSite())
    assert me is not None
    return KeptMachine(
        name=name,
        environment=want.environment.kind,
        token=new_token(),
        keeper=me.pid,
        keeper_started=me.started,
        made=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        spec=want.spec,
    )


async def _prepare(want: MachineRequest, open_site: OpenSite) -> None:
    """What does not belong to this machine alone."""
    if process := concurrent_runs.other():
        _send_text(concurrent_runs.disturbs(process))
    plugin = plugins.load("environments", want.environment.kind)
    if want.environment.description.is_on_switch:
        from nearmetal.lab.image import Recipe, build

        if want.spec.image == Recipe().name or want.spec.brings_image:
            if lacks_image(want.study):
                # Once more when it is there; but nobody shall wait minutes to be told that the host is too small.
                await refuse_unavailable(want, open_site)
            await build(Recipe(), Paths.default().cache, _send_text)
    await refuse_unavailable(want, open_site)
    site = await open_site(want.spec.host)
    what = f"still preparing what all machines of {want.environment.kind} begin with; the next finds it there"
    async with meanwhile(_send_text, lambda: what):
        await plugin.prepare(want.environment.spec, want.spec, site)


async def _make_machine(want: MachineRequest, kept: KeptMachine, lab: Lab) -> Handle:
    cpus = await choose_cpuset(want, lab.site)
    site = await lab.site(want.spec.host)
    async with meanwhile(_send_text, lambda: f"still waiting for {kept.name} to start"):
        handle = await lab.create(want.environment, want.spec, "server", cpus, site, logins=has_sshd(want.spec.image))
        machine = await lab.attach(handle)
        if want.spec.brings_image:
            await require_programs(machine, want.spec.image)
    up = kept.model_copy(update={"handle": handle, "cpus": cpus, "address": machine.address})
    written.save(up)
    ssh_config.write(up)
    send_to_waiter(up=up.model_dump(mode="json"))
    _redirect(1, "/dev/null", os.O_WRONLY)
    return handle


def _send_text(text: str) -> None:
    send_to_waiter(say=text)


def _redirect(stream: int, path: str | Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    os.dup2(descriptor, stream)
    os.close(descriptor)


async def _until_told(environment: str, name: str | None, overrides: Sequence[str]) -> int:
    task = asyncio.ensure_future(keep_machine(environment, name, overrides))
    # Once only: what is being removed then is removed to the end.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: task.cancelling() or task.cancel())
    try:
        await task
    except asyncio.CancelledError:
        send_to_waiter(error="told to end before the machine was up", code=int(ExitCode.INTERRUPTED))
    except written.MachineExit:
        pass
    except NearmetalError as error:
        code = ExitCode.HOST_CANNOT if isinstance(error, MachineError | ToolFailed) else error.exit_code
        send_to_waiter(error=str(error), code=int(code))
        return int(code)
    except OSError as error:
        send_to_waiter(error=system_errors.in_full(error), code=int(ExitCode.HOST_CANNOT))
        return int(ExitCode.HOST_CANNOT)
    return 0


def main() -> int:
    request = json.loads(sys.stdin.readline())
    return asyncio.run(_until_told(request["environment"], request["name"], request["set"]))


if __name__ == "__main__":
    Path("/proc/self/comm").write_text("nm-keeper")
    sys.exit(main())
