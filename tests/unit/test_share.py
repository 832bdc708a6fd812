"""`share`: what a study may write, and what a machine shows of it."""

import pytest

from nearmetal.lab.machines import share
from nearmetal.lab.qemu import arguments
from nearmetal.model import Completed, MachineSpec, SharedFolder

from .workloads_stage import ScriptedMachine

SPEC = MachineSpec(share="/srv/files:/mnt/files")


def test_a_share_is_two_paths() -> None:
    assert SharedFolder.parse("/srv/my files:/mnt/files/") == SharedFolder("/srv/my files", "/mnt/files")
    assert share.parse_share(SPEC) == SharedFolder("/srv/files", "/mnt/files")
    assert share.parse_share(MachineSpec()) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/srv/files", "is no share"),
        ("/a:/b:/c", "is no share"),
        (b"/a\n:/b".decode("unicode_escape"), "is no share"),
        ("files:/mnt", "not an absolute path"),
        ("/srv/../etc:/mnt", "not an absolute path"),
        ("/srv:mnt", "not an absolute path"),
        ("/srv:/", "what every machine has for itself"),
        ("/srv:/proc/1", "what every machine has for itself"),
        ("", "is no share"),
    ],
)
def test_what_is_no_share_is_told(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        MachineSpec(share=text)


@pytest.mark.parametrize(
    ("mounts", "ok", "reason"),
    [
        ("share /mnt/files 9p ro,relatime 0 0", True, ""),
        ("/dev/vda / ext4 rw 0 0\nshare /mnt/files 9p rw 0 0", False, "it can be written to"),
        ("/dev/vda / ext4 rw 0 0", False, "nothing is mounted at /mnt/files"),
    ],
)
async def test_it_is_read_back(mounts: str, ok: bool, reason: str) -> None:
    server = ScriptedMachine("server", "10.0.0.1", lambda argv: Completed(status=0, stdout=mounts.encode()))
    readback = await share.verify(server, SPEC)
    assert (readback.ok, readback.reason) == (ok, reason)


def test_a_comma_in_its_path_is_no_option_of_qemus() -> None:
    words = arguments._shared(SharedFolder("/srv/a,readonly=off", "/mnt"))
    assert "path=/srv/a,,readonly=off,security_model=none,readonly=on" in words[1]
