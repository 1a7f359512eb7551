"""Stages of texts by the engine's own thread: beside an answer, the newest first, in sentences."""

import json
import threading
import time

from llm_lite.core.engine import tokenizing_thread as thread
from llm_lite.core.engine.engine import Engine
from llm_lite.core.engine.tokenizing_thread import Tokenizing
from llm_lite.core.messages import (
    ChatMessage,
    EngineOptions,
    Generate,
    GenerationFinished,
    LoadModel,
    ModelLoaded,
    SamplingOptions,
    Stop,
    TextTokenized,
    TokenDecoded,
    TokenizeText,
)
from tests.children import PATIENCE
from tests.desktop.fake_engine import FIXTURES

BERT = str(FIXTURES / "bert" / "tokenizer.json")


def hear(engine, kind):
    """The next event of a kind."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for event in engine.wait(0.1):
            if isinstance(event, kind):
                return event
    raise AssertionError(f"no {kind.__name__}")


def test_texts_are_cut_while_an_answer_is_written(smollm2):
    engine = Engine(None)
    try:
        engine.send(LoadModel(str(smollm2), EngineOptions(backend="cpu", threads=1)))
        hear(engine, ModelLoaded)
        never_ends = ((0, -100.0), (2, -100.0))  # <|endoftext|>, <|im_end|>
        sampling = SamplingOptions(temperature=0.0, max_new_tokens=5000, logit_bias=never_ends)
        engine.send(Generate(1, (ChatMessage("user", "Count to a thousand."),), sampling))
        hear(engine, TokenDecoded)
        engine.send(TokenizeText(2, "The sky"))
        engine.send(TokenizeText(3, messages=(ChatMessage("user", "Hi"),), slot=1))
        told = {hear(engine, TextTokenized | GenerationFinished).request for _ in range(2)}
        assert told == {2, 3}, "both before the answer's end"
    finally:
        engine.send(Stop())
        engine.close()


def test_of_a_slot_the_newest_that_waits_is_answered(monkeypatch):
    heard, begun, go_on = [], threading.Event(), threading.Event()
    opened = thread.open_tokenizer

    def slow(source):
        begun.set()
        assert go_on.wait(PATIENCE)
        return opened(source)

    monkeypatch.setattr(thread, "open_tokenizer", slow)
    done = threading.Event()

    def emit(event):
        heard.append(event)
        if event.request == 9:
            done.set()

    work = Tokenizing(emit)
    work.submit(TokenizeText(1, "first", BERT), None)
    assert begun.wait(PATIENCE)
    for request in (2, 3, 4):
        work.submit(TokenizeText(request, f"text {request}", BERT), None)
    work.submit(TokenizeText(9, "of another slot", BERT, slot=1), None)
    go_on.set()
    assert done.wait(PATIENCE)
    assert [event.request for event in heard] == [1, 4, 9]
    assert all(event.result is not None for event in heard)


def test_what_cannot_be_told_is_a_sentence_and_the_next_is_answered(tmp_path):
    heard, done = [], threading.Event()

    def emit(event):
        heard.append(event)
        done.set()

    def ask(request):
        done.clear()
        work.submit(request, None)
        assert done.wait(PATIENCE)
        return heard[-1]

    work = Tokenizing(emit)
    assert "no model is loaded" in ask(TokenizeText(1, "x")).message
    path = tmp_path / "tokenizer.json"
    path.write_text("[]")
    assert "is not a tokenizer that can be read" in ask(TokenizeText(2, "x", str(path))).message
    assert "lone surrogate" in ask(TokenizeText(3, "\ud800", BERT)).message
    path.write_bytes((FIXTURES / "bert" / "tokenizer.json").read_bytes())
    last = ask(TokenizeText(4, "the model", str(path), samples=("one", "two words")))
    assert last.message == "" and last.result.tokens == len(last.result.pieces)
    assert len(last.samples) == 2


def test_an_expression_that_backtracks_without_end_is_a_sentence(tmp_path):
    parts = json.loads((FIXTURES / "qwen" / "tokenizer.json").read_text())
    slow = {"type": "Split", "pattern": {"Regex": "(a|aa)+$"}, "behavior": "Isolated"}
    parts["pre_tokenizer"]["pretokenizers"].insert(0, {**slow, "invert": False})
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(parts))
    heard, done = [], threading.Event()
    work = Tokenizing(lambda event: (heard.append(event), done.set()))
    work.submit(TokenizeText(1, "a" * 60 + "b", str(path)), None)
    assert done.wait(PATIENCE)
    assert heard[0].result is None and heard[0].message
