"""What `podman` does as `docker` does, by the same tests: conformance tests ask it of both in `make test`."""

import pytest

from .test_docker import (
    test_a_command_over_its_time_is_killed_with_its_children,
    test_a_command_tells_its_status_and_both_streams,
    test_a_container_that_is_killed_is_lost,
    test_destroy_is_idempotent_and_leaves_nothing,
    test_two_containers_meet_on_the_switch,
    test_what_runs_in_the_background_can_be_stopped,
)
from .test_podman import engine, environment, pytestmark

__all__ = [
    "engine",
    "environment",
    "test_a_command_over_its_time_is_killed_with_its_children",
    "test_a_command_tells_its_status_and_both_streams",
    "test_a_container_that_is_killed_is_lost",
    "test_destroy_is_idempotent_and_leaves_nothing",
    "test_two_containers_meet_on_the_switch",
    "test_what_runs_in_the_background_can_be_stopped",
]

pytestmark = [*pytestmark, pytest.mark.long]
