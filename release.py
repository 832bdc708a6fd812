"""What `make release` makes: a wheel with the probe in it, the source, the probe alone, a list of parts, checksums.

The Containerfile comes with them. The wheel is checked where nothing else is installed: for each Python that is here, a
virtual environment of its own, in which a study of the mock comes to its verdict.
"""

import argparse
import hashlib
import json
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
LARGEST_WHEEL = 4_000_000
"""Bytes."""
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
STUDY = """
name = "installed"
[factors]
environment = ["one", "two"]
[environments.one]
kind = "mock"
[environments.two]
kind = "mock"
[[workloads]]
name = "web"
kind = "http"
[design]
blocks = 6
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the files go; emptied before")
    parser.add_argument("pythons", nargs="*", default=PYTHONS, help="those that it is tried with, if they are here")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    (source,) = folder.glob("*.tar.gz")
    probe = pack_probe(wheel, folder)
    run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(source))
    check_wheel(wheel)
    for python in find_pythons(asked.pythons):
        check_installed(python, wheel)
    listed = folder / f"{wheel.stem}.spdx.json"
    listed.write_text(json.dumps(describe_parts(wheel), indent=2) + "\n")
    containerfile = Path(shutil.copy(ROOT / "Containerfile", folder))
    sums = [f"{hash_file(file)}  {file.name}\n" for file in (wheel, source, probe, listed, containerfile)]
    (folder / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


def run(*command: str, cwd: Path | None = None) -> str:
    """Its output. CalledProcessError, after what it said, when it fails."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=cwd).stdout


def pack_probe(wheel: Path, folder: Path) -> Path:
    """The wheel's probe as a tarball of its own. ValueError when it is not static."""
    with tempfile.TemporaryDirectory() as temporary:
        shutil.unpack_archive(wheel, temporary, "zip")
        probe = Path(temporary) / "nearmetal" / "lab" / "nearmetal-probe"
        linked = subprocess.run(["ldd", probe], capture_output=True, text=True)
        if "not a dynamic executable" not in linked.stderr and "statically linked" not in linked.stdout:
            raise ValueError(f"the probe needs what a machine may lack: {linked.stdout}")
        probe.chmod(0o755)
        packed = folder / f"nearmetal-probe-{version()}-{platform.machine()}-linux.tar.gz"
        with tarfile.open(packed, "w:gz") as archive:
            archive.add(probe, "nearmetal-probe")
    return packed


def check_wheel(wheel: Path) -> None:
    """ValueError when it is too large, or is for one Python alone."""
    if not wheel.name.endswith(f"-py3-none-manylinux_2_17_{platform.machine()}.whl"):
        raise ValueError(f"a wheel for any Python has another name than {wheel.name}")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise ValueError(f"the wheel has {wheel.stat().st_size} bytes, and may have {LARGEST_WHEEL}")


def find_pythons(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if (
            shutil.which(name)
            and subprocess.run([name, "-c", "import venv, ensurepip"], capture_output=True).returncode == 0
        ):
            yield name
        else:
            print(f"== {name} is not here: the wheel is NOT tried with it")


def check_installed(python: str, wheel: Path) -> None:
    """Install it alone, and measure the mock as its users would. CalledProcessError when it does not work."""
    with tempfile.TemporaryDirectory() as temporary:
        there = Path(temporary)
        run(python, "-m", "venv", str(there / "venv"))
        inside = there / "venv" / "bin"
        run(str(inside / "pip"), "install", "-q", "--disable-pip-version-check", str(wheel))
        (there / "study.toml").write_text(STUDY)
        said = run(str(inside / "nearmetal"), "run", "study.toml", "-o", "run", "--json", cwd=there)
        contrast = json.loads(said)["contrasts"][0]
        if not (there / "venv" / "share" / "man" / "man1" / "nearmetal-run.1").is_file():
            raise ValueError("its man pages are not installed")
        run(str(inside / "nearmetal"), "report", "run", cwd=there)
        size = sum(file.stat().st_size for file in (there / "venv").rglob("*") if file.is_file()) / 1e6
        print(f"== {python}: installed with {size:.0f} MB, and a run of the mock is {contrast['verdict']}")


def describe_parts(wheel: Path) -> dict[str, Any]:
    """What the wheel is made of and needs, as SPDX 2.3 has it: its own files, the probe's crates, Python's packages."""
    crates = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked", cwd=ROOT))["packages"]
    parts = [part("crate", crate["name"], crate["version"], crate["license"]) for crate in crates if crate["source"]]
    for requirement in project()["dependencies"]:
        name = requirement.partition(">")[0]
        found = metadata.metadata(name)
        parts.append(part("python", name, found["Version"], found["License-Expression"]))
    own = part("python", "nearmetal", version(), project()["license"])
    own["checksums"] = [{"algorithm": "SHA256", "checksumValue": hash_file(wheel)}]
    related = [relate("SPDXRef-DOCUMENT", "DESCRIBES", own)] + [
        relate(own["SPDXID"], "DEPENDS_ON", one) for one in parts
    ]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": wheel.stem,
        "documentNamespace": f"https://spdx.org/spdxdocs/{wheel.stem}-{hash_file(wheel)[:16]}",
        "creationInfo": {"created": commit_time(), "creators": ["Tool: nearmetal-release"]},
        "packages": [own, *parts],
        "relationships": related,
    }


def part(kind: str, name: str, number: str, licence: str | None) -> dict[str, Any]:
    registry = {"crate": "cargo", "python": "pypi"}[kind]
    return {
        "SPDXID": f"SPDXRef-{kind}-{name}-{number}".replace("_", "-").replace("+", "-"),
        "name": name,
        "versionInfo": number,
        "downloadLocation": "NOASSERTION",
        "licenseDeclared": (licence or "NOASSERTION").replace("/", " OR "),
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": f"pkg:{registry}/{name}@{number}",
            }
        ],
    }


def relate(subject: str, how: str, other: dict[str, Any]) -> dict[str, str]:
    return {"spdxElementId": subject, "relationshipType": how, "relatedSpdxElement": other["SPDXID"]}


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def version() -> str:
    return str(project()["version"])


def commit_time() -> str:
    """Of the source, so that one source makes one list."""
    seconds = run("git", "log", "-1", "--format=%cd", "--date=format:%Y-%m-%dT%H:%M:%SZ", cwd=ROOT)
    return seconds.strip()


def hash_file(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
