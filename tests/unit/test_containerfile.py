"""What the Containerfile installs is all that nearmetal calls on: its live test has a base that holds some already."""

import re
from pathlib import Path

from nearmetal.lab.image import build_tools
from nearmetal.lab.networks import network

ROOT = Path(__file__).parents[2]
ELSEWHERE = {"docker.io", "busybox-static", "python3-venv", "gcc", "libc6-dev", "$(QEMU)"}
"""Of a checkout's packages those for tests, for compiling and of the host's engine; and QEMU, whose package has the
processor's name, as the Containerfile says by itself."""
ESSENTIAL = {"apt", "coreutils", "dpkg", "tar"}
"""In any Debian."""


def _list_packages(file: str, pattern: str) -> set[str]:
    (listed,) = re.findall(pattern, (ROOT / file).read_text(), re.DOTALL)
    return set(listed.replace("\\", "").split())


def test_it_installs_what_a_checkout_and_an_image_need() -> None:
    installed = _list_packages("Containerfile", r'\nARG PACKAGES="(.*?)"')
    checkout = _list_packages("Makefile", r"\nPACKAGES +:= (.*?[^\\])\n") - ELSEWHERE
    needed = checkout | {*build_tools.PACKAGES.values(), *network.TOOLS.values(), "tcpdump", "apparmor", "iptables"}
    assert len(checkout) > 9
    assert "qemu-system-$(" in (ROOT / "Containerfile").read_text()
    assert sorted(needed - ESSENTIAL - installed) == []
