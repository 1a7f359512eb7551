"""The thread of the queue: what it does with jobs, commands and processes that end."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import write_file
from llm_lite.core.hub.queue import commands, queue_file
from llm_lite.core.hub.queue import queue as queue_module
from llm_lite.core.hub.queue.queue import ModelQueue
from llm_lite.core.hub.queue.queue_file import QueueFile
from llm_lite.core.messages.library import LocalModel, QueueState
from tests.children import PATIENCE

WORKER = "tests.core.hub.queue.fake_worker"


class Watched:
    """A queue, and what it has told."""

    def __init__(self, folder, **options):
        self.folder = folder
        self.states = [QueueState()]
        self._told = threading.Condition()
        self.queue = ModelQueue(folder, folder / "models", self._hear, worker=WORKER, **options)
        self.do = self.queue.do

    def _hear(self, state):
        with self._told:
            self.states.append(state)
            self._told.notify_all()

    @property
    def state(self):
        return self.states[-1]

    def until(self, holds):
        with self._told:
            found = self._told.wait_for(lambda: holds(self.state), PATIENCE)
        assert found, self.state
        return self.state

    def until_stages(self, *expected):
        """The states of all stages of all jobs."""
        return self.until(lambda state: stages(state) == list(expected))

    def close(self):
        self.queue.close()


def stages(state):
    return [stage.state for job in state.jobs for stage in job.stages]


def started(folder):
    """Stages that were begun, in order: their words and processes."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(line.rpartition(" ")[0], int(line.rpartition(" ")[2])) for line in lines]


def until_started(folder, count):
    begin = time.monotonic()
    while len(started(folder)) < count:
        assert time.monotonic() - begin < PATIENCE, started(folder)
        time.sleep(0.01)
    return started(folder)[-1][1]


@pytest.fixture
def watch(tmp_path):
    made = []

    def start(**options):
        made.append(Watched(tmp_path / "queue", **options))
        return made[-1]

    yield start
    for one in made:
        one.close()


def local(name, path):
    return LocalModel(name, Path(path), "imported", "gguf", (Path(path),), 10)


def test_a_queue_without_a_file_is_told_once_as_empty(watch):
    one = watch()
    one.until(lambda state: len(one.states) > 1)
    one.do(lambda jobs: jobs)
    one.close()
    assert one.states[1:] == [QueueState()]


def test_a_job_goes_through_its_stages_in_order(watch):
    one = watch()
    one.do(commands.fetch("quick/a", "x.gguf", mode="int8", delete_source=True, size=99))
    state = one.until_stages("done", "done", "done")
    job = state.jobs[0]
    assert [text for text, _ in started(one.folder)] == [
        "download hf:quick/a:x.gguf",
        "quantize hf:quick/a:x.gguf",
        "delete source hf:quick/a:x.gguf",
    ]
    assert job.title == "quick/a:x.gguf" and job.message == "" and job.result == "delete source"
    assert QueueFile(one.folder).load()[0].variant.endswith("made by quantize")


def test_progress_is_told_while_it_runs(watch):
    one = watch()
    one.do(commands.fetch("slow/a"))
    state = one.until(lambda s: s.jobs and s.jobs[0].stages[0].done == 1)
    stage = state.jobs[0].stages[0]
    assert (stage.state, stage.total, stage.detail) == ("running", 4, "first") and state.works


def test_a_defect_is_told_and_does_not_end_the_queue(watch, monkeypatch):
    one, broke = watch(), threading.Event()

    def breaks(*_):
        broke.set()
        raise ZeroDivisionError("of a test")

    with monkeypatch.context() as patch:
        patch.setattr(queue_module.steps, "next_job", breaks)
        one.do(commands.fetch("quick/a"))
        assert broke.wait(PATIENCE)
    one.until(lambda s: "ZeroDivisionError" in s.problem)
    one.until_stages("done")


def test_a_failure_is_a_sentence_and_can_be_tried_again(watch):
    one = watch()
    one.do(commands.fetch("fail/a", mode="int8"))
    job = one.until_stages("failed", "waiting").jobs[0]
    assert job.message == r"no such thing\x1b[2J here"
    (one.folder / "mended").touch()
    one.do(commands.retry(job.id))
    assert one.until_stages("done", "done").jobs[0].message == ""


