"""A conversation in Python keeps every version of questions and answers."""

import pytest

import llm_lite
from llm_lite.core.errors import RequestError
from llm_lite.core.messages import ChatMessage
from tests.make_gguf import write_tiny_llama

SHORT = {"max_new_tokens": 6, "temperature": 0}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = write_tiny_llama(tmp_path_factory.mktemp("model") / "tiny.gguf", context=512)
    with llm_lite.load(path, backend="cpu", context=512) as found:
        yield found


def contents(talk):
    return [message.content for message in talk.messages]


def test_answers_are_those_to_the_same_messages(model):
    talk = llm_lite.Conversation(model, "Be short.", **SHORT)
    first = talk.send("Hello").text
    second = talk.send("And then?")
    asked = [
        ChatMessage("system", "Be short."),
        ChatMessage("user", "Hello"),
        talk.messages[1],
        ChatMessage("user", "And then?"),
    ]
    assert contents(talk) == ["Hello", first, "And then?", second.text]
    assert second.text == model.generate(asked, **SHORT).text
    assert str(talk).startswith("user: Hello\n\nassistant: ") and len(talk) == 4


def test_nothing_is_lost(model):
    talk = llm_lite.Conversation(model, max_new_tokens=6)
    talk.send("Hello", seed=1)
    talk.send("And then?", seed=2)
    whole = contents(talk)
    talk.regenerate(seed=3)
    talk.regenerate()
    answers = [message.content for message in talk.versions(3)]
    assert len(answers) == 3 and answers[0] == whole[3] and talk.messages[3].content == answers[2]
    talk.edit(0, "Good day", seed=4)
    assert contents(talk)[0] == "Good day" and len(talk) == 2
    assert [message.content for message in talk.versions(0)] == ["Hello", "Good day"]
    talk.show(0, 0)
    assert contents(talk) == [*whole[:3], answers[2]]
    talk.show(3, 0)
    assert contents(talk) == whole
    assert repr(talk) == "<Conversation of 4 messages, 4 others beside them>"


def test_an_answer_that_something_else_ended_is_kept_as_far_as_it_came(model):
    talk = llm_lite.Conversation(model, **SHORT)
    answer = talk.send("Hello")
    begun = next(answer).text
    model.logits("something else")
    assert contents(talk) == ["Hello", begun]
    talk.send("Go on")
    assert len(talk) == 4


def test_what_interrupts_an_answer_loses_none_of_it(model, monkeypatch):
    talk = llm_lite.Conversation(model, **SHORT)
    answer = talk.send("Hello")
    step, left = answer._step, [1, 1, 0]

    def interrupted():
        if not left.pop(0):
            raise KeyboardInterrupt
        step()

    with monkeypatch.context() as patch:
        patch.setattr(answer, "_step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            len(talk)
    assert contents(talk) == ["Hello", answer.text]
    assert answer.text == model.generate("Hello", **SHORT).text


def test_what_there_is_not_is_one_sentence(model):
    talk = llm_lite.Conversation(model, **SHORT)
    with pytest.raises(RequestError, match="there is no answer yet"):
        talk.regenerate()
    with pytest.raises(RequestError, match="temperature"):
        talk.send("Hello", temperature="warm")
    assert len(talk) == 0, "nothing was said"
    talk.send("Hello")
    with pytest.raises(RequestError, match="there is no message 2: the conversation has 2"):
        talk.edit(2, "Hello")
    with pytest.raises(RequestError, match="message 1 is an answer: expected a question"):
        talk.edit(1, "Hello")
    with pytest.raises(RequestError, match="message 1 has versions 0 to 0, asked for 1"):
        talk.show(1, 1)
