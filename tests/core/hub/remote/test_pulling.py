"""Pulls that end well: the cache is as huggingface_hub would have made it."""

import gzip
import hashlib
import subprocess
import sys
import threading
import time
from pathlib import Path

import huggingface_hub
import pytest

from llm_lite.core.errors import CancelledError, FileError, LlmLiteError
from llm_lite.core.hub.local.listing import Places, local_models
from llm_lite.core.hub.local.removal import delete_models, removal
from llm_lite.core.hub.remote.pulling import pull
from tests.children import PATIENCE
from tests.core.hub.remote.pulls import NAME, REPO, blobs, content, pointers
from tests.hub.faults import Fault, too_many
from tests.hub.server import TOKEN
from tests.paths import ROOT

CHECKPOINT = {
    "config.json": b'{"model_type": "llama"}',
    "tokenizer.json": b"{}",
    "model-00001-of-00002.safetensors": content(3000, 2),
    "model-00002-of-00002.safetensors": content(2000, 3),
    "model.safetensors.index.json": b"{}",
    "README.md": b"# A model",
    "original/model.safetensors": b"of another program",
}


def test_a_file_lies_where_huggingface_hub_finds_it(hub, cache):
    data = content(100_000)
    repository = hub.add(REPO, {NAME: data, "README.md": b"# A model"})
    path = pull(REPO)
    assert path.read_bytes() == data
    assert path.name == NAME and path.parent.name == repository.head
    assert blobs(cache) == {hashlib.sha256(data).hexdigest(): len(data)}
    info = huggingface_hub.scan_cache_dir(cache)
    assert not info.warnings
    (found,) = info.repos
    assert found.repo_id == REPO and set(found.refs) == {"main"}
    assert huggingface_hub.try_to_load_from_cache(REPO, NAME, cache_dir=cache) == str(path)


def test_what_huggingface_hub_fetched_is_not_fetched_again(hub, cache):
    hub.add(REPO, {NAME: content(50_000)})
    theirs = huggingface_hub.hf_hub_download(REPO, NAME, cache_dir=cache, endpoint=hub.url)
    sent = hub.sent
    assert str(pull(REPO)) == theirs
    assert hub.sent == sent


def test_a_checkpoint_comes_with_all_that_belongs_to_it(hub, cache):
    hub.add(REPO, CHECKPOINT)
    told = []
    folder = pull(REPO, on_progress=told.append)
    wanted = sorted(set(CHECKPOINT) - {"README.md", "original/model.safetensors"})
    assert pointers(cache) == wanted
    assert all((folder / name).read_bytes() == CHECKPOINT[name] for name in wanted)
    total = sum(len(CHECKPOINT[name]) for name in wanted)
    assert (told[-1].all_done, told[-1].all_total) == (total, total)
    assert {one.file for one in told} == set(wanted)


@pytest.fixture
def no_links(monkeypatch):
    """As on Windows without the right to make them."""

    def refused(self, target, target_is_directory=False):
        raise OSError(1314, "A required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", refused)


def test_where_no_links_can_be_made_files_of_one_content_are_all_there(hub, cache, no_links):
    """tokenizer.json and the index are alike in one pull, two GGUF files in two."""
    hub.add(REPO, CHECKPOINT)
    folder = pull(REPO)
    wanted = sorted(set(CHECKPOINT) - {"README.md", "original/model.safetensors"})
    assert pointers(cache) == wanted and blobs(cache) == {}
    assert all((folder / name).read_bytes() == CHECKPOINT[name] for name in wanted)
    assert not any(path.is_symlink() for path in folder.iterdir())
    info = huggingface_hub.scan_cache_dir(cache)
    assert not info.warnings


def test_two_names_of_one_content_are_both_found_without_links(hub, cache, no_links, tiny_llama):
    data = tiny_llama.read_bytes()
    hub.add("acme/twins", {"one-Q4_0.gguf": data, "two-Q4_0.gguf": data})
    for name in ("one-Q4_0.gguf", "two-Q4_0.gguf"):
        assert pull("acme/twins", name).name == name
    found = local_models(Places((("huggingface", cache),), bundled=False))
    assert [(m.name, m.size, m.problem) for m in found] == [
        ("one-q4_0", len(data), ""),
        ("two-q4_0", len(data), ""),
    ]
    plan = removal(["one-q4_0"], places=Places((("huggingface", cache),), bundled=False))
    assert delete_models(plan) == plan.frees == len(data)
    assert pull("acme/twins", "two-Q4_0.gguf").read_bytes() == data


