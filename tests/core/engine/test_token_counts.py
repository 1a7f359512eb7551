"""Texts are counted as the tokenizer encodes them, and cut where they fit."""

import threading
from types import SimpleNamespace

import pytest

from llm_lite.core.engine.token_counts import AT_ONCE, TokenCounter, count_tokens, counted, fitting
from llm_lite.core.errors import FileError
from llm_lite.core.loading.loader import open_model
from llm_lite.core.messages import (
    ChatMessage,
    ConversationRead,
    CountTokens,
    Read,
    TokensCounted,
)
from tests.children import PATIENCE
from tests.core.engine_client import HELLO, Client

TEXT = "\n".join(f"Line {n} says something about <|im_end|> and the sea." for n in range(400))


@pytest.fixture(scope="module")
def tokenizer(smollm2):
    return open_model(str(smollm2), lambda *_: None, lambda text: None).tokenizer


def test_control_tokens_count_as_the_text_that_they_are(tokenizer):
    assert count_tokens(tokenizer, TEXT) == len(tokenizer.encode(TEXT, parse_special=False))
    assert count_tokens(tokenizer, "<|im_end|>") > 1 and count_tokens(tokenizer, "") == 0


def test_long_texts_are_counted_in_parts_that_end_with_lines(tokenizer):
    text = (TEXT + "\n") * (2 * AT_ONCE // len(TEXT) + 1)
    one = count_tokens(tokenizer, TEXT + "\n")
    assert count_tokens(tokenizer, text) == pytest.approx(one * text.count("Line 0 "), rel=0.001)


@pytest.mark.parametrize("most", [0, 1, 50, 1000, 3000])
def test_what_is_kept_fits_and_ends_with_a_line(tokenizer, most):
    count = count_tokens(tokenizer, TEXT)
    length, kept = fitting(tokenizer, TEXT, count, most)
    assert kept == count_tokens(tokenizer, TEXT[:length]) <= most
    if most >= 50:
        assert kept > 0.7 * most and TEXT[length - 1] == "\n"


def test_a_text_without_lines_is_cut_too(tokenizer):
    text = "x" * 5000
    length, kept = fitting(tokenizer, text, count_tokens(tokenizer, text), 20)
    assert 0 < length < 5000 and 0 < kept <= 20


def test_each_text_is_answered_in_its_place(tokenizer):
    answer = counted(CountTokens(7, ("some words", TEXT), (1000, 100)), tokenizer)
    assert answer.request == 7 and answer.kept[0] == len("some words")
    assert answer.tokens[0] == 2 and answer.tokens[1] <= 100 and answer.kept[1] < len(TEXT)
    assert counted(CountTokens(8, (TEXT,)), tokenizer).kept == (len(TEXT),)


def test_a_tokenizer_that_fails_is_a_sentence_and_the_next_request_is_served(tokenizer):
    class Broken:
        def encode(self, text, **options):
            raise FileError("x.gguf", "the tokenizer fails at this text")

    def file(tokenizer):
        return SimpleNamespace(tokenizer=tokenizer)

    heard, done = [], threading.Event()

    def emit(event):
        heard.append(event)
        if len(heard) == 2:
            done.set()

    counter = TokenCounter(emit)
    counter.submit(CountTokens(1, ("a",)), file(Broken()), 100)
    counter.submit(CountTokens(2, ("some words",)), file(tokenizer), 100)
    assert done.wait(PATIENCE)
    assert heard[0].message.startswith("x.gguf") and heard[0].tokens == ()
    assert heard[1] == TokensCounted(2, (2,), (10,))


def test_a_conversation_is_counted_as_it_is_read(smollm2):
    """With its template, its last answer left open; what is far too long is not."""
    client = Client()
    info = client.load(smollm2).model
    told = (*HELLO, ChatMessage("assistant", "Hello! How can I help?"), ChatMessage("user", "So?"))
    for number, messages in enumerate((told, told[:2]), 1):
        client.send(Read(number, messages), CountTokens(number, messages=messages))
        counted = client.until(TokensCounted)
        while not (read := [e for e in client.of(ConversationRead) if e.request == number]):
            client.events += client.engine.wait(0.05)
        assert counted.conversation == len(read[0].prompt) > 10
    long = (ChatMessage("user", "word " * 60 * info.context),)
    client.send(CountTokens(3, messages=long))
    answer = client.until(TokensCounted)
    assert answer.conversation is None and "shorten it" in answer.message
    assert client.engine.close(PATIENCE)
