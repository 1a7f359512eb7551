"""Which experts tokens chose, as the window asks for it and shows it, and switches of experts."""

import csv
import io

import numpy as np
import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import (
    Ended,
    GenerationStats,
    Interventions,
    PromptToken,
    ReadRouting,
    RoutingRead,
)
from llm_lite.core.messages.gains import with_gains
from llm_lite.core.messages.interventions import Choose, Scale, Shift
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.composer import steered
from llm_lite.desktop.features.experts import choice_counts
from llm_lite.desktop.features.experts.model import ROUTING
from llm_lite.desktop.features.experts.view import requests
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.program.cached_text import begun, decoded
from llm_lite.desktop.features.program.model import SaveText
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.program.status_bar import _mixture
from llm_lite.desktop.features.steer.model import AnswerSteered, Steer
from tests.changes import gains_in
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL

TOKENS, LAYERS, EXPERTS, CHOSEN = 40, (1, 3), 8, 2
MESSAGES = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
TALK = AppState(
    model=replace(MODEL, expert_layers=LAYERS, experts=EXPERTS, chosen_experts=CHOSEN),
    executor=EXECUTOR,
    tree=ConversationTree(MESSAGES),
)
WORDS = tuple(("sun", " moon", " sun", " star")[n % 4] for n in range(TOKENS))
OWNERS = (*(0,) * (TOKENS - 3), 1, 1, 1)
STATE = with_cached(TALK, WORDS, OWNERS)


def read(first, last, epoch=0):
    """A token chooses the expert of its place, and the last one; the second layer others."""
    places = np.arange(first, last)
    chosen = np.stack([places % 4, np.full_like(places, 7)], axis=1)
    chosen = np.stack([chosen, 7 - chosen], axis=1).astype("<u2")
    shares = np.broadcast_to(np.array([0.75, 0.25], "<f4"), chosen.shape)
    return RoutingRead(
        first, epoch, EXPERTS, CHOSEN, LAYERS, chosen.tobytes(), shares.astype("<f4").tobytes()
    )


def with_one_more(state):
    return replace(state, cached=decoded(state.cached, [(9, " end")], 1, TOKENS + 1))


def asking(state):
    """Ask what the view would; return the state and the command."""
    (action,) = requests(state)
    state, (command,) = act(action, state, 0.0)
    assert requests(state) == [], "one question at a time"
    return state, command


def told(state, command, *events):
    for event in (*events, Ended()):
        state = apply(event, state, 0.0, command)
    return state


def known(state=STATE):
    return with_answer(state, ROUTING, ReadRouting(0), read(0, TOKENS))


def shown_with(headless, state=STATE):
    one = headless(known(state), size=(1280, 1200))
    one.driver.click("tab.experts")
    one.driver.frames(3)
    return one


def test_only_tokens_that_are_new_are_asked():
    state, command = asking(STATE)
    assert command == ReadRouting(0)
    state = told(state, command, read(0, TOKENS))
    assert requests(state) == []
    state, command = asking(with_one_more(state))
    assert command == ReadRouting(TOKENS)
    state = told(state, command, read(TOKENS, TOKENS + 1))
    assert ROUTING.answer(state) == read(0, TOKENS + 1) and requests(state) == []


def test_choices_of_a_text_that_was_changed_are_not_shown():
    edited = begun(
        STATE.cached, (PromptToken(1, "x", 0),) * 12, (0,) * 12, 9, 12, 12, STATE.chat,
        STATE.cached.messages, STATE.prompt_settings,
    )  # fmt: skip
    state = replace(known(), cached=edited)
    assert ROUTING.answer(state) is None
    assert asking(state)[1] == ReadRouting(0)


def test_choices_of_another_epoch_are_asked_again():
    state, command = asking(with_one_more(known()))
    state = told(state, command, read(TOKENS, TOKENS + 1, epoch=1))
    assert ROUTING.answer(state) is None
    assert asking(state)[1] == ReadRouting(0)


def test_nothing_is_asked_that_cannot_be_told():
    assert requests(TALK) == [], "the cache holds another text"
    running = replace(STATE, running=Running(1, -1, prompt_settings=STATE.prompt_settings))
    assert requests(running), "choices are kept as steps go on"


def test_figures_of_routing():
    routing = Routing.of(read(0, TOKENS))
    loads = choice_counts.loads(routing)
    assert loads[0].tolist() == [1, 1, 1, 1, 0, 0, 0, 4] and loads.mean() == 1
    weights = choice_counts.weights(routing)
    assert np.allclose(weights.sum(axis=1), 1) and weights[0, 7] == pytest.approx(0.25)
    even = choice_counts.balance(np.array([[5, 5, 5, 5], [9, 0, 0, 0]], np.float32))
    assert np.allclose(even, [1, 0])
    shares = choice_counts.shares_of(routing, 0, 1)
    assert shares[:4].tolist() == [0, 0.75, 0, 0]
    words = choice_counts.words_of(routing, 0, 1, STATE.positions)
    assert [(w.text, w.count, w.of) for w in words] == [("moon", 10, 10)]
    words = choice_counts.words_of(routing, 0, 2, STATE.positions)
    assert [(w.text, w.count, w.of) for w in words] == [("sun", 10, 20)]