def test_files_are_of_the_commit_that_was_there_at_the_start(hub, cache):
    """The hub changes between two parts: what comes is whole, and of one commit."""
    repository = hub.add(REPO, CHECKPOINT)
    first = repository.head

    def change(progress):
        if progress.file.startswith("model-00002") and repository.head == first:
            repository.commit({name: data + b"new" for name, data in CHECKPOINT.items()})

    folder = pull(REPO, on_progress=change)
    assert repository.head != first and folder.name == first
    assert (folder / "model-00002-of-00002.safetensors").read_bytes() == content(2000, 3)
    assert pull(REPO).name == repository.head


def test_a_commit_that_is_gone_in_the_middle(hub, cache):
    repository = hub.add(REPO, CHECKPOINT)
    first = repository.head
    repository.commit(CHECKPOINT | {"config.json": b"{}"})

    def change(progress):
        if progress.file.startswith("model-00002"):
            repository.commits.pop(first, None)

    with pytest.raises(LlmLiteError) as caught:
        pull(REPO, revision=first, on_progress=change)
    assert str(caught.value) == (
        f"{REPO} was changed at the hub while it was fetched: commit {first[:12]} is gone; pull it "
        "again"
    )
    assert pointers(cache) == []
    assert pull(REPO).name == repository.head


def test_a_pull_goes_on_where_the_last_was_stopped(hub, cache):
    data = content(400_000)
    hub.add(REPO, {NAME: data})
    hub.faults.append(Fault("/cdn/", times=1, rate=200_000))
    told = []
    with pytest.raises(CancelledError):
        pull(REPO, on_progress=told.append, stop=lambda: bool(told) and told[-1].done > 50_000)
    ((name, kept),) = blobs(cache).items()
    assert name.endswith(".incomplete") and 50_000 < kept < len(data)
    assert pointers(cache) == []
    assert pull(REPO).read_bytes() == data
    ranges = [headers.get("Range") for _, path, headers in hub.asked if "/cdn/" in path]
    assert ranges == [None, f"bytes={kept}-"]


def test_what_is_here_is_used_where_the_hub_cannot_be_asked(hub, cache, tiny_llama, monkeypatch):
    hub.add(REPO, {NAME: tiny_llama})
    path = pull(REPO)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = []
    assert pull(REPO, "Q4_0", on_progress=told.append) == path
    assert told[0].note.startswith("what is here is used: HF_HUB_OFFLINE is set")
    with pytest.raises(LlmLiteError):
        pull(REPO, "Q8_0")
    with pytest.raises(LlmLiteError):
        pull(REPO, revision="v2")


