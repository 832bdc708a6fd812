"""A study as it is given: a file, a built-in one by its name, stdin, or the bundle of an earlier run."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nearmetal import studies
from nearmetal.errors import BadInput
from nearmetal.model import Study
from nearmetal.spelling import did_you_mean
from nearmetal.store.bundle import is_bundle
from nearmetal.store.run_folder import RunFolder
from nearmetal.study.lab_file import build_overrides, read_lab_file
from nearmetal.study.line_numbers import KeyPath
from nearmetal.study.study_file import locate_key, parsed_override, read
from nearmetal.study.user_files import FileReader
from nearmetal.units import show_size


class OpenedStudy:
    """A study as read, with the text it came from and what the command line set over it."""

    def __init__(
        self,
        study: Study,
        source: str,
        overrides: Sequence[str],
        quick: bool,
        files: FileReader | None = None,
        name: str = "",
        repeats: Path | None = None,
        typed: Mapping[str, str] | None = None,
    ) -> None:
        self.files = files or FileReader()
        """What the study carries into machines."""
        self.repeats = repeats
        """The bundle whose run this is once more."""
        self.study = study
        self.source = source
        self.overrides = tuple(overrides)
        self.quick = quick
        self.name = name
        """Of its file, or the built-in one's."""
        self._typed = typed or {}

    def place_of(self, path: KeyPath) -> str:
        """Where it says something: its file and line, or what the command line set over it."""
        return locate_key(self.source, self.name, self.overrides, self.quick, path, self._typed)


_LONGEST = 16 * 2**20
"""Bytes of a study file. The largest that can be planned, of a million trials, has a few."""


def read_study(
    study: str,
    overrides: Sequence[str] = (),
    blocks: int | None = None,
    seed: int | None = None,
    quick: bool = False,
    lab: Path | None = None,
) -> OpenedStudy:
    """A study by its path or built-in name, or as it comes through stdin, with what the command line sets.

    Before that come the hosts of a `lab` file, whose options of the command line go over them.
    """
    if lab is not None:
        overrides = [*build_overrides(read_lab_file(lab), str(lab)), *overrides]
    is_stdin = study == "-"
    if is_stdin:
        study = "/dev/stdin"
    path = Path(study)
    if not is_stdin and is_bundle(path):
        return _open_bundle(path, overrides, blocks, seed, quick)
    if _is_file(path) or (is_stdin and path.is_char_device()):
        try:
            with path.open("rb") as file:
                content = file.read(_LONGEST + 1)
            if len(content) > _LONGEST:
                raise BadInput(f"this is longer than {show_size(_LONGEST)}", study, "give a study file in TOML")
            source = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise BadInput("this is not a text file", study, "give a study file in TOML") from None
        if is_stdin and not source.strip():
            raise BadInput("nothing came through it", study, "send it a study: nearmetal plan - <study.toml")
    elif study in studies.list_names():
        source = studies.read_study_file(study)
    elif study and _is_folder(path):
        raise BadInput("this is a folder, not a study", study, "name the study's file")
    elif study and _is_there(path):
        raise BadInput("this is not a regular file", study, "name a study's file")
    else:
        remedy = did_you_mean(study, studies.list_names(), "give a file, or one of")
        what = "there is no such file, and" if path.suffix == ".toml" or path.name != study else "there is"
        raise BadInput(f"{what} no study {study[:200]!r}", remedy=remedy)
    beside = path.parent if _is_file(path) and not is_stdin else Path()
    return open_text(source, study, beside, overrides, blocks, seed, quick)


def open_text(
    source: str,
    name: str,
    beside: Path,
    overrides: Sequence[str] = (),
    blocks: int | None = None,
    seed: int | None = None,
    quick: bool = False,
) -> OpenedStudy:
    """The text of a study file, which names other files as seen from `beside`. BadInput when it is no study."""
    typed = _collect_options(overrides, blocks, seed)
    wanted = [*overrides, *typed]
    study = read(source, name, wanted, quick, typed)
    return OpenedStudy(study, source, wanted, quick, FileReader(beside), name, typed=typed)


def _open_bundle(
    path: Path, overrides: Sequence[str], blocks: int | None, seed: int | None, quick: bool
) -> OpenedStudy:
    """The study of a bundle's run, with what its command line set, in a new order."""
    folder = RunFolder.open(path)
    manifest = folder.read_manifest()
    before = [text for text in manifest.overrides if parsed_override(text).path != ("design", "seed")]
    typed = _collect_options(overrides, blocks, seed)
    wanted = [*overrides, *typed]
    again = {parsed_override(text).path for text in wanted}
    wanted = [*(text for text in before if parsed_override(text).path not in again), *wanted]
    quick = quick or manifest.quick
    study = read(manifest.source, str(path), wanted, quick, typed)
    files = FileReader(known=manifest.plan.resolved, kept=folder.files)
    return OpenedStudy(study, manifest.source, wanted, quick, files, str(path), path, typed)


def _collect_options(overrides: Sequence[str], blocks: int | None, seed: int | None) -> dict[str, str]:
    """What these options set, as --set takes it, with what was typed. BadInput if --set sets it too."""
    typed = {}
    for key, value in (("blocks", blocks), ("seed", seed)):
        if value is not None:
            _refuse_both(f"--{key} {value}", ("design", key), overrides)
            typed[f"design.{key}={value}"] = f"--{key} {value}"
    return typed


def _refuse_both(option: str, path: tuple[str, str], overrides: Sequence[str]) -> None:
    for text in overrides:
        if parsed_override(text).path[:2] == path:
            raise BadInput(f"{option} and --set {text} are about the same", "", "leave one of the two out")


def _is_file(path: Path) -> bool:
    """Or a pipe without a name, as a shell's <(…) is one. A name that no file can have is the name of none."""
    try:
        return path.is_file() or (path.is_fifo() and not path.resolve().exists())
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False
