"""The files of a guest, which its QEMU alone can use, and how it is started with those that others own too."""

from collections.abc import Sequence
from typing import Final

from nearmetal.lab.local_site import run_checked
from nearmetal.model import Site

from . import arguments
from .arguments import GuestSpec

# The folder stays root's: QEMU can exchange none of its files for a link that root would follow. The kernel is of the
# lab's cache, and is opened again by QEMU, which takes the right to read it.
_HAND_OVER: Final = f"""
set -e
umask 077
cd -- "$1"
: >>{arguments.CONSOLE}
[ -d {arguments.SOCKETS} ] || mkdir {arguments.SOCKETS}
chown -- "$2" disk.* {arguments.CONSOLE} {arguments.SOCKETS}
chmod 600 disk.* {arguments.CONSOLE}
for file in {arguments.INITRD} {arguments.SEED}; do
    [ ! -e $file ] || {{ chgrp -R -- "${{2#*:}}" $file; chmod -R g=rX,o= $file; }}
done
chgrp -- "${{2#*:}}" .
chmod 750 .
[ -z "$3" ] || [ -n "$(find "$3" -perm -o=r)" ] || chmod a+r -- "$3"
"""
_TAKE_BACK: Final = """
set -e
cd -- "$1"
chown -R 0:0 .
chmod -R go= .
"""


async def hand_folder_over(folder: str, guest: GuestSpec, owner: str, site: Site) -> None:
    """Give a guest's folder, with all that is in it, to its QEMU's user ("UID:GID") and to nobody else."""
    await run_checked(site, "sh", "-c", _HAND_OVER, "hand-over", folder, owner, guest.kernel)


async def take_folder_back(folder: str, site: Site) -> None:
    """Have what a QEMU has left in its folder for root alone."""
    await run_checked(site, "sh", "-c", _TAKE_BACK, "take-back", folder)


def build_launch(guest: GuestSpec, name: str, command: Sequence[str], site: Site, *place: str) -> list[str]:
    """The command that starts a guest's QEMU as the user of that name's, with `place`, options of `launch`."""
    return [
        *(site.probe, "launch", *site.bound, *place),
        *(word for path in arguments.list_opened(guest) for word in ("--open", path)),
        *guest.privilege.launched(name),
        *("--", *command),
    ]
