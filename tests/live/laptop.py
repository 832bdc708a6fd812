"""An ordinary user of this host, as on a laptop: without root, with users that are set aside for it (subuid(5)).

Seen in mounts of the test's own: an account, a home, `/dev/net/tun` as udev leaves it, and a Python that root may keep
to itself.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from nearmetal.lab import probe
from nearmetal.lab.image import Image
from tests import one_picture

USER: Final = 54321
_FIRST, _COUNT = 700_000_000, 65_536
"""Users that are set aside for it."""
_HOME: Final = Path("/mnt/home")
_CODE: Final = Path(__file__).parents[2]

Lacking = Literal["namespaces", "users"]

# Its words: the home, a folder for files of /etc, what root hides that is needed, and the command.
_SCRIPT: Final = """
home=$1 etc=$2 hidden=$3
shift 3
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/home /mnt/hidden
mount --bind "$home" /mnt/home
mknod -m 666 /mnt/tun c 10 200
mount --bind /mnt/tun /dev/net/tun
if [ "$hidden" ]; then
    mount --bind "$hidden" /mnt/hidden
    mount -t tmpfs -o mode=755 tmpfs /root
    mkdir -p "$hidden"
    mount --bind /mnt/hidden "$hidden"
fi
for file in passwd subuid subgid; do mount --bind "$etc/$file" "/etc/$file"; done
cd /mnt/home
exec "$@"
"""
# This host's own setting is left alone: that of a namespace above the user's forbids as well.
_FORBID: Final = """
mkfifo /mnt/mapped
unshare --user sh -ec 'read -r word </mnt/mapped; exec sh -ec "$@"' mapped '
echo 0 >/proc/sys/user/max_user_namespaces
exec "$@"' forbid "$@" &
while [ /proc/$!/ns/user -ef /proc/self/ns/user ]; do sleep 0.01; done
for map in uid_map gid_map; do echo "0 0 100000" >/proc/$!/$map; done
echo >/mnt/mapped
wait $!
"""


@dataclass(frozen=True)
class LaptopUser:
    home: Path

    def start(self, *words: str, lacks: Lacking | None = None) -> "subprocess.Popen[str]":
        """`nearmetal WORDS`, with one picture in its reports, on a host that has or `lacks` what it takes."""
        etc = self.home.parent / "etc"
        etc.mkdir(exist_ok=True)
        account = f"someone:x:{USER}:{USER}::{_HOME}:/bin/sh\n"
        (etc / "passwd").write_text(Path("/etc/passwd").read_text() + account)
        for name in ("subuid", "subgid"):
            (etc / name).write_text("" if lacks == "users" else f"someone:{_FIRST}:{_COUNT}\n")
        python = Path(sys.base_prefix)
        environment = {
            "HOME": str(_HOME),
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "250",
            "PYTHONPATH": f"{_CODE / 'src'}:{_CODE}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "NEARMETAL_LOCKS": str(_HOME),
            "NEARMETAL_PROBE": str(probe.path()),
            "NEARMETAL_PATIENCE": os.environ.get("NEARMETAL_PATIENCE", "1"),
        }
        command = [
            *("unshare", "--mount", "--propagation", "private", "sh", "-ec", _SCRIPT, "laptop"),
            *(str(self.home), str(etc), str(python) if python.is_relative_to("/root") else ""),
            *(("sh", "-ec", _FORBID, "laptop") if lacks == "namespaces" else ()),
            *("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "--"),
            *("env", "-i", *(f"{name}={value}" for name, value in environment.items())),
            *(*one_picture.COMMAND, *words),
        ]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(
        self, *words: str, patience: float = 120, lacks: Lacking | None = None
    ) -> "subprocess.CompletedProcess[str]":
        process = self.start(*words, lacks=lacks)
        try:
            out, err = process.communicate(timeout=patience)
        except BaseException:
            process.kill()
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def remains(self) -> list[str]:
        """What is left of what it made: processes, machines' folders, ledgers, containers.

        And what the user's own Podman would have, which is not used.
        """
        state = self.home / ".local/state/nearmetal"
        files = [*state.glob("machines/*"), *state.glob("ledgers/*.jsonl"), *state.glob("up/*.json")]
        files += self.home.glob(".cache/nearmetal/podman/storage/overlay-containers/*/userdata")
        files += [*self.home.glob(".local/share/containers"), *self.home.glob(".config/*")]
        files += Path("/dev/shm").glob("libpod_rootless_lock_*")
        return [*self._list_processes(), *map(str, files)]

    def _list_processes(self) -> Iterator[str]:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                user = process.stat().st_uid
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if user == USER or user in range(_FIRST, _FIRST + _COUNT):
                yield f"process {process.name}: {words[:200]}"


def make_user(folder: Path, image: Image) -> LaptopUser:
    """With the lab image, as it would have built it."""
    home = folder / "home"
    built = home / ".cache/nearmetal/images" / image.folder.name
    built.parent.mkdir(parents=True)
    # 1: a file changed meanwhile, as the image's own does when a machine is made of it.
    subprocess.run(["cp", "-a", str(image.folder), str(built)], check=True)
    _give(home)
    for parent, folders, files in os.walk(home):
        for name in (*folders, *files):
            _give(Path(parent, name))
    return LaptopUser(home)


def _give(path: Path) -> None:
    """With whose numbers a file of root's, or of another user's in the image, is the same in the user's namespace."""
    found = path.lstat()
    user, group = (_FIRST + number - 1 if number else USER for number in (found.st_uid, found.st_gid))
    os.chown(path, user, group, follow_symlinks=False)
    if not path.is_symlink():
        path.chmod(found.st_mode & 0o7777)  # who is given away loses set-user-ID


def remove_user(user: LaptopUser) -> None:
    shutil.rmtree(user.home.parent)


def find_processes(user: LaptopUser, *words: str) -> list[int]:
    """The numbers of the user's processes whose command line has these words in it."""
    told = [one for one in user.remains() if one.startswith("process ") and all(word in one for word in words)]
    return [int(one.split()[1].rstrip(":")) for one in told]
