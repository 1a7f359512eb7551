"""`llm-lite models pull` and `models queue`: a model from a hub to a variant in the terminal."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import huggingface_hub
import pytest

from llm_lite.cli.main import main
from llm_lite.core.hub.queue import commands, steps
from llm_lite.core.hub.queue.queue_file import QueueFile, queue_folder
from llm_lite.desktop.features.library.host_services import edit_of
from llm_lite.desktop.features.library.model import FetchModel
from tests.children import PATIENCE
from tests.hub.faults import Fault
from tests.hub.server import running_hub
from tests.make_gguf import write_tiny_llama
from tests.paths import ROOT


@pytest.fixture
def person(tmp_path, monkeypatch):
    """Folders of a person of its own."""
    for name in [name for name in os.environ if name.startswith("HF_")]:
        monkeypatch.delenv(name)
    for kind in ("DATA", "STATE", "CACHE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def hub(person, monkeypatch):
    path = write_tiny_llama(person / "tiny.gguf", seed=3)
    with running_hub() as running:
        running.add("owner/tiny", {"tiny.gguf": path})
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running


def models(capsys, *words):
    """Exit code, standard output, standard error."""
    code = main(["models", *words])
    return code, *capsys.readouterr()


def add(edit):
    return QueueFile(queue_folder()).edit(edit)


def test_a_pull_goes_through_all_its_stages(hub, person, capsys):
    words = ("pull", "owner/tiny", "--quantize", "int8", "--delete-source", "--json")
    code, out, err = models(capsys, *words)
    told = json.loads(out)
    assert code == 0 and [stage["state"] for stage in told["stages"]] == ["done"] * 3, err
    assert told["result"] == "tiny-int8" and "quantizing" in err
    listed = json.loads(models(capsys, "list", "--json")[1])
    ours = [model for model in listed if model["origin"] != "bundled"]
    assert [(model["name"], model["path"]) for model in ours] == [("tiny-int8", told["path"])]
    assert ours[0]["made_of"] == "hf:owner/tiny:tiny.gguf"
    code, out, _ = models(capsys, "queue")
    assert code == 0 and "download: done | quantize: done | delete source: done" in out


def test_a_plain_pull_says_where_the_model_lies(hub, person, capsys):
    code, out, _ = models(capsys, "pull", "owner/tiny")
    assert code == 0 and out.strip().endswith("tiny.gguf")
    assert out.startswith(str(person / "hf"))


def test_a_failure_is_the_sentence_and_the_same_command_tries_again(hub, capsys):
    hub.faults.append(Fault("", status=404))
    code, out, err = models(capsys, "pull", "owner/tiny")
    assert code == 1 and out == "" and "owner/tiny" in err
    hub.faults.clear()
    assert models(capsys, "pull", "owner/tiny")[0] == 0
    assert len(json.loads(models(capsys, "queue", "--json")[1])) == 1


def test_the_terminal_and_the_window_ask_for_the_same_job(hub, person, capsys):
    """By the file's whole name and the branch; refs/main is written as huggingface_hub does."""
    window = edit_of(FetchModel("owner/tiny", "tiny.gguf", 5), {})
    paused = add(lambda jobs: commands.pause(window(jobs)[0].id)(window(jobs)))
    code, out, _ = models(capsys, "pull", "owner/tiny:TINY", "--revision", "main", "--json")
    (job,) = QueueFile(queue_folder()).load()
    assert code == 0 and job.id == paused[0].id == json.loads(out)["id"]
    commit = hub.repositories["owner/tiny"].head
    branch = person / "hf/hub/models--owner--tiny/refs/main"
    assert branch.read_text() == commit and job.revision == commit
    cache = person / "hf/hub"
    found = huggingface_hub.try_to_load_from_cache("owner/tiny", "tiny.gguf", cache_dir=cache)
    assert found == job.path
    assert models(capsys, "pull", "owner/tiny")[0] == 0
    assert len(QueueFile(queue_folder()).load()) == 1


def test_rows_that_have_ended_are_cleared(hub, capsys):
    assert models(capsys, "pull", "owner/tiny")[0] == 0
    add(commands.fetch("owner/tiny", "other.gguf", job_id="waits"))
    code, out, _ = models(capsys, "queue", "clear")
    assert code == 0 and "other.gguf" in out and "tiny.gguf" not in out
    code, _, err = models(capsys, "queue", "clear", "waits")
    assert code == 1 and "takes no id" in err


def test_what_no_retry_mends_makes_no_row(hub, capsys):
    for words in (("owner/nothing",), ("owner/tiny:Q8_0",)):
        code, _, err = models(capsys, "pull", *words)
        assert code == 1 and words[0].partition(":")[0] in err
    assert QueueFile(queue_folder()).load() == ()


