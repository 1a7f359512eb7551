"""Texts are bounded before they are read and before they become tokens; files have to be files."""

import io
import os
import sys
import threading
from pathlib import Path

import pytest

from llm_lite.core.convert.slicing import find_slice
from llm_lite.core.errors import FileError, LlmLiteError, RequestError, TooLongError
from llm_lite.core.files.json_text import read_bytes, read_object
from llm_lite.core.files.regular import open_regular
from llm_lite.core.files.text_input import read_beginning, read_standard_input, read_text
from llm_lite.core.generation import answer, prompt
from llm_lite.core.generation.conversation_prefill import ConversationPrefill
from llm_lite.core.generation.token_estimate import estimated_tokens
from llm_lite.core.hub import catalog
from llm_lite.core.kv_cache.on_disk import Identity, load
from llm_lite.core.kv_cache.provenance import Conditions
from llm_lite.core.loading import loader
from llm_lite.core.messages import ChatMessage, EngineOptions, Generate, Read
from llm_lite.core.metrics import perplexity
from llm_lite.core.plain_text import estimate
from tests.children import PATIENCE


def test_no_more_than_the_limit_is_read(tmp_path, monkeypatch):
    path = tmp_path / "text"
    path.write_text("ab바다", "utf-8")
    assert read_text(path, 8) == "ab바다"
    with pytest.raises(FileError, match="text: has more than 7 bytes"):
        read_text(path, 7)
    asked = []

    class Endless(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            asked.append(len(buffer))
            return len(buffer)

    monkeypatch.setattr(Path, "open", lambda *_: io.BufferedReader(Endless()))
    with pytest.raises(FileError, match="more than 1000 bytes"):
        read_text(path, 1000)
    assert sum(asked) < 20_000


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no /dev/zero")
def test_devices_end():
    with pytest.raises(FileError, match="/dev/zero: has more than 100000 bytes"):
        read_text(Path("/dev/zero"), 100_000)


@pytest.mark.parametrize("size", range(2, 9))
def test_a_beginning_is_of_whole_characters(tmp_path, size):
    text = "a바🙂b"
    (tmp_path / "x").write_text(text, "utf-8")
    found = read_beginning(tmp_path / "x", size)
    assert text.startswith(found)
    assert size - 3 <= len(found.encode()) <= size


def test_bytes_that_are_no_text(tmp_path):
    (tmp_path / "x").write_bytes(b"abc\xffdef")
    with pytest.raises(FileError, match="x: is not valid UTF-8 at byte 3"):
        read_text(tmp_path / "x", 100)
    with pytest.raises(FileError, match="x: is not valid UTF-8 at byte 3"):
        read_beginning(tmp_path / "x", 5)
    with pytest.raises(FileError, match="nothing: no such file"):
        read_text(tmp_path / "nothing", 100)


def test_a_text_from_a_fifo(tmp_path):
    """As a shell's <(command) is; it may come in pieces."""
    os.mkfifo(tmp_path / "fifo")

    def write():
        with (tmp_path / "fifo").open("wb", buffering=0) as fifo:
            fifo.write(b"Hello ")
            fifo.write(b"there")

    writer = threading.Thread(target=write)
    writer.start()
    assert read_text(tmp_path / "fifo", 100) == "Hello there"
    writer.join()


def test_standard_input(monkeypatch):
    def given(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    given("바다".encode())
    assert read_standard_input(6) == "바다"
    given(b"1234567")
    with pytest.raises(RequestError, match="standard input has more than 6 bytes"):
        read_standard_input(6)
    given(b"ab\xff")
    with pytest.raises(RequestError, match="standard input is not valid UTF-8 at byte 2"):
        read_standard_input(6)


READERS = {
    "open": open_regular,
    "bytes": lambda path: read_bytes(path, 100),
    "config": read_object,
    "slice": lambda path: find_slice(str(path)),
    "cache": lambda path: load(path, Identity("", Conditions()), None, 300),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_fifo_in_the_place_of_a_file_is_not_waited_for(tmp_path, reader):
    path = tmp_path / "fifo.json"
    os.mkfifo(path)
    problems = []

    def read():
        try:
            READERS[reader](path)
        except LlmLiteError as error:
            problems.append(str(error))

    thread = threading.Thread(target=read, daemon=True)  # it would wait for a writer for ever
    thread.start()
    thread.join(PATIENCE)
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}: ")
    assert "not a regular file" in problems[0]


def test_a_pipeline_cache_that_is_a_fifo(tmp_path, caplog):
    from llm_lite.core.gpu.pipelines import PipelineCache

    cache = object.__new__(PipelineCache)
    cache.path = tmp_path / "pipelines.bin"
    os.mkfifo(cache.path)
    found = []
    thread = threading.Thread(target=lambda: found.append(cache._read()), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found == [b""]
    assert "it is not a regular file" in caplog.text


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(FileError, match="cannot be read: it is a directory"):
        read_bytes(tmp_path, 10)


@pytest.fixture
def runner(tiny_llama):
    file = loader.open_model(str(tiny_llama), lambda *_: None, print)
    one = loader.start(file, EngineOptions(backend="numpy"), None, lambda *_: None)
    yield one
    one.close()
    file.close()


def test_the_longest_token_bounds_every_token(runner):
    tokenizer = runner.model_file.tokenizer
    lengths = [len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]
    assert tokenizer.longest_token_bytes == max(lengths)


def test_the_longest_token_of_the_default_model():
    file = loader.open_model(str(catalog.resolve(None)), lambda *_: None, print)
    tokenizer = file.tokenizer
    lengths = [len(tokenizer.token_bytes(i)) for i in range(tokenizer.vocab_size)]
    assert tokenizer.longest_token_bytes == max(lengths)
    file.close()


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("overflow", ["stop", "forget-middle", "rolling"])
def test_prompts_that_cannot_fit_are_refused_unread(runner, monkeypatch, raw, overflow):
    """Whoever asks: the check is in front of the tokenizer, in the engine, which sees pieces."""
    tokenizer = runner.model_file.tokenizer
    whole, encode, asked = len(tokenizer.encode("x" * 200_000)) * 10, type(tokenizer).encode, []

    def pieces(self, text, **options):
        asked.append(text)
        with monkeypatch.context() as inner:
            inner.setattr(type(tokenizer), "encode_segments", encode_segments)
            return encode(self, text, **options)

    encode_segments = type(tokenizer).encode_segments
    monkeypatch.setattr(type(tokenizer), "encode", pieces)
    monkeypatch.setattr(type(tokenizer), "encode_segments", None)  # nobody gets there
    monkeypatch.setattr(prompt, "encode_raw", None)
    events = []
    messages = (ChatMessage("user", "x" * 2_000_000),)
    one = answer.Answer(
        Generate(messages, raw=raw, overflow=overflow), events.append, lambda: False
    )
    with pytest.raises(TooLongError) as caught:
        one.begin(runner)
    tokens = caught.value.tokens
    assert abs(tokens - whole) < 0.02 * whole and max(map(len, asked)) <= 2048 and len(asked) <= 17
    holds = "but the context holds 128"
    if overflow != "stop":
        can = estimate(tokens * (1 << 20) // 2_000_000)
        holds = f"too many to be cut to a context of 128: {can} can be"
    ends = "shorten it or load the model with a larger context"
    assert str(caught.value) == f"the prompt has {estimate(tokens)} tokens, {holds}; {ends}"
    with pytest.raises(TooLongError, match="the prompt has ~"):
        ConversationPrefill(Read(messages), events.append, lambda: False).begin(runner)


@pytest.mark.parametrize("text", ["The sea is wide. ", "바다는 넓다. ", "x = [1, 2, 3]\n"])
def test_tokens_of_long_texts_are_estimated_from_pieces(runner, text):
    tokenizer = runner.model_file.tokenizer
    texts = (text * 20_000, "", "short", text * 5_000)
    exact = sum(len(tokenizer.encode(one, parse_special=False)) for one in texts)
    assert abs(estimated_tokens(tokenizer, texts) - exact) < 0.02 * exact
    assert estimated_tokens(tokenizer, ("",)) == 0


@pytest.mark.parametrize(
    ("tokens", "words"),
    [(7, "~7"), (64, "~64"), (249_113, "~250,000"), (1_049_999, "~1,000,000")],
)
def test_estimates_have_two_digits(tokens, words):
    assert estimate(tokens) == words


def test_all_that_could_fit_passes(runner):
    tokenizer = runner.model_file.tokenizer
    most = 128 * tokenizer.longest_token_bytes
    prompt.check_size(tokenizer, (ChatMessage("user", "x" * most),), 128)
    with pytest.raises(RequestError):
        prompt.check_size(tokenizer, (ChatMessage("user", "x" * (most + 1)),), 128)
    with pytest.raises(RequestError):
        prompt.check_size(tokenizer, (ChatMessage("user", "바" * (most // 3 + 1)),), 128)
    known = ChatMessage("assistant", "x" * 10 * most, (5,))  # enters as its tokens
    prompt.check_size(tokenizer, (known,), 128)


def test_of_a_number_of_chunks_no_more_is_read_than_they_take(runner, tmp_path, monkeypatch):
    tokenizer = runner.model_file.tokenizer
    text = "The quick brown fox jumps over the lazy dog. " * 20_000
    path = tmp_path / "text.txt"
    path.write_text(text, "utf-8")
    asked = []
    beginning = read_beginning
    monkeypatch.setattr(
        perplexity, "read_beginning", lambda p, most: asked.append(most) or beginning(p, most)
    )
    found = perplexity.read_chunks(path, tokenizer, 64, 3)
    assert found == perplexity.chunks_of(tokenizer, text, 64, 3)
    assert asked and asked[0] < len(text) // 4
    monkeypatch.setattr(perplexity, "LONGEST_TEXT", 1000)
    monkeypatch.setattr(perplexity, "read_text", lambda p: read_text(p, 1000))
    with pytest.raises(FileError, match="has more than 1000 bytes"):
        perplexity.read_chunks(path, tokenizer, 64)
