"""What Vagrant says, as Vagrant 2.3.4 with vagrant-libvirt 0.11.2 said it, and as nobody should."""

import contextlib
import random
from pathlib import Path

import pytest

from nearmetal.errors import ToolFailed
from nearmetal.lab.vagrant import output
from nearmetal.lab.vagrant.output import MachineStatus, VagrantLogin

TOOLS = Path(__file__).parents[1] / "golden/tools/vagrant"
STATUS = (TOOLS / "status.txt").read_bytes()
NOT_FOUND = (TOOLS / "not-found.txt").read_bytes()
SSH_CONFIG = (TOOLS / "ssh-config.txt").read_bytes()


def ssh_config(*words: str) -> bytes:
    return ("1,default,ssh-config," + "\\n  ".join(["Host default", *words]) + "\\n\n").encode()


def test_machines_are_told_with_their_providers_and_states() -> None:
    """Also one whose name Vagrant writes as it is, with a comma."""
    assert output.parse_machines(output.parse_lines(STATUS)) == {
        "web": MachineStatus("libvirt", "not_created"),
        'db, the "second"': MachineStatus("libvirt", "running"),
    }


def test_a_refusal_has_its_class_and_its_words_in_one_line() -> None:
    assert output.find_refusal(output.parse_lines(NOT_FOUND)) == (
        "MachineNotFound",
        "The machine with the name 'nosuch' was, not found configured for this Vagrant environment.",
    )
    assert output.find_refusal(output.parse_lines(STATUS)) is None


def test_a_login_is_what_the_machine_readable_line_says_and_nothing_after() -> None:
    keys = ("/home/me/key", "/home/me/my keys/key")
    assert output.parse_login(output.parse_lines(SSH_CONFIG)) == VagrantLogin(
        "10.114.0.180", 22, "root", keys, by_command=False
    )


def test_a_command_of_its_own_is_noticed() -> None:
    told = ssh_config("HostName 10.0.0.1", "User root", "ProxyCommand ssh -W %h:%p somewhere")
    assert output.parse_login(output.parse_lines(told)).by_command


@pytest.mark.parametrize(
    "told",
    [
        b"",
        ssh_config(),
        ssh_config("HostName 10.0.0.1"),
        ssh_config("HostName 10.0.0.1", "User root", "Port ssh"),
        ssh_config("HostName 10.0.0.1", "User root", "Port 70000"),
        ssh_config("HostName ", "User root"),
        ssh_config('HostName ""', "User root"),
    ],
)
def test_what_is_no_way_to_log_in_is_told(told: bytes) -> None:
    with pytest.raises(ToolFailed, match="vagrant ssh-config said"):
        output.parse_login(output.parse_lines(told))


def test_rubbish_is_no_line() -> None:
    for rubbish in (
        b"",
        b"\xff\xfe\n\0\n",
        b",,,\n",
        b"Bringing up,x,state,running",
        b"12,default,unheard,of\n",
        b"9" * 9999,
    ):
        assert output.parse_lines(rubbish) == []


def test_nothing_that_is_printed_makes_it_fail() -> None:
    drawn = random.Random(7)
    for said in (STATUS, NOT_FOUND, SSH_CONFIG):
        for _ in range(300):
            bytes_ = bytearray(said)
            for _ in range(drawn.randrange(1, 30)):
                bytes_[drawn.randrange(len(bytes_))] = drawn.randrange(256)
            told = output.parse_lines(bytes(bytes_[: drawn.randrange(len(bytes_))]))
            output.parse_machines(told)
            output.find_refusal(told)
            with contextlib.suppress(ToolFailed):
                output.parse_login(told)


def test_an_explanation_is_not_endless() -> None:
    assert len(output.shorten("word \n\t" * 10_000)) <= 700