def test_a_process_that_is_killed_is_a_failure_and_the_next_job_runs(watch):
    one = watch()
    one.do(commands.fetch("die/a"))
    one.do(commands.fetch("quick/b"))
    job = one.until_stages("failed", "done").jobs[0]
    assert "killed by signal 9" in job.message


def test_nonsense_of_a_process_is_passed_over(watch):
    one = watch()
    one.do(commands.fetch("chatty/a"))
    one.until_stages("done")


def test_pause_ends_the_process_and_resume_begins_another(watch):
    one = watch()
    one.do(commands.fetch("slow/a", job_id="j"))
    process = until_started(one.folder, 1)
    one.do(commands.pause("j"))
    one.until_stages("paused")
    gone(process)
    one.do(commands.resume("j"))
    until_started(one.folder, 2)
    one.until_stages("running")
    one.do(commands.cancel("j"))
    assert "Cancelled" in one.until_stages("failed").jobs[0].message
    one.do(commands.remove("j"))
    one.until(lambda state: state.jobs == ())


def test_a_paused_job_says_how_far_it_was(watch):
    """Not nothing, as if what was fetched were lost; the next program knows it too."""
    one = watch()
    one.do(commands.fetch("slow/name", "m.gguf", job_id="j"))
    one.until(lambda s: s.jobs and s.jobs[0].stages[0].done == 1)
    one.do(commands.pause("j"))
    one.until(lambda s: s.jobs[0].stages[0].state == "paused" and s.jobs[0].stages[0].done == 1)
    one.close()
    later = watch()
    state = later.until(lambda s: s.jobs)
    assert (state.jobs[0].stages[0].done, state.jobs[0].stages[0].total) == (1, 4)


def test_a_removed_row_takes_its_process_along(watch):
    one = watch()
    one.do(commands.fetch("slow/a", job_id="j"))
    process = until_started(one.folder, 1)
    one.do(commands.remove("j"))
    one.do(commands.fetch("quick/b"))
    one.until_stages("done")
    gone(process)


def test_what_ran_when_the_program_closed_goes_on_in_the_next(watch):
    one = watch()
    one.do(commands.fetch("slow/a"))
    process = until_started(one.folder, 1)
    one.close()
    gone(process)
    assert QueueFile(one.folder).load()[0].row.stages[0].state == "waiting"
    two = watch()
    until_started(two.folder, 2)
    two.until_stages("running")


def test_a_command_that_comes_too_late_is_a_sentence(watch):
    one = watch()
    one.do(commands.pause("nobody"))
    assert "no job 'nobody'" in one.until(lambda state: state.problem).problem
    one.do(commands.fetch("quick/a"))
    assert one.until_stages("done").problem == ""


def test_deletions_wait_for_all_else_and_their_grace(watch, tmp_path):
    one = watch()
    one.do(commands.fetch("slow/a", job_id="j"))
    until_started(one.folder, 1)
    one.do(commands.delete([local("old", tmp_path / "old.gguf")], 10, grace=0.6, job_id="d"))
    one.until_stages("running", "waiting")
    time.sleep(1.0)  # longer than its grace
    assert stages(one.state) == ["running", "waiting"]
    one.do(commands.cancel("j"))
    one.until(lambda state: len(state.jobs) > 1 and state.jobs[1].stages[0].left is not None)
    job = one.until_stages("failed", "done").jobs[1]
    assert job.frees == 7 and job.deletes == ("old",)


def test_other_work_begins_the_grace_of_a_deletion_again(watch, tmp_path):
    one = watch()
    one.do(commands.delete([local("old", tmp_path / "old.gguf")], 10, grace=1.5, job_id="d"))
    one.until(lambda state: state.jobs and state.jobs[0].stages[0].left is not None)
    one.do(commands.fetch("slow/a", job_id="j"))
    one.until_stages("waiting", "running")
    assert one.until(lambda state: state.jobs[0].stages[0].left is None)
    time.sleep(1.6)
    one.do(commands.cancel("j"))
    one.until_stages("waiting", "failed")
    one.do(commands.undo("d"))  # there is still time
    one.until_stages("failed")
    assert not any("delete" in what for what, _ in started(one.folder))


