"""Answers are kept while they come, with their tokens where the cache still has them."""

from types import SimpleNamespace

import pytest

from llm_lite.core.history import History, HistoryRefused, HistoryUnsaved
from llm_lite.server.page import history_store
from tests.server.page.conftest import until

SAMPLING = {"temperature": 0.7, "top_p": 0.5, "max_tokens": 9, "seed": 4}


def test_an_answer_that_is_being_written(client, talk):
    said = talk.say("Count")
    answer = talk.begin(said["id"], sampling=SAMPLING)
    talk.write(answer, "One, two")
    assert talk.texts == ["Count", "One, two"]
    assert not talk.shown[1]["finished"]
    talk.finish(answer, "One, two, three", reason="length", thought="Hm.")
    shown = talk.shown[1]
    assert (shown["text"], shown["thought"]) == ("One, two, three", "Hm.")
    assert (shown["finished"], shown["reason"]) == (True, "length")


def test_how_it_was_made_is_kept(client, talk, history):
    answer = talk.begin(talk.say("Hi")["id"], sampling=SAMPLING)
    stats = {
        "prompt_tokens": 5,
        "reused_tokens": 2,
        "new_tokens": 3,
        "decode_tok_s": 9.5,
        "ttft_ms": 40,
    }
    talk.finish(answer, "Hello", stats=stats, seconds=1.5)
    shown = talk.shown[1]
    assert (shown["model"], shown["mode"]) == ("scripted", "fp32")
    assert (shown["new_tokens"], shown["tok_s"], shown["ttft_ms"]) == (3, 9.5, 40)
    window = History(history)
    window.wait_until_open()
    until(lambda: (one := window.conversation(int(talk.id))) and len(one.messages) == 2)
    found = window.conversation(int(talk.id))
    sampling = found.messages[1].run.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens, sampling.seed) == (
        0.7,
        0.5,
        9,
        4,
    )
    window.close()


def test_its_tokens_come_from_the_cache(client, talk, service, answered):
    name = answered("Hello there")
    answer = talk.begin(talk.say("Hello there")["id"])
    talk.finish(answer, "You said: Hello there", response=name, likelihoods=[0.5, 0.25])
    found = client.get(f"{talk.at}/messages/{answer['id']}/tokens").json()
    assert "".join(found["texts"]).startswith("You said: Hello there")
    assert found["likelihoods"][:3] == [0.5, 0.25, -1]
    assert len(found["likelihoods"]) == len(found["texts"])
    assert talk.shown[1]["has_tokens"]


def test_tokens_of_another_answer_are_not_kept(client, talk, answered):
    answer = talk.begin(talk.say("Hello")["id"])
    talk.finish(answer, "Something else", response=answered("Hello"), likelihoods=[0.5])
    assert not talk.shown[1]["has_tokens"]


def test_without_a_cache_the_text_is_kept(client, talk):
    answer = talk.begin(talk.say("Hello")["id"])
    talk.finish(answer, "Hi", response="chatcmpl-gone", likelihoods=[0.5])
    assert talk.texts == ["Hello", "Hi"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "text"),
        ({"text": 3}, "text"),
        ({"text": "x", "finished": "yes"}, "finished"),
        ({"text": "x", "finished": True}, "reason"),
        ({"text": "x", "finished": True, "reason": "tired"}, "reason"),
        (
            {"text": "x", "finished": True, "reason": "end", "stats": {"new_tokens": -1}},
            "stats.new_tokens",
        ),
        ({"text": "x", "finished": True, "reason": "end", "seconds": 1e300}, "seconds"),
        ({"text": "x", "likelihoods": "many"}, "likelihoods"),
        ({"text": "x", "likelihoods": [None]}, "likelihoods[0]"),
        ({"text": "x", "thought": ["a"]}, "thought"),
    ],
)
def test_what_cannot_be_is_a_sentence(client, talk, body, param):
    answer = talk.begin(talk.say("Hello")["id"])
    refused = client.put(f"{talk.at}/answers/{answer['id']}", json=body)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["param"] == param and error["message"].startswith(f"{param}: ")


@pytest.mark.parametrize(
    "sampling", [{"temperature": "hot"}, {"top_p": 2}, {"seed": -1}, {"max_tokens": True}]
)
def test_sampling_that_cannot_be(client, talk, sampling):
    said = talk.say("Hello")
    body = {"parent": said["id"], "sampling": sampling}
    assert client.post(f"{talk.at}/answers", json=body).status_code == 400


def test_what_is_no_answer_is_not_written(client, talk):
    said = talk.say("Count")
    body = {"text": "x"}
    for path, problem in {
        "/page/conversations/5/answers/6": "conversation: there is none of this number",
        f"{talk.at}/answers/6": "message: there is no answer of this number",
        f"{talk.at}/answers/{said['id']}": "message: there is no answer of this number",
    }.items():
        for finished in (False, True):
            refused = client.put(path, json=body | {"finished": finished, "reason": "end"})
            assert refused.status_code == 404
            assert refused.json()["error"]["message"] == problem
    restored = client.post("/page/conversations/5/restore", json={})
    assert restored.status_code == 404
    assert talk.texts == ["Count"]
    assert client.get("/page/status").json()["history"]["problem"] == ""


def test_an_answer_whose_conversation_is_purged_is_refused(client, talk, history):
    answer = talk.begin(talk.say("Count")["id"])
    talk.write(answer, "One")
    window = History(history)
    window.wait_until_open()
    until(  # all that was said is saved
        lambda: (
            (one := window.conversation(int(talk.id)))
            and [message.text for message in one.messages] == ["Count", "One"]
        )
    )
    window.delete([int(talk.id)])
    window.purge()
    assert window.flush()
    window.close()
    refused = client.put(f"{talk.at}/answers/{answer['id']}", json={"text": "One, two"})
    assert refused.status_code == 404
    assert client.get("/page/status").json()["history"]["problem"] == ""


def test_a_change_that_was_dropped_is_told_for_a_while(tmp_path, monkeypatch):
    opened = history_store.HistoryStore(tmp_path / "history.db")
    events = [HistoryRefused("purged")]
    opened._history = SimpleNamespace(poll=lambda: [events.pop()] if events else [])
    opened.poll()
    assert opened.problem == "purged"
    monkeypatch.setattr(history_store, "_TELLING", 0.0)
    assert opened.problem == ""
    events.append(HistoryUnsaved("full"))
    opened.poll()
    assert opened.problem == "full"
