"""A context that fills up: seen coming, and what the chat shows of it."""

from imgui_bundle import imgui

from llm_lite.core.history import ConversationTree
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import budget, files_obstacle
from llm_lite.desktop.features.cache.model import SetOverflow
from llm_lite.desktop.features.cache.overflow import fullness, headroom, shade, used_share
from llm_lite.desktop.features.chat.reading import with_turns
from llm_lite.desktop.features.program.state import Counted, Message
from llm_lite.desktop.features.program.status_bar import _measures
from tests.desktop.cache_view import say
from tests.desktop.cached import with_cached
from tests.desktop.headless import READY


def test_overflow_is_seen_coming_and_marked(cache_view):
    one, _ = cache_view(rings=True)
    one.driver.click("rail.sampler")
    one.driver.click("sampler.overflow.forget-middle")
    assert one.did(SetOverflow) and one.state.overflow == "forget-middle"
    one.driver.press(imgui.Key.escape)
    for n in range(5):
        say(one, f"Number {n}?")
    assert one.state.in_front.forgotten and one.state.context_used <= 1024
    assert len(one.state.messages) == 12, "the window keeps all"
    marks, io = set(), imgui.get_io()
    x0, y0, x1, y1 = one.driver.rect("view.chat")
    io.add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    for _ in range(120):
        one.driver.wheel(1.0)
        marks |= {name for name in one.ui.rects if name.endswith(("unseen", "seen"))}
    assert any(name.endswith(".unseen") for name in marks)
    assert any(name.endswith(".seen") for name in marks)


def test_the_meter_warns_at_80_and_95_percent():
    assert [fullness(x) for x in (0.5, 0.79, 0.8, 0.94, 0.95, 1.0)] == [
        "accent", "accent", "warning", "warning", "error", "error",
    ]  # fmt: skip
    said = (Message("user", "x"), Message("assistant", "y"))
    owners = (0,) * 100 + (1,) * 900
    state = with_turns(with_cached(replace(READY, tree=ConversationTree(said)), owners=owners))

    def taking(tokens, **changes):
        counted = Counted(state.messages, state.prompt_settings, tokens)
        return replace(state, count=counted, **changes)

    assert headroom(taking(1000)) == ("room for about 7 more turns", "muted")
    assert headroom(taking(7000)) == ("room for about 1 more turn", "warning")
    assert headroom(taking(8000)) == ("the next turn may not fit", "error")
    for overflow, what in (("rolling", "oldest"), ("forget-middle", "middle")):
        full = taking(8000, overflow=overflow)
        assert headroom(full) == (f"with the next turn, the {what} is forgotten", "warning")


def test_a_context_of_unknown_length_has_no_share(headless):
    """Servers need not tell how long theirs is; the draft is sent, whatever its length."""
    said = (Message("user", "x"), Message("assistant", "y", stop_reason="end"))
    model = replace(READY.model, context=0)
    state = replace(READY, model=model, tree=ConversationTree(said))
    state = with_turns(with_cached(state, owners=(0,) * 100 + (1,) * 900))
    state = replace(state, count=Counted(said, state.prompt_settings, 1000))
    assert (used_share(state), headroom(state), shade(state)) == (0.0, ("", "muted"), "accent")
    assert {name: shown for name, shown, _ in _measures(state)}["context"] == "1,000"
    long = replace(state, draft="word " * 400)
    assert budget(long) is None and files_obstacle(long) == ""
    one = headless(long)
    assert not one.driver.shows("chat.context")
