"""Layers with a recurrent state in the grid, and a head of one, large."""

import numpy as np
import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import ReadStates
from llm_lite.core.messages.remote import HeldCache, RemoteModel, RemoteServer
from llm_lite.core.plan.attention_layers import RECURRENT
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention import state_head
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.attention.state_cells import STATES, life_share, shown_life
from llm_lite.desktop.features.attention.state_head import colored, largest, level, percents
from llm_lite.desktop.features.attention.view import shown_states
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.program.cached_text import decoded
from llm_lite.desktop.features.program.state import AppState, Message, Running
from llm_lite.desktop.features.remote.state import Connection, RemoteState
from tests.desktop.attention.test_attention_views import SomeRows
from tests.desktop.cached import with_answer, with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.questions import read_states

TOKENS = 40
MESSAGES = (Message("user", "Hello"), Message("assistant", "Hi", stop_reason="end"))
TALK = AppState(
    model=replace(MODEL, recurrent_layers=(0, 2), delta_layers=(0, 2)),
    executor=EXECUTOR,
    tree=ConversationTree(MESSAGES),
)
OWNERS = (*(0,) * (TOKENS - 3), 1, 1, 1)
STATE = with_cached(TALK, [f"t{n}" for n in range(TOKENS)], OWNERS)


class WithStates(SomeRows):
    layers = (RECURRENT, SomeRows.layers[0], RECURRENT, SomeRows.layers[0])
    scored_rows = 0

    def scores(self):
        return None


@pytest.fixture
def shown(headless):
    one = headless(STATE)
    one.ui.maps = WithStates()
    one.driver.click("tab.attention")
    return one


def answer(one):
    """As an engine does, to what was asked last."""
    asked = asked_of(one)[-1]
    found = read_states(asked, TOKENS, (0, 2))
    one.program.state = with_answer(one.state, STATES, asked, found)
    one.driver.frames(3)


def asked_of(one):
    return [did.question for did in one.did(Ask) if did.slot is STATES]


def test_a_click_on_a_cell_shows_the_head(shown):
    asked = asked_of(shown)
    assert [(one.layer, one.head) for one in asked] == [(0, 0)], (
        "once, for what the grid tells of all heads"
    )
    assert not shown.driver.shows("state.0.0")
    answer(shown)
    assert all(shown.driver.shows(f"state.{layer}.{head}") for layer in (0, 2) for head in (0, 1))
    shown.driver.click("tab.performance")
    shown.driver.click("state.2.1")
    assert shown.state.attention.state_head == (2, 1)
    assert not shown.driver.shows("state.map"), "of another head nothing is shown"
    assert shown.driver.shows("state.close"), "the Head view is in front"
    assert asked_of(shown)[-1] == ReadStates(2, 1)
    answer(shown)
    shown.driver.point("state.map")
    assert shown.driver.shows("state.map")
    shown.program.do(SetAttention(replace(shown.state.attention, large=True)))
    shown.driver.frames(3)
    shown.driver.click("state.row.0")
    assert shown.state.attention.row == TOKENS - 1
    shown.driver.click("state.close")
    assert shown.state.attention.state_head is None


def test_a_click_on_the_map_marks_a_row(shown):
    answer(shown)
    shown.driver.click("state.0.1")
    answer(shown)
    x0, y0, x1, y1 = shown.driver.rect("state.map")
    shown.driver.point_at((x0 + x1) / 2, y0 + (y1 - y0) * 10.5 / TOKENS)
    shown.driver.press_button(0)
    assert shown.state.attention.row == 10


def test_an_attention_head_takes_its_place(shown):
    answer(shown)
    shown.driver.click("state.0.1")
    shown.driver.click("attention.1.0")
    choice = shown.state.attention
    assert (choice.state_head, choice.locked) == (None, ((1, 0),))
    assert shown.driver.shows("head.1.0"), "in front, too"


def test_convolutions_are_named_and_not_asked_for(headless):
    """As of LFM2, whose layers with a state have no heads."""
    one = headless(replace(STATE, model=replace(MODEL, recurrent_layers=(0, 2))))
    one.ui.maps = WithStates()
    one.driver.click("tab.attention")
    one.driver.frames(3)
    assert not asked_of(one) and one.driver.shows("attention.1.0")
    assert not one.driver.shows("state.0.0") and not one.driver.shows("attention.states.key")
    some = replace(MODEL, recurrent_layers=(0, 2), delta_layers=(2,))
    (asked,) = state_head.requests(replace(STATE, model=some), AttentionChoice())
    assert asked.question == ReadStates(2, 0), "the first that has heads"


