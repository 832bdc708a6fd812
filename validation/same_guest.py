"""The same guest is called equivalent whoever started it: nearmetal's QEMU, libvirt, or the user, who gives SSH alone.

    sudo python validation/same_guest.py [--set design.blocks=3] [-o DIR]

Runs the study same_guest.toml on emulated guests (TCG): `qemu`, `libvirt` with a libvirtd of its own, and `ssh` to a
guest that is brought up by hand beforehand and used as it is. Goal: both verdicts against `qemu` are `equivalent` at a
margin of 25 %; where one is not, what the three differ in is printed, as the fairness diff has it. Other options go to
`nearmetal run`. A quarter of an hour; on a host that is busy with other things nothing can be decided.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.libvirt_service import libvirt_service

from nearmetal.analysis.fairness import fairness_of
from nearmetal.config import Paths
from nearmetal.lab.keys import lab_keys
from nearmetal.store.run_folder import RunFolder

STUDY = Path(__file__).with_suffix(".toml")
NAME = "same-guest"


def nearmetal(*words: str) -> Mapping[str, Any]:
    """Run a command of nearmetal's; the last document it printed. Where it cannot, this ends too."""
    argv = [sys.executable, "-m", "nearmetal", *words, "--json"]
    ended = subprocess.run(argv, stdout=subprocess.PIPE, text=True)
    if ended.returncode > 1:
        sys.exit(ended.returncode)
    return dict(json.loads(ended.stdout.splitlines()[-1]))


@contextlib.contextmanager
def guest(options: Sequence[str]) -> Iterator[Mapping[str, str]]:
    """A guest that is up; how SSH reaches it, in the words of [environments.NAME]."""
    up = nearmetal("up", "qemu", "--name", NAME, *options)
    state = Paths.default().state
    try:
        yield {
            "address": f"root@127.0.0.1:{up['ssh_port']}",
            "key": str(state / "keys/client"),
            "host_key": lab_keys(state).host.public.decode(),
        }
    finally:
        subprocess.run([sys.executable, "-m", "nearmetal", "down", NAME], stdout=subprocess.DEVNULL, check=True)


def line(contrast: Mapping[str, Any]) -> str:
    low, high = contrast["interval"] or (float("nan"), float("nan"))
    name = contrast["treatment"]["environment"]
    told = f"{contrast['ratio']:.3f} x qemu ({low:.3f} to {high:.3f})"
    return f"{name:<9}{contrast['blocks']} blocks  {told:<34}{contrast['verdict']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="folder", help="keep the run in this folder")
    arguments, options = parser.parse_known_args()
    with contextlib.ExitStack() as standing:
        temporary = Path(standing.enter_context(tempfile.TemporaryDirectory(prefix="nearmetal-")))
        uri = standing.enter_context(libvirt_service(temporary / "libvirt"))
        reached = standing.enter_context(guest(["--set", "machine.accel=tcg", "--set", "machine.memory=768MiB"]))
        places = {"libvirt.kind": "libvirt", "libvirt.uri": uri} | {f"ssh.{name}": one for name, one in reached.items()}
        given = [word for name, one in places.items() for word in ("--set", f"environments.{name}={json.dumps(one)}")]
        folder = arguments.folder or str(temporary / "run")
        summary = nearmetal("run", str(STUDY), "-o", folder, *given, *options)
        found = [one for one in summary["contrasts"] if one["primary"]]
        print("\n".join(map(line, found)))
        holds = bool(found) and all(one["verdict"] == "equivalent" for one in found)
        if not holds:
            manifest = RunFolder(Path(folder)).read_manifest()
            for row in fairness_of(manifest.fairness, manifest.study.reference):
                print(f"  {row.group}, {row.fact}: " + "; ".join(f"{who}: {what}" for who, what in row.values.items()))
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
