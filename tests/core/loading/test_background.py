"""Work beside the weights: whoever waits gets its result, its error, or may give up."""

import threading

import pytest

from llm_lite.core.errors import CancelledError, FileError
from llm_lite.core.loading.background import BackgroundWork
from llm_lite.core.text.sandbox.process import cancelled_by, give_up_when_cancelled
from tests.children import PATIENCE


def test_the_starter_goes_on_and_gets_the_result():
    go_on = threading.Event()
    work = BackgroundWork(lambda: go_on.wait() and threading.current_thread().name, "beside")
    work.raise_failure()
    go_on.set()
    assert work.result() == work.result() == "beside"
    work.close()


def test_what_it_throws_is_thrown_to_whoever_asks():
    def fail():
        raise FileError("model.gguf", "is broken")

    work = BackgroundWork(fail, "beside")
    for ask in (work.result, work.result, work.raise_failure):
        with pytest.raises(FileError, match="is broken"):
            ask()
    work.close()


def test_whoever_waits_can_give_up():
    go_on = threading.Event()
    work = BackgroundWork(go_on.wait, "beside")
    with cancelled_by(lambda: True), pytest.raises(CancelledError):
        work.result()
    go_on.set()
    assert work.result() is True


def test_closing_ends_what_waits_for_the_sandbox():
    begun = threading.Event()

    def endless():
        begun.set()
        while True:
            give_up_when_cancelled()

    work = BackgroundWork(endless, "beside")
    assert begun.wait(PATIENCE)
    work.close()
    with pytest.raises(CancelledError):
        work.result()