def test_when_states_are_read():
    choice = AttentionChoice()
    (asked,) = state_head.requests(STATE, choice)
    assert asked.question == ReadStates(0, 0)
    known = with_answer(STATE, STATES, asked.question, "read")
    for state in (
        replace(STATE, running=Running(1, -1)),  # its tokens run once more
        TALK,  # the cache holds another text
        replace(STATE, model=MODEL),
        known,
    ):
        assert state_head.requests(state, choice) == []
    for state in (
        replace(known, executor=replace(EXECUTOR, mode="fp32")),
        replace(known, cached=decoded(STATE.cached, [(9, "x")], 1, TOKENS + 1)),
    ):
        assert STATES.answer(state) is None and state_head.requests(state, choice)
    writing = replace(state, running=Running(1, -1))
    assert STATES.answer(writing) == "read", "of the first tokens, while more are written"


def test_a_server_is_asked_once_it_has_answered(shown):
    server = RemoteServer("http://box:8080", "box:8080", "llm-lite", "llm-lite", can_inspect=True)
    remote = RemoteState(Connection(server, RemoteModel("q")))
    before = replace(STATE, remote=remote)
    assert before.elsewhere and state_head.requests(before, AttentionChoice()) == []
    cache = HeldCache(TOKENS, 0, 128, 8, 1, 1)
    after = replace(before, remote=replace(remote, cache=cache))
    (asked,) = state_head.requests(after, AttentionChoice())
    assert asked.question == ReadStates(0, 0)
    choice = AttentionChoice(state_head=(2, 1))
    shown.program.state = replace(after, attention=choice)
    shown.driver.frames(3)
    assert asked_of(shown)[-1] == ReadStates(2, 1)
    answer(shown)
    shown.driver.click("tab.head")
    assert shown.driver.shows("state.map")
    shown.program.state = replace(shown.state, remote=remote)
    shown.driver.frames(3)
    assert not shown.driver.shows("state.map") and shown.driver.shows("state.close")


def test_why_nothing_is_shown():
    assert state_head.why_none(STATE) == state_head.READING
    assert state_head.why_none(replace(STATE, running=Running(1, -1))) == state_head.SOON
    empty = replace(TALK, tree=ConversationTree())
    assert state_head.why_none(empty) == state_head.NOTHING


def test_layers_of_states_pass_the_filters():
    maps = WithStates()
    assert shown_states(AttentionChoice(), maps) == [0, 2]
    assert shown_states(AttentionChoice(layer=2), maps) == [2]
    assert shown_states(AttentionChoice(layer=1), maps) == []
    assert shown_states(AttentionChoice(group=0), maps) == []
    assert shown_states(AttentionChoice(order="entropy"), maps) == []


def test_half_lives_in_few_characters():
    lives = (0.24, 7.96, 52.6, 1500, 4e6, np.inf)
    assert [shown_life(life) for life in lives] == ["0.2", "8.0", "53", "1k", "∞", "∞"]
    assert [life_share(life) for life in (0, 1, 32, 1024, np.inf)] == [0, 0, 0.5, 1, 1]


def test_colours_of_shares():
    shares = np.float32([[1, 0.5, 1e-3, 0, -1e-4, -1, -3]])
    assert level(shares)[0].tolist() == pytest.approx([1, 0.9, 0, 0, 0, 1, 1], abs=0.01)
    found = colored(shares, (0x101010, 0x0000FF, 0xFF0000))[0]
    assert [hex(one) for one in found[[0, 3, 5]]] == ["0xffff0000", "0xff101010", "0xff0000ff"]


def test_what_a_row_reads_most():
    read = replace(
        read_states(ReadStates(0, 0, 3), 9, (0,)),
        shares=((0.9, 0.0, 0.0), (0.2, -0.7, 0.0), (0.1, 0.3, 0.2)),
        of_start=(0.1, 1.5, 0.4),
    )
    assert largest(read, 7) == [(None, 1.5), (7, -0.7), (6, 0.2)]
    assert largest(read, 8) == [(None, 0.4), (7, 0.3), (8, 0.2), (6, 0.1)]
    assert [percents(share) for share in (0.123, -0.7, 0.00031)] == ["12.3%", "−70.0%", "0.031%"]
