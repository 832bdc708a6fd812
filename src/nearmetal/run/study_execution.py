"""From a study to a finished run: check, lock, build what is needed, run, conclude. What the command line calls."""

import datetime
import secrets
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nearmetal import plugins
from nearmetal.analysis.verdict_rules import warn_of_no_slack
from nearmetal.config import Paths
from nearmetal.errors import BadInput, HostCannot, MachineLost, Unreachable
from nearmetal.isolate import active_isolation
from nearmetal.lab import clean, concurrent_runs, host_lock, rootless
from nearmetal.lab.image.pinned_images import pinned
from nearmetal.lab.lab import OpenSite
from nearmetal.lab.local_site import LocalSite, read_host_facts
from nearmetal.lab.machines import registry
from nearmetal.lab.process_locks import hold_measuring_lock, hold_pretending_lock
from nearmetal.lab.site_registry import Sites
from nearmetal.model import PRETENDED, HostSpec, Plan, Resolved, Study
from nearmetal.planning import plan as planning
from nearmetal.progress_messages import Say
from nearmetal.run import plan_execution, versions
from nearmetal.run.block_executor import BlockExecutor, Listeners, RunBlocks, began_on_fleet
from nearmetal.run.block_processes import BlockProcesses
from nearmetal.run.dashboard_link import LiveNotes
from nearmetal.run.preflight import make_refusal, refuse_lone_rest, refuse_occupied_folder, require_machine_privileges
from nearmetal.run.progress import Progress
from nearmetal.run.site_resources import is_pretended, list_hosts
from nearmetal.run.unavailable_treatments import Missing, find_unavailable
from nearmetal.run.versions import collect_versions, other_versions
from nearmetal.store import journal, runs
from nearmetal.store.calibration_document import Sizing
from nearmetal.store.journal_lock import hold_journal, make_taken_error
from nearmetal.store.manifest import Manifest
from nearmetal.store.run_control import forget_live
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.blocks import checksum_trial_ids
from nearmetal.study.levels import format_assignment
from nearmetal.study.resolve import Resolver, collect_hosts, collect_plugins, resolve_treatments
from nearmetal.study.user_files import FileReader
from nearmetal.system import files


@dataclass(frozen=True)
class RunRequest:
    """What a person asked for."""

    study: Study
    source: str
    """The study file's text."""
    overrides: tuple[str, ...]
    quick: bool
    folder: Path
    available: bool
    """Leave out what this host cannot run, instead of refusing."""
    sizing: Sizing | None = None
    """How the number of blocks was fixed, where the study leaves it open."""

    files: FileReader = field(default_factory=FileReader)
    """What the study carries into machines."""

    gates: tuple[str, ...] = ()
    """As `Manifest.gates`."""

    is_pilot: bool = False
    """Its verdicts do not matter: too few blocks for one are no news."""

    def with_blocks(self, study: Study, sizing: Sizing | None) -> "RunRequest":
        """This request with the number of blocks that was fixed, as if the command line had set it."""
        overrides = (*self.overrides, f"design.blocks={study.design.most_blocks}")
        return replace(self, study=study, sizing=sizing, overrides=overrides)

    def draw_seed(self) -> "RunRequest":
        """This request with a seed drawn, if neither the study nor the command line names one.

        What an order is by chance, such as mostly one arm first, it shall not be in every run.
        """
        design = self.study.design
        if design.seed is not None:
            return self
        seed = secrets.randbelow(2**31)
        study = self.study.model_copy(update={"design": design.model_copy(update={"seed": seed})})
        return replace(self, study=study, overrides=(*self.overrides, f"design.seed={seed}"))


class LocalExecutor:
    """A `BlockExecutor`: one block after the other, each in a process, and nothing else measures here meanwhile.

    Pretended machines take nothing from this host: such a run neither waits for others nor keeps them waiting.
    """

    def refuse_run(self, folder: RunFolder, happened: Sequence[Mapping[str, Any]]) -> None:
        if began_on_fleet(happened):
            remedy = f"nearmetal resume {folder.path} --scheduler ADDRESS"
            raise BadInput("this run has its blocks on a fleet", str(folder.path), remedy)

    @asynccontextmanager
    async def open(self, resolved: Sequence[Resolved], run: str, say: Say) -> AsyncIterator[RunBlocks]:
        with hold_pretending_lock() if is_pretended(resolved) else hold_measuring_lock(say, run) as lock:

            async def run_blocks(
                folder: RunFolder,
                hosts: Mapping[str, HostSpec],
                listeners: Listeners,
                changed: Mapping[str, tuple[str, str]],
            ) -> Progress:
                forget_live(folder)
                try:
                    notes = LiveNotes(folder)
                    async with aclosing(Sites(hosts, say)) as open_site:
                        # Each block has them too; so nobody takes one between two blocks.
                        await host_lock.hold_all(list_hosts(resolved) & hosts.keys(), open_site)
                        return await plan_execution.run_plan(
                            folder, BlockProcesses(say, lock), hosts, (*listeners, notes), changed
                        )
                finally:
                    forget_live(folder)

            yield run_blocks