def test_a_click_shows_an_expert_and_its_words(headless):
    one = shown_with(headless)
    x0, y0, x1, y1 = one.driver.rect("experts.grid")
    one.driver.point_at(x0 + (x1 - x0) * 1.5 / EXPERTS, y0 + (y1 - y0) * 0.25)
    one.driver.press_button(0)
    one.driver.frames(3)
    assert one.driver.shows("experts.word.0") and not one.driver.shows("experts.word.1")
    one.driver.click("experts.next")
    one.driver.click("experts.down")
    one.driver.frames(3)
    assert not one.driver.shows("experts.word.0"), "expert 2 of layer 3 has none"
    for measure in ("weight", "last", "load"):
        one.driver.click(f"experts.measure.{measure}")


def test_an_expert_is_switched(headless):
    one = shown_with(headless)
    one.driver.click("experts.switch.off")
    (steer,) = one.did(Steer)
    model = one.state.model
    off = Scale("layers.1.feed_forward.route", 0.0, 0)
    assert steer.interventions == Interventions((off,), model.name)
    assert steered(one.state) == "1 expert switched"
    one.driver.click("experts.switch.always")
    always = Choose(off.site, "always", 0)
    assert one.state.steering.interventions.changes == (always,)
    assert choice_counts.switches_of(model, gains_in(one.state), 1, 0) == (
        1.0,
        choice_counts.ALWAYS,
    )
    one.driver.click("experts.again")
    assert one.did(AnswerSteered)


def test_reset_keeps_the_gains_of_heads(headless):
    model = STATE.model
    gains = [[1.0] * width for width in model.gain_widths]
    gains[0][1], gains[model.gain_rows + model.expert_layers[0]][2] = 0.5, 0.0
    shift = Shift("layers.0.feed_forward.residual", (1.0,) * model.width)
    kept = with_gains(Interventions((shift,)), tuple(map(tuple, gains)), model)
    state = replace(STATE, steering=replace(STATE.steering, interventions=kept))
    assert steered(state) == "1 head weighed, 1 expert switched, 1 direction added"
    one = shown_with(headless, state)
    one.driver.click("experts.reset")
    (steer,) = one.did(Steer)
    half = Scale("layers.0.attention.heads", 0.5, 1)
    assert steer.interventions.changes == (shift, half)


def test_the_choices_are_saved_as_a_table(headless, tmp_path):
    one = shown_with(headless)
    one.driver.click("experts.save")
    one.driver.frames(3)
    one.driver.click("experts.save.panel.write")
    (saved,) = one.did(SaveText)
    assert saved.path.endswith(".csv") and "-experts-" in saved.path
    head, first, second, *rest = csv.reader(io.StringIO(saved.text))
    assert head == ["position", "token", "layer", "experts", "shares"]
    assert first == ["0", "sun", "1", "0 7", "0.75 0.25"]
    assert second == ["0", "sun", "3", "7 0", "0.75 0.25"] and len(rest) == 2 * TOKENS - 2


def test_a_dense_model_has_none(headless):
    one = headless(replace(STATE, model=MODEL))
    one.driver.click("tab.experts")
    one.driver.frames(3)
    assert not one.driver.shows("experts.grid") and not one.did(Ask)


def test_where_experts_are_is_chosen_for_mixtures_alone(headless):
    one = headless(STATE, size=(1280, 1200))
    one.driver.click("status.executor")
    one.driver.click("executor.experts.file")
    assert one.state.options.experts == "file"
    dense = headless(replace(STATE, model=MODEL))
    dense.driver.click("status.executor")
    assert "executor.experts.file" not in dense.ui.rects


def test_the_status_bar_tells_what_came_from_the_disk(headless):
    stats = GenerationStats(new_tokens=11, decode_tok_s=5.0, disk_bytes=10 << 20)
    assert stats.disk_bytes_per_token == 1 << 20
    assert replace(stats, disk_bytes=1 << 10).disk_bytes_per_token == 0, "the program's own"
    for disk_bytes in (10 << 20, 0):
        answer = replace(MESSAGES[1], stats=replace(stats, disk_bytes=disk_bytes))
        state = replace(STATE, tree=ConversationTree((MESSAGES[0], answer)))
        one = headless(state, size=(1600, 900))
        assert ("status.disk" in one.ui.rects) is (disk_bytes > 0)


def test_the_executor_tells_what_a_token_reads():
    executor = replace(EXECUTOR, active_bytes=1 << 20, experts="file")
    (reads, where) = _mixture(STATE, executor)
    assert "1.0 MiB" in reads and where.startswith("Experts: in the file")
    assert _mixture(STATE, EXECUTOR) == []


def test_a_conversation_that_the_cache_does_not_hold_is_read_again(headless):
    one = headless(TALK, size=(1280, 1200))
    one.driver.click("tab.experts")
    one.driver.frames(2)
    assert "experts.read" in one.ui.rects
    one = headless(replace(TALK, tree=ConversationTree()), size=(1280, 1200))
    one.driver.click("tab.experts")
    one.driver.frames(2)
    assert "experts.read" not in one.ui.rects, "there is nothing to read"