REFUSED = [
    (("--quantize", "int3"), "expected one of fp32, fp16, int8, int4, found 'int3'"),
    (("--quantize", "as-stored"), "found 'as-stored'"),
    (("--slice", "E9B"), "unknown slice 'E9B': expected E2B,"),
    (("--delete-source",), "only where something is made of it"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_what_cannot_be_made_is_refused_before_the_download(hub, capsys, words, sentence):
    code, _, err = models(capsys, "pull", "owner/tiny", *words)
    assert code == 1 and sentence in err and hub.asked == []


def test_an_interrupted_pull_is_paused_and_goes_on(hub, person, capsys):
    hub.faults.append(Fault("", rate=100_000))
    words = [sys.executable, "-m", "llm_lite", "models", "pull", "owner/tiny", "--quantize", "int8"]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    file = QueueFile(queue_folder())
    until(lambda: any(job.is_runnable for job in file.load()))
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 130 and "paused: the same command goes on with it" in err
    assert [stage.state for stage in file.load()[0].row.stages] == ["paused", "waiting"]
    hub.faults.clear()
    assert models(capsys, "pull", "owner/tiny", "--quantize", "int8")[0] == 0
    assert len(file.load()) == 1


def test_an_interrupt_leaves_the_job_to_the_program_that_works(hub, person, capsys):
    hub.faults.append(Fault("", rate=10_000))
    command = [sys.executable, "-m", "llm_lite", "models"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    add(commands.fetch("owner/tiny", "tiny.gguf"))
    works = subprocess.Popen([*command, "queue", "run"], **pipes)
    file = QueueFile(queue_folder())
    until(lambda: file.load()[0].row.stages[0].state == "running")
    looks = subprocess.Popen([*command, "pull", "owner/tiny"], **pipes)
    until(lambda: "downloading" in looks.stderr.readline())
    looks.send_signal(signal.SIGINT)
    _, err = looks.communicate(timeout=PATIENCE)
    assert looks.returncode == 130 and "another llm-lite goes on with it" in err
    hub.faults.clear()
    out, _ = works.communicate(timeout=PATIENCE)
    assert works.returncode == 0 and "download: done" in out
    assert len(file.load()) == 1


def until(holds):
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < PATIENCE
        time.sleep(0.05)


def test_the_queue_takes_commands_by_the_beginning_of_an_id(person, capsys):
    add(commands.fetch("owner/one", job_id="abc1"))
    add(commands.fetch("owner/two", job_id="abd2"))
    assert "download: paused" in models(capsys, "queue", "pause", "abc")[1]
    code, _, err = models(capsys, "queue", "pause", "ab")
    assert code == 1 and "'ab' is the beginning of 2 jobs: abc1, abd2" in err
    assert "has no job 'x'" in models(capsys, "queue", "pause", "x")[2]
    assert "expected the id of a job" in models(capsys, "queue", "pause")[2]
    code, out, _ = models(capsys, "queue", "remove", "abc", "abd")
    assert code == 0 and out == "The queue is empty.\n"


def test_everything_that_waits_is_carried_out(hub, capsys):
    add(commands.fetch("owner/tiny", mode="int8"))
    add(commands.fetch("owner/nobody"))
    code, out, _ = models(capsys, "queue", "run")
    assert code == 1 and "download: done | quantize: done" in out and "download: failed" in out


def test_a_home_that_never_had_a_queue_has_nothing_to_carry_out(person):
    command = [sys.executable, "-m", "llm_lite", "models", "queue", "run"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, ended.stdout) == (0, "The queue is empty.\n"), ended.stderr


def test_a_damaged_queue_is_told(person, capsys):
    folder = queue_folder()
    folder.mkdir(parents=True)
    (folder / "queue.json").write_text("{")
    code, out, err = models(capsys, "queue")
    assert code == 0 and out == "The queue is empty.\n"
    assert re.search("was damaged and begins empty.*queue.damaged.json", err)


def test_what_nobody_carries_out_is_not_said_to_run(person, capsys):
    add(commands.fetch("owner/tiny", job_id="j"))
    add(steps.begun("j"))
    out = models(capsys, "queue")[1]
    assert "download: waiting" in out and "`llm-lite models queue run` does" in out


def test_tidying_up_leaves_a_download_that_is_to_go_on(person, capsys):
    jobs = add(commands.fetch("Owner/tiny", job_id="j"))
    assert steps.downloads_to_come(jobs) == {"Owner/tiny"}
    assert steps.downloads_to_come(add(commands.cancel("j"))) == set()


def test_what_can_be_no_repository_becomes_no_job(person, capsys):
    code, _, err = models(capsys, "pull", "../..")
    assert code == 1 and "'../..' is no name of a repository, expected OWNER/NAME" in err
    assert QueueFile(queue_folder()).load() == ()


def test_run_takes_no_job(person, capsys):
    code, _, err = models(capsys, "queue", "run", "abc")
    assert code == 1 and "takes no id of a job" in err


def test_gc_keeps_partial_downloads_where_the_queue_was_damaged(person, capsys):
    queue_folder().mkdir(parents=True)
    (queue_folder() / "queue.json").write_text("{")
    partial = person / "hf/hub/models--a--b/blobs" / f"{'0' * 64}.incomplete"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"half")
    code, _, err = models(capsys, "gc")
    assert code == 1 and "begins empty" in err and partial.exists()
    assert models(capsys, "gc")[0] == 0 and not partial.exists()
