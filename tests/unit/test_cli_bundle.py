"""`nearmetal bundle`: a run in one file, as good as its folder, and refused when it is not as it was packed."""

import gzip
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearmetal.commands.bundle import find_homes
from nearmetal.errors import BadInput
from nearmetal.store.bundle import LIST, About, pack_bundle, unpack_bundle
from nearmetal.store.run_folder import RunFolder
from tests.command_line import called
from tests.order import mock_run

HOME = "/home/somebody-of-a-test"
STUDY = f"""# of {HOME}/study.toml
{mock_run.STUDY}
[[workloads]]
name = "job"
kind = "command"
files = ["job:/srv/job"]
argv = ["cat", "/srv/job"]
[workloads.responses.rate]
match = "rate ([0-9.]+)"
better = "higher"
"""


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a study that names somebody's home, and carries a file along."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "job").write_text("rate 12.5\n")
    (folder / "study.toml").write_text(STUDY)
    ended = called("run", "study.toml", "-o", "run", cwd=folder, environment={"NEARMETAL_HOME": str(folder / "home")})
    assert ended.returncode == 0, ended.stderr
    return folder / "run"


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(measured, tmp_path / "run", ignore=shutil.ignore_patterns("report*")))


@pytest.fixture
def bundle(run: Path) -> Path:
    ended = called("bundle", "run", cwd=run.parent, environment={"HOME": HOME})
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "run.nearmetal.tar.gz\n"
    return run.with_name("run.nearmetal.tar.gz")


def test_a_bundle_is_read_as_its_run_is(run: Path, bundle: Path) -> None:
    assert called("verify", str(bundle)).stdout == called("verify", str(run)).stdout.replace(str(run), str(bundle))
    for words in (("report", "--format", "md"), ("report", "-o", "-"), ("export",), ("show",)):
        name, *options = words
        told = called(name, str(run), *options).stdout
        assert called(name, str(bundle), *options).stdout == told.replace(HOME, "~")
    shutil.rmtree(run)
    assert called("report", bundle.name, cwd=bundle.parent).stdout == "run.html\n"
    assert (bundle.parent / "run.html").stat().st_size > 10_000


def test_the_same_run_gives_the_same_bundle(run: Path, bundle: Path) -> None:
    before = bundle.read_bytes()
    (run / "manifest.json").touch()
    again = run.with_name("again.tar.gz")
    assert called("bundle", str(run), "-o", str(again), environment={"HOME": HOME}).returncode == 0
    assert again.read_bytes() == before


def test_a_file_that_is_there_is_not_replaced(run: Path, bundle: Path) -> None:
    before = bundle.read_bytes()
    for words in ((), ("-o", bundle.name)):
        ended = called("bundle", "run", *words, cwd=run.parent)
        assert ended.returncode == 2 and ended.stdout == ""
        told = f"nearmetal: {bundle.name}: a file is there already\n  remedy: name another by -o, or remove it\n"
        assert ended.stderr == told
    assert bundle.read_bytes() == before


def test_nobodys_home_is_in_it(run: Path, bundle: Path) -> None:
    assert HOME.encode() in (run / "manifest.json").read_bytes()
    assert b"somebody-of-a-test" not in gzip.decompress(bundle.read_bytes())
    assert "~/study.toml" in RunFolder.open(bundle).read_manifest().source
    assert (
        "1 path in a home folder"
        in called("bundle", str(run), "-o", f"{bundle}.again", environment={"HOME": HOME}).stderr
    )


def test_its_list_is_metadata_that_names_each_file(run: Path, bundle: Path) -> None:
    with tarfile.open(bundle) as archive:
        assert archive.getnames()[0] == LIST
        listed = json.load(archive.extractfile(LIST))["@graph"]  # type: ignore[arg-type]
        files = {one["@id"]: one["sha256"] for one in listed if one["@type"] == "File"}
        assert (
            files
            == {
                name: hashlib.sha256(archive.extractfile(name).read()).hexdigest()  # type: ignore[union-attr]
                for name in archive.getnames()[1:]
            }
        )
    assert set(files) == {str(file.relative_to(run)) for file in run.rglob("*") if file.is_file()}
    root = next(one for one in listed if one["@id"] == "./")
    assert root["name"].startswith("order of ") and len(root["hasPart"]) == len(files)


