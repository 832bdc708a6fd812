#!/usr/bin/env python3
"""Docker's usual runtime, for a host whose root lacks a capability itself, as in some sandboxes.

`--privileged` asks for all capabilities, and runc refuses to give one that it has not. Engines start this file.
"""

import json
import os
import sys
from pathlib import Path

NAME, NUMBER = "CAP_SYS_RESOURCE", 24


def drop(config: Path) -> None:
    """From a bundle's config.json."""
    document = json.loads(config.read_text())
    for names in document["process"]["capabilities"].values():
        if NAME in names:
            names.remove(NAME)
    config.write_text(json.dumps(document))


def lacks() -> bool:
    lines = Path("/proc/self/status").read_text().splitlines()
    (mask,) = (int(line.split()[1], 16) for line in lines if line.startswith("CapBnd:"))
    return not mask >> NUMBER & 1


if __name__ == "__main__":
    words = sys.argv[1:]
    if "create" in words and lacks():
        drop(Path(words[words.index("--bundle") + 1], "config.json"))
    os.execvp("runc", ["runc", *words])
