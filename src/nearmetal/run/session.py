"""From a study to a finished run: check, lock, build what is needed, run, conclude. What the command line calls."""

import datetime
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from nearmetal import factors as words
from nearmetal import hosts, plugins
from nearmetal import plan as planning
from nearmetal.by_hand import kept
from nearmetal.config import Paths
from nearmetal.errors import BadInput, HostCannot
from nearmetal.in_short import in_short
from nearmetal.isolate import standing
from nearmetal.lab import clean
from nearmetal.lab.lab import Lab, OpenSite
from nearmetal.lab.ledger import held
from nearmetal.lab.lock import measuring
from nearmetal.lab.site import LocalSite, host_facts
from nearmetal.lab.sites import opener
from nearmetal.model import Environment, MachineSpec, Plan, Study
from nearmetal.run import runner, shape
from nearmetal.run.events import Event
from nearmetal.run.missing import Missing, by_finding, cannot_run
from nearmetal.run.progress import Progress
from nearmetal.run.versions import versions
from nearmetal.store import runs
from nearmetal.store.claim import claimed
from nearmetal.store.folder import Manifest, RunFolder

_NAMED = 3
"""Treatments that lack the same are named up to here."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What a person asked for."""

    study: Study
    source: str
    """The study file's text."""
    overrides: tuple[str, ...]
    quick: bool
    folder: Path
    available: bool
    """Leave out what this host cannot run, instead of refusing."""


async def start(request: Request, say: Say, listeners: tuple[Callable[[Event], None], ...]) -> Progress:
    """Begin a run. Nothing is provisioned before everything that can be checked has been."""
    with measuring():
        _refuse_what_is_there(request.folder)
        await _put_right(say)
        _must_be_able_to_make(request.study)
        if _lacks_image(request.study):
            # Once more when it is there; but nobody shall wait minutes for it to be told of a missing key.
            missing = await what_is_missing(request.study)
            if missing and not request.available:
                raise _refusal(request.study, missing)
        await _prepare_images(request.study, say)
        async with aclosing(opener(hosts.of(request.study), say)) as open_site:
            folder = await open_folder(request, open_site)
            _say_if_too_few(folder.manifest(), say)
            return await _run(folder, open_site, listeners)


async def open_folder(request: Request, open_site: OpenSite) -> RunFolder:
    """Check that the study can run here, plan it, and make its folder. BadInput, HostCannot."""
    missing = await cannot_run(request.study, open_site)
    if missing and not request.available:
        raise _refusal(request.study, missing)
    plan = planning.make(request.study, [treatment for treatment, _ in missing])
    if not plan.treatments:
        raise HostCannot("nothing else is left to run", request.study.name, "mend what was left out, as is said there")
    folder = RunFolder(request.folder)
    request.folder.mkdir(parents=True, exist_ok=True)
    folder.write_manifest(await _manifest(request, plan, missing, open_site))
    return folder


def _say_if_too_few(manifest: Manifest, say: Say) -> None:
    """While there is still time to stop it: that no verdict can come of so few blocks."""
    plan = manifest.plan
    needed = planning.enough_blocks(len(plan.contrasts), manifest.study.design.alpha, bool(plan.looks))
    if plan.contrasts and len(plan.blocks) < needed:
        few = "block" if len(plan.blocks) == 1 else "blocks"
        say(f"with {len(plan.blocks)} {few} every verdict is undecided: that takes at least {needed}")


def _refuse_what_is_there(folder: Path) -> None:
    """BadInput where a run lies already, or anything else that is not a run's."""
    if (folder / "manifest.json").exists():
        raise BadInput("a run is there already", str(folder), f"choose another -o{_what_to_do_with(folder)}")
    try:
        if next(folder.iterdir(), None) is not None:
            raise BadInput("the folder holds something else", str(folder), "name a new one, or an empty one, by -o")
    except FileNotFoundError:
        pass
    except NotADirectoryError:
        raise BadInput("this is not a folder", str(folder), "name a new one, or an empty one, by -o") from None


def _what_to_do_with(run: Path) -> str:
    """What is left to do with a run that is there: it has ended, or can go on, or is past helping."""
    folder = RunFolder(run)
    try:
        folder.manifest()
        state = runs.state(folder.journal)
    except (BadInput, OSError):
        return ""
    doing = {"ended": ("see it by", "show"), "interrupted": ("go on with it by", "resume")}
    if state not in doing:
        return ": it is measured by another process"
    how, verb = doing[state]
    return f", or {how}: nearmetal {verb} {quote(str(run))}"


async def resume(folder: RunFolder, say: Say, listeners: tuple[Callable[[Event], None], ...]) -> Progress:
    """Go on where the journal ends."""
    manifest = folder.manifest()
    with measuring():
        await _put_right(say)
        await _prepare_images(manifest.study, say)
        async with aclosing(opener(hosts.of(manifest.study), say)) as open_site:
            return await _run(folder, open_site, listeners)


async def _run(folder: RunFolder, open_site: OpenSite, listeners: tuple[Callable[[Event], None], ...]) -> Progress:
    runs.remember(folder.path, Paths.default().state)
    with claimed(folder.journal):
        await _prepare_environments(folder.manifest(), open_site)
        token = clean.new_token()
        with held(clean.ledgers_folder() / f"{token}.jsonl") as ledger:
            lab = Lab(token, ledger, open_site, shape.mtu(folder.manifest().study))
            return await runner.run(folder, lab, listeners)


