"""Build hook: compile the probe and ship it as a script beside `nearmetal`."""

import os
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ProbeBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build with a static C library, because the probe lands where nothing is installed.

        NEARMETAL_PROBE_BUILT says that somebody else builds and places it, as the Makefile does for a checkout.
        """
        if os.environ.get("NEARMETAL_PROBE_BUILT"):
            return
        described = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
        target = next(line.removeprefix("host: ") for line in described.splitlines() if line.startswith("host: "))
        subprocess.run(
            ["cargo", "build", "--release", "--locked", "--target", target],
            check=True,
            cwd=self.root,
            env={**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"},
        )
        probe = Path(self.root) / "target" / target / "release" / "nearmetal-probe"
        build_data["shared_scripts"][str(probe)] = "nearmetal-probe"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
