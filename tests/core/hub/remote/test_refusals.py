"""Whatever a hub, the way to it or the disk refuses: a sentence, and nothing half for whole."""

import errno
import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from llm_lite.core.hub.remote import access, heads, pulling, transfer
from llm_lite.core.hub.remote.failures import HubError, unreachable
from llm_lite.core.hub.remote.pulling import pull
from llm_lite.core.hub.remote.searching import search
from llm_lite.core.plain_text import quote
from tests.core.hub.remote.pulls import NAME, REPO, blobs, content, pointers, sentence
from tests.hub.faults import Fault, gated, too_many
from tests.hub.repositories import HubBlob
from tests.hub.server import TOKEN
from tests.paths import ROOT

DATA = content(100_000)


@pytest.fixture(autouse=True)
def repository(hub):
    return hub.add(REPO, {NAME: DATA})


def test_a_list_without_an_end(hub):
    more = {"Link": f'<{hub.url}/api/models?search=tiny>; rel="next"'}
    hub.faults.append(Fault("/api/models?", status=200, headers=more, body=b"[]"))
    with pytest.raises(HubError, match="sends a list without an end, expected at most 20 pages"):
        search("tiny")


def test_a_repository_that_is_not_there(hub):
    hub.add("tiny/walker", {NAME: DATA})
    said = sentence("tiny/talkers")
    assert said.startswith(f"there is no repository tiny/talkers at {hub.url}, or ")
    assert said.endswith("near it are: tiny/talker, tiny/walker")
    assert "HF_TOKEN" in said
    assert "near" not in sentence("nobody/knows-this")


@pytest.mark.parametrize(
    "name", ["../x", "a/b/c", "a/..", "a b/c", "", "a--b/c", "a/\x1b[2J", "é/é"]
)
def test_a_name_that_is_none(name):
    assert "is no name of a repository, expected OWNER/NAME" in sentence(name)


def test_a_file_that_is_not_there():
    said = sentence(file="other.gguf")
    assert said == f"{REPO} has no model file 'other.gguf'; there are: '{NAME}'"


def test_a_part_of_two_names(hub):
    hub.add(REPO, {"a.Q4_0.gguf": b"1", "b.Q4_0.gguf": b"2"})
    said = sentence(file="q4_0")
    assert said == f"'q4_0' is part of several files of {REPO}: 'a.Q4_0.gguf', 'b.Q4_0.gguf'"


@pytest.mark.parametrize("revision", ["../../x", "/etc/x", "a\nb"])
def test_a_revision_that_no_file_could_be_called_by(revision):
    assert "is no name of a branch, a tag or a commit" in sentence(revision=revision)


def test_a_revision_that_is_not_there():
    assert "has no such revision" in sentence(revision="v2")


def test_a_repository_without_a_model(hub):
    hub.add("tiny/notes", {"README.md": b"words"})
    assert "has no GGUF file and no safetensors checkpoint" in sentence("tiny/notes")


def test_a_gated_model(hub, monkeypatch):
    hub.faults.append(gated(REPO))
    said = sentence()
    assert f"{REPO} is gated: accept its conditions at {hub.url}/{REPO}" in said
    assert "https://huggingface.co/settings/tokens" in said and "HF_TOKEN" in said
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.faults[:] = [gated(REPO, status=403)]
    assert "the account of your token has no access yet" in sentence()


def test_a_gated_model_of_which_no_sizes_are_told(hub, repository):
    repository.details["gated"] = "manual"
    for name, blob in repository.commits[repository.head].items():
        repository.commits[repository.head] = {name: HubBlob(blob.content, blob.size, "", "")}
    assert f"{REPO} is gated: accept its conditions at {hub.url}/{REPO}" in sentence()


def test_a_token_that_is_none(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "wrong")
    said = {"X-Error-Message": "Invalid credentials in Authorization header"}
    hub.faults.append(Fault("/api/models", status=401, headers=said))
    with pytest.raises(Exception, match="does not take the token in HF_TOKEN"):
        search("tiny")