def test_a_deletion_is_undone_until_it_begins(watch, tmp_path):
    one = watch()
    one.do(commands.delete([local("old", tmp_path / "old.gguf")], 10, grace=1.0, job_id="d"))
    one.until_stages("waiting")
    one.do(commands.undo("d"))
    one.until(lambda state: state.jobs == ())
    time.sleep(1.5)
    assert started(one.folder) == []


def test_a_deletion_can_be_carried_out_now(watch, tmp_path):
    one = watch()
    one.do(commands.delete([local("old", tmp_path / "old.gguf")], 10, grace=3600, job_id="d"))
    one.until_stages("waiting")
    one.do(commands.delete_now("d"))
    one.until_stages("done")


def test_the_source_can_be_kept_until_its_deletion_begins(watch):
    one = watch()
    one.do(commands.fetch("slow/a", mode="int4", delete_source=True, job_id="j"))
    until_started(one.folder, 1)
    one.do(commands.keep_source("j"))
    one.until_stages("running", "waiting", "skipped")


def test_only_some_jobs_are_carried_out_where_a_program_says_so(watch):
    one = watch(only=("mine",))
    one.do(commands.fetch("quick/theirs"))
    one.do(commands.fetch("quick/mine", job_id="mine"))
    one.until_stages("waiting", "done")


def test_a_full_disk_is_a_sentence_and_what_happened_is_saved_later(watch, monkeypatch):
    def full(path, content, **how):
        if path.name == "queue.json" and disk:
            raise FileError(path, "cannot be written: No space left on device")
        write_file(path, content, **how)

    disk = ["full"]
    monkeypatch.setattr(queue_file, "write_file", full)
    monkeypatch.setattr(queue_module, "_SAVE_AGAIN", 0.2)
    one = watch()
    one.do(commands.fetch("quick/a"))
    state = one.until_stages("done")
    assert "cannot be saved" in state.problem and "No space left" in state.problem
    assert QueueFile(one.folder).load() == ()
    disk.clear()
    one.until(lambda state: not state.problem)
    assert stages(one.state) == ["done"]
    assert QueueFile(one.folder).load()[0].row.stages[0].state == "done"


def test_what_is_saved_later_may_fit_no_longer(watch, monkeypatch):
    """Another program takes the job away before this one could save what it did with it."""

    def full(path, content, **how):
        raise FileError(path, "cannot be written: No space left on device")

    watched = watch(only=())
    first, second = (commands.fetch("owner/name", name, job_id=name) for name in "ab")
    watched.do(first)
    watched.do(second)
    watched.until_stages("waiting", "waiting")
    with monkeypatch.context() as disk:
        disk.setattr(queue_file, "write_file", full)
        watched.do(commands.pause("a"))
        watched.until(lambda state: "No space left" in state.problem)
    QueueFile(watched.folder).edit(commands.remove("a"))
    watched.until_stages("waiting")
    watched.do(commands.pause("b"))
    watched.until_stages("paused")


def test_the_file_of_a_newer_version_stays_and_is_told(watch, tmp_path):
    (tmp_path / "queue").mkdir()
    file = tmp_path / "queue" / "queue.json"
    file.write_text(newer := '{"version": 2, "jobs": 7}')
    one = watch()
    assert "newer llm-lite" in one.until(lambda state: state.problem).problem
    file.write_text('{"version": 1, "jobs": []}')
    one.until(lambda state: not state.problem)
    file.write_text(newer)
    one.until(lambda state: state.problem)
    one.do(commands.fetch("quick/a"))
    time.sleep(0.5)
    one.close()
    assert one.state.jobs == () and started(one.folder) == []
    assert file.read_text() == newer


def gone(process):
    begin = time.monotonic()
    while psutil.pid_exists(process):
        if time.monotonic() - begin > PATIENCE:
            raise AssertionError(f"process {process} still runs: {os.getpid()}")
        time.sleep(0.01)
