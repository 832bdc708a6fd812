"""What SELinux or AppArmor forbade is told with the rule that would allow it, where a machine could not be made."""

import pytest

from nearmetal.errors import NotProvisioned
from nearmetal.lab.access_denials import describe_denials, naming_denials
from nearmetal.model import Completed

MOUNT = (
    '[  248.365452] audit: type=1400 audit(1796073649.448:44): avc:  denied  { mounton } for  pid=1564 comm="runc:[2:IN'
    'IT]" path="/var/lib/docker/merged/run/nearmetal/nearmetal-probe" dev="vda1" ino=132900 scontext=system_u:system_r:'
    "dockerd_t:s0 tcontext=system_u:object_r:lib_t:s0 tclass=file permissive=0"
)
PROFILE = (
    'type=AVC msg=audit(1796073650.101:45): apparmor="DENIED" operation="open" class="file" profile="libvirt-0a1b" '
    'name="/srv/disk.img" pid=812 comm="qemu-system-x86" requested_mask="r" denied_mask="r" fsuid=64055 ouid=0'
)


def log(*lines: str, read_at: int = 1796073651) -> str:
    return "\n".join((f"{read_at}", *lines))


def test_selinux_is_named_with_its_rule() -> None:
    what, remedy = describe_denials(log(MOUNT), lasted=10)
    assert what == (
        "SELinux denied runc:[2:INIT] mounton of /var/lib/docker/merged/run/nearmetal/nearmetal-probe "
        "(its rule would be: allow dockerd_t lib_t:file { mounton };)"
    )
    assert "audit2allow" in remedy


def test_apparmor_is_named_with_its_rule() -> None:
    what, remedy = describe_denials(log(PROFILE), lasted=10)
    assert what == "AppArmor denied libvirt-0a1b open of /srv/disk.img (its rule would be: /srv/disk.img r,)"
    assert "aa-complain libvirt-0a1b" in remedy


def test_only_what_was_forbidden_meanwhile_is_told() -> None:
    assert describe_denials(log(MOUNT, PROFILE, PROFILE), lasted=1.0)[0].startswith("AppArmor")
    assert describe_denials(log(MOUNT), lasted=1.0) == ("", "")
    assert describe_denials(log(MOUNT.replace("permissive=0", "permissive=1")), lasted=10) == ("", "")
    assert describe_denials(log("nothing of it"), lasted=10) == describe_denials("", lasted=10) == ("", "")


class Host:
    def __init__(self, said: str) -> None:
        self.said = said

    async def exec(self, argv: list[str]) -> Completed:
        return Completed(status=0, stdout=self.said.encode(), stderr=b"")


@pytest.mark.parametrize(("said", "told"), [(log(MOUNT), "; meanwhile SELinux denied"), (log(), "")])
async def test_the_error_says_it_with_what_it_said_before(said: str, told: str) -> None:
    with pytest.raises(NotProvisioned) as raised:
        async with naming_denials(Host(said.replace("1796073651", "1796073649"))):  # type: ignore[arg-type]
            raise NotProvisioned("permission denied", "nm-1", "look")
    assert raised.value.what.startswith(f"permission denied{told}")
    assert ("audit2allow" in raised.value.remedy) == bool(told)
