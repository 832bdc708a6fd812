"""Which live tests a process gets, and when: those that share what takes long to make, and each other by itself."""

import re

_SHARED = {
    "podman": re.compile(r"podman"),
    "gvisor": re.compile(r"test_gvisor\.py"),
    "domain": re.compile(r"test_existing_domain\.py"),
    "libvirt": re.compile(r"test_libvirt\.py"),
    "user service": re.compile(r"test_user_service\.py"),
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


_LONGEST = (
    *("test_half_a_dozen_kills", "ordinary user", "libvirt", "podman", "test_a_guest_on_another_host", "domain"),
    *("third party", "test_a_host_is_one_runs_at_a_time", "test_each_network_carries_each_workload", "user service"),
    *("test_killed_at_random_moments", "test_killed_in_the_middle_nothing_of_ours", "test_what_an_image_starts"),
)
"""Groups that take more than half a minute, the longest first: by their names, or what a test's has in it."""


def find_place(nodeid: str) -> int:
    """When its group begins: one that takes three minutes and begins last would have all others wait for it."""
    group = find_group(nodeid)
    return next((place for place, words in enumerate(_LONGEST) if words in group), len(_LONGEST))
