"""Build hook: compile the probe and ship it in the package, where `nearmetal/lab/probe.py` looks for it.

And write the man pages, which pip and pipx place where `man` looks.
"""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MACHINES = {62: "x86_64", 183: "aarch64"}
"""Numbers of processors in ELF (elf(5), e_machine), and what wheels call them."""


def find_machine(probe: Path) -> str:
    """The processor that a probe is for, which need not be this one's. SystemExit for none that wheels are made for."""
    with probe.open("rb") as file:
        number = int.from_bytes(file.read(20)[18:], "little")
    if number not in _MACHINES:
        raise SystemExit(
            f"nearmetal: {probe} is for no processor that wheels are made for: {', '.join(_MACHINES.values())}"
        )
    return _MACHINES[number]


class ProbeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build with a static C library, because the probe lands where nothing is installed.

        NEARMETAL_PROBE names one that is built already. NEARMETAL_PROBE_BUILT says that somebody else builds and places
        it, as the Makefile does for a checkout.
        """
        if os.environ.get("NEARMETAL_PROBE_BUILT"):
            return
        probe = Path(named) if (named := os.environ.get("NEARMETAL_PROBE")) else self._compile()
        build_data["force_include"][str(probe.resolve())] = "nearmetal/lab/nearmetal-probe"
        build_data["pure_python"] = False
        # A static program needs no C library, and the package no particular Python.
        build_data["tag"] = f"py3-none-manylinux_2_17_{find_machine(probe)}"
        build_data["shared_data"][str(self._write_man())] = "share/man/man1"

    def _write_man(self) -> Path:
        """A page for each command, from the commands themselves: of all packages that takes click alone."""
        sys.path[:0] = [str(Path(self.root)), str(Path(self.root) / "src")]
        from docs_site.command_line import write_man

        folder = Path(self.root) / "build" / "man" / "man1"
        shutil.rmtree(folder, ignore_errors=True)
        write_man(folder)
        return folder

    def _compile(self) -> Path:
        if not shutil.which("cargo") or not shutil.which("rustc"):
            raise SystemExit(
                "nearmetal: this is its source; its probe takes a Rust toolchain (1.85 or newer) to build, and here is "
                "none\n  remedy: install a wheel (.whl), which needs none; or see https://rustup.rs"
            )
        target = f"{platform.machine()}-unknown-linux-gnu"
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--target", target],
            check=True,
            cwd=self.root,
            env={**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"},
        )
        folder = Path(os.environ.get("CARGO_TARGET_DIR", Path(self.root) / "target"))
        return folder / target / "release" / "nearmetal-probe"
