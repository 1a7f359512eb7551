"""Stages of texts by the engine's own thread: beside an answer, the newest first, in sentences."""

import json
import threading
import time

import pytest

from llm_lite.core.engine import tokenizing_thread as thread
from llm_lite.core.engine.engine import Engine
from llm_lite.core.engine.tokenizing_thread import Tokenizing
from llm_lite.core.errors import RequestError
from llm_lite.core.handles import Handle
from llm_lite.core.messages import (
    ChatMessage,
    Ended,
    EngineOptions,
    Generate,
    LoadModel,
    ModelLoaded,
    SamplingOptions,
    TextTokenized,
    TokenDecoded,
    TokenizeText,
)
from tests.children import PATIENCE
from tests.desktop.engine.engine import FIXTURES

BERT = str(FIXTURES / "bert" / "tokenizer.json")


def hear(engine, kind):
    """The next event of a kind."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for report in engine.wait(0.1):
            if isinstance(report.event, kind):
                return report.event
    raise AssertionError(f"no {kind.__name__}")


def test_texts_are_cut_while_an_answer_is_written(smollm2):
    engine = Engine(None)
    try:
        engine.submit(LoadModel(str(smollm2), EngineOptions(backend="cpu", threads=1)))
        hear(engine, ModelLoaded)
        never_ends = ((0, -100.0), (2, -100.0))  # <|endoftext|>, <|im_end|>
        sampling = SamplingOptions(temperature=0.0, max_new_tokens=5000, logit_bias=never_ends)
        ask = Generate((ChatMessage("user", "Count to a thousand."),), sampling)
        answer = engine.submit(ask)
        hear(engine, TokenDecoded)
        text = engine.submit(TokenizeText("The sky"))
        chat = engine.submit(TokenizeText(messages=(ChatMessage("user", "Hi"),), slot=1))
        assert text.result(PATIENCE).result.text == "The sky"
        assert "Hi" in chat.result(PATIENCE).result.text
        assert not answer.is_over, "both before the answer's end"
    finally:
        engine.close()


def test_of_a_slot_the_newest_that_waits_is_answered(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    opened = thread.open_tokenizer

    def slow(source):
        begun.set()
        assert go_on.wait(PATIENCE)
        return opened(source)

    monkeypatch.setattr(thread, "open_tokenizer", slow)
    reports, work = [], Tokenizing()

    def submit(text, slot=0):
        handle = Handle(TokenizeText(text, BERT, slot), reports.append)
        work.submit(handle, handle.command, None)
        return handle

    submit("first")
    assert begun.wait(PATIENCE)
    given_up = [submit("text 2"), submit("text 3")]
    submit("text 4")
    last = submit("of another slot", 1)
    for handle in given_up:
        with pytest.raises(RequestError, match="a newer request has taken its place"):
            handle.result(PATIENCE)
    go_on.set()
    assert last.result(PATIENCE).result.text == "of another slot"
    told = [report.event.result.text for report in reports if type(report.event) is TextTokenized]
    assert told == ["first", "text 4", "of another slot"]


def test_what_cannot_be_told_is_a_sentence_and_the_next_is_answered(tmp_path):
    work = Tokenizing()

    def ask(request):
        handle = Handle(request, lambda report: None)
        work.submit(handle, request, None)
        return handle.result(PATIENCE)

    path = tmp_path / "tokenizer.json"
    path.write_text("[]")
    for request, problem in (
        (TokenizeText("x"), "no model is loaded"),
        (TokenizeText("x", str(path)), "is not a tokenizer that can be read"),
        (TokenizeText("\ud800", BERT), "lone surrogate"),
    ):
        with pytest.raises(RequestError, match=problem):
            ask(request)
    path.write_bytes((FIXTURES / "bert" / "tokenizer.json").read_bytes())
    last = ask(TokenizeText("the model", str(path), samples=("one", "two words")))
    assert last.result.tokens == len(last.result.pieces)
    assert len(last.samples) == 2


def test_an_expression_that_backtracks_without_end_is_a_sentence(tmp_path):
    parts = json.loads((FIXTURES / "qwen" / "tokenizer.json").read_text())
    slow = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated"}
    parts["pre_tokenizer"]["pretokenizers"].insert(0, {**slow, "invert": False})
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(parts))
    reports = []
    handle = Handle(TokenizeText("a" * 60 + "b", str(path)), reports.append)
    Tokenizing().submit(handle, handle.command, None)
    with pytest.raises(RequestError):
        handle.result(PATIENCE)
    (report,) = reports
    assert isinstance(report.event, Ended) and report.event.problem
