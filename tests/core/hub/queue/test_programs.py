"""Several programs with one queue, and what is left of one that is killed."""

import os
import signal
import subprocess
import sys

import pytest

from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.queue.queue_file import QueueFile
from tests.core.hub.queue.test_queue import gone, stages, until_started, watch  # noqa: F401
from tests.paths import ROOT

PROGRAM = """
import sys, time
from pathlib import Path
from llm_lite.core.hub.queue.queue import ModelQueue
folder = Path(sys.argv[1])
worker = "tests.core.hub.queue.fake_worker"
queue = ModelQueue(folder, folder / "models", lambda state: None, worker=worker)
print("ready", flush=True)
sys.stdin.read()
queue.close()
"""


@pytest.fixture
def program(tmp_path):
    """Another program that carries out the same queue; it ends when its input does."""
    started = []

    def start():
        child = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "queue")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert child.stdout.readline() == b"ready\n"
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def test_one_works_and_the_other_shows_and_commands(watch, program, tmp_path):  # noqa: F811
    folder = tmp_path / "queue"
    QueueFile(folder).edit(commands.fetch("slow/a", job_id="j"))
    program()
    process = until_started(folder, 1)
    one = watch()
    state = one.until(lambda s: s.jobs and s.jobs[0].stages[0].done == 1)
    assert not state.works and stages(state) == ["running"]
    one.do(commands.pause("j"))
    gone(process)
    assert not any(state.works for state in one.states)
    one.do(commands.fetch("quick/b"))  # either carries it out, as nobody works by now
    one.until_stages("paused", "done")


@pytest.mark.parametrize("how", ["killed", "closed"])
def test_the_other_takes_over(watch, program, tmp_path, how):  # noqa: F811
    folder = tmp_path / "queue"
    QueueFile(folder).edit(commands.fetch("slow/a", job_id="j"))
    child = program()
    process = until_started(folder, 1)
    one = watch()
    one.until(lambda state: stages(state) == ["running"] and not state.works)
    if how == "killed":
        child.send_signal(signal.SIGKILL)
    else:
        child.stdin.close()
    one.until(lambda state: state.works)
    until_started(folder, 2)
    one.until_stages("running")
    gone(process)


def test_the_process_of_a_killed_program_ends(program, tmp_path):
    folder = tmp_path / "queue"
    QueueFile(folder).edit(commands.fetch("slow/a"))
    child = program()
    process = until_started(folder, 1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    gone(process)
    assert QueueFile(folder).load()[0].row.stages[0].state == "running"