@asynccontextmanager
async def _refuse_lost_host() -> AsyncIterator[None]:
    """Unreachable if a host is lost outside of any trial, of which none is bad by that."""
    try:
        yield
    except MachineLost as error:
        remedy = error.remedy or "see whether it answers; a run that has begun goes on with: nearmetal resume"
        raise Unreachable(error.what, error.where, remedy) from None


@_refuse_lost_host()
async def start_run(
    request: RunRequest, say: Say, listeners: Listeners, executor: BlockExecutor | None = None
) -> Progress:
    """Begin a run. Nothing is provisioned before everything that can be checked has been."""
    request = request.draw_seed()
    reader = request.files
    resolved = resolve_treatments(request.study, reader)
    async with (executor or LocalExecutor()).open(
        resolved, _name_run(request.study, request.folder), say
    ) as run_blocks:
        refuse_occupied_folder(request.folder)
        await _restore_host(say)
        if not is_pretended(resolved):
            await _warn_of_disturbers(say)
        require_machine_privileges(request.study)
        hosts = collect_hosts(request.study)
        if versions.lacks_image(request.study):
            # Once more when it is there; but nobody shall wait minutes for it to be told of a missing key.
            _plan_rest(request, resolved, await find_missing(request.study, resolved))
        await versions.build_image(request.study, say)
        async with aclosing(Sites(hosts, say)) as open_site:
            folder = await open_folder(request, resolved, open_site, reader)
            if not request.is_pilot:
                _warn_of_too_few_blocks(folder.read_manifest(), say)
            with _hold_run(folder):
                await versions.prepare_environments(folder.read_manifest(), open_site)
        # What was reached is let go of: each block reaches it by itself.
        with _hold_run(folder):
            return await run_blocks(folder, hosts, listeners, {})


async def find_missing(study: Study, resolved: Iterable[Resolved]) -> Missing:
    """What cannot run, asked on sites that are opened for it alone."""
    async with aclosing(Sites(collect_hosts(study))) as open_site:
        return await find_unavailable(study, resolved, open_site)


async def open_folder(
    request: RunRequest, resolved: Sequence[Resolved], open_site: OpenSite, reader: FileReader | None = None
) -> RunFolder:
    """Check that the study can run here, plan it, and make its folder. BadInput, HostCannot.

    `reader` has read the files that the treatments carry along.
    """
    missing = await find_unavailable(request.study, resolved, open_site)
    plan = _plan_rest(request, resolved, missing)
    folder = RunFolder(request.folder)
    manifest = await _make_manifest(request, plan, missing, open_site)
    new = files.list_missing(request.folder)
    try:
        files.make_folder(request.folder)
        # Another run may be about to begin in the same folder.
        with hold_journal(folder.journal):
            if folder.has_manifest:
                raise make_taken_error(folder.journal)
            if reader is not None:
                reader.write(folder.files)
            folder.write_manifest(manifest)
    except OSError:
        shutil.rmtree(folder.files, ignore_errors=True)
        with suppress(OSError):
            folder.journal.unlink()
        files.remove_empty(new)
        raise
    return folder


def _plan_rest(request: RunRequest, resolved: Sequence[Resolved], missing: Missing) -> Plan:
    """The plan of what can run. HostCannot if all of the study is asked for, or nothing is left to run or compare."""
    if missing and not request.available:
        raise make_refusal(request.study, missing)
    plan = planning.make_plan(request.study, [treatment for treatment, _ in missing], resolved)
    if not plan.treatments:
        raise HostCannot("nothing else is left to run", request.study.name, "mend what was left out, as is said there")
    if planning.is_left_without_contrast(request.study, plan, resolved):
        raise refuse_lone_rest(request.study, missing)
    return plan


