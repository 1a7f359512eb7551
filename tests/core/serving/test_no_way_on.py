"""What asks for the inside where there is no way on: it ends, and nobody waits for ever."""

import pytest

from llm_lite.core.messages import ServingStatus
from llm_lite.core.serving.request_queue import EngineCall
from tests.core.serving.clients import serve
from tests.core.serving.test_scheduling import BYTES_A_PAGE
from tests.runners import exact


def test_more_short_texts_than_there_are_pages(client, served_model):
    client.load(served_model, exact())
    service = serve(client, parallel=8, cache_budget=4 * BYTES_A_PAGE)
    assert isinstance(service.status(), ServingStatus) and service.status().pages == 4
    assert len(service.embed([(5 + n,) for n in range(20)]).vectors) == 20


def test_a_look_that_a_native_library_ends_still_answers_who_asked():
    class Foreign(BaseException):
        """As bindings of native libraries raise them."""

    def work(batch):
        raise Foreign("gone")

    call = EngineCall(work)
    with pytest.raises(Foreign):
        call.do(None)
    with pytest.raises(RuntimeError, match="an internal error"):
        call.result.result(0)