@pytest.mark.parametrize("path", ["/api/models/", "/cdn/"])
def test_a_hub_that_fails(hub, cache, path):
    hub.faults.append(Fault(path, status=502))
    assert f"{hub.url} fails with status 502" in sentence()
    assert len(hub.paths("GET", path)) <= 7  # tries are bounded
    assert pointers(cache) == []


@pytest.mark.parametrize("path", ["/api/models/", "/cdn/"])
def test_a_hub_that_asks_for_a_long_wait(hub, path):
    hub.faults.append(too_many(path, 3600, -1))
    said = sentence()
    assert "takes no more requests from here for now" in said and said.endswith(
        "it asks to wait 60 min"
    )
    assert len(hub.paths("GET", path)) == 1


def test_nobody_answers(monkeypatch):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}"
        monkeypatch.setenv("HF_ENDPOINT", address)
        said = sentence()
    assert said.startswith(f"{address} cannot be reached ('")
    assert "look at the connection, HF_ENDPOINT and the proxies" in said


@pytest.mark.parametrize(
    "reason",
    [
        "[Errno -2] Name or service not known",
        "[Errno -3] Temporary failure in name resolution",
        "[Errno 8] nodename nor servname provided, or not known",
        "[Errno 11001] getaddrinfo failed",
    ],
)
def test_a_name_that_nobody_knows_is_told_without_numbers(reason):
    said = unreachable("https://huggingface.co", OSError(reason))
    assert said.startswith("https://huggingface.co cannot be reached: its name was not found.")
    assert "offline" in said and "Errno" not in said
    said = unreachable("https://huggingface.co", OSError("[Errno 111] Connection refused"))
    assert "('Connection refused')" in said and "Errno" not in said


