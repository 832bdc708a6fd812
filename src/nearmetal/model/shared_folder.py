"""A directory of a machine's host that the machine sees: how a study writes it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

_EXAMPLE = '"/srv/files:/mnt/files"'
_KERNELS = ("/proc", "/sys", "/dev", "/run")
"""What a machine cannot do without, or mounts over."""


@dataclass(frozen=True)
class SharedFolder:
    source: str
    """On the machine's host."""
    mountpoint: str
    """In the machine."""

    @classmethod
    def parse(cls, text: str) -> SharedFolder:
        """From "PATH:MOUNTPOINT", both absolute. ValueError with what would be right."""
        source, colon, mountpoint = text.partition(":")
        if not colon or ":" in mountpoint or not text.isprintable():
            raise ValueError(f"{text!r} is no share; write it like {_EXAMPLE}")
        for path in (source, mountpoint):
            if not path.startswith("/") or ".." in PurePosixPath(path).parts:
                raise ValueError(f"{path!r} in {text!r} is not an absolute path without '..'; write it like {_EXAMPLE}")
        inside = PurePosixPath(mountpoint)
        if len(inside.parts) == 1 or any(inside.is_relative_to(kernels) for kernels in _KERNELS):
            raise ValueError(f"{mountpoint!r} is what every machine has for itself; choose another, as in {_EXAMPLE}")
        return cls(source, str(inside))


def _checked(text: str) -> str:
    SharedFolder.parse(text)
    return text


SharedFolderText = Annotated[str, AfterValidator(_checked)]
"""As written: "PATH:MOUNTPOINT"."""
