"""The file of the queue is read as untrusted, and nothing that it held is lost."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.queue.queue_file import MOST_JOBS, QueueFile


@pytest.fixture
def file(tmp_path):
    return QueueFile(tmp_path / "queue")


def written(file, value):
    file.folder.mkdir(exist_ok=True)
    file.path.write_bytes(value if isinstance(value, bytes) else json.dumps(value).encode())


def stored(queue, **changes):
    """A sound file with other values in its row, its job or its stage."""
    queue.edit(commands.fetch("owner/name", "m.gguf", mode="int4", delete_source=True, job_id="j"))
    value = json.loads(queue.path.read_text())
    job = value["jobs"][0]
    for place, (key, new) in changes.items():
        target = {"job": job, "row": job["row"], "stage": job["row"]["stages"][0], "file": value}
        target[place][key] = new
    written(queue, value)


def test_jobs_are_the_same_when_they_are_read_again(file):
    jobs = file.edit(
        commands.fetch("owner/name", "m.gguf", mode="int4", cut="E2B", delete_source=True, size=5)
    )
    assert file.load() == jobs and file.problem == ""
    names = [stage.stage for stage in jobs[0].row.stages]
    assert names == ["download", "slice", "quantize", "delete source"]


def test_no_file_is_an_empty_queue(file):
    assert file.load() == () and not file.folder.exists()


DAMAGED = {
    b"": "is not valid JSON",
    b'{"version": 1, "jobs": [': "is not valid JSON",
    b"\xff\xfe": "not valid UTF-8",
    b"[1, 2]": "expected a JSON object",
    b'{"version": "1"}': "version: expected 1, found '1'",
    b'{"version": 1, "jobs": {}}': "jobs: expected a list of at most 500, found an object of 0",
    b'{"version": 1, "jobs": [7]}': "jobs[0]: expected an object, found 7",
    b"[" * 100_000: "nests too deep",
}


@pytest.mark.parametrize("content", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_file_is_set_aside_with_a_sentence(file, content):
    written(file, content)
    assert file.load() == ()
    assert DAMAGED[content] in file.problem and "queue.damaged.json" in file.problem
    assert (file.folder / "queue.damaged.json").read_bytes() == content
    file.edit(commands.fetch("a/b"))  # and the queue can be used
    assert len(file.load()) == 1


WRONG = [
    ("row", "title", 7, "jobs[0].row.title: expected a text, found 7"),
    (
        "row",
        "mode",
        "int3",
        "jobs[0].row.mode: expected one of as-stored, fp32, fp16, int8, int4 or null, found 'int3'",
    ),
    ("row", "deletes", [1], "jobs[0].row.deletes[0]: expected a text, found 1"),
    ("row", "deletes", ["x"], "jobs[0].paths: expected as many"),
    ("row", "stages", [], "jobs[0].row.stages: expected a list of 1 to 8 items, found a list of 0"),
    (
        "stage",
        "stage",
        "explode",
        "stages[0].stage: expected one of download, slice, quantize, delete source, delete, found",
    ),
    ("stage", "state", None, "jobs[0].row.stages[0].state: expected one of waiting, "),
    (
        "stage",
        "done",
        True,
        "jobs[0].row.stages[0].done: expected a whole number of at least 0 and below",
    ),
    (
        "stage",
        "done",
        10**400,
        "jobs[0].row.stages[0].done: expected a whole number of at least 0 and below",
    ),
    (
        "stage",
        "left",
        -1,
        "jobs[0].row.stages[0].left: expected a number of at least 0 or null, found -1",
    ),
    ("job", "now", 1, "jobs[0].now: expected true or false, found 1"),
    ("job", "surprise", 1, "jobs[0].surprise: is not a known field"),
    ("job", "row", None, "jobs[0].row: expected an object, found null"),
]


@pytest.mark.parametrize(("place", "key", "value", "sentence"), WRONG)
def test_a_wrong_field_is_named(file, place, key, value, sentence):
    stored(file, **{place: (key, value)})
    assert file.load() == () and sentence in file.problem


def test_two_damaged_files_are_both_kept(file):
    for content in (b"one", b"two"):
        written(file, content)
        file.load()
    kept = {path.read_bytes() for path in file.folder.glob("queue.damaged*")}
    assert kept == {b"one", b"two"}


def test_the_file_of_a_newer_version_is_left_alone(file):
    stored(file, file=("version", 2))
    before = file.path.read_bytes()
    for use in (file.load, lambda: file.edit(commands.fetch("a/b"))):
        with pytest.raises(FileError, match="expected 1, found 2; it was written by a newer"):
            use()
    assert file.path.read_bytes() == before and file.problem == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_left_alone(file):
    file.edit(commands.fetch("a/b"))
    file.path.chmod(0)
    with pytest.raises(FileError, match="Permission denied"):
        file.load()
    assert file.path.exists()


def test_edits_at_the_same_time_are_all_kept(tmp_path):
    def add(number):
        QueueFile(tmp_path).edit(commands.fetch(f"owner/m{number}"))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(24)))
    assert {job.repo for job in QueueFile(tmp_path).load()} == {f"owner/m{n}" for n in range(24)}


def test_a_queue_takes_only_so_many_jobs(file):
    def many(jobs):
        for number in range(MOST_JOBS):
            jobs = commands.fetch(f"owner/m{number}")(jobs)
        return jobs

    file.edit(many)
    with pytest.raises(RequestError, match="500 jobs already"):
        file.edit(commands.fetch("one/more"))
    assert len(file.load()) == MOST_JOBS


def test_the_oldest_of_failed_jobs_make_room(file):
    def failed(jobs):
        for number in range(MOST_JOBS):
            jobs = commands.fetch(f"owner/m{number}")(jobs)
        return commands.cancel(jobs[3].id)(commands.cancel(jobs[7].id)(jobs))

    file.edit(failed)
    file.edit(commands.fetch("one/more"))
    repos = [job.repo for job in file.load()]
    assert len(repos) == MOST_JOBS and repos[-1] == "one/more"
    assert "owner/m3" not in repos and "owner/m7" in repos
