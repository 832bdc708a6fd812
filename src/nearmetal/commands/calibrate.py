"""How far answers can be trusted on this host."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from nearmetal.commands.options import RunPath, json_option
from nearmetal.errors import BadInput, ExitCode

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("environment", required=False)
@click.option("--from", "made", type=RunPath(), help="Tell of this run, instead of making one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder of the run.")
@click.option("--blocks", type=click.IntRange(1), help="Run this many blocks; 8 are the fewest that can tell.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key of the study `calibration`.")
@click.option("--quick", is_flag=True, help="Shorter trials, fewest blocks.")
@click.option("--gate", is_flag=True, help="Exit with 5 unless answers here can be trusted.")
@json_option("calibrate.v1")
def calibrate(made: Path | None, gate: bool, as_json: bool, **wanted: Any) -> int:
    """Try how far answers can be trusted here.

    And how small a difference can be seen, with how many blocks. ENVIRONMENT is the kind of machine; else host.
    """
    from nearmetal.commands import calibrate_action
    from nearmetal.console.printing import console_for, print_json, print_warning
    from nearmetal.report.figures import join_listing
    from nearmetal.report.write import write
    from nearmetal.store.run_folder import RunFolder

    console = console_for(as_json)
    if made is not None:
        options = {"-o": "output", "--blocks": "blocks", "--set": "overrides", "--quick": "quick"}
        given = [option for option, name in options.items() if wanted[name]]
        if wanted["environment"] is not None:
            given.insert(0, wanted["environment"])
        if given:
            what = f"--from tells of a run that was made, which leaves no use for {join_listing(given)}"
            remedy = f"nearmetal calibrate --from {quote(str(made))}; or leave out --from, to make a run"
            raise BadInput(what, "calibrate", remedy)
        folder = RunFolder.open(made)
    else:
        folder, finished = calibrate_action.run_calibration(console, **wanted)
        if not finished:
            return calibrate_action.end_interrupted(folder)
        write(folder, print_warning)
    found = calibrate_action.read_found(folder)
    path = calibrate_action.keep_found(found, folder)
    if as_json:
        print_json(found)
    else:
        calibrate_action.print_calibration(found, console)
        console.print(calibrate_action.describe_keeping(found, path), style="dim")
        if folder.page.exists():
            console.print(f"report: {folder.page}", soft_wrap=True)
    bad = found.trials.invalid + found.trials.failed + found.trials.lost
    if gate and found.verdict != "sound":
        return ExitCode.GATE_NOT_MET
    return ExitCode.SOME_TRIALS_BAD if bad else ExitCode.DONE
