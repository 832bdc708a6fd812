"""What a host lacks: named by its package manager, and installed by apt on request, no more than is asked for."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nearmetal import cli
from nearmetal.environments.docker import DockerEnvironment
from nearmetal.environments.podman import PodmanEnvironment
from nearmetal.errors import ExitCode
from nearmetal.lab import doctor
from nearmetal.lab.api import NETWORK_TOOLS
from nearmetal.lab.doctor import Diagnosis
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.packages import MANAGERS, choose_manager, describe_install
from nearmetal.model import MachineSpec

_APT = """#!/bin/sh
echo "$*" >>{log}
[ "$1" = update ] && exit 0
shift
for word; do case $word in
    qemu-system-x86) name=qemu-system-x86_64 ;;
    qemu-utils) name=qemu-img ;;
    unknown) exit 100 ;;
    *) continue ;;
esac; ln -s /bin/true {bin}/$name; done
"""
Lacking = Callable[..., Path]


@pytest.fixture
def lacking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lacking:
    """A PATH without these programs and every package manager, but for a pretended one; the file it writes to."""

    def make(*names: str, manager: str) -> Path:
        programs, log = tmp_path / "bin", tmp_path / "log"
        programs.mkdir()
        hidden = {*names, *(one.program for one in MANAGERS)}
        for file in (file for folder in os.get_exec_path() for file in Path(folder).glob("*")):
            if file.name not in hidden and not (programs / file.name).is_symlink():
                (programs / file.name).symlink_to(file)
        if manager:
            (programs / manager).write_text(_APT.format(log=log, bin=programs))
            (programs / manager).chmod(0o755)
        monkeypatch.setenv("PATH", str(programs))

        async def examine(environments: object) -> Diagnosis:
            return Diagnosis.of([])

        monkeypatch.setattr(doctor, "examine", examine)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        log.touch()
        return log

    return make


def run(*words: str) -> int:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["nearmetal", "doctor", *words])
        cli.main()
    return int(ended.value.code or 0)


def test_apt_installs_what_the_asked_environment_lacks_and_no_more(lacking: Lacking) -> None:
    log = lacking("qemu-system-x86_64", "qemu-img", "virsh", "vagrant", "tcpdump", manager="apt-get")
    assert run("--fix", "qemu") == ExitCode.DONE
    assert log.read_text().splitlines() == [
        "update -q",
        "install -q -y --no-install-recommends qemu-system-x86 qemu-utils",
    ]


def test_what_is_there_is_not_installed_again(lacking: Lacking, capfd: pytest.CaptureFixture[str]) -> None:
    log = lacking("virsh", manager="apt-get")
    assert run("--fix", "host") == ExitCode.DONE
    assert log.read_text() == ""
    assert "no package is missing for host" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("dnf", "dnf install qemu-img qemu-system-x86-core"),
        ("pacman", "pacman -S qemu-img qemu-system-x86"),
        ("zypper", "zypper install qemu-tools qemu-x86"),
        ("apk", "apk add qemu-img qemu-system-x86_64"),
        ("", "install what Debian calls qemu-system-x86 qemu-utils; no package manager is known here"),
    ],
)
def test_the_command_of_another_manager_is_printed_and_not_run(
    manager: str, command: str, lacking: Lacking, capfd: pytest.CaptureFixture[str]
) -> None:
    log = lacking("qemu-system-x86_64", "qemu-img", manager=manager)
    assert run("--fix", "qemu") == ExitCode.HOST_CANNOT
    assert f"remedy: {command}" in " ".join(capfd.readouterr().err.split())
    assert log.read_text() == ""


def test_who_is_not_root_is_told_the_command(
    lacking: Lacking, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    log = lacking("qemu-img", manager="apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run("--fix", "qemu") == ExitCode.HOST_CANNOT
    assert "sudo apt-get install qemu-utils" in capfd.readouterr().err
    assert log.read_text() == ""


def test_an_apt_that_fails_is_told(
    lacking: Lacking, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    lacking(manager="apt-get")

    async def find(environments: object) -> list[str]:
        return ["unknown"]

    monkeypatch.setattr(doctor, "find_packages", find)
    assert run("--fix") == ExitCode.HOST_CANNOT
    assert "apt-get install ended with 100" in capfd.readouterr().err


@pytest.mark.parametrize("words", [("dockr",), ("--fix", "dockr")])
def test_an_unknown_environment_is_refused(words: tuple[str, ...], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == ExitCode.BAD_INPUT
    assert "there is no environment 'dockr'" in capfd.readouterr().err


@pytest.mark.parametrize(("flag", "packages"), [("Y\n", {"apparmor"}), ("N\n", set()), (None, set())])
async def test_a_kernel_with_apparmor_takes_its_parser(
    flag: str | None, packages: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's kernel has it on, and an engine without the parser starts no container."""
    file = tmp_path / "enabled"
    if flag is not None:
        file.write_text(flag)
    monkeypatch.setattr("nearmetal.environments.docker._APPARMOR", str(file))
    tools = await DockerEnvironment()._list_tools(MachineSpec(), LocalSite())
    assert set(tools.values()) - set(NETWORK_TOOLS.values()) == packages
    assert "apparmor_parser" not in await PodmanEnvironment()._list_tools(MachineSpec(), LocalSite())


def test_what_a_manager_has_no_package_for_is_named() -> None:
    pacman = choose_manager({"pacman"})
    assert describe_install(pacman, "mmdebstrap") == "pacman has no package for mmdebstrap"
    both = describe_install(pacman, "mmdebstrap", "e2fsprogs")
    assert both == "pacman -S e2fsprogs; pacman has no package for mmdebstrap"


def test_apt_comes_first_where_there_are_several() -> None:
    chosen = choose_manager({"dnf", "apt-get"})
    assert chosen is not None and chosen.program == "apt-get"
