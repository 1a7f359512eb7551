"""Executors that packages add, in the window: their names in the menu, and what runs on one."""

from llm_lite.core.messages import EngineOptions
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import TellModels
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.status_bar import _executor_hint, backend_labels
from tests.desktop.headless import READY

SIZE = (1400, 1700)


def with_accelerators(*names):
    return act(TellModels((), None, accelerators=names), READY, 1.0)[0]


def test_the_menu_offers_them(headless):
    one = headless(with_accelerators("npu"), size=SIZE)
    one.driver.click("status.executor")
    one.driver.click("executor.backend.npu")
    (action,) = one.did(SetOptions)
    assert action.options.backend == "npu"


def test_one_that_is_chosen_is_offered_before_they_are_listed(headless):
    state = replace(READY, options=EngineOptions(backend="npu"))
    assert [name for name, _ in backend_labels(state)][-1] == "npu"
    one = headless(state, size=SIZE)
    one.driver.click("status.executor")
    assert one.driver.shows("executor.backend.npu")
    assert not one.state.notices


def test_what_it_runs_is_told_and_is_no_warning(headless):
    executor = replace(
        READY.executor, backend="npu", reason="", shared="8 of 9 products run on npu"
    )
    one = headless(replace(READY, executor=executor), size=SIZE)
    one.driver.frames(2)
    assert not one.driver.shows("status.reason")
    assert "8 of 9 products run on npu" in _executor_hint(one.state, "npu")
