"""Texts are counted as the tokenizer encodes them, and cut where they fit."""

from types import SimpleNamespace

import pytest

from llm_lite.core.engine.token_counts import AT_ONCE, TokenCounter, count_tokens, counted, fitting
from llm_lite.core.errors import FileError, RequestError
from llm_lite.core.handles import Handle
from llm_lite.core.loading.loader import open_model
from llm_lite.core.messages import (
    ChatMessage,
    CountTokens,
    Read,
    TokenizeText,
    TokensCounted,
)
from tests.children import PATIENCE
from tests.core.engine_client import HELLO, Client
from tests.make_gguf import write_tiny_llama

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
    answer = counted(CountTokens(("some words", TEXT), (1000, 100)), tokenizer)
    assert answer.kept[0] == len("some words")
    assert answer.tokens[0] == 2 and answer.tokens[1] <= 100 and answer.kept[1] < len(TEXT)
    assert counted(CountTokens((TEXT,)), tokenizer).kept == (len(TEXT),)


def test_a_tokenizer_that_fails_is_a_sentence_and_the_next_request_is_served(tokenizer):
    class Broken:
        def encode(self, text, **options):
            raise FileError("x.gguf", "the tokenizer fails at this text")

    def file(tokenizer):
        return SimpleNamespace(tokenizer=tokenizer)

    reports, counter = [], TokenCounter()
    requests = CountTokens(("a",)), CountTokens(("some words",))
    handles = [Handle(request, reports.append) for request in requests]
    for handle, one in zip(handles, (Broken(), tokenizer), strict=True):
        counter.submit(handle, handle.command, file(one), 100)
    assert handles[1].result(PATIENCE) == TokensCounted((2,), (10,))
    with pytest.raises(RequestError, match=r"^x\.gguf"):
        handles[0].result(PATIENCE)
    assert [report.command for report in reports] == [requests[0], requests[1], requests[1]]


def test_a_conversation_is_counted_as_it_is_read(smollm2):
    """With its template, its last answer left open; what is far too long is estimated."""
    client = Client()
    info = client.load(smollm2).model
    told = (*HELLO, ChatMessage("assistant", "Hello! How can I help?"), ChatMessage("user", "So?"))
    for messages in (told, told[:2]):
        read = client.send(Read(messages))
        counted = client.result(CountTokens(messages=messages))
        assert not counted.about
        assert counted.conversation == len(read.result(PATIENCE).prompt) > 10
    long = (ChatMessage("user", "word " * 60 * info.context),)
    counted = client.result(CountTokens(messages=long))
    assert counted.about and abs(counted.conversation / (60 * info.context) - 1) < 0.02
    assert client.engine.close(PATIENCE)


def test_values_of_the_template_are_read_and_counted(tmp_path):
    """Of a conversation that is read, counted, and shown in its stages."""
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{{ '~' * 9 if reasoning_effort == 'high' }}<|im_start|>assistant\n"
    )
    path = write_tiny_llama(tmp_path / "reading.gguf", {"tokenizer.chat_template": template})
    client = Client()
    client.load(path)
    lengths = []
    for effort in ("low", "high"):
        values = {"reasoning_effort": effort}
        read = len(client.result(Read(HELLO, values=values)).prompt)
        counted = client.result(CountTokens(messages=HELLO, values=values))
        stages = client.result(TokenizeText(messages=HELLO, values=values)).result
        assert read == counted.conversation == stages.tokens
        lengths.append(read)
    assert lengths[1] == lengths[0] + 9
    assert client.engine.close(PATIENCE)
