"""`llm_lite.connect`: a model of a server, in Python."""

import threading

import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from tests.children import PATIENCE
from tests.server.conftest import serve

__all__ = ["serve"]  # the fixture
KEY = "a-key-of-sixteen-and-more"


@pytest.fixture
def served(serve):
    one = serve(config={"api_key": KEY}, delay=0.001)
    with llm_lite.connect(one.url, key=KEY) as model:
        yield one, model


def test_an_answer_is_that_of_a_model_here(served):
    one, model = served
    one.service.script = lambda request: "The sky is blue, and the sea too."
    answer = model.generate([{"role": "user", "content": "Why?"}], max_new_tokens=50, stop="sea")
    tokens = list(answer)
    assert "".join(token.text for token in tokens) == answer.text == "The sky is blue, and the "
    assert answer.finish_reason in ("end", "stop string")
    assert all(len(token.alternatives) == 5 for token in tokens)
    assert all(0 < token.probability <= 1 for token in tokens)
    assert answer.ids.dtype == "int32" and answer.message.content == answer.text
    assert "<span" in answer._repr_html_() and len(repr(answer)) < 120
    asked = one.service.requests[-1]
    assert asked.sampling.max_new_tokens == 50 and asked.messages[-1].content == "Why?"
    assert model.models == (model.info.name,) and one.url[7:] in repr(model)


def test_a_text_goes_on(served):
    one, model = served
    one.service.script = lambda request: " there was a king"
    assert model.complete("Once upon a time").text == " there was a king"
    assert one.service.requests[-1].text == "Once upon a time"


def test_a_conversation_sends_what_was_said(served):
    one, model = served
    one.service.script = lambda request: f"{len(request.messages)} messages"
    talk = llm_lite.Conversation(model, "Be short.", max_new_tokens=20)
    assert talk.send("Hello").text == "2 messages"
    assert talk.regenerate().text == "2 messages"
    assert talk.send("And?").text == "4 messages"
    sent = one.service.requests[-1].messages
    assert [m.content for m in sent] == ["Be short.", "Hello", "2 messages", "And?"]
    assert len(talk.versions(1)) == 2


def test_a_new_answer_ends_the_one_before(served):
    one, model = served
    one.service.script = lambda request: "word " * 3000
    first = model.generate("Go on.", max_new_tokens=2900)
    assert next(first).text
    one.service.script = lambda request: "short"
    assert model.generate("And?").text == "short"
    with pytest.raises(RequestError, match="asked something else before this answer was finished"):
        list(first)
    assert one.service.status().cancelled == 1
    assert model.generate("And?").text == "short"


def test_two_threads_each_hear_their_own(served):
    one, model = served
    one.service.script = lambda request: request.messages[-1].content.upper()
    said = {}

    def ask(word):
        for _ in range(20):
            try:
                said[word] = model.generate(word).text
                return
            except RequestError:  # another one asked meanwhile
                continue

    threads = [threading.Thread(target=ask, args=(word,)) for word in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert all(text == word.upper() for word, text in said.items()) and said


def test_what_goes_wrong_is_a_sentence(served, serve):
    one, model = served
    with pytest.raises(llm_lite.LlmLiteError, match="key"):
        llm_lite.connect(one.url, key="another-key-that-is-wrong")
    with pytest.raises(llm_lite.LlmLiteError, match="has no model 'large'"):
        llm_lite.connect(one.url, key=KEY, model="large")
    with pytest.raises(llm_lite.LlmLiteError):
        llm_lite.connect("http://127.0.0.1:1")
    with pytest.raises(llm_lite.LlmLiteError):
        llm_lite.connect("no address")
    with pytest.raises(RequestError, match="temperature: expected"):
        model.generate("Hi", temperature=-1)
    one.service.fail_after = 3
    one.service.delay = 0.02  # what fails before it begins is a status, and has no tokens
    answer = model.generate("one two three four five six")
    with pytest.raises(RequestError, match="fails here"):
        list(answer)
    assert len(answer.tokens) in (0, 3) and answer.finish_reason == "error"
    model.close()
    with pytest.raises(RequestError, match="the connection is closed"):
        list(model.generate("Hi"))
