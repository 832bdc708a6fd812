"""Runs in a browser, while they go on."""

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import RunPath, json_option
from nearmetal.errors import ExitCode, HostCannot, LeftAtOnce, NearmetalError
from nearmetal.optional_dependencies import describe_install

if TYPE_CHECKING:
    from nearmetal.dashboard.host import HostState
    from nearmetal.store.manifest import Manifest

_LAST_IN_LINE = 19
"""Of the kernel's priorities: what is measured on this host comes first."""


@click.command()
@click.argument("run", required=False, type=RunPath(), shell_complete=complete_run)
@click.option("--port", type=click.IntRange(0, 65535), help="Of 127.0.0.1; else one that is free.")
@json_option("dashboard.v1")
def dashboard(run: Path | None, port: int | None, as_json: bool) -> int:
    """Show runs in a browser, as they go on.

    Serves on 127.0.0.1 until Ctrl-C. Without a RUN, all that are known on this host.
    """
    _require_libraries()
    from nearmetal.config import Paths
    from nearmetal.dashboard import server
    from nearmetal.dashboard.access import new_token
    from nearmetal.store import runs
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.system.interrupts import until_interrupted

    if run is not None:
        RunFolder.open(run).read_manifest()

    paths = Paths.default()
    listening = server.open_listener(port)
    token = new_token()
    os.nice(_LAST_IN_LINE)
    port = listening.getsockname()[1]

    async def serve_until_closed() -> None:
        # Once it is told, somebody may end it.
        _say_address(f"http://{server.HOST}:{port}/?token={token}", port, as_json)
        only = None if run is None else run.resolve()
        shown = server.Dashboard(
            lambda: runs.list_known(paths.runs, paths.state), only, _expect_seconds, _HostWatcher(paths.state).look
        )
        await server.serve_dashboard(shown, token, listening)

    with listening:
        try:
            until_interrupted(serve_until_closed())
        except LeftAtOnce:  # it has nothing to put right
            os._exit(ExitCode.DONE)
    return ExitCode.DONE


def _expect_seconds(manifest: "Manifest") -> float | None:
    """Seconds that a trial takes by the plan; None where what it names is not here, or not as it was."""
    from nearmetal.run.estimate import estimate_plan

    try:
        return estimate_plan(manifest.plan) / max(1, manifest.plan.trials)
    except (NearmetalError, ValueError):
        return None


class _HostWatcher:
    """Reads what is kept of machines and calibrations again only when either folder has changed."""

    def __init__(self, state: Path) -> None:
        from nearmetal.dashboard.host import HostState

        self._state = state
        self._seen: object = None
        self._found = HostState()

    def look(self) -> "HostState":
        from nearmetal.dashboard.file_follower import mark_file
        from nearmetal.lab.machines import registry
        from nearmetal.store import kept_calibrations

        marks = tuple(mark_file(one) for one in (registry.folder(), kept_calibrations.locate_folder(self._state)))
        if marks != self._seen:
            self._seen, self._found = marks, self._read()
        return self._found

    def _read(self) -> "HostState":
        import platform

        from nearmetal.dashboard.host import CalibrationLine, HostState, MachineLine
        from nearmetal.lab.machines import registry
        from nearmetal.store import kept_calibrations

        try:
            up = registry.everything()
        except (NearmetalError, OSError):
            up = []
        return HostState(
            tuple(MachineLine(one.name, one.environment, one.cpus, one.made) for one in up),
            tuple(
                CalibrationLine(one.environment, one.verdict, one.made, sum(one.trials.model_dump().values()))
                for one in kept_calibrations.read_calibrations(self._state, platform.release())
            ),
        )


def _require_libraries() -> None:
    """HostCannot where a library is lacking."""
    lacking = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if lacking:
        what = f"the dashboard is served by {' and '.join(lacking)}, which is not installed"
        raise HostCannot(what, remedy=describe_install(*lacking))


def _say_address(address: str, port: int, as_json: bool) -> None:
    from nearmetal.console.printing import console_for, print_json

    if as_json:
        from nearmetal.dashboard.document import Serving

        print_json(Serving(url=address, port=port, process=os.getpid()))
        return
    click.echo(address)
    beside = console_for(True)
    beside.print(f"From another machine: ssh -L {port}:127.0.0.1:{port} THIS-HOST, then the same address there.")
    beside.print("Ctrl-C ends it; the runs go on.")
