"""Unpacking a tar stream that a machine has sent: its root is not this host's, and is believed nothing.

What is written is files, folders and links of whoever runs nearmetal, below one folder, without the right to become
somebody else. (`tarfile` has filters for this from Python 3.11.4 on; Debian 12 has 3.11.2.)
"""

import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from nearmetal.errors import MALFORMED, HostCannot

_PERMISSIONS = 0o777
"""Not set-user-ID, set-group-ID and the sticky bit."""
_BUFFER = 1 << 18
_BY_A_LINK = "a name in the archive leads by way of a link"


def unpack_archive(stream: IO[bytes], folder: Path) -> bool:
    """Read to its end; whether it was whole, as far as an archive tells. HostCannot for what is not let in; OSError."""
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BUFFER) as archive:
            # What each member is has been looked at here: Python 3.14 would refuse a link that leads elsewhere.
            archive.extraction_filter = lambda member, path: member
            archive.extractall(folder, _let_in(archive, folder))
        while stream.read(_BUFFER):
            pass  # what fills up the last record
    except tarfile.TarError:
        return False
    except (*MALFORMED, OverflowError, RecursionError) as error:
        # `tarfile` takes numbers, names and links for what they should be.
        raise HostCannot(f"the archive is not made as it should be: {str(error)[:200]}") from None
    return True


def _let_in(archive: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if member.isdev():
            raise HostCannot(f"device nodes, sockets and FIFOs are not copied: {member.name}")
        if _is_link(folder, member.name):
            raise HostCannot(f"{_BY_A_LINK}: {member.name}")
        if member.islnk() and _is_link(folder, member.linkname):
            # A second name of a link. Permissions that were set by it would be those of what it leads to.
            member.type, member.linkname = tarfile.SYMTYPE, str((folder / member.linkname).readlink())
        member.mode &= _PERMISSIONS
        member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
        yield member


def _is_link(folder: Path, name: str) -> bool:
    """Whether a name of the archive is that of a link. A link leads where it leads, but nothing is written, or linked
    to, by way of one: not even where it leads inside, for what it leads to by others cannot always be found out.

    HostCannot for a name that leads out, or by way of a link; OSError when that cannot be seen.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise HostCannot(f"a name in the archive leads out of it: {name}")
    place, is_link = folder, False
    for part in path.parts:
        if is_link:
            raise HostCannot(f"{_BY_A_LINK}: {name}")
        place /= part
        try:
            is_link = stat.S_ISLNK(place.lstat().st_mode)
        except FileNotFoundError:
            return False
    return is_link
