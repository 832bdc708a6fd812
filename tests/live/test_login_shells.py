"""Hosts of the user's own whose root has another login shell than sh, behind a real sshd."""

import shutil
from pathlib import Path

import pytest

from nearmetal.lab.image import Image
from nearmetal.lab.ssh.ssh_site import SshSite
from nearmetal.model import HostSpec
from tests.ports import free_port

from .far_host import far_host
from .two_hosts import Login

pytestmark = pytest.mark.live


@pytest.mark.parametrize("shell", ["fish", "tcsh", "bash"])
async def test_a_host_may_have_any_login_shell_and_one_that_speaks(
    lab_image: Image, login: Login, tmp_path: Path, shell: str
) -> None:
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"{shell} is not installed")
    user, key = login
    noisy = tmp_path / "noisy"
    noisy.write_text(f"#!/bin/sh\necho welcome\necho 'no terminal here' >&2\nexec {program} \"$@\"\n")
    noisy.chmod(0o755)
    with far_host(lab_image, tmp_path / "far", key, port=free_port(), programs_of_this_host=True) as host:
        user.know(host)
        for place in (program, "/var/cache/nearmetal/noisy"):
            shutil.copy(noisy, host.folder / "cache/noisy")
            host.run("sed", "-i", f"s#^\\(root:.*:\\)[^:]*$#\\1{place}#", "/etc/passwd")
            site = await SshSite.open("far", HostSpec(ssh=host.ssh), print)
            try:
                odd = ["a b", "$HOME", "!!", "it's", "\\", "two\nlines", "é"]
                ended = await site.exec(["printf", "%s\\0", *odd])
                assert ended.stdout.decode() == "\0".join([*odd, ""])
                assert ended.stderr == b""
                assert (await site.exec(["cat"], stdin=b"\0\xff" * 1000)).stdout == b"\0\xff" * 1000
                running = await site.spawn(["sleep", "100"])
                assert (await running.stop()).status != 0
            finally:
                await site.close()
