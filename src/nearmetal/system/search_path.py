"""Where programs are looked for. Half of what is driven here lies in folders that a user's PATH often leaves out."""

import os

_SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def with_sbin(path: str) -> str:
    """A PATH, and after all that it names those of root's folders that it lacks. Pure."""
    named = path.split(":") if path else []
    return ":".join([*named, *(folder for folder in _SBIN if folder not in named)])


def widen_path() -> None:
    """For this process and all that it starts."""
    os.environ["PATH"] = with_sbin(os.environ.get("PATH", os.defpath))
