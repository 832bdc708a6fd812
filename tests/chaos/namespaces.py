"""Namespaces of a campaign's own: whatever it sees there of files, links and processes is its own.

Other people's programs make and remove files in /tmp, links and processes meanwhile. Private are /tmp, /var/tmp and
/run, the network, and process ids; all that a campaign started ends with it. Control groups and sysctls are the host's.
"""

import os
import sys

_INSIDE = "NEARMETAL_CHAOS_INSIDE"

# The shell is process 1 there: it waits for whatever has lost its parent.
_ENTER = """
set -e
# What others have mounted there would be covered, and still be seen to go.
findmnt --raw --noheadings --output TARGET | grep -E '^/(run|tmp|var/tmp)/' | sort -r | xargs -r umount --lazy
mount -t tmpfs -o mode=1777 none /var/tmp
mkdir /var/tmp/groups
mount -t proc none /proc
mount --rbind /sys/fs/cgroup /var/tmp/groups
mount -t sysfs none /sys
mount --rbind /var/tmp/groups /sys/fs/cgroup
umount -R /var/tmp/groups
rmdir /var/tmp/groups
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs -o mode=755 none /run
mkdir -m 1777 /run/lock
# ip(8) and runc make these once, and leave them.
ip netns add first
ip netns delete first
mkdir -m 700 /run/runc
ip link set lo up
"$@"
"""


def enter(module: str) -> None:
    """Start this program again in them, if it is not there yet."""
    if is_inside():
        return
    command = [sys.executable, "-m", module, *sys.argv[1:]]
    unshare = ["unshare", "--mount", "--pid", "--net", "--ipc", "--fork", "--kill-child"]
    os.execvpe(
        "unshare",
        [*unshare, "sh", "-c", _ENTER, "enter", *command],
        {**os.environ, _INSIDE: "1", "TMPDIR": "/tmp"},
    )


def is_inside() -> bool:
    return _INSIDE in os.environ
