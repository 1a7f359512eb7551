"""What a person may do with a job, and the sentence where it does not fit."""

from pathlib import Path

import pytest

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue import commands, steps
from llm_lite.core.messages.library import LocalModel
from llm_lite.core.records import replace

MODEL = LocalModel("big", Path("/m/big.gguf"), "imported", "gguf", (), 10)


def after(*edits):
    jobs = ()
    for edit in edits:
        jobs = edit(jobs)
    return jobs


def states(jobs):
    return [stage.state for job in jobs for stage in job.row.stages]


def fetched(**options):
    return commands.fetch("owner/name", "m.gguf", job_id="j", **options)


def test_the_same_again_goes_on_instead_of_a_second_row():
    jobs = after(fetched(), commands.pause("j"), commands.fetch("owner/name", "m.gguf"))
    assert [job.id for job in jobs] == ["j"] and states(jobs) == ["waiting"]
    other = after(fetched(), commands.fetch("owner/name", "m.gguf", mode="int4"))
    assert len(other) == 2


def test_another_revision_is_another_job():
    jobs = after(fetched(revision="v1"), commands.pause("j"))
    jobs = steps.finished("j", {})(jobs)
    assert len(commands.fetch("owner/name", "m.gguf", revision="v2")(jobs)) == 2
    assert len(commands.fetch("owner/name", "m.gguf", revision="v1")(jobs)) == 1


def test_the_same_is_done_again_after_its_end_and_takes_the_row_of_the_old():
    jobs = after(fetched(), steps.begun("j"), steps.finished("j", {"path": "/x"}))
    assert states(jobs) == ["done"]
    jobs = commands.fetch("owner/name", "m.gguf", job_id="k")(jobs)
    jobs = commands.fetch("owner/name", "other.gguf", job_id="l")(jobs)
    assert states(jobs) == ["done", "waiting", "waiting"]
    for job_id in ("k", "l"):
        jobs = steps.finished(job_id, {"path": "/x"})(steps.begun(job_id)(jobs))
    assert [job.id for job in jobs] == ["k", "l"] and states(jobs) == ["done", "done"]


def test_what_has_ended_is_cleared_and_what_goes_on_stays():
    jobs = after(fetched(), steps.begun("j"), steps.finished("j", {"path": "/x"}))
    for name in ("fails", "waits", "paused"):
        jobs = commands.fetch("owner/name", name, job_id=name)(jobs)
    jobs = steps.failed("fails", "no")(steps.begun("fails")(jobs))
    jobs = commands.pause("paused")(jobs)
    assert [job.id for job in commands.clear(jobs)] == ["waits", "paused"]


def test_main_is_what_is_asked_for_where_no_revision_is_said():
    jobs = after(fetched(), commands.fetch("owner/name", "m.gguf", revision="main"))
    assert [job.id for job in jobs] == ["j"] and jobs[0].asked_revision == ""


def test_a_retry_goes_back_to_the_download_where_its_file_is_gone(tmp_path):
    there = tmp_path / "m.gguf"
    there.touch()
    jobs = after(
        fetched(mode="int8"),
        steps.begun("j"),
        steps.finished("j", {"path": str(there), "revision": "abc"}),
        steps.begun("j"),
        steps.failed("j", "the disk is full"),
    )
    assert states(jobs) == ["done", "failed"] and jobs[0].revision == "abc"
    assert states(commands.retry("j")(jobs)) == ["done", "waiting"]
    there.unlink()
    again = commands.retry("j")(jobs)
    assert states(again) == ["waiting", "waiting"]
    assert (again[0].path, again[0].row.message, again[0].revision) == ("", "", "")


REFUSED = [
    (commands.resume("j"), "is waiting, and cannot be resumed"),
    (commands.retry("j"), "is waiting, and cannot be tried again"),
    (commands.undo("j"), "only a deletion is undone"),
    (commands.delete_now("j"), "is no deletion"),
    (commands.keep_source("j"), "deletes no source"),
    (commands.pause("k"), "no job 'k' any more"),
    (commands.remove("k"), "no job 'k' any more"),
]


@pytest.mark.parametrize(("edit", "sentence"), REFUSED)
def test_what_does_not_fit_is_refused(edit, sentence):
    with pytest.raises(RequestError, match=sentence):
        edit(after(fetched()))


def test_a_deletion_that_has_begun_is_not_undone():
    jobs = after(commands.delete([MODEL], 10, job_id="d"), steps.begun("d"))
    with pytest.raises(RequestError, match="has begun"):
        commands.undo("d")(jobs)


def test_a_source_is_deleted_only_where_something_was_made_of_it():
    with pytest.raises(RequestError, match="only where something is made of it"):
        fetched(delete_source=True)
    with pytest.raises(RequestError, match="expected a weight mode or a slice"):
        commands.convert(MODEL)
    with pytest.raises(RequestError, match="as-stored is what a model is in"):
        commands.convert(MODEL, mode="as-stored")


def test_a_broken_model_is_not_converted():
    with pytest.raises(RequestError, match="big cannot be converted: half of it is missing"):
        commands.convert(replace(MODEL, problem="half of it is missing"), mode="int8")


def test_what_comes_of_a_stage_passes_over_a_job_that_was_paused_meanwhile():
    jobs = after(fetched(), steps.begun("j"), commands.pause("j"))
    assert steps.finished("j", {"path": "/x"})(jobs) == jobs
    assert steps.failed("j", "no")(jobs) == jobs
    assert steps.requeue_running(jobs) == jobs