def test_nothing_is_imported_before_a_hub_is_asked():
    code = """
import sys
from llm_lite.core.hub.remote import checking, curated, pulling, searching
curated.curated_models()
print([name for name in sys.modules if name.startswith(("huggingface_hub", "httpx", "hf_xet"))])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_stop_does_not_wait_for_bytes(hub, monkeypatch):
    hub.add(REPO, {NAME: content(300_000)})
    hub.faults.append(Fault("/cdn/", stall=100_000, wait=PATIENCE))
    told = []
    stopped = threading.Event()
    threading.Timer(0.5, stopped.set).start()
    begun = time.monotonic()
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", str(int(PATIENCE)))
    with pytest.raises(CancelledError):
        pull(REPO, on_progress=told.append, stop=stopped.is_set)
    assert time.monotonic() - begun < PATIENCE / 2


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/cdn/", times=2, cut=30_000),
        Fault("/cdn/", times=2, status=503),
        Fault("/cdn/", times=1, stall=30_000, wait=0.3),
        too_many("/cdn/", 0, times=2),
        Fault("/api/models/", times=1, status=500),
        too_many("/api/models/", 0),
    ],
    ids=["cut", "503", "stall", "429", "api 500", "api 429"],
)
def test_what_fails_for_a_moment_is_tried_again(hub, cache, fault):
    data = content(100_000)
    hub.add(REPO, {NAME: data})
    hub.faults.append(fault)
    assert pull(REPO).read_bytes() == data
    assert fault.times == 0


def test_a_hub_without_ranges_begins_again(hub, cache):
    data = content(100_000)
    hub.add(REPO, {NAME: data})
    hub.faults += [Fault("/cdn/", times=1, cut=40_000), Fault("/cdn/", no_ranges=True)]
    told = []
    assert pull(REPO, on_progress=told.append).read_bytes() == data
    assert all(one.done <= one.total for one in told)


def test_a_hub_that_packs_what_it_sends(hub, cache):
    """Whole, and after a cut: the rest of packed bytes would be of no use."""
    files = {**CHECKPOINT, "config.json": b'{"model_type": "llama"}' + b" " * 5000}
    hub.add(REPO, files)
    packed = gzip.compress(files["config.json"])
    said = {"Content-Encoding": "gzip"}
    hub.faults += [
        Fault("config.json", times=1, content=packed, headers=said, cut=30),
        Fault("config.json", content=packed, headers=said),
    ]
    assert (pull(REPO) / "config.json").read_bytes() == files["config.json"]


def test_a_wait_that_the_hub_asks_for_is_told(hub, cache):
    hub.add(REPO, {NAME: content(1000)})
    hub.faults.append(too_many("/cdn/", 1))
    told = []
    begun = time.monotonic()
    pull(REPO, on_progress=told.append)
    assert time.monotonic() - begun >= 1
    (note,) = {one.note for one in told if one.note}
    assert "tries again in 1 s" in note and "takes no more requests" in note


def test_the_second_of_two_waits_and_says_so(hub, cache):
    data = content(300_000)
    hub.add(REPO, {NAME: data})
    hub.faults.append(Fault("/cdn/", times=1, rate=300_000))
    begun = threading.Event()
    told = []
    first = threading.Thread(
        target=pull, args=(REPO,), kwargs={"on_progress": lambda _: begun.set()}
    )
    first.start()
    begun.wait(PATIENCE)
    time.sleep(0.2)
    assert pull(REPO, on_progress=told.append).read_bytes() == data
    first.join()
    assert any("waits for another process" in one.note for one in told)
    assert len(hub.paths("GET", "/cdn/")) == 1


def test_a_part_longer_than_the_file_is_none_of_it(hub, cache):
    data = content(10_000)
    hub.add(REPO, {NAME: data})
    place = cache / "models--tiny--talker" / "blobs"
    place.mkdir(parents=True)
    (place / f"{hashlib.sha256(data).hexdigest()}.incomplete").write_bytes(bytes(20_000))
    assert pull(REPO).read_bytes() == data


def test_what_a_link_leads_to_is_not_written_to(hub, cache, tmp_path):
    data = content(1000)
    hub.add(REPO, {NAME: data})
    letter = tmp_path / "letter.txt"
    letter.write_bytes(b"dear" * 1000)
    partial = cache / f"models--{REPO.replace('/', '--')}/blobs/{hashlib.sha256(data).hexdigest()}"
    partial.parent.mkdir(parents=True)
    partial.with_name(f"{partial.name}.incomplete").symlink_to(letter)
    with pytest.raises(FileError, match=r"is a link to .*letter.txt, expected a file"):
        pull(REPO)
    assert letter.read_bytes() == b"dear" * 1000


def test_a_repository_that_is_removed_meanwhile_is_told(hub, cache):
    """Between the last byte of one file and its place in the snapshot."""
    files = {name: data for name, data in CHECKPOINT.items() if name != "README.md"}
    hub.add(REPO, files)

    def remove(told):
        if told.file.endswith("00002.safetensors"):
            for path in (cache / f"models--{REPO.replace('/', '--')}/blobs").iterdir():
                if path.suffix != ".incomplete":
                    path.unlink()

    with pytest.raises(FileError, match="was removed by another program while it was fetched"):
        pull(REPO, on_progress=remove)


def test_the_token_goes_to_the_hub_and_nowhere_else(hub, cache, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.add(REPO, {NAME: content(1000)})
    pull(REPO)
    told = {path.split("/")[1]: headers.get("authorization") for _, path, headers in hub.asked}
    assert told == {"api": f"Bearer {TOKEN}", "tiny": f"Bearer {TOKEN}", "cdn": None}


def test_nothing_of_this_machine_is_told(hub, cache):
    hub.add(REPO, {NAME: content(1000)})
    pull(REPO)
    agents = {headers["user-agent"] for _, _, headers in hub.asked}
    assert all("torch" not in agent and "agent/" not in agent for agent in agents)
    assert all("/api/agent" not in path and "telemetry" not in path for _, path, _ in hub.asked)
    assert len(hub.asked) == 3  # what is there, the file, the file's place


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ("", "a.Q4_K_M.gguf"),
        ("q8_0", "a.Q8_0.gguf"),
        ("sub/b.gguf", "b.gguf"),
        ("F16", "a.F16.gguf"),
    ],
)
def test_a_file_by_format_or_name(hub, cache, wanted, name):
    names = ("a.Q8_0.gguf", "a.Q4_K_M.gguf", "a.F16.gguf", "sub/b.gguf", "mmproj-a.gguf")
    hub.add(REPO, {one: content(100 + n, n) for n, one in enumerate(names)})
    assert pull(REPO, wanted).name == name
