"""Which live tests one test process gets: those that share what takes long to make, and each other by itself."""

import re

_SHARED = {
    "podman": re.compile(r"podman"),
    "gvisor": re.compile(r"test_gvisor\.py"),
    "domain": re.compile(r"test_existing_domain\.py"),
    "libvirt": re.compile(r"test_libvirt\.py"),
    "own service": re.compile(r"test_own_service\.py"),
    "ordinary user": re.compile(r"test_rootless\.py"),
    "third party": re.compile(r"third_party/test_third_party\.py"),
}
"""What each process would start or build anew, or is there once, and by what those tests are known that use it."""
_CONFORMANCE = re.compile(r"conformance/.*\[([a-z]+(?:-(?:restored|restarted|existing))*)")


def find_group(nodeid: str) -> str:
    """By the test's name alone: the process that deals has no fixtures."""
    for shared, words in _SHARED.items():
        if words.search(nodeid):
            return shared
    machines = _CONFORMANCE.search(nodeid)
    return machines[1] if machines else nodeid
