"""What a run is refused for before anything is made, in words that help: a folder that is taken, a host that cannot."""

import errno
import os
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from nearmetal.errors import BadInput, HostCannot
from nearmetal.model import Study, identify_assignment
from nearmetal.run.unavailable_treatments import Missing, group_by_finding
from nearmetal.run.versions import makes_machines
from nearmetal.shortened_list import shorten_list
from nearmetal.store import runs
from nearmetal.store.run_folder import RunFolder
from nearmetal.study import factors as words
from nearmetal.system import files, user_namespace

_NAMED = 3
"""Treatments that lack the same are named up to here."""


def refuse_occupied_folder(folder: Path) -> None:
    """BadInput where a run lies already, or anything else that is not a run's, and where no folder can be made.

    And within the folder of another run, to which only its own files belong.
    """
    try:
        inside = {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        _try_to_make(folder)
        inside = set()
    except NotADirectoryError:
        raise BadInput("this is not a folder", str(folder), "name a new one, or an empty one, by -o") from None
    except OSError as error:
        raise _make_folder_error(folder, error) from None
    if "manifest.json" in inside:
        state = _read_state(folder)
        what = "a run is there already" + (", and goes on: another process measures it" if state == "running" else "")
        raise BadInput(what, str(folder), f"choose another -o{_suggest_command(folder, state)}")
    if (around := _find_run_around(folder)) is not None:
        raise BadInput("this lies in the folder of another run", str(folder), f"name one outside of {around} by -o")
    if inside:
        raise BadInput("the folder holds something else", str(folder), "name a new one, or an empty one, by -o")


def _find_run_around(folder: Path) -> Path | None:
    """By both files: others write a manifest.json, too."""
    names = ("manifest.json", "journal.jsonl")
    parents = folder.absolute().parents
    return next((one for one in parents if all((one / name).is_file() for name in names)), None)


def _try_to_make(folder: Path) -> None:
    """Only by trying is it known: some file systems let nobody make a folder, whatever its permissions are."""
    new = files.list_missing(folder)
    try:
        folder.mkdir(parents=True)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _make_folder_error(folder, error) from None
    finally:
        files.remove_empty(new)


def _make_folder_error(folder: Path, error: OSError) -> BadInput | OSError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP):
        return BadInput(f"no folder can be made there: {error.strerror}", str(folder), "name another by -o")
    return error


_DOING: Mapping[runs.State, tuple[str, str]] = {
    "ended": ("see it by", "show"),
    "interrupted": ("go on with it by", "resume"),
    "running": ("see how far it is by", "show"),
}


def _read_state(run: Path) -> runs.State | None:
    """None of one that is past helping."""
    folder = RunFolder(run)
    try:
        folder.read_manifest()
        return runs.find_state(folder.journal)
    except (BadInput, OSError):
        return None


def _suggest_command(run: Path, state: runs.State | None) -> str:
    if state is None:
        return ""
    how, verb = _DOING[state]
    return f", or {how}: nearmetal {verb} {quote(str(run))}"


def require_machine_privileges(study: Study) -> None:
    """HostCannot before minutes are spent on an image: what is found out of each environment later needs one."""
    if os.geteuid() != 0 and makes_machines(study):
        refused = user_namespace.explain_refusal()
        raise HostCannot(f"machines cannot be made: {refused.what}", study.name, refused.remedy)


def make_refusal(study: Study, missing: Missing) -> HostCannot:
    """What cannot run here, and that the rest can, if there is any. Pure."""
    lacking_something = {identify_assignment(treatment) for treatment, _ in missing}
    others_can = any(identify_assignment(one) not in lacking_something for one in words.treatments_of(study))
    what = f"{len(missing)} treatment{'s' * (len(missing) > 1)} cannot run here"
    return _refuse_missing(what, study, missing, "or leave them out with --available" if others_can else "")


def refuse_lone_rest(study: Study, missing: Missing) -> HostCannot:
    """What --available left out of a study that compares, and whose rest has nothing to be compared with. Pure."""
    what = "nothing is left to compare without what cannot run here"
    return _refuse_missing(what, study, missing, "or leave these levels out of the study, to measure the rest alone")


def _refuse_missing(what: str, study: Study, missing: Missing, otherwise: str) -> HostCannot:
    of_each = group_by_finding(missing)
    lines = [
        f"  {one.what}: {one.detail}: {shorten_list(treatments, _NAMED, '; ')}" for one, treatments in of_each.items()
    ]
    remedies = dict.fromkeys(lacking.remedy for lacking in of_each if lacking.remedy)
    remedy = "; ".join(filter(None, [*remedies, otherwise]))
    return HostCannot(f"{what}:\n" + "\n".join(lines), study.name, remedy)
