"""`nearmetal isolate on --boot` with a real update-grub, on a copy of /etc that only the test sees."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(
        shutil.which("update-grub") is None,
        reason="this host has no GRUB to try it with (apt-get install grub2-common): --boot is NOT tested",
    ),
]

OWN = 'GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"\n'
"""What a user has there."""

# The overlay shows update-grub all else of /etc; /boot is a folder of the test's, on a disk that grub-probe can find.
INSIDE = """
set -e
mkdir "$1/changed" "$1/work" "$1/boot" "$1/boot/grub"
mount -t overlay none -o "lowerdir=/etc,upperdir=$1/changed,workdir=$1/work" /etc
mount --bind "$1/boot" /boot
echo it >/boot/vmlinuz-6.1.0-test
printf %s "$2" >/etc/default/grub
update-grub
cp /boot/grub/grub.cfg "$1/before.cfg"
"$3" -m nearmetal isolate on --boot || [ $? = 1 ]
cp /boot/grub/grub.cfg "$1/on.cfg"
cp /etc/default/grub.d/99-nearmetal.cfg "$1/drop-in"
if [ "$4" = off ]; then
    "$3" -m nearmetal isolate off
else
    # As far as update-grub, and no further.
    "$3" -m nearmetal isolate off
    "$3" -m nearmetal isolate on --boot & on=$!
    until [ -e /boot/grub/grub.cfg.new ]; do sleep 0.001; done
    kill -9 $on
    wait $on || true
    "$3" -m nearmetal clean
    sleep 1
fi
cp /boot/grub/grub.cfg "$1/after.cfg"
[ ! -e /etc/default/grub.d/99-nearmetal.cfg ]
"""


@pytest.mark.parametrize("ends", ["off", "killed"])
def test_the_boot_loader_is_told_and_told_otherwise(tmp_path: Path, ends: str) -> None:
    own = {file: file.read_text() for file in Path("/etc/default").glob("grub*") if file.is_file()}
    drop_ins = sorted(Path("/etc/default/grub.d").glob("*"))
    command = ["unshare", "--mount", "sh", "-c", INSIDE, "inside", str(tmp_path), OWN, sys.executable, ends]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    added = "isolcpus="
    lines = [line for line in (tmp_path / "on.cfg").read_text().splitlines() if added in line]
    assert lines and all("quiet splash isolcpus=" in line and "nohz_full=" in line for line in lines)
    assert (tmp_path / "drop-in").read_text().startswith('GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT ')
    assert (tmp_path / "changed" / "default" / "grub").read_text() == OWN
    assert (tmp_path / "after.cfg").read_text() == (tmp_path / "before.cfg").read_text()
    # This host's own have not been touched.
    assert {file: file.read_text() for file in own} == own
    assert sorted(Path("/etc/default/grub.d").glob("*")) == drop_ins