def test_a_bundle_of_nothing_is_called_empty(tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.tar.gz"
    tarfile.open(nothing, "w:gz").close()
    with pytest.raises(BadInput, match="this bundle is damaged: it is empty"):
        unpack_bundle(nothing)


def test_a_run_that_is_damaged_is_not_packed(run: Path) -> None:
    artifact = min((run / "artifacts").rglob("load-0.json"))
    artifact.write_bytes(artifact.read_bytes() + b" ")
    ended = called("bundle", "run", cwd=run.parent)
    assert ended.returncode == 2
    assert "it was changed after it was written" in ended.stderr and "Traceback" not in ended.stderr
    assert sorted(path.name for path in run.parent.iterdir() if "run" in path.name) == ["run"]


def test_it_is_measured_once_more_and_compared(bundle: Path, home: Path) -> None:
    ended = called("run", bundle.name, "-o", "again", cwd=bundle.parent)
    assert ended.returncode == 0, ended.stderr
    again, before = RunFolder(bundle.parent / "again").read_manifest(), RunFolder.open(bundle).read_manifest()
    assert again.study.model_copy(update={"design": before.study.design}) == before.study and again.run != before.run
    assert [file.read_bytes() for file in (bundle.parent / "again" / "files").iterdir()] == [b"rate 12.5\n"]
    assert ended.stdout.count("slow") > 1, "the comparison follows the verdicts"


def test_nothing_goes_on_in_a_bundle(bundle: Path) -> None:
    ended = called("resume", str(bundle))
    assert ended.returncode == 2 and "nearmetal run" in ended.stderr


def write(tmp_path: Path, change: Callable[[dict[str, Any]], None], members: dict[str, bytes] | None = None) -> Path:
    """A bundle whose list was changed, or that holds other members."""
    sound, damaged = io.BytesIO(), tmp_path / "damaged.tar.gz"
    pack_bundle(
        About("a run", "", "2026-01-01T00:00:00+00:00", "1"), {"manifest.json": b"{}", "journal.jsonl": b""}, sound
    )
    sound.seek(0)
    with tarfile.open(fileobj=sound) as archive:
        found = {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]
    document = json.loads(found[LIST])
    change(document)
    found |= {LIST: json.dumps(document).encode(), **(members or {})}
    with tarfile.open(damaged, "w:gz") as archive:
        for name, content in found.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return damaged


def rename(document: dict[str, Any], path: str) -> None:
    document["@graph"][-1]["@id"] = path


@pytest.mark.parametrize(
    "path", ["../manifest.json", "/etc/passwd", "artifacts/../../x", "report/index.html", "files/x", ""]
)
def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    damaged = write(tmp_path, lambda document: rename(document, path), {path: b"{}"} if path else None)
    with pytest.raises(BadInput, match="is no file of a run"):
        unpack_bundle(damaged)


def test_what_is_not_as_listed_is_refused(tmp_path: Path) -> None:
    def resize(document: dict[str, Any], size: int) -> None:
        document["@graph"][-1]["contentSize"] = size

    for change, members, why in (
        (lambda _: None, {"manifest.json": b"[]"}, "is not as listed"),
        (lambda _: None, {"manifest.json": b"{} and more"}, "longer than it is listed"),
        (lambda _: None, {"artifacts/x": b""}, "is not listed"),
        (lambda document: resize(document, 10**15), None, "it would take"),
        (lambda document: resize(document, -1), None, "contentSize is wrong"),
        (lambda document: document.pop("@graph"), None, "has no graph"),
        (lambda document: document["@graph"].append(document["@graph"][-1]), None, "names a file twice"),
        (lambda document: rename(document, "journal.jsonl"), None, "names a file twice"),
        (lambda document: rename(document, "artifacts/a"), None, "is not listed"),
    ):
        with pytest.raises(BadInput, match=why):
            unpack_bundle(write(tmp_path, change, members))


def test_a_link_and_a_cut_bundle_are_refused(tmp_path: Path, bundle: Path) -> None:
    with tarfile.open(tmp_path / "link.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo(LIST)
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(BadInput, match="no regular file"):
        unpack_bundle(tmp_path / "link.tar.gz")
    whole = bundle.read_bytes()
    for length in (10, len(whole) // 2, len(whole) * 9 // 10):
        (tmp_path / "cut.tar.gz").write_bytes(whole[:length])
        ended = called("verify", str(tmp_path / "cut.tar.gz"))
        assert ended.returncode == 2 and "this bundle is damaged" in ended.stderr, ended.stderr


def test_a_list_that_is_deep_and_a_header_that_is_long_are_refused(tmp_path: Path) -> None:
    for name, headers, content, why in (
        ("deep", {}, b"[" * 100_000, "bundle is damaged"),
        ("long", {"comment": "x" * 10**6}, b"{}", "holds more than it lists"),
    ):
        with tarfile.open(tmp_path / name, "w:gz", format=tarfile.PAX_FORMAT) as archive:
            member = tarfile.TarInfo(LIST)
            member.size, member.pax_headers = len(content), headers
            archive.addfile(member, io.BytesIO(content))
        with pytest.raises(BadInput, match=why):
            unpack_bundle(tmp_path / name)


def test_a_bundle_takes_the_place_of_files_alone(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for output in ("-", "pipe", "/dev/null"):
        ended = called("bundle", str(run), "-o", output, cwd=tmp_path)
        assert ended.returncode == 2 and "a bundle is written to a file" in ended.stderr
    (tmp_path / "link").symlink_to("elsewhere")
    assert called("bundle", str(run), "-o", "link", cwd=tmp_path).returncode == 0
    assert (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere").stat().st_size > 0


def test_only_whole_names_of_homes_are_shortened() -> None:
    named = (
        "/home/somebody-of-a-test/x",
        "/a/home/somebody-of-a-test/x",
        "/home/somebody-of-a-testing",
        "/home/other/x",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", HOME)
        short = [find_homes().sub(b"~", name.encode()).decode() for name in named]
    assert short == ["~/x", *named[1:]]
