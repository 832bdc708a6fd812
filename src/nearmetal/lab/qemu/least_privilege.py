"""What of root's power a guest's QEMU cannot do without: found by trying, as the user that it will be."""

from collections.abc import Sequence

from nearmetal.lab.local_site import run_checked
from nearmetal.model import SharedFolder, Site
from nearmetal.system import user_namespace

from . import process_privileges
from .process_privileges import LOCK_MEMORY, NARROW, READ_ALL, SANDBOX, WIDE, WRITE_ALL, Privilege

KVM = "/dev/kvm"
_TRIED = "tried"
_LEVELS = ((), (READ_ALL,), (WRITE_ALL,))
"""The least first."""
# Prints what it cannot do. The program by its name or path; then files to read, "--", and files or folders to write to.
_LACKING = """
file=$(command -v -- "$1") && [ -x "$file" ] || echo "run $1"
shift
while [ "$1" != -- ]; do [ -r "$1" ] || echo "read $1"; shift; done
shift
for file; do [ -r "$file" ] && [ -w "$file" ] || echo "write $file"; done
"""
_known: dict[tuple[object, ...], Privilege] = {}
"""Found out once by each process, since trying takes longer than making a machine's disk."""


async def find_privilege(
    program: str, accel: str, site: Site, more: Sequence[str] = (), share: SharedFolder | None = None
) -> Privilege:
    """The least with which a QEMU can run, with these arguments of the study's and this share. HostCannot."""
    key = (site.name, site.boot_id, program, accel, tuple(more), share is not None)
    if key not in _known:
        _known[key] = await _find(program, accel, site, more, share)
    return _known[key]


async def _find(program: str, accel: str, site: Site, more: Sequence[str], share: SharedFolder | None) -> Privilege:
    read, written = process_privileges.find_files(more)
    groups: tuple[int, ...] = ()
    if accel == "kvm":
        written = [*written, KVM]
        told = await site.exec(["stat", "-c", "%g", KVM])
        groups = tuple(int(group) for group in told.text.split() if group != "0")
    bare = Privilege(users=await _users(site), groups=groups, sandbox=await _sandbox(program, site, more))
    if bare.users is None:
        return bare
    # A share shows files whoever owns them: guests saw them all before, too.
    levels = _LEVELS[1:] if share else _LEVELS
    lacking = [await _lacking(bare, levels[0], [program, *read, "--", *written], site)]
    if lacking[0]:
        lacking += [await _lacking(bare, one, [program, *read, "--", *written], site) for one in levels[1:]]
    if lacking[-1] and user_namespace.is_entered():
        # Another user is not in this user's groups, such as that of /dev/kvm.
        return Privilege(users=None, sandbox=bare.sandbox)
    # What nobody has is not had by more power either.
    kept = next(level for level, found in zip(levels, lacking, strict=False) if found == lacking[-1])
    locks = any("mem-lock=on" in word.split(",") for word in more)
    return Privilege(bare.users, bare.groups, (*kept, *((LOCK_MEMORY,) if locks else ())), bare.sandbox)


async def _lacking(bare: Privilege, kept: tuple[str, ...], words: Sequence[str], site: Site) -> bytes:
    launched = Privilege(bare.users, bare.groups, kept).launched(_TRIED)
    return await run_checked(site, site.probe, "launch", *launched, "--", "sh", "-c", _LACKING, "lacking", *words)


async def _users(site: Site) -> range | None:
    """A range that is there: a container may have few users, and a namespace of an ordinary user's one."""
    lines = (await site.get("/proc/self/uid_map")).decode().splitlines()
    mapped = [(int(first), int(size)) for first, _, size in (line.split() for line in lines)]
    for users in (WIDE, NARROW):
        if any(first <= users.start and users.stop <= first + size for first, size in mapped):
            return users
    return None if user_namespace.is_entered() else NARROW


async def _sandbox(program: str, site: Site, more: Sequence[str]) -> str:
    """What its -sandbox can be told: QEMU may be built without."""
    if "-sandbox" in more or "--sandbox" in more:
        return ""
    # A thread context of QEMU's chooses CPUs by itself (QEMU 8).
    has_context = any(word.startswith("thread-context,") for word in more)
    wanted = SANDBOX.replace("resourcecontrol=deny", "resourcecontrol=allow") if has_context else SANDBOX
    bare = ("-no-user-config", "-nodefaults", "-display", "none", "-machine", "none", "-S", "-monitor", "stdio")
    ended = await site.exec([program, *bare, "-sandbox", wanted], stdin=b"quit\n")
    return wanted if ended.status == 0 else ""