async def _put_right(say: Say) -> None:
    cleaned = await clean.clean()
    await kept.forget_dead()
    if cleaned.removed or cleaned.restored:
        done = "put right what an earlier run left" if not cleaned.left else "put right of what an earlier run left"
        say(f"{done}: {len(cleaned.removed)} removed, {len(cleaned.restored)} restored")
    for what in cleaned.left:
        say(f"still there: {what}")
    for one in kept.everything():
        if one.cpus:
            say(f"machine {one.name} is up on CPU {one.cpus} and disturbs what runs there; nearmetal down {one.name}")
    if cpus := await _kept_free():
        say(f"CPU {cpus} is kept free by nearmetal isolate, this run has the others; to use all: nearmetal isolate off")


async def _kept_free() -> str:
    """The CPUs of this host that a standing isolation keeps from this run, in the kernel's notation; "" for none."""
    return standing.isolated_cpus(await standing.held_changes(LocalSite(), standing.ledger_path()))


# ── What this host cannot run ─────────────────────────────────────────────────────────────────────────────────────


async def what_is_missing(study: Study) -> Missing:
    async with aclosing(opener(hosts.of(study))) as open_site:
        return await cannot_run(study, open_site)


def _refusal(study: Study, missing: Missing) -> HostCannot:
    """What cannot run here, and that the rest can, if there is any."""
    lacking_something = {words.identity(treatment) for treatment, _ in missing}
    others_can = any(words.identity(one) not in lacking_something for one in words.treatments_of(study))
    of_each = by_finding(missing)
    lines = [f"  {one.what}: {one.detail}: {in_short(treatments, _NAMED, '; ')}" for one, treatments in of_each.items()]
    remedies = dict.fromkeys(lacking.remedy for lacking in of_each if lacking.remedy)
    return HostCannot(
        f"{len(missing)} treatment{'s' * (len(missing) > 1)} cannot run here:\n" + "\n".join(lines),
        study.name,
        "; ".join([*remedies, *(["or leave them out with --available"] if others_can else [])]),
    )


def _makes_machines(study: Study) -> bool:
    """Whether any of its machines are made by us, of the image."""
    levels = {str(level) for level in study.factors["environment"].levels} | {study.clients.environment}
    return any(hosts.hangs_on_switch(study.environment(level)) for level in levels)


def _must_be_able_to_make(study: Study) -> None:
    """Before minutes are spent on an image: what is found out of each environment later needs one."""
    if os.geteuid() != 0 and _makes_machines(study):
        raise HostCannot("only root may make machines", study.name, "run nearmetal as root")


def _lacks_image(study: Study) -> bool:
    """Whether the lab image is still to be built."""
    if not _makes_machines(study):
        return False
    from nearmetal.lab.image import Recipe
    from nearmetal.lab.image.store import folder_of

    return not folder_of(Recipe(), Paths.default().cache).is_dir()


async def _prepare_images(study: Study, say: Say) -> None:
    """Build the lab image once, before the clock of the run starts, where a machine of ours needs it."""
    if _makes_machines(study):
        from nearmetal.lab.image import Recipe, build

        await build(Recipe(), Paths.default().cache, say)


async def _prepare_environments(manifest: Manifest, open_site: OpenSite) -> None:
    """What each environment does once for all its machines of a shape."""
    prepared: set[tuple[str, str]] = set()
    for treatment in manifest.plan.treatments:
        asked = words.ask(manifest.study, treatment, plugins.names("treatments"))
        server, clients = manifest.study.environment(asked.environment), asked.clients
        client = manifest.study.environment(clients.environment)
        for given, provision, machine in (
            (server, manifest.study.provision_of(server), shape.server(asked)),
            (client, shape.client_provision(client), _at(asked.machine, clients.host)),
        ):
            spec = given.model_copy(update={"provision": provision})
            key = (spec.model_dump_json(), machine.model_dump_json())
            if key not in prepared:
                prepared.add(key)
                environment: Environment = plugins.load("environments", spec.kind)
                await environment.prepare(spec, machine, await open_site(machine.host))


def _at(machine: MachineSpec, host: str) -> MachineSpec:
    """As clients need it, on their host."""
    return machine.model_copy(update={"host": host, "image": shape.image_beside(machine)})


# ── The manifest ──────────────────────────────────────────────────────────────────────────────────────────────────


async def _manifest(request: Request, plan: Plan, missing: Missing, open_site: OpenSite) -> Manifest:
    return Manifest(
        run=request.folder.name,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        study=request.study,
        source=request.source,
        overrides=request.overrides,
        quick=request.quick,
        plan=plan,
        left_out=tuple(treatment for treatment, _ in missing),
        left_out_why=tuple(f"{lacking.what}: {lacking.detail}" for _, lacking in missing),
        versions=await versions(request.study, plan, open_site),
        host=await host_facts(),
        kept_free=await _kept_free(),
    )


def default_folder(study: Study) -> Path:
    """A new folder for a run: the study's name and the first number that is free."""
    runs = Paths.default().runs
    return next(path for number in range(1, 10**6) if not (path := runs / f"{study.name}-{number}").exists())
