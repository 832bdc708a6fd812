"""A run in one file, without the paths of whoever made it."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearmetal.commands.completion import complete_run
from nearmetal.commands.options import FileToWrite, RunPath
from nearmetal.commands.output import check_output
from nearmetal.errors import BadInput

if TYPE_CHECKING:
    from nearmetal.store.bundle import About
    from nearmetal.store.run_folder import RunFolder

_ENDING = ".nearmetal.tar.gz"
_FIRST_USER, _NOBODY = 1000, 65534
_NAMED = 3


@click.command()
@click.argument("run", type=RunPath(), shell_complete=complete_run)
@click.option("-o", "--output", type=FileToWrite(), help="Write this file; else one here, called as the run.")
def bundle(run: Path, output: Path | None) -> None:
    """Put a run into one file, for others.

    All that its folder holds, with the SHA-256 of each file. `report`, `show`, `verify`, `compare` and `export` read a
    bundle as they read a run; `run BUNDLE` measures it once more, and compares.
    """
    import tempfile

    from nearmetal.console.printing import print_beside
    from nearmetal.report.figures import format_count, join_listing
    from nearmetal.store import runs
    from nearmetal.store.bundle import pack_bundle
    from nearmetal.store.journal_lock import make_taken_error
    from nearmetal.store.run_folder import RunFolder
    from nearmetal.store.verify import verify
    from nearmetal.system.files import name_file

    folder = RunFolder.open(run)
    if folder.bundle is not None:
        raise BadInput("this is a bundle already", str(run), "name the run's folder")
    if runs.find_state(folder.journal) == "running":
        raise make_taken_error(folder.journal)
    output = output or Path(folder.path.resolve().name + _ENDING)
    check_output(output, folder)
    place = output.resolve()
    if output.name == "-" or (place.exists() and not place.is_file()):
        raise BadInput("a bundle is written to a file", str(output), "name one by -o")
    if place.exists():
        raise BadInput("a file is there already", str(output), "name another by -o, or remove it")
    pattern = find_homes()
    parts, homes = _collect_parts(folder, pattern)
    about = _describe_run(folder)
    with tempfile.TemporaryDirectory(prefix=".nearmetal-", dir=place.parent) as temporary:
        new = Path(temporary) / place.name
        with name_file(output), new.open("wb") as to:
            pack_bundle(about, parts, to)
        if (found := verify(new, lambda what: None)).damaged:
            first = found.damaged[0]
            remedy = "name files by paths outside of a home folder" if homes else f"nearmetal verify {run}"
            raise BadInput(f"it cannot be packed: {first.what}", first.file, remedy)
        new.replace(place)
    if homes:
        print_beside(f"{format_count(homes, 'path')} in a home folder: only what follows it is in the bundle, after ~")
    telling = [name for name, part in parts.items() if isinstance(part, Path) and _contains_pattern(part, pattern)]
    if telling:
        shown = join_listing(telling[:_NAMED]) + (" and more" if len(telling) > _NAMED else "")
        print_beside(
            f"{format_count(len(telling), 'file')} of trials name a home folder, and are packed as they are: {shown}"
        )
    click.echo(output)


def _describe_run(folder: "RunFolder") -> "About":
    from nearmetal.store.bundle import About

    manifest = folder.read_manifest()
    version = manifest.versions.get("nearmetal", "unknown")
    about = manifest.study.question or f"A run of the study {manifest.study.name}, measured by nearmetal."
    return About(f"{manifest.study.name} of {manifest.created[:10]}", about, manifest.created, version)


def find_homes() -> re.Pattern[bytes]:
    """Where the homes of people stand, which name them. That of root names nobody."""
    import pwd

    people = (one.pw_dir for one in pwd.getpwall() if one.pw_uid >= _FIRST_USER and one.pw_uid != _NOBODY)
    homes = {home for home in (str(Path.home()), *people) if home.count("/") > 1}
    names = b"|".join(map(re.escape, map(os.fsencode, sorted(homes, key=len, reverse=True))))
    return re.compile(rb"(?<![\w./~-])(?:" + names + rb")(?![\w.-])" if names else rb"(?!)")


def _collect_parts(folder: "RunFolder", homes: re.Pattern[bytes]) -> tuple[dict[str, bytes | Path], int]:
    """What a bundle holds, by path, and how many paths of homes were shortened."""
    from nearmetal.store import journal
    from nearmetal.study.user_files import collect_files
    from nearmetal.system import files

    parts: dict[str, bytes | Path] = {}
    shortened = 0
    for name in ("manifest.json", folder.journal.name):
        if (file := folder.path / name).exists():
            content = files.read_regular(file, "restore it from a copy of the run's folder")
            parts[name], found = _shorten_homes(content, homes)
            shortened += found
    carried = {one.sha256 for one in collect_files(folder.read_manifest().plan.resolved)}
    parts |= {f"files/{sha256}": folder.files / sha256 for sha256 in carried}
    for record in journal.read_records(folder.journal):
        for artifact in record.artifacts:
            try:
                parts[artifact.path] = folder.place_artifact(artifact.path)
            except OSError as error:
                remedy = f"nearmetal verify {folder.path} names all; restore them from a copy of the run's folder"
                raise BadInput(f"a file of a trial is gone: {error.strerror}", artifact.path, remedy) from None
    return parts, shortened


def _shorten_homes(content: bytes, homes: re.Pattern[bytes]) -> tuple[bytes, int]:
    """Lines of JSON objects, each with its checksum renewed where it names a home folder."""
    if not homes.search(content):
        return content, 0
    if content.startswith(b"{\n"):  # a manifest is one object on several lines
        return _shorten_in_object(content, homes)
    lines = [_shorten_in_object(line, homes) for line in content.splitlines(keepends=True)]
    return b"".join(line for line, _ in lines), sum(found for _, found in lines)


def _shorten_in_object(content: bytes, homes: re.Pattern[bytes]) -> tuple[bytes, int]:
    from nearmetal.store.checksum import add_checksum, without_checksum

    whole = content.removesuffix(b"\n")
    bare = without_checksum(whole)
    short, found = homes.subn(b"~", bare)
    if not found:
        return content, 0
    return (add_checksum(short) if bare != whole else short) + content[len(whole) :], found


def _contains_pattern(file: Path, pattern: re.Pattern[bytes]) -> bool:
    import mmap

    with file.open("rb") as content:
        if not file.stat().st_size:
            return False
        with mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_READ) as held:
            return pattern.search(held) is not None
