"""Tokens used through ImGui's input queue: a scripted engine, then real models."""

from math import nan

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.engine.engine import Engine
from llm_lite.core.history import ConversationTree
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import (
    Alternative,
    AttentionRows,
    Generate,
    LoadModel,
    Read,
    ReadAttentionRows,
    SamplingOptions,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.rows import ROWS, pointed_question, pointed_rows
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.chat.conversation import first_difference
from llm_lite.desktop.features.chat.places import Stack
from llm_lite.desktop.features.program.model import SetTheme
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.features.steer.view import EFFECT, SteerControls
from llm_lite.desktop.features.tokens import colors
from llm_lite.desktop.features.tokens.colors import likely
from llm_lite.desktop.features.tokens.lens import LENS, fitting
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import TEMPLATE, XRay
from llm_lite.desktop.features.tokens.view import legend
from llm_lite.desktop.widgets import token_text
from llm_lite.desktop.widgets.plots.shares import share_words
from llm_lite.desktop.widgets.theme import DARK, LIGHT
from llm_lite.desktop.widgets.token_text import visible
from tests.changes import gains_in, scales
from tests.counting import python_calls
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.answers import ANSWER, OTHER, pieces_of
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.vocabulary import OTHER_ID, answered_at
from tests.desktop.headless import READY, sent
from tests.desktop.other_versions import others
from tests.runners import BACKENDS, exact

KEY = imgui.Key
WEAK = (0.999, 9e-5, 0.0, 4e-5)
QUESTION = "Why is the sky blue?"


@pytest.fixture
def talk(headless):
    """A conversation of one answer, and the engine that gave it."""
    one = headless(AppState(), size=(1400, 1700))  # all of it in sight
    engine = ScriptedEngine(0.0)
    one.program.start(engine)
    engine.submit(LoadModel(None))
    one.driver.wait("the model", lambda s: s.model is not None)
    ask(one)
    engine.commands.clear()
    return one, engine


def ask(one):
    one.driver.click("chat.input")
    one.driver.type(QUESTION)
    one.driver.click("chat.send")
    one.driver.wait("the answer", lambda s: s.messages and not s.busy, pace=0)
    one.driver.frames(2)


def test_reading_is_unspoiled_until_asked(talk):
    one, engine = talk
    assert not any(name.startswith("token.") for name in one.ui.rects)
    one.driver.click("chat.xray")
    assert one.driver.shows("token.1.0") and one.driver.shows("xray.by")
    assert not sent(engine, ReadAttentionRows)
    one.driver.click("chat.xray")
    assert not one.driver.shows("token.1.0")


@pytest.mark.parametrize("name", ["token.0.2", "token.1.3", "token.0.-1"])
def test_pointing_at_any_token_asks_where_it_looks(talk, name):
    one, engine = talk
    one.driver.click("chat.xray")
    one.driver.point(name)
    _, message, token = name.split(".")
    start = 1 if message == "0" else answered_at(QUESTION)
    position = start + int(token)
    assert [look.position for look in sent(engine, ReadAttentionRows)] == [position]
    one.driver.wait("the look", lambda s: ROWS.answer(s) is not None)
    one.driver.frames(3)
    assert len(sent(engine, ReadAttentionRows)) == 1, "asked once while the pointer rests"
    one.driver.leave()
    assert pointed_rows(one.state) is None


def test_shift_shows_who_looks_here(talk):
    one, engine = talk
    one.driver.click("chat.xray")
    one.driver.point("token.1.3")
    one.driver.wait("where it looks", pointed_rows)
    imgui.get_io().add_key_event(KEY.mod_shift, True)
    one.driver.frames(2)
    one.driver.wait("who looks here", pointed_rows)
    imgui.get_io().add_key_event(KEY.mod_shift, False)
    one.driver.frames(2)
    assert [look.direction for look in sent(engine, ReadAttentionRows)] == ["from", "to", "from"]
    one.driver.click("xray.reverse")
    one.driver.point("token.1.3")
    assert sent(engine, ReadAttentionRows)[-1].direction == "to"


def test_a_token_gives_way_to_another_choice_and_comes_back(talk):
    one, engine = talk
    one.driver.click("chat.xray")
    one.driver.click("token.1.2")
    assert one.state.attention.row == answered_at(QUESTION) + 2, "held"
    one.driver.click(f"tokens.choice.{OTHER_ID}")
    (command,) = sent(engine, Generate)
    assert command.forced == (0, 1, OTHER_ID)
    one.driver.wait("the answer", lambda s: not s.busy, pace=0)
    one.driver.frames(2)
    text = one.state.messages[1].text
    assert text == "".join([*pieces_of(ANSWER)[:2], OTHER, *pieces_of(ANSWER)[3:]])
    one.driver.click("message.1.before")
    assert one.state.messages[1].text == ANSWER
    one.driver.click("message.1.next")
    assert one.state.messages[1].text == text
    one.driver.click("chat.xray")
    one.driver.click("message.1.before")
    assert one.state.messages[1].text == ANSWER, "in plain reading too"


def test_a_version_that_the_cache_has_lost_is_read_again(talk):
    one, engine = talk
    one.driver.click("chat.xray")
    assert not one.driver.shows("xray.read")
    one.driver.click("token.1.2")
    one.driver.click(f"tokens.choice.{OTHER_ID}")
    one.driver.wait("the answer", lambda s: not s.busy, pace=0)
    one.driver.click("message.1.before")
    engine.delay = 0.1
    one.driver.click("xray.read")
    assert one.driver.shows("xray.legend") is False
    one.driver.wait("the reading", lambda s: s.reading is None)
    one.driver.frames(2)
    (command,) = sent(engine, Read)
    assert command.messages[-1].content == ANSWER == one.state.messages[1].text
    assert not one.driver.shows("xray.read")
    one.driver.point("token.1.3")
    assert sent(engine, ReadAttentionRows)[-1].position == answered_at(QUESTION) + 3


def test_the_choice_that_was_made_does_nothing(talk):
    one, engine = talk
    one.driver.click("chat.xray")
    one.driver.click("token.1.2")
    one.driver.click("tokens.choice.2")
    assert sent(engine, Generate) == []


def press(one, *names):
    """The button goes down on the first and up on the last, by way of the others; None: a gap."""
    io = imgui.get_io()
    for number, name in enumerate(names):
        x0, y0, x1, y1 = one.driver.rect(name or "steer.2.4")
        io.add_mouse_pos_event((x0 + x1) / 2 if name else x1 + 0.5, (y0 + y1) / 2)
        one.driver.frames(2)
        if number == 0:
            io.add_mouse_button_event(0, True)
            one.driver.frames(2)
    io.add_mouse_button_event(0, False)
    one.driver.frames(2)


def test_only_what_was_pressed_and_let_go_is_clicked(talk):
    one, _ = talk
    one.driver.click("tab.steer")
    press(one, "steer.layer.1", "steer.layer.2")
    assert not one.state.steering.interventions and one.ui.local(SteerControls).layer == 0
    press(one, None, "steer.2.4")
    assert not one.state.steering.interventions, "it began beside the cell"
    press(one, "steer.2.4", "steer.2.5", "steer.2.4")
    gains = gains_in(one.state)
    assert set(gains[2][5:]) == {1.0}, "the cell that was passed stays"
    press(one, "steer.2.4")
    changed = [n for n, gain in enumerate(gains_in(one.state)[2]) if gain != 1.0]
    assert changed == [4]


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_colours_are_those_of_the_map(talk, theme):
    one, _ = talk
    one.program.do(SetTheme(theme))
    one.driver.click("chat.xray")
    one.driver.point("token.1.3")
    one.driver.wait("the look", lambda s: ROWS.answer(s) is not None)
    weights = [0.9, 0.0, 0.001, 0.05, 0.1]
    attention_rows = replace(ROWS.answer(one.state), weights=tuple(weights))
    one.program.state = with_answer(one.state, ROWS, pointed_question(one.state), attention_rows)
    found = colors.shades(one.state, one.ui)
    last = colors.table("viridis", theme == "light")[255].tolist()
    assert found.top == pytest.approx(0.1), "the first token does not set the scale"
    assert [unpacked(found.fills[n]) for n in (0, 4)] == [last[:3]] * 2
    half = colors.table("viridis", theme == "light")[128].tolist()
    assert unpacked(found.fills[3]) == half[:3]
    assert found.fills[1] == 0
    base = {"dark": DARK, "light": LIGHT}[theme].base
    faint = np.abs(np.array(unpacked(found.fills[2])) - channels(base)).max()
    assert 0 < faint < 40
    state = replace(one.state, attention=AttentionChoice(exclude_first=True))
    without = colors.shown_weights(attention_rows, state.attention)
    np.testing.assert_allclose(without, [0, 0, 0.001 / 0.151, 0.05 / 0.151, 0.1 / 0.151])


def channels(color):
    return np.array([color >> 16, color >> 8 & 255, color & 255])


def unpacked(color):
    return [color & 255, color >> 8 & 255, color >> 16 & 255]


def test_unlikely_tokens_are_tinted(talk):
    one, _ = talk
    tints = [colors.likely(one.ui, p) >> 24 for p in (1.0, 0.5, 0.1, 0.001, 1e-9)]
    assert tints == sorted(tints) and tints[0] == 0 and tints[3] == tints[4] > 150
    assert colors.likely(one.ui, float("nan")) == 0


def long_chat(count):
    words = tuple(Token(n, f" word{n}", 0.5, (Alternative(n, "x", 0.5),)) for n in range(120))
    text = "".join(token.text for token in words)
    messages, owners, labels = [], [], []
    for n in range(count):
        role = "user" if n % 2 == 0 else "assistant"
        messages.append(Message(role, text, words if n % 2 else (), "end" if n % 2 else None))
        owners += [TEMPLATE, *(n for _ in words)]
        labels += ["<s>", *(token.text for token in words)]
    return tuple(messages), tuple(owners), tuple(labels)


def test_only_tokens_in_sight_cost_anything(headless, monkeypatch):
    laid = []
    lay_out = token_text.lay_out
    monkeypatch.setattr(
        "llm_lite.desktop.features.tokens.tokens.lay_out", lambda *a: laid.append(1) or lay_out(*a)
    )
    calls = {}
    for count in (20, 200):
        messages, owners, labels = long_chat(count)
        state = with_cached(replace(READY, tree=ConversationTree(messages)), labels, owners)
        one = headless(replace(state, xray=XRay(shown=True, at=5)))
        while one.ui.local(Stack).measuring:
            one.driver.frames(1)
        laid.clear()
        calls[count] = python_calls(one.driver.frames)
        assert laid == []
        shown = sum(name.startswith("token.") for name in one.ui.rects)
        assert 20 < shown < 1000
    assert calls[200] - calls[20] < 180 * 30, "some a message, none for each of its 120 tokens"


@pytest.mark.parametrize("backend", BACKENDS)
def test_on_a_real_model(headless, tiny_llama, backend, request):
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    one = headless(AppState(sampling=SamplingOptions(seed=3, max_new_tokens=12)))
    engine = Engine(device)
    one.program.start(engine)
    engine.submit(LoadModel(str(tiny_llama), exact(backend)))
    one.driver.wait("the model", lambda s: s.model is not None)
    ask(one)
    state, source = one.state, engine.attention()
    ids = [token.id for token in state.messages[1].tokens]
    first = next(n for n, owner in enumerate(state.owners) if owner == 1)
    assert list(source.tokens()[first:]) == ids[: source.length - first]
    one.driver.click("chat.xray")
    one.program.do(SetXRay(replace(one.state.xray, layer=1)))
    one.driver.point("token.1.4")
    one.driver.wait("the look", pointed_rows)
    maps = np.zeros((4, source.length, source.length), np.float32)
    head_maps(source, 1, range(4), maps)
    expected = maps.mean(axis=0)[first + 4]
    np.testing.assert_allclose(pointed_rows(one.state).weights, expected, atol=1e-5)
    check_choice(one, ids)
    check_steering(one)
    one.driver.click("tab.lens")
    one.driver.wait("the lens", lambda s: LENS.answer(s) is not None and not LENS.waiting(s))
    assert [row.layer for row in LENS.answer(one.state).rows] == [0, 1]


def check_choice(one, ids):
    one.driver.click("token.1.4")
    other = next(b for b in one.state.messages[1].tokens[4].alternatives if b.token != ids[4])
    one.driver.click(f"tokens.choice.{other.token}")
    one.driver.wait("the answer", lambda s: not s.busy)
    tokens = one.state.messages[1].tokens
    assert [token.id for token in tokens[:5]] == [*ids[:4], other.token]
    assert tokens[4].probability == pytest.approx(other.probability, abs=1e-4)
    assert tokens[1].alternatives == others(one.state, 1)[0].tokens[1].alternatives


def check_steering(one):
    one.driver.click("tab.steer")
    one.program.do(Steer(scales(((0.0,) * 4,) * 2)))
    one.driver.wait("the effect", lambda s: EFFECT.answer(s) is not None)
    assert EFFECT.answer(one.state).kl > 1e-4
    one.driver.click("steer.again")
    one.driver.wait("the answer", lambda s: not s.busy)
    base, other = (others(one.state, 1)[-1], one.state.messages[1])
    assert other.sampling == base.sampling
    assert first_difference(base, other) is not None


def test_little_attention_is_not_painted_as_if_it_were_much(headless):
    one = headless(READY)
    rows = AttentionRows(3, "from", WEAK)
    found = colors._shade(rows, AttentionChoice(), one.ui, first_counts=False)
    assert found.top == colors.LEAST_TOP and found.beyond
    assert found.texts[0] and not any(found.texts[1:]), "the text stays as it is"
    assert [share_words(w) for w in (0.999, 9e-5, 4e-7)] == ["99.9%", "0.009%", "< 0.001%"]


def test_a_token_with_a_name_keeps_its_marks_where_it_is_cut(headless):
    """Without them `<|endoftext|>` would look like a word of the text."""
    headless(READY)
    assert visible("<|endoftext|>") == "<|endofte…|>"
    assert visible("<|im_end|>") == "<|im_end|>" and visible("<s>", 3) == "<s>"
    imgui.new_frame()
    whole = imgui.calc_text_size("<|endoftext|>").x
    for room in range(8, round(whole) + 4):
        shown = fitting("<|endoftext|>", room)
        if room >= imgui.calc_text_size("<|…|>").x:
            assert shown.startswith("<|") and shown.endswith("|>")
            assert imgui.calc_text_size(shown).x <= room
    assert fitting("<|endoftext|>", whole) == "<|endoftext|>"
    imgui.end_frame()


def test_likelihood_has_an_effect_when_it_is_switched_on(headless):
    tokens = tuple(Token(n, f" t{n}", 0.5) for n in range(4))
    messages = (
        Message("user", "Why?"),
        Message("assistant", " t0 t1 t2 t3", tokens, stop_reason="end"),
    )
    one = headless(replace(READY, tree=ConversationTree(messages), xray=XRay(shown=True, at=3)))
    one.driver.click("xray.likely")
    one.driver.frames(2)
    assert one.state.xray.probabilities and one.state.xray.at is None, "no token is held any more"
    found = legend(one.state, one.ui)
    assert found.low == "100%" and "probability" in found.note
    assert likely(one.ui, 0.5) >> 24 > 40, "half likely can be told from certain"
    assert likely(one.ui, 1.0) == 0
    unknown = replace(messages[1], tokens=tuple(replace(t, probability=nan) for t in tokens))
    assert legend(replace(one.state, tree=ConversationTree((messages[0], unknown))), one.ui) is None
