"""Conversations of the page: those of the window's history, by the same file."""

import base64

import pytest

from llm_lite.core.history import History
from tests.server.page.conftest import Talk, until


def talk_is_done(conversation):
    return len(conversation.messages) == 2 and conversation.messages[1].finished


def titles(client, **query):
    found = client.get("/page/conversations", params=query).json()
    return [one["title"] for one in found["conversations"]]


def test_what_is_said_is_there_at_once(client, talk):
    turn = talk.turn("Why is the sky blue?", "Because of scattering.")
    talk.turn("And red?", "At dusk.", turn.answered["id"])
    assert talk.texts == ["Why is the sky blue?", "Because of scattering.", "And red?", "At dusk."]
    assert titles(client) == ["Why is the sky blue?"]
    assert client.get(talk.at).json()["system_prompt"] == "Be brief."


def test_the_window_reads_what_the_page_wrote(client, talk, history):
    talk.turn("Hello", "Hi.")
    window = History(history)
    window.wait_until_open()
    until(lambda: (one := window.conversation(int(talk.id))) and talk_is_done(one))
    found = window.conversation(int(talk.id))
    assert [(one.role, one.text, one.finished) for one in found.messages] == [
        ("user", "Hello", True),
        ("assistant", "Hi.", True),
    ]
    assert found.messages[1].run.model.name == "scripted"
    window.close()


def test_the_page_reads_what_the_window_wrote(client, history):
    client.get("/page/conversations")
    before = client.get("/page/status").json()["history"]["changes"]
    window = History(history)
    begun = window.begin()
    window.add_message(begun.id, None, "From the window.")
    assert window.flush()
    assert titles(client) == ["From the window"]
    window.close()
    until(lambda: client.get("/page/status").json()["history"]["changes"] > before)


def test_an_edit_and_a_regeneration_are_versions(client, talk):
    turn = talk.turn("First", "One")
    other = talk.begin(turn.said["id"])
    talk.finish(other, "Another one")
    assert talk.texts == ["First", "Another one"]
    assert talk.shown[1]["versions"] == [turn.answered["id"], other["id"]] == other["versions"]
    edited = talk.say("Edited", None, based_on=turn.said["id"])
    assert talk.texts == ["Edited"]
    assert talk.shown[0]["versions"] == [turn.said["id"], edited["id"]] == edited["versions"]
    chosen = client.post(f"{talk.at}/select", json={"message": turn.answered["id"]})
    assert [one["text"] for one in chosen.json()["messages"]] == ["First", "One"]


def test_the_list_comes_in_pages(client):
    for number in range(5):
        Talk(client).say(f"Number {number}")
    first = client.get("/page/conversations", params={"limit": 2}).json()
    assert [one["title"] for one in first["conversations"]] == ["Number 4", "Number 3"]
    assert titles(client, limit=2, after=first["next"]) == ["Number 2", "Number 1"]


def test_rename_pin_delete_and_undo(client):
    kept, other = Talk(client), Talk(client)
    kept.say("The first")
    other.say("The second")
    assert client.patch(kept.at, json={"title": "Sky", "pinned": True}).status_code == 204
    assert titles(client) == ["Sky", "The second"]
    assert client.delete(kept.at).status_code == 204
    assert titles(client) == ["The second"]
    assert client.get(kept.at).status_code == 404
    assert client.post(f"{kept.at}/restore", json={}).status_code == 204
    assert titles(client) == ["Sky", "The second"]


def test_search_finds_words_in_messages(client, talk):
    talk.turn("About whales", "They sing across oceans.")
    until(lambda: client.get("/page/search", params={"q": "oceans"}).json()["found"])
    found = client.get("/page/search", params={"q": "oceans"}).json()["found"]
    assert [one["conversation"] for one in found] == [talk.id]
    assert "oceans" in found[0]["snippet"]


def test_the_system_prompt_changes(client, talk):
    talk.say("Hi")
    client.patch(talk.at, json={"system_prompt": "Rhyme."})
    assert client.get(talk.at).json()["system_prompt"] == "Rhyme."


@pytest.mark.parametrize(
    ("method", "at", "body", "status"),
    [
        ("GET", "/page/conversations/12", None, 404),
        ("GET", "/page/conversations/x", None, 400),
        ("GET", f"/page/conversations/{1 << 70}", None, 400),
        ("GET", "/page/conversations?limit=0", None, 400),
        ("GET", "/page/conversations?after=nonsense", None, 400),
        ("PATCH", "/page/conversations/12", {"title": "x"}, 404),
        ("DELETE", "/page/conversations/12", None, 404),
        ("POST", "/page/conversations", {"system_prompt": 3}, 400),
        ("POST", "/page/conversations/12/messages", {"text": "x", "parent": None}, 404),
        ("POST", "/page/conversations/12/answers", {"parent": "13"}, 404),
        ("POST", "/page/conversations/12/select", {"message": 13}, 400),
        ("GET", "/page/conversations/12/messages/13/tokens", None, 404),
    ],
)
def test_what_cannot_be_is_a_sentence(client, method, at, body, status):
    said = client.request(method, at, json=body)
    assert said.status_code == status
    assert said.json()["error"]["message"]


def test_a_parent_of_another_conversation_is_refused(client, talk):
    stranger = Talk(client).say("Elsewhere")
    body = {"text": "x", "parent": stranger["id"]}
    assert client.post(f"{talk.at}/messages", json=body).status_code == 404
    assert client.post(f"{talk.at}/answers", json={"parent": stranger["id"]}).status_code == 404


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_form_of_another_page_changes_nothing(client, kind):
    said = client.post("/page/conversations", content=b"{}", headers={"Content-Type": kind})
    assert said.status_code == 415
    assert titles(client) == []


@pytest.mark.parametrize(
    "body", [b"[]", b"{", b"[" * 100_000, b"\xff", b'{"system_prompt": ' + b"1" * 5000 + b"}"]
)
def test_bodies_that_are_no_object(client, body):
    said = client.post(
        "/page/conversations", content=body, headers={"Content-Type": "application/json"}
    )
    assert said.status_code == 400


def test_a_body_has_a_limit(client):
    said = client.post("/page/markdown", json={"text": "x" * (17 << 20)})
    assert said.status_code == 413


@pytest.mark.parametrize("cursor", ["[true, 1, Infinity]", "[true, 1e999, 1]", "[]", "nothing"])
def test_a_cursor_that_is_none_is_refused(client, cursor):
    after = base64.urlsafe_b64encode(cursor.encode()).decode()
    refused = client.get("/page/conversations", params={"after": after})
    assert refused.status_code in (200, 400), refused.text
