"""What a QEMU may do to its host: chosen by trying, told to the probe and to QEMU, read back."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from nearmetal.config import LIMITS
from nearmetal.lab.keys import lab_keys
from nearmetal.lab.local_site import LocalSite
from nearmetal.lab.qemu import arguments, files, least_privilege, process_privileges
from nearmetal.lab.qemu.process_privileges import LEAST, NARROW, READ_ALL, WIDE, WRITE_ALL, Privilege
from nearmetal.model import Completed, SharedFolder, Site
from nearmetal.system import user_namespace
from tests.guests import GUEST

WHOLE = "         0          0 4294967295\n"
SMALL = "         0     100000      65536\n"


def ended(status: int, said: bytes = b"") -> Completed:
    return Completed(status=status, stdout=said, stderr=b"")


class Host:
    """A site on which a QEMU lacks what `lacking` says, unless it has one of these capabilities."""

    name, boot_id, probe = "host", "boot", "/probe"

    def __init__(self, lacking: Mapping[str, tuple[str, ...]], users: str = WHOLE, takes_sandbox: bool = True) -> None:
        self.lacking, self.users, self.takes_sandbox = lacking, users, takes_sandbox
        self.tried = 0
        least_privilege._known.clear()

    async def get(self, path: str) -> bytes:
        assert path == "/proc/self/uid_map"
        return self.users.encode()

    async def exec(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = LIMITS.command) -> Completed:
        if argv[0] == "stat":
            return ended(0, b"108\n")
        if "-sandbox" in argv:
            return ended(0 if self.takes_sandbox else 1)
        self.tried += 1
        kept = {argv[at + 1] for at, word in enumerate(argv) if word == "--keep"}
        found = [f"{what}\n" for what, by in self.lacking.items() if not kept & set(by)]
        return ended(0, "".join(found).encode())

    async def find(self, *more: str, accel: str = "tcg", share: SharedFolder | None = None) -> Privilege:
        return await least_privilege.find_privilege("/opt/qemu", accel, cast(Site, self), more, share)


# ── What it cannot do without ────────────────────────────────────────────────────────────────────────────────────────


async def test_a_qemu_that_needs_nothing_has_nothing_and_is_tried_once() -> None:
    host = Host({})
    assert await host.find() == await host.find() == LEAST
    assert host.tried == 1


async def test_the_least_power_is_kept_that_serves() -> None:
    assert (await Host({"read /root/bios": (READ_ALL, WRITE_ALL)}).find("-bios", "/root/bios")).kept == (READ_ALL,)
    pages = {"write /dev/hugepages": (WRITE_ALL,)}
    assert (await Host(pages).find("-mem-path", "/dev/hugepages")).kept == (WRITE_ALL,)
    share = SharedFolder.parse("/srv:/mnt")
    assert (await Host({}).find(share=share)).kept == (READ_ALL,)
    assert (await Host({}).find("-overcommit", "mem-lock=on")).kept == ("ipc_lock",)


async def test_what_is_not_there_takes_no_power() -> None:
    assert (await Host({"read /no/such": ()}).find("-bios", "/no/such")).kept == ()


async def test_kvm_is_had_by_its_group() -> None:
    assert (await Host({}).find(accel="kvm")).groups == (108,)
    assert (await Host({}).find(accel="tcg")).groups == ()


async def test_a_container_with_few_users_has_few_for_guests() -> None:
    assert (await Host({}, users=SMALL).find()).users == NARROW
    assert 60578 <= Privilege(users=NARROW).user("nm-a-1") <= 61183


async def test_without_root_a_qemu_for_which_only_the_users_groups_will_do_runs_as_the_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(user_namespace, "is_entered", lambda: True)
    assert (await Host({}, users=SMALL).find(accel="kvm")).users == NARROW
    power = await Host({"write /dev/kvm": ()}, users=SMALL).find(accel="kvm")
    assert (power.launched("nm-a-1")[:2], power.owner("nm-a-1")) == (["--", "setpriv"], "0:0")
    status = {"Uid": "0\t0\t0\t0", "CapEff": "0000000000000000", "Seccomp": "2"}
    assert power.find_difference("nm-a-1", status) is None
    assert power.find_difference("nm-a-1", {**status, "CapEff": "1"}) == "has other capabilities"
    assert (
        process_privileges.describe_status(status, is_ordinary=True)
        == "as the user of nearmetal, system calls filtered"
    )


async def test_a_qemu_without_the_filter_runs_without_and_the_studys_own_goes_first() -> None:
    assert (await Host({}, takes_sandbox=False).find()).sandbox == ""
    assert (await Host({}).find("-sandbox", "on")).sandbox == ""
    context = "thread-context,id=a,cpu-affinity=1"
    assert (await Host({}).find("-object", context)).sandbox.endswith("spawn=deny,resourcecontrol=allow")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
async def test_it_is_tried_as_the_user_that_it_will_be(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "bios").write_bytes(b"")
    (closed / "memory").mkdir(mode=0o700)
    open_file = "/etc/hostname"

    async def kept(*more: str) -> tuple[str, ...]:
        return (await least_privilege.find_privilege("sh", "tcg", LocalSite(), ("-sandbox", "on", *more))).kept

    assert await kept("-bios", open_file) == ()
    assert await kept("-bios", str(closed / "bios")) == (READ_ALL,)
    assert await kept("-object", f"memory-backend-file,id=a,mem-path={closed}/memory") == (WRITE_ALL,)


def test_files_are_found_in_arguments() -> None:
    words = ["-object", "memory-backend-file,id=a,mem-path=/a", "-mem-path", "/b", "-fw_cfg", "name=x/y,file=/c", "/d"]
    assert process_privileges.find_files(words) == (["/c", "/d"], ["/a", "/b"])


# ── What is told ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_guest_has_a_user_of_its_own_that_nobody_else_has() -> None:
    users = {LEAST.user(f"nm-a-{number}") for number in range(50)}
    assert len(users) == 50
    assert all(user in WIDE for user in users)
    assert LEAST.user("nm-a-1") == LEAST.user("nm-a-1")


def test_qemu_is_started_as_that_user_with_the_files_that_others_own() -> None:
    guest = replace(GUEST, backing=("/cache/root.qcow2",), privilege=Privilege(groups=(7,), kept=(READ_ALL,)))
    words = files.build_launch(guest, "nm-a-1", ["qemu"], cast(Site, LocalSite()), "--chdir", "/m")
    user = LEAST.user("nm-a-1")
    text = " ".join(words)
    assert (
        f"--open {GUEST.kernel} --open /cache/root.qcow2 --as {user}:{user} --group 7 --keep {READ_ALL} -- qemu" in text
    )


def test_a_disk_is_laid_over_what_was_opened_for_it() -> None:
    guest = replace(GUEST, backing=("/snapshot/disk", "/cache/root.qcow2"))
    words = " ".join(arguments.build_command(guest))
    assert arguments.list_opened(guest) == [GUEST.kernel, "/snapshot/disk", "/cache/root.qcow2"]
    assert "-kernel /proc/self/fd/{file0} " in words
    assert "-add-fd fd={file1},set=0 -add-fd fd={file2},set=1 " in words
    assert ",backing.file.filename=/dev/fdset/0,backing.backing.file.filename=/dev/fdset/1," in words
    own = replace(guest, kernel="", backing=("/mine.qcow2",))
    assert "-add-fd fd={file0},set=0 " in " ".join(arguments.build_command(own))


def test_the_filter_is_on_unless_this_qemu_has_none() -> None:
    assert f"-sandbox {process_privileges.SANDBOX} " in " ".join(arguments.build_command(GUEST))
    assert "-sandbox" not in arguments.build_command(replace(GUEST, privilege=Privilege(sandbox="")))


# ── What is read back ────────────────────────────────────────────────────────────────────────────────────────────────


def status(**fields: str) -> dict[str, str]:
    user = str(LEAST.user("nm-a-1"))
    return {"Uid": "\t".join([user] * 4), "CapEff": "0" * 16, "Seccomp": "2", **fields}


@pytest.mark.parametrize(
    ("fields", "difference"),
    [
        ({}, None),
        ({"Uid": "0\t0\t0\t0"}, "runs as another user"),
        ({"CapEff": "0000000000000004"}, "has other capabilities"),
        ({"Seccomp": "0"}, "makes system calls without a filter"),
    ],
)
def test_what_does_not_hold_is_found(fields: dict[str, str], difference: str | None) -> None:
    assert LEAST.find_difference("nm-a-1", status(**fields)) == difference


def test_a_capability_that_is_kept_is_no_difference() -> None:
    kept = Privilege(kept=(READ_ALL,), sandbox="")
    assert kept.find_difference("nm-a-1", status(CapEff="0000000000000004", Seccomp="0")) is None


def test_power_is_told_in_words() -> None:
    told: list[Any] = [
        process_privileges.describe_status(status()),
        process_privileges.describe_status(status(CapEff="0000000000000004")),
        process_privileges.describe_status(status(Uid="0\t0\t0\t0", CapEff="000001ffffffffff", Seccomp="0")),
    ]
    assert told == [
        "as a user of its own, system calls filtered",
        "as a user of its own, reads any file, system calls filtered",
        "as root, has all else of root's, writes any file, reads any file, locks memory, system calls not filtered",
    ]


def test_this_process_status_is_read() -> None:
    found = process_privileges.read_status(Path("/proc/self/status").read_text())
    assert str(os.getuid()) in found["Uid"].split()
    assert re.fullmatch("[0-9a-f]{16}", found["CapEff"])


# ── Secrets ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_guest_has_a_secret_of_its_own_made_of_the_labs(tmp_path: Path) -> None:
    keys = lab_keys(tmp_path)
    secrets = {keys.agent_of("nm-a-1"), keys.agent_of("nm-a-2"), keys.agent}
    assert len(secrets) == 3
    assert lab_keys(tmp_path).agent_of("nm-a-1") == keys.agent_of("nm-a-1")
    assert (tmp_path / "keys/agent").stat().st_mode & 0o077 == 0
