"""An engine that was killed removes containers by itself when it is back, while it is asked to remove them."""

from unittest.mock import Mock

import pytest
from docker.errors import APIError
from requests import Response

from nearmetal.lab.containers.api import ContainerEngine, EngineRefusal


def refusal(status: int) -> APIError:
    response = Response()
    response.status_code = status
    return APIError("refused", response=response, explanation="removal is already in progress")


def engine(*answers: object) -> ContainerEngine:
    return ContainerEngine("unix:///nowhere", Mock(remove_container=Mock(side_effect=answers)))


@pytest.mark.parametrize("last", [None, refusal(404)], ids=["removed", "gone meanwhile"])
async def test_a_container_that_is_being_removed_is_waited_for(last: object) -> None:
    one = engine(refusal(409), refusal(500), last)
    await one.remove_container("c")
    assert one.client.remove_container.call_count == 3


async def test_a_container_that_may_not_be_removed_is_an_error_at_once() -> None:
    one = engine(refusal(403), None)
    with pytest.raises(EngineRefusal, match="in progress"):
        await one.remove_container("c")
    assert one.client.remove_container.call_count == 1
