"""What the program keeps beside settings and conversations: the queue of models and its progress,
prompts, the measured bandwidth, the database of the history."""

from __future__ import annotations

import json
import random
from contextlib import closing
from functools import cache
from pathlib import Path

from llm_lite.core.errors import RequestError
from llm_lite.core.history import History, HistoryOpened
from llm_lite.core.hub.fit import bandwidth
from llm_lite.core.hub.queue import commands, steps
from llm_lite.core.hub.queue.jobs import to_json as job_to_json
from llm_lite.core.hub.queue.queue_file import ProgressFile, QueueFile
from llm_lite.core.hub.queue.running import with_progress
from llm_lite.desktop.features.prompts.host import read_prompt
from tests.fuzz.door import Case, Door, Result, problem_of_sentence
from tests.fuzz.mutations import change_json, mutate_bytes, special_file, to_json

PROMPT = b"---\nname: Mine\ndescription: x\n---\n\nBe brief.\n"
PROGRESS = {"done": 5, "total": 9, "rate": 2.5, "left": 3.5, "detail": "a.gguf"}
SECONDS = 20.0  # for a history to open


@cache
def jobs() -> str:
    added: tuple[object, ...] = ()
    for addition in (
        commands.fetch("a/b", "x.gguf", mode="int8", delete_source=True, job_id="one"),
        commands.fetch("c/d", cut="e2b", job_id="two"),
    ):
        added = addition(added)  # type: ignore[arg-type]
    rows = [job_to_json(job) for job in steps.begun("one")(added)]  # type: ignore[arg-type]
    return json.dumps({"version": 1, "jobs": rows})


@cache
def database() -> bytes:
    path = Path.cwd() / "tmp" / "history.db"
    with closing(History(path)) as history:
        history.wait_until_open()
        talk = history.begin(title="A talk", system_prompt="Be brief.").id
        said = history.add_message(talk, None, "Hello")
        history.finish_answer(history.begin_answer(talk, said.id, None), "Hi", tokens=(1, 2))
        assert history.flush()
    return path.read_bytes()


def use(case: Case) -> Result | None:
    kinds = (_queue, _queue, _queue, _progress, _prompt, _bandwidth, _history)
    return case.rng.choice(kinds)(case)


def _queue(case: Case) -> None:
    file = QueueFile(case.folder)
    _write(file.path, _changed(json.loads(jobs()), case.rng), case.rng)
    found = file.load()
    if file.problem:
        assert not problem_of_sentence(file.problem), file.problem
        assert not found
    for job in found:
        with_progress(job.row, PROGRESS)
        steps.task_of(job, case.folder) if job.row.current else None
    steps.next_job(found, None), steps.waiting_deletions(found, None)
    try:
        after = file.edit(commands.fetch("e/f", job_id="three"))
    except RequestError as error:
        assert not problem_of_sentence(str(error)), str(error)
        raise
    again = QueueFile(case.folder).load()  # without what lasts no longer than a run
    assert [job.id for job in again] == [job.id for job in after]


def _progress(case: Case) -> None:
    file = ProgressFile(case.folder)
    _write(file.path, _changed(dict(PROGRESS), case.rng), case.rng)
    row = commands.fetch("a/b").job.row
    with_progress(row, file.read())


def _prompt(case: Case) -> None:
    path = case.folder / "prompt.md"
    _write(path, mutate_bytes(PROMPT, case.rng), case.rng)
    prompt = read_prompt(path)
    prompt.name.encode(), prompt.text.encode()


def _bandwidth(case: Case) -> Result:
    path = case.folder / "bandwidth.json"
    _write(path, _changed({"cpu, 2 threads": 15.5, "gpu": 300}, case.rng), case.rng)
    known = bandwidth.known_gb_s(None, path)
    return Result([known or 0.0, *bandwidth._read(path).values()])


def _history(case: Case) -> None:
    """Opened in any state: what cannot be read is set aside, and another begins."""
    path = case.folder / "history.db"
    raw = database()
    _write(path, mutate_bytes(raw, case.rng) if case.rng.random() < 0.9 else raw[:100], case.rng)
    with closing(History(path)) as history:
        history.wait_until_open(SECONDS)
        for event in history.poll():
            if isinstance(event, HistoryOpened) and event.message:
                assert not problem_of_sentence(event.message), event.message
        for summary in history.page().conversations:
            history.conversation(summary.id)
        history.search("hello", seconds=1.0)


def _write(path: Path, raw: bytes, rng: random.Random) -> None:
    path.write_bytes(raw)
    if rng.random() < 0.03:
        special_file(path, rng)


def _changed(value: object, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return mutate_bytes(json.dumps(value).encode(), rng)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        change_json(value, rng)
    return to_json(value)


DOOR = Door("kept", use, database)
