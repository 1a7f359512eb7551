"""The queue of downloads and conversions: each row, with its buttons."""

from llm_lite.core.messages.library import QueueState
from llm_lite.core.records import replace
from llm_lite.desktop.features.library.model import (
    CancelJob,
    DismissEnded,
    DismissJob,
    KeepSource,
    PauseJob,
    RemoveNow,
    ResumeJob,
    RetryJob,
    TellJobs,
    UndoRemoval,
)
from llm_lite.desktop.features.program.model import OpenModel
from tools.tour.example_models import DOWNLOADING, LOCAL, QUEUE


def test_each_job_has_the_buttons_of_its_state(library):
    one = library("queue")
    clicks = {
        "aaaa.pause": PauseJob("aaaa"), "aaaa.cancel": CancelJob("aaaa"),
        "bbbb.resume": ResumeJob("bbbb"), "cccc.retry": RetryJob("cccc"),
        "cccc.dismiss": DismissJob("cccc"), "dddd.dismiss": DismissJob("dddd"),
        "eeee.now": RemoveNow("eeee"), "eeee.undo": UndoRemoval("eeee"),
    }  # fmt: skip
    for name, action in clicks.items():
        one.driver.click(f"library.job.{name}")
        assert one.done[-1] == action
    chain = replace(QUEUE.jobs[1], stages=tuple(
        replace(s, state="running") if s.state == "paused" else s for s in QUEUE.jobs[1].stages
    ))  # fmt: skip
    one.program.do(TellJobs(QueueState((chain,), True)))
    one.driver.frames(3)
    one.driver.click("library.job.bbbb.keep")
    assert one.done[-1] == KeepSource("bbbb")
    one.driver.wait("the queue", lambda s: KeepSource("bbbb") in one.services.requests)


def test_what_is_still_to_be_done_stands_above_what_has_ended(library):
    """A download that was just added, and the undo of a deletion, are in sight."""
    one = library("queue")
    ids = [job.id for job in QUEUE.jobs]
    assert ids == ["aaaa", "bbbb", "cccc", "dddd", "eeee"]
    tops = {name: one.ui.rects[f"library.job.{name}"][1] for name in ids}
    assert sorted(ids, key=tops.__getitem__) == ["aaaa", "bbbb", "eeee", "dddd", "cccc"]
    one.driver.click("library.jobs.dismiss")
    assert one.done[-1] == DismissEnded()
    one.program.do(TellJobs(QueueState(QUEUE.jobs[:3], True)))
    one.driver.frames(3)
    assert "library.jobs.dismiss" not in one.ui.rects  # one row has a button of its own


def test_what_a_job_has_made_is_opened_from_its_row(library):
    one = library("queue")
    (made,) = (model for model in LOCAL if model.name == "qwen3-4b-instruct-int4")
    one.driver.click("library.job.dddd.open")
    assert one.done == [OpenModel(str(made.path))] and not one.state.library.shown


def test_progress_says_bytes_rate_and_what_is_left_and_what_is_unknown(library):
    from llm_lite.desktop.features.library.queue import progress_of

    (stage,) = DOWNLOADING.stages
    assert progress_of(stage) == "1.4 GiB of 2.3 GiB  ·  11.8 MiB a second  ·  1 minute left"
    assert progress_of(replace(stage, total=0, rate=0.0, left=None)) == "1.4 GiB of an unknown size"
    assert "second" not in progress_of(replace(stage, state="paused"))


def test_another_window_that_works_is_told(library):
    one = library("queue")
    one.program.do(TellJobs(replace(QUEUE, works=False, problem="the disk is full")))
    one.driver.frames(2)
    assert one.state.library.queue_problem == "the disk is full"
    assert not one.state.library.queue_works
