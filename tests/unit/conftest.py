"""Runs of these tests are in their own process, as those of tests/order: to start another takes a second of a CPU."""

from tests.order.conftest import in_process

__all__ = ["in_process"]
