"""`plan --pilot`: a few boots of the study's own treatments, with two trials in each, to measure its noise."""

import os
from shlex import quote

from rich.console import Console

from nearmetal.analysis.paired_noise import choose_repeats_together, measure_noise
from nearmetal.commands.run_action import make_progress_display
from nearmetal.config import Paths
from nearmetal.console.printing import console_for, unfold_console
from nearmetal.planning import plan as planning
from nearmetal.planning.opened_study import OpenedStudy
from nearmetal.report import figures, words
from nearmetal.run import study_execution
from nearmetal.store import journal
from nearmetal.store.pilot import Pilot, keep_pilot
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.measurement_digest import digest_measurement
from nearmetal.study.resolve import resolve_treatments
from nearmetal.system.interrupts import run_until_done, until_interrupted
from nearmetal.units import show_duration, show_share

BOOTS = 6
TRIALS = 2
"""In each boot: the fewest that tell what varies within it."""


def make_pilot(opened: OpenedStudy, available: bool, as_json: bool) -> bool:
    """Run a pilot, print what it measured and keep that for `plan`. Whether it came to its end."""
    console = unfold_console(console_for(as_json))
    design = opened.study.design.model_copy(update={"blocks": BOOTS, "repeats": TRIALS})
    study = opened.study.model_copy(update={"design": design})
    overrides = (*opened.overrides, f"design.blocks={BOOTS}", f"design.repeats={TRIALS}")
    path = study_execution.default_folder(study, "-pilot")
    request = study_execution.RunRequest(
        study, opened.source, overrides, opened.quick, path, available, files=opened.files, is_pilot=True
    )
    resolved = resolve_treatments(study, opened.files)
    missing = run_until_done(study_execution.find_missing(study, resolved)) if available else []
    plan = planning.make_plan(study, [treatment for treatment, _ in missing], resolved)
    console.print(f"a pilot of {BOOTS} boots of each treatment measures the noise; its verdicts do not matter")
    with make_progress_display(study, plan, console) as watching:
        finished = until_interrupted(study_execution.start_run(request, console.print, (watching,)), console.print)
    folder = RunFolder(path)
    if not finished:
        console.print(f"the pilot was interrupted; what it measured is in {quote(str(path))}", soft_wrap=True)
        return False
    _tell_pilot(_keep_found(folder), words.Labels.of_plan(plan), console)
    return True


def _keep_found(folder: RunFolder) -> Pilot:
    manifest = folder.read_manifest()
    noise = measure_noise(manifest, list(journal.read_records(folder.journal)))
    pilot = Pilot(
        run=str(folder.path),
        made=manifest.created,
        kernel=os.uname().release,
        measured=digest_measurement(manifest.study),
        boots=BOOTS,
        trials=TRIALS,
        repeats=choose_repeats_together(noise, manifest.study.design.share_boot),
        noise=noise,
    )
    keep_pilot(pilot, Paths.default().state)
    return pilot


def _tell_pilot(pilot: Pilot, labels: words.Labels, console: Console) -> None:
    """How much boots and trials vary, and what each costs."""
    console.print(
        f"pilot: {BOOTS} boots of each treatment, {TRIALS} trials in each; its run is {pilot.run}", soft_wrap=True
    )
    if not pilot.noise:
        console.print("it measured no comparison often enough to tell its noise; `nearmetal show` has what failed")
    for one in pilot.noise:
        of = one.components
        if of is None or one.scale != "ratio":
            continue
        sides = words.name_difference(one.treatment, one.reference), words.name_difference(one.reference, one.treatment)
        common = labels.name_common(one.treatment, one.reference)
        contrast = " against ".join(sides) + (f" ({common})" if common else "")
        boots, trials = (show_share(variance**0.5, digits=2) for variance in (of.between, of.within))
        console.print(
            f"  {one.workload}, {contrast}: boots differ by {boots}, trials within them by {trials}; "
            f"both boots take {show_duration(of.boot_seconds)}, a trial in each {show_duration(of.trial_seconds)}; "
            f"with {figures.format_count(of.repeats, 'trial')} a boot the most is found in a given time"
        )
