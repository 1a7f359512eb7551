"""The lens and the gains of heads, beside the tokens that they belong to."""

import threading
import time

import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    Alternative,
    EffectRead,
    Generate,
    Inspect,
    Interventions,
    LensRow,
    LoadModel,
    ReadEffect,
    SamplingOptions,
    SetInterventions,
)
from llm_lite.core.messages.interventions import Scale
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain, SetAttention
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.cache.unread import unread_part
from llm_lite.desktop.features.chat.conversation import first_difference
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.layouts.state import Layouts, Sides, Sizes
from llm_lite.desktop.features.program.state import AppState, Message, Running, Token
from llm_lite.desktop.features.steer.model import DIVERGENCE, Steer
from llm_lite.desktop.features.steer.view import EFFECT
from llm_lite.desktop.features.tokens.lens import LENS, _position, leads_words, settled
from tests.changes import gains_in, scales
from tests.core.engine_client import PATIENCE, Hook
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.engine.questions import lens
from tests.desktop.headless import READY, sent
from tests.desktop.other_versions import others
from tests.desktop.tokens import test_token_views
from tests.desktop.tokens.test_token_views import ask
from tests.runners import exact

talk = test_token_views.talk  # a fixture


def asked_lens(state):
    known = LENS.answered(state)
    return known and known.question


def test_the_lens_follows_the_newest_token_at_leisure(headless):
    one = headless(AppState(), size=(1400, 1700))
    engine = ScriptedEngine(0.01)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.lens")
    ask(one)
    one.driver.wait("the lens", lambda s: not LENS.waiting(s))
    asked = [inspect.position for inspect in sent(engine, Inspect)]
    assert asked == sorted(set(asked)) and asked[-1] == one.state.context_used - 1
    tokens = len(one.state.messages[1].tokens)
    assert 2 <= len(asked) < tokens / 4, "now and then while it writes"


def drag(one, name, pixels):
    one.driver.point(name)
    x0, y0, x1, y1 = one.driver.rect(name)
    io = imgui.get_io()
    io.add_mouse_button_event(0, True)
    one.driver.frames()
    for step in range(1, 6):
        io.add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2 - pixels * step / 5)
        one.driver.frames()
    io.add_mouse_button_event(0, False)
    one.driver.frames(2)


def test_heads_are_ablated_weighed_and_restored(talk):
    one, engine = talk
    one.driver.click("tab.steer")
    one.driver.click("steer.2.4")
    (changes,) = (command.interventions for command in sent(engine, SetInterventions))
    assert changes == Interventions((Scale("layers.2.attention.heads", 0.0, 4),), MODEL.name)
    one.driver.wait("the effect", lambda s: EFFECT.answer(s) is not None)
    drag(one, "steer.1.0", 50)
    assert gains_in(one.state)[1][0] == pytest.approx(1.6, abs=0.02)
    drag(one, "steer.1.0", -400)
    assert gains_in(one.state)[1][0] == 0.0
    one.driver.click("steer.2.4")
    assert gains_in(one.state)[2] == (1.0,) * 9
    one.driver.click("steer.layer.3")
    one.driver.click("steer.layer.3")
    assert gains_in(one.state)[3] == (0.0,) * 9
    one.driver.click("steer.span.1")
    assert gains_in(one.state)[3] == pytest.approx((1.0,) * 3 + (0.0,) * 6, abs=0.1)
    one.driver.click("steer.reset")
    assert one.state.steering.interventions == NO_CHANGES
    assert sent(engine, SetInterventions)[-1].interventions == NO_CHANGES


def test_the_steered_answer_stands_beside_the_first(talk):
    one, engine = talk
    one.driver.click("tab.steer")
    one.driver.click("steer.again")
    assert sent(engine, Generate) == [], "nothing is steered yet"
    one.driver.click("steer.0.0")
    one.driver.click("steer.again")
    assert one.driver.shows("compare")
    one.driver.wait("the answer", lambda s: not s.busy, pace=0)
    one.driver.frames(2)
    (command,) = sent(engine, Generate)
    assert command.interventions == one.state.steering.interventions
    base, other = others(one.state, 1)[0], one.state.messages[1]
    assert first_difference(base, other) == 2
    one.driver.click("compare.close")
    assert not one.driver.shows("compare")
    assert one.state.tree.version(1) == 1