def test_offline_by_the_environment(hub, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert sentence() == f"HF_HUB_OFFLINE is set, so {hub.url} is not asked for {REPO}"
    assert hub.asked == []


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("HF_ENDPOINT", "ftp://x", "HF_ENDPOINT is 'ftp://x', expected the address of a hub"),
        ("HF_HUB_DOWNLOAD_TIMEOUT", "soon", "HF_HUB_DOWNLOAD_TIMEOUT is 'soon', expected whole"),
        ("HF_TOKEN", "hf_é\u2603", "HF_TOKEN has characters that no token has"),
        ("HF_ENDPOINT", "http://user:secret@127.0.0.1:1", "http://127.0.0.1:1 cannot be reached"),
        ("HTTP_PROXY", "socks9://x", "HTTP_PROXY, HTTPS_PROXY or ALL_PROXY is not usable"),
        ("HTTP_PROXY", "http://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_a_variable_that_says_nothing_usable(monkeypatch, name, value, words):
    from llm_lite.core.hub.remote import access

    monkeypatch.setenv(name, value)
    access.library().utils.close_session()  # a client reads the proxies once
    try:
        said = sentence()
        assert words in said and "secret" not in said
    finally:
        access.library().utils.close_session()


def test_another_content_is_refused_with_both_hashes(hub, cache):
    lie = content(len(DATA), 9)
    hub.faults.append(Fault("/cdn/", content=lie))
    said = sentence()
    assert f"its SHA-256 is {hashlib.sha256(lie).hexdigest()}" in said
    assert f"expected {hashlib.sha256(DATA).hexdigest()}" in said
    assert blobs(cache) == {} and pointers(cache) == []


def test_another_content_of_a_small_file_is_refused(hub, cache):
    files = {"config.json": b'{"a": 1}', "tokenizer.json": b"{}", "model.safetensors": b"weights"}
    hub.add(REPO, files)
    hub.faults.append(Fault("config.json", content=b'{"a": 2}'))
    assert "Git SHA-1" in sentence()
    assert pointers(cache) == []


@pytest.mark.parametrize("length", [10, 200_000])
def test_a_lie_about_the_length(hub, cache, length):
    hub.faults.append(Fault("/cdn/", length=length))
    assert f"the hub sends {length:,} bytes, expected the 100,000 that it tells of" in sentence()
    assert pointers(cache) == []


def test_a_file_that_is_always_cut_short(hub, cache):
    hub.faults.append(Fault("/cdn/", cut=0))
    assert "the connection ended after 0 of 100,000 bytes" in sentence()
    assert pointers(cache) == []


def test_more_bytes_than_were_told(hub, cache):
    """Without a length; what is on the disk never grows beyond the file."""
    hub.faults.append(Fault("/cdn/", endless=1 << 30))
    assert "the hub sends more than the 100,000 bytes that it tells of" in sentence()
    assert sum(blobs(cache).values()) <= len(DATA)


def test_a_few_bytes_that_unpack_to_many(hub, cache):
    hub.add(REPO, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"x"})
    bomb = gzip.compress(bytes(50_000_000))
    hub.faults.append(Fault("config.json", content=bomb, headers={"Content-Encoding": "gzip"}))
    assert "the hub sends more than the 2 bytes that it tells of" in sentence()
    assert sum(blobs(cache).values()) <= 3


def no_second_try(monkeypatch):
    def sleep(seconds, stop):
        raise AssertionError("it is tried again")

    monkeypatch.setattr(transfer, "sleep", sleep)
    monkeypatch.setattr(access, "sleep", sleep)


@pytest.mark.parametrize(
    ("packed", "problem"),
    [
        (b"nothing of gzip", "the hub says that it packs the file as 'gzip', and it does not"),
        (
            gzip.compress(b"{", mtime=0),  # no time of day in the name of the test
            "the hub sends 1 bytes, packed, expected the 2 that it tells of",
        ),
    ],
    ids=["no gzip", "too few"],
)
def test_packed_bytes_that_are_none_of_the_file(hub, cache, monkeypatch, packed, problem):
    no_second_try(monkeypatch)
    hub.add(REPO, {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"x"})
    hub.faults.append(Fault("config.json", content=packed, headers={"Content-Encoding": "gzip"}))
    assert problem in sentence()


@pytest.mark.parametrize("path", ["/api/models", "/cdn/"])
def test_a_head_that_comes_byte_by_byte(hub, cache, monkeypatch, path):
    no_second_try(monkeypatch)
    monkeypatch.setattr(heads, "MOST_SECONDS", 0.2)
    hub.faults.append(Fault(path, slow_head=0.05))
    assert "takes more than 0 s to send the head of its answer" in sentence()


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "/tiny/talker/resolve/again", "gopher://x"]
)
def test_redirects_to_elsewhere(hub, cache, location):
    hub.faults.append(Fault("/resolve/", location=location))
    assert f"{hub.url} sends us on to where nothing is fetched from" in sentence()
    assert blobs(cache) in ({}, {f"{hashlib.sha256(DATA).hexdigest()}.incomplete": 0})


def test_a_redirect_to_another_file(hub, cache):
    hub.add("tiny/other", {NAME: content(len(DATA), 5)})
    commit = hub.repositories["tiny/other"].head
    hub.faults.append(Fault("/resolve/", location=f"{hub.cdn}/cdn/tiny/other/{commit}/{NAME}"))
    assert "is not the hub's file and was removed" in sentence()