def _warn_of_too_few_blocks(manifest: Manifest, say: Say) -> None:
    """While there is still time to stop it: that no verdict can come of so few blocks."""
    plan = manifest.plan
    needed = planning.enough_blocks(len(plan.contrasts), manifest.study.design.alpha, bool(plan.looks))
    if plan.contrasts and plan.blocks < needed:
        few = "block" if plan.blocks == 1 else "blocks"
        say(f"with {plan.blocks} {few} every verdict is undecided: that takes at least {needed}")
        return
    for warning in warn_of_no_slack(plan):
        say(warning.text)


@_refuse_lost_host()
async def resume_run(
    folder: RunFolder, say: Say, listeners: Listeners, executor: BlockExecutor | None = None
) -> Progress:
    """Go on where the journal ends. Where that is before the run's own end alone, no machine is asked for any more."""
    manifest = folder.read_manifest()
    progress = Progress.from_lines(journal.read_records(folder.journal))
    executor = executor or LocalExecutor()
    executor.refuse_run(folder, list(journal.read_events(folder.journal)))
    run = _name_run(manifest.study, folder.path)
    async with executor.open(manifest.plan.resolved, run, say) as run_blocks:
        await _restore_host(say)
        if not is_pretended(manifest.plan.resolved):
            await _warn_of_disturbers(say)
        is_measured = lacks_only_its_end(folder, manifest, progress)
        if not is_measured:
            refuse_changed_plan(folder, manifest)
        hosts = {} if is_measured else collect_hosts(manifest.study)
        with _hold_run(folder):
            changed = {} if is_measured else await _prepare_again(manifest, hosts, say)
            return await run_blocks(folder, hosts, listeners, changed)


async def _prepare_again(manifest: Manifest, hosts: Mapping[str, HostSpec], say: Say) -> Mapping[str, tuple[str, str]]:
    """Have ready what blocks need; what is another version than when the run began."""
    async with aclosing(Sites(hosts, say)) as open_site:
        await versions.build_image(manifest.study, say)
        now = await collect_versions(manifest.study, manifest.plan, open_site)
        changed = {**other_versions(manifest.versions, now), **find_other_plugins(manifest)}
        for name, (before, after) in changed.items():
            say(f"since the run began {name} has changed: {before} before, {after} now")
        await versions.prepare_environments(manifest, open_site)
    return changed


def lacks_only_its_end(folder: RunFolder, manifest: Manifest, progress: Progress) -> bool:
    """All that it was to measure is there."""
    plan = manifest.plan
    to_run = journal.blocks_to_run(plan.blocks, journal.read_events(folder.journal))
    return all(plan_execution.is_measured(plan, index, progress) for index in range(to_run))


def refuse_changed_plan(folder: RunFolder, manifest: Manifest) -> None:
    """BadInput where what is installed now would make another run of it than the one that began.

    A plugin that is gone; treatments that resolve to something else; trials that would have other names.
    """
    again = "begin a new run, or go on with the nearmetal that began it"
    for group, what, name in _asked_of_plugins(manifest):
        if name not in plugins.list_names(group):
            why = f"nothing provides {name!r} any more, {what} of this run"
            raise BadInput(why, str(folder.path), "install the package again that provided it, or begin a new run")
    if manifest.trial_ids is None or manifest.trial_ids != checksum_trial_ids(manifest.plan):
        raise BadInput("its trials are not those that this nearmetal would run", str(folder.path), again)
    try:
        resolver = Resolver(manifest.study, FileReader(known=manifest.plan.resolved))
    except (ValidationError, BadInput, ValueError) as error:
        reason = error.what if isinstance(error, BadInput) else str(error).splitlines()[0]
        raise BadInput(f"its study means nothing any more: {reason}", str(folder.path), again) from None
    for one in manifest.plan.resolved:
        try:
            now = resolver.resolve_treatment(one.assignment)
        except (ValidationError, BadInput, ValueError, KeyError) as error:
            reason = error.what if isinstance(error, BadInput) else str(error).splitlines()[0]
            raise BadInput(
                f"{format_assignment(one.assignment)} means nothing any more: {reason}", str(folder.path), again
            ) from None
        if (other := _find_other(one, now)) is not None:
            treatment = format_assignment(one.assignment)
            why = f"{treatment} would be another treatment now: its {other} is not as it was planned"
            raise BadInput(why, str(folder.path), again)


_PARTS = ("server", "clients", "link", "observe", "services", "align", "workloads", "environment")


