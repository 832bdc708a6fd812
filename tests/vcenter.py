"""A vCenter of the tests' own: govmomi's simulator, from tests/vcenter_simulated. Its machines have no insides."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SOURCES = Path(__file__).parent / "vcenter_simulated"
USER, PASSWORD = "tester@vsphere.local", "correct horse"
PASSWORD_ENV = "NEARMETAL_VMWARE_PASSWORD"

_BUILDING = 900.0
"""Seconds: govmomi's types are many."""


def program(cache: Path) -> Path:
    """The simulator, built once for its sources. Skips, loudly, where there is no Go or no way to its modules."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("the simulated vCenter cannot be built: there is no go: apt-get install golang-go")
    sources = sorted(path for path in SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    built = cache / "vcenter-simulated" / digest
    if not built.exists():
        _build(go, built)
    return built


def _build(go: str, built: Path) -> None:
    fetched = subprocess.run([go, "mod", "download"], cwd=SOURCES, capture_output=True, text=True, timeout=_BUILDING)
    if fetched.returncode != 0:
        pytest.skip(f"the simulated vCenter cannot be built: its modules cannot be had: {fetched.stderr[-300:]}")
    built.parent.mkdir(parents=True, exist_ok=True)
    unfinished = built.with_name(f"{built.name}.{os.getpid()}")
    subprocess.run([go, "build", "-o", str(unfinished), "."], cwd=SOURCES, check=True, timeout=_BUILDING)
    for old in built.parent.iterdir():
        if old != unfinished and "." not in old.name:
            old.unlink()
    unfinished.rename(built)


def machine(name: str, **looks: Any) -> dict[str, Any]:
    """One that is off: 2 vCPUs, 1 GiB, a vmxnet3, tools."""
    return {"name": name, "cpus": 2, "memory": 1024, "nics": ["vmxnet3"], "tools": True, **looks}


@dataclass
class Vcenter:
    process: "subprocess.Popen[str]"
    address: str
    certificate: str
    """In PEM; its own authority."""

    def order(self, **what: Any) -> list[dict[str, Any]]:
        """Have the simulator do something; its machines afterwards, as it sees them itself."""
        told = self._say(what)
        assert isinstance(told, list)
        return told

    def machines(self) -> dict[str, dict[str, Any]]:
        return {one["Name"]: one for one in self.order()}

    def options(self, folder: Path, **more: Any) -> dict[str, Any]:
        """What stands in [environments.NAME] to get in."""
        file = folder / "vcenter.pem"
        file.write_text(self.certificate)
        return {"kind": "vmware", "server": self.address, "user": USER, "ca_file": str(file), **more}

    def _say(self, what: Mapping[str, Any]) -> Any:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the simulator has ended"
        return json.loads(line)


@contextmanager
def vcenter(
    program: Path, machines: Sequence[Mapping[str, Any]], *, clones: str = "", kind: str = "vcenter", netns: str = ""
) -> Iterator[Vcenter]:
    """`clones`: the address that the tools of clones tell. `netns`: the network that it is in. It ends with us."""
    inside = ("nsenter", f"--net=/run/netns/{netns}", "--") if netns else ()
    with (
        tempfile.TemporaryDirectory() as files,  # of its datastores, of which it leaves some
        subprocess.Popen(
            [*inside, str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": files},
        ) as process,
    ):
        made = Vcenter(process, "", "")
        setup = {"kind": kind, "user": USER, "password": PASSWORD, "machines": list(machines), "clones": clones}
        try:
            told = made._say(setup)
            made.address, made.certificate = told["address"], told["certificate"]
            yield made
        finally:
            assert process.stdin
            process.stdin.close()
            process.wait(20)


def main() -> None:
    """Build it before the tests, which have a limit each."""
    from tests.conftest import SHARED_CACHE

    try:
        print(f"== the simulated vCenter: {program(SHARED_CACHE)}")
    except pytest.skip.Exception as why:
        print(f"== {why.msg}")


if __name__ == "__main__":
    main()
