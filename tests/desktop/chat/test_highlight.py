"""A token of the cache, lit up in the text of its message."""

import pytest
from imgui_bundle import imgui

from llm_lite.desktop.features.cache.model import PointAt
from llm_lite.desktop.features.chat import message as chat_message
from llm_lite.desktop.features.chat.message import character_places
from tests.desktop.cache_view import QUESTION, point
from tests.desktop.engine.answers import ANSWER, pieces_of
from tests.desktop.engine.vocabulary import answered_at


def test_pointing_names_the_token_and_lights_it_up_in_the_chat(cache_view):
    one, _ = cache_view()
    start = answered_at(QUESTION)
    point(one, start + 3)
    assert one.state.cache.pointed == start + 3
    one.driver.frames(2)
    x0, y0, x1, y1 = one.driver.rect("chat.pointed")
    message = one.driver.rect("message.1")
    assert message[0] - 8 <= x0 < x1 and message[1] <= y0 < y1 <= message[3]
    point(one, 3)
    assert one.state.cache.pointed == 3
    assert one.driver.rect("chat.pointed")[3] <= one.driver.rect("message.0")[3]
    one.driver.leave()
    assert one.state.cache.pointed is None and not one.driver.shows("chat.pointed")


@pytest.mark.parametrize("size", [(1400, 1700), (700, 1700), (3000, 1700)])
def test_every_token_of_a_message_is_found_in_its_text(cache_view, size, monkeypatch):
    one, _ = cache_view(view=size)
    shown = []
    calls = chat_message._within

    def within(ui, page, places, span):
        runs = [run for _, laid in page.blocks for run in laid.runs]
        parts = zip(runs, places, strict=True)
        shown.append(
            "".join(
                c
                for r, p in parts
                for c, at in zip(r.text, p, strict=True)
                if span[0] <= at < span[1]
            )
        )
        return calls(ui, page, places, span)

    monkeypatch.setattr(chat_message, "_within", within)
    start, unseen = answered_at(QUESTION), ""
    for n, piece in enumerate(pieces_of(ANSWER)):
        shown.clear()
        one.program.do(PointAt(start + n))
        imgui.new_frame()
        one.program.interface.frame(one.state, 0.0)
        imgui.render()
        if shown:
            bare = "".join(c for c in piece if c.isalnum())
            marks = "".join(c for c in shown[0] if c.isalnum())
            assert marks in bare, (n, piece, shown)
            unseen += bare.replace(marks, "", 1)
    assert unseen.rstrip("12") in ("", "python"), "only what is no text: a language, numbers"


def test_what_is_shown_is_found_in_what_was_written():
    text = "A *few* [words](http://a.b/words) and `more`."
    (first, second) = character_places(text, ["A few words", " and more."])
    shown = zip("A few words and more.", [text[at] for at in first + second], strict=True)
    assert all(a == b for a, b in shown if a != " ")