HOSTILE = ["../../evil.gguf", "/etc/evil.gguf", "a\x1b[2J.gguf", "b" * 250 + ".gguf", "c\\d.gguf"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(hub, cache, repository, name):
    blob = next(iter(repository.commits[repository.head].values()))
    repository.commit_blobs({name: blob})
    said = sentence()
    assert f"; left out is {quote(name)}, which has no plain relative path" in said
    assert "\x1b" not in said
    assert "expected a plain relative path" in sentence(file=name)
    repository.commit_blobs({name: blob, NAME: blob})
    assert pull(REPO).name == NAME
    assert pointers(cache) == [NAME]


@pytest.mark.parametrize("digest", ["../../../evil", "", "A" * 64, "0" * 63])
def test_hostile_hashes(hub, cache, repository, digest):
    repository.commit_blobs({NAME: HubBlob(DATA, len(DATA), digest, digest)})
    assert sentence().endswith(f"; left out is '{NAME}', which has no size and hash")
    assert blobs(cache) == {}


@pytest.mark.parametrize("length", [-1, 1 << 30])
@pytest.mark.parametrize("path", ["/api/models/tiny", "/api/models?"])
def test_an_answer_of_a_gigabyte(hub, length, path):
    """With its length told, or without."""
    hub.faults.append(Fault(path, endless=1 << 30, length=length))
    with pytest.raises(Exception, match="expected at most 16 MiB about models"):
        search("tiny") if "?" in path else pull(REPO)
    assert hub.sent < 64 << 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"<html>",
        b'{"id": 5}',
        b"[" * 100_000,
        b'{"siblings": [{"rfilename": 7}]}',
        b'{"id": "tiny/talker", "siblings": [{}]}',
        b'{"id": "a", "sha": "../x", "siblings": []}',
    ],
)
def test_an_answer_that_is_no_hubs(hub, body):
    headers = {"Content-Type": "application/json"}
    hub.faults.append(Fault("/api/models/", status=200, body=body, headers=headers))
    said = sentence()
    assert "does not answer as a hub does" in said or "gives no commit" in said


def test_too_little_room(monkeypatch, hub):
    usage = SimpleNamespace(free=20_000_000)
    monkeypatch.setattr(pulling.shutil, "disk_usage", lambda path: usage)
    said = sentence()
    assert "there is not enough room: 0.1 MB are to come and 20.0 MB are free" in said
    assert hub.paths("GET", "/cdn/") == []


KEPT = "0.1 of 0.1 MB of tiny/talker: 'model.Q4_0.gguf' are kept, and the next pull goes on"


def test_a_disk_that_is_full_in_the_middle(hub, cache, monkeypatch):
    """What came is kept, and the next pull ends it."""

    class Full(io.FileIO):
        def write(self, piece):
            room = 60_000 - self.tell()
            if room == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(piece[:room])

    opened = Path.open

    def opening(path, *words, **options):
        partial = path.name.endswith(".incomplete")
        return Full(path, "a+") if partial else opened(path, *words, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opening)
        assert f"the disk is full: {KEPT}" in sentence()
    ((name, kept),) = blobs(cache).items()
    assert name.endswith(".incomplete") and kept == 60_000
    assert pull(REPO).read_bytes() == DATA


def test_a_limit_of_the_size_of_files(hub, cache):
    code = f"""
import resource
from llm_lite.core.errors import FileError
from llm_lite.core.hub.remote.pulling import pull
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    pull({REPO!r})
except FileError as error:
    print(error.problem)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert f"files may not be as large here: {KEPT}" in done.stdout
    assert list(blobs(cache).values()) == [60_000]
    assert pull(REPO).read_bytes() == DATA


def test_a_cache_that_may_not_be_written(hub, cache, monkeypatch):
    cache.parent.mkdir(parents=True)
    cache.write_bytes(b"a file")
    assert "cannot be made: " in sentence()


def test_a_file_of_the_cache_that_may_not_be_opened(hub, cache):
    digest = hashlib.sha256(DATA).hexdigest()
    (cache / "models--tiny--talker" / "blobs" / f"{digest}.incomplete").mkdir(parents=True)
    assert "cannot be written: Is a directory" in sentence()


def test_of_what_is_refused_no_empty_file_is_left(hub, cache):
    hub.add(REPO, {NAME: content(1000)})
    hub.faults.append(gated(REPO))
    with pytest.raises(HubError, match="is gated"):
        pull(REPO)
    assert blobs(cache) == {}


def test_what_no_file_of_it_can_mend_is_said_first(hub):
    config = b'{"model_type": "vit"}'
    files = {"config.json": config, "model.safetensors": content(9)}
    hub.add("acme/strange", files, config={"model_type": "vit"})
    with pytest.raises(HubError, match="does not know the architecture 'vit'"):
        pull("acme/strange")


def test_a_name_without_an_owner_is_told_what_one_is(hub):
    with pytest.raises(HubError, match="a repository is called OWNER/NAME"):
        pull("foo")