def _find_other(before: Resolved, now: Resolved) -> str | None:
    """The first part of a treatment that is another now. Of a manifest of version 1 only what it kept is compared."""
    if before.environment.description.family is None:
        same = before.link == now.link and before.observe == now.observe
        kinds = [one.kind for one in before.workloads] == [one.kind for one in now.workloads]
        return None if same and kinds else "link, observers or workloads"
    return next((name for name in _PARTS if getattr(before, name) != getattr(now, name)), None)


def find_other_plugins(manifest: Manifest) -> Mapping[str, tuple[str, str]]:
    """Plugins of other packages that are of another version now."""
    now = {(one.group, one.plugin): one for one in collect_plugins(manifest.plan.resolved)}
    found = {}
    for one in manifest.plugins:
        current = now.get((one.group, one.plugin))
        if current is not None and one.distribution != "nearmetal" and current != one:
            name = f"the plugin {one.plugin} of {one.distribution}"
            moved = "" if current.distribution == one.distribution else f" of {current.distribution}"
            found[name] = (one.version, f"{current.version}{moved}")
    return found


def _asked_of_plugins(manifest: Manifest) -> Iterator[tuple[plugins.Group, str, str]]:
    """The group of plugins, what it is called, and the name of one."""
    for one in manifest.plan.resolved:
        yield "environments", "an environment", one.environment.kind
        yield "environments", "an environment", one.clients.environment.kind
        yield from (("workloads", "a workload", of.kind) for of in one.workloads)
        yield from (("observers", "an observer", name) for name in one.observe.chosen)
        named = (*one.treatments, *one.clients.treatments)
        yield from (("treatments", "a treatment or an observer", name) for name in named)


@contextmanager
def _hold_run(folder: RunFolder) -> Iterator[None]:
    """Listed as a run of this home, held against others, and made of the images that it began with."""
    runs.remember_run(folder.path, Paths.default().state)
    with hold_journal(folder.journal), pinned(folder.read_manifest().images):
        yield


def _name_run(study: Study, folder: Path) -> str:
    return f"study {study.name}, {folder.absolute()}"


async def _restore_host(say: Say) -> None:
    cleaned = await clean.clean(say)
    await registry.forget_dead()
    if cleaned.removed or cleaned.restored:
        done = "put right what an earlier run left" if not cleaned.left else "put right of what an earlier run left"
        say(f"{done}: {len(cleaned.removed)} removed, {len(cleaned.restored)} restored")
    for what in cleaned.left:
        say(f"still there: {what}")


async def _warn_of_disturbers(say: Say) -> None:
    if process := concurrent_runs.other():
        say(f"another nearmetal (process {process}) is at work on this host: each disturbs the other")
    for one in registry.everything():
        if one.cpus and one.environment != PRETENDED:
            say(f"machine {one.name} is up on CPU {one.cpus} and disturbs what runs there; nearmetal down {one.name}")
    if cpus := await _find_kept_free_cpus():
        say(f"CPU {cpus} is kept free by nearmetal isolate, this run has the others; to use all: nearmetal isolate off")


async def _find_kept_free_cpus() -> str:
    """The CPUs of this host that a standing isolation keeps from this run, in the kernel's notation; "" for none."""
    return active_isolation.isolated_cpus(
        await active_isolation.held_changes(LocalSite(), active_isolation.ledger_path())
    )


async def _make_manifest(request: RunRequest, plan: Plan, missing: Missing, open_site: OpenSite) -> Manifest:
    images = versions.find_images(plan.resolved)
    return Manifest(
        run=request.folder.name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        study=request.study,
        source=request.source,
        overrides=request.overrides,
        quick=request.quick,
        plan=plan,
        trial_ids=checksum_trial_ids(plan),
        plugins=collect_plugins(plan.resolved),
        left_out=tuple(treatment for treatment, _ in missing),
        left_out_why=tuple(f"{lacking.what}: {lacking.detail}" for _, lacking in missing),
        versions=await collect_versions(request.study, plan, open_site),
        images={name: image.digest for name, image in images.items()},
        packages={name: image.packages for name, image in images.items() if image.packages},
        host=await read_host_facts(),
        kept_free=await _find_kept_free_cpus(),
        rootless=rootless.find_lacking(),
        sizing=request.sizing,
        gates=request.gates,
    )


def default_folder(study: Study, what: str = "") -> Path:
    """A new folder for a run: the study's name, `what` it is of, and the first number that is free."""
    runs = Paths.default().runs
    return next(path for number in range(1, 10**6) if not (path := runs / f"{study.name}{what}-{number}").exists())