def test_maps_stay_where_a_running_comparison_is_closed(headless, tiny_llama, monkeypatch):
    """With a real model: the engine reads again what its cache held, as if nothing had been."""
    hook = Hook(monkeypatch)
    one = headless(AppState(sampling=SamplingOptions(seed=3, max_new_tokens=12)))
    engine = Engine(None)
    one.program.start(engine)
    engine.submit(LoadModel(str(tiny_llama), exact()))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.steer")
    one.program.do(Send("One two three."))
    one.driver.wait("the answer", lambda s: not s.busy and s.context_used)
    one.driver.click("steer.0.0")
    reached = threading.Event()

    def wait_to_be_stopped(step, should_stop):
        """In the first step of the comparison."""
        if DIVERGENCE.waiting(one.state) and not reached.is_set():
            reached.set()
            deadline = time.monotonic() + PATIENCE
            while not hook.heard and time.monotonic() < deadline:
                hook.heard = should_stop()

    hook.at_step = wait_to_be_stopped
    one.driver.click("steer.again")
    one.driver.wait("the comparison", lambda s: reached.is_set())
    one.driver.click("compare.close")
    one.driver.wait("its effect", lambda s: EFFECT.answer(s) is not None)
    one.driver.frames(60)
    assert hook.heard and not one.did(ReadAgain) and unread_part(one.state, one.ui.maps) is None
    assert engine.attention().rows == range(one.state.context_used) != range(0)


def test_where_answers_part():
    def said(*ids, reason="end"):
        return Message("assistant", "", tuple(Token(n, "", 1.0) for n in ids), reason)

    assert first_difference(said(1, 2, 3), said(1, 5)) == 1
    assert first_difference(said(1, 2), said(1, 2)) is None
    assert first_difference(said(1, 2), said(1)) == 1
    assert first_difference(said(1, 2), said(1, reason=None)) is None, "not yet"


@pytest.mark.parametrize(
    ("running", "newest"),
    [
        (None, 28),
        (Running(Generate(()), 0.0, phase="decode"), 27),
        (Running(Generate(()), 0.0, phase="prefill", done=12), 11),
        (Running(Generate(()), 0.0), None),
    ],
)
def test_the_lens_asks_only_of_what_the_cache_holds(running, newest):
    """The newest token of an answer comes into the cache with the one behind it."""
    state = replace(with_cached(AppState(model=MODEL), used=29), running=running)
    assert _position(state) == newest
    held = replace(state, attention=AttentionChoice(row=28))
    assert _position(held) == newest


def test_a_conversation_that_was_opened_again_is_read_from_the_lens(headless):
    said = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
    one = headless(replace(READY, tree=ConversationTree(said)))
    one.driver.click("tab.lens")
    one.driver.click("lens.read")
    assert one.did(ReadAgain) == [ReadAgain()]


def test_the_lens_asks_of_the_token_that_is_held(talk):
    one, engine = talk
    assert sent(engine, Inspect) == [], "nobody looks"
    one.driver.click("tab.lens")
    last = one.state.context_used - 1
    assert [inspect.position for inspect in sent(engine, Inspect)] == [last]
    one.driver.wait("the lens", lambda s: not LENS.waiting(s))
    one.driver.frames(3)
    assert len(sent(engine, Inspect)) == 1
    one.program.do(SetAttention(AttentionChoice(row=7)))
    one.driver.wait(
        "the lens", lambda s: LENS.answered(s) and LENS.answered(s).question == Inspect(7)
    )
    one.driver.wait("the lens", lambda s: not LENS.waiting(s))
    assert sent(engine, Inspect)[-1].position == 7
    one.driver.frames(2)
    assert one.driver.shows("lens.table")
    assert settled(lens()) == 20
    one.program.do(Steer(scales(((0.0,) * 9,) * 30)))
    one.driver.frames(3)
    assert len(sent(engine, Inspect)) == 3, "with other gains the layers say something else"


def test_the_lens_says_from_which_layer_on_a_token_leads():
    def row(layer, text, token):
        return LensRow(layer, (Alternative(token, text, 0.5),))

    rows = (row(0, "<|endoftext|>", 7), row(1, " blue", 9), row(2, " blue", 9))
    assert leads_words(rows, 1) == "From layer 1 up, “blue” is the likeliest next token."
    late = (*rows[:2], row(2, "<|endoftext|>", 7))
    assert (
        leads_words(late, 2) == "Only the last layer, at the top, finds “<|endoftext|>” likeliest."
    )


@pytest.mark.parametrize("wide", [16.0, 40.0])
def test_the_effect_of_gains_is_told_whole(headless, wide):
    """On a line of its own where it has no room beside the buttons."""
    sides = Sides(sizes=Sizes(list_width=12.0, inspector_width=wide))
    state = replace(READY, layouts=Layouts("inspect", "inspect", sides, sides, sides))
    gains = ((0.5,) * MODEL.heads,) * MODEL.layers
    one = headless(with_cached(state, used=5), size=(1600, 900))
    one.driver.click("tab.steer")
    one.program.do(Steer(scales(gains)))
    one.program.state = with_answer(one.state, EFFECT, ReadEffect(), EffectRead(1.25))
    one.driver.frames(3)
    _, _, right, _ = one.driver.rect("view.steer")
    assert one.driver.rect("steer.effect")[2] <= right
