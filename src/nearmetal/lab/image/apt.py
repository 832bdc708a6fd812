"""Where packages come from: the host's own sources of the wanted suite, or Debian's where it has none."""

import re
from pathlib import Path

from . import build_tools

DEBIAN = "http://deb.debian.org/debian"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

LISTING = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
_OPTIONS = re.compile(r'(Acquire::(?:https?::.*|Check-Valid-Until|Check-Date|Retries|ForceIPv[46])) "(.*)";')


def standard_sources(suite: str) -> str:
    """Debian's own archive, as one-line sources; this is also what the finished image names."""
    return (
        f"deb {DEBIAN} {suite} main\ndeb {DEBIAN} {suite}-updates main\ndeb {DEBIAN}-security {suite}-security main\n"
    )


def pick_sources(listing: str, suite: str) -> str:
    """One-line sources of `suite` out of a listing in the format LISTING; "" if the suite itself is not there.

    Between its lines stand apt's warnings, and a CD-ROM's address has spaces: neither is a source to build from.
    """
    wanted = {suite, f"{suite}-updates", f"{suite}-security"}
    chosen: dict[tuple[str, str], None] = {}
    for line in listing.splitlines():
        match line.split(" "):
            case [address, release, "main"] if release in wanted:
                chosen[address, release] = None
    if not any(release == suite for _, release in chosen):
        return ""
    signed = f" [signed-by={KEYRING}]" if KEYRING.exists() else ""
    return "".join(f"deb{signed} {address} {release} main\n" for address, release in chosen)


def pick_options(dump: str) -> list[str]:
    """What of `apt-config dump` decides how the archive is reached (proxies, checks), as configuration lines."""
    found = (_OPTIONS.fullmatch(line) for line in dump.splitlines())
    return [match[0] for match in found if match and match[2]]


async def find_sources(suite: str, folder: Path) -> tuple[str, list[str]]:
    """The sources to build from and the apt options to use with them, as this host is configured."""
    status, listing = await build_tools.run(
        ("apt-get", "indextargets", "--format", LISTING, "Created-By: Packages"), folder=folder
    )
    sources = pick_sources(listing, suite) if status == 0 else ""
    _, dump = await build_tools.run(("apt-config", "dump", "Acquire"), folder=folder)
    return sources or standard_sources(suite), pick_options(dump)
