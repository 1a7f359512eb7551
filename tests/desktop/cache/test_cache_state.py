"""What the window knows of the cache, folded from events: ages, forgetting, forecast, bytes."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.history import ConversationTree
from llm_lite.core.memory import cache_memory
from llm_lite.core.messages import (
    CacheLayerInfo,
    CacheLayout,
    CacheMeasured,
    CacheRewritten,
    CacheStatus,
    Ended,
    ExecutorChanged,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    MeasureCache,
    PrefillProgress,
    PromptToken,
    TokenDecoded,
)
from llm_lite.core.plan.plan import row_bytes
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.model import (
    MEASURE,
    ColorCache,
    PointAt,
    SetOverflow,
    measured,
    measured_positions,
    problem,
)
from llm_lite.desktop.features.cache.state import retyped, used_bytes
from llm_lite.desktop.features.cache.unread import unread_part
from llm_lite.desktop.features.chat.model import EditMessage, NewChat, Send
from llm_lite.desktop.features.chat.reading import forecast, token_id, with_turns
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.program.cached_text import (
    CachedText,
    age,
    reused_positions,
    rewritten,
    serials,
    turns,
    unseen,
)
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.state import SYSTEM, TEMPLATE, passage, places
from tests.desktop.cached import with_cached
from tests.desktop.engine.model import EXECUTOR, MODEL, ROW
from tests.desktop.reports import fold_reports

READY = AppState(model=MODEL, executor=EXECUTOR)


def prompt(*messages):
    """A template token before each message's tokens; the ids count on."""
    found = []
    for message, count in messages:
        found.append(PromptToken(1, "<s>", -1))
        found += [PromptToken(100 * message + n, f"{message}.{n} ", message) for n in range(count)]
    return (*found, PromptToken(1, "<s>", -1))


def reply(state, command, *events, problem=""):
    """After all events of a command."""
    for event in (*events, Ended(problem)):
        state = apply(event, state, 1.0, command)
    return state


def say(state, text):
    state, commands = act(Send(text), state, 0.0)
    assert commands[-1] is state.running.asked
    return state


def answered(state, tokens, reused=0, count=3, first=500):
    """After an answer of `count` tokens to a prompt of `tokens`."""
    state = fold_reports(state, GenerationStarted(len(tokens), reused, tokens))
    used = len(tokens)
    for n in range(count):
        state = fold_reports(state, TokenDecoded(first + n, f"a{n} ", 0.5, used + n + 1))
    stats = GenerationStats(len(tokens), reused, count, context_used=used + count)
    return fold_reports(state, GenerationFinished("end", stats))


def one_turn():
    state = say(READY, "hello")
    return answered(state, prompt((0, 4)))


def two_turns(reused=9):
    state = say(one_turn(), "more")
    return answered(state, prompt((0, 4), (1, 3), (2, 2)), reused)


def test_ages_count_what_was_computed_since():
    state = two_turns()
    made = serials(state.in_front, len(state.owners)).tolist()
    assert made == list(range(16)), "9 were there, 6 + 6 and 4 more were computed in order"
    assert [age(state.in_front, p) for p in (0, 8, 15)] == [15, 7, 0]
    assert state.in_front.reused == 9
    state = say(state, "again")
    state = answered(state, prompt((0, 4), (1, 3), (2, 2), (3, 3), (4, 1)), 2)
    assert serials(state.in_front, 4).tolist() == [0, 1, 16, 17], "what was read anew is young"


def test_ids_are_those_of_the_prompt_and_of_the_answer():
    state = two_turns()
    assert [token_id(state, p) for p in (0, 1, 12, 13, 15)] == [1, 0, 1, 500, 502]
    assert token_id(state, 16) is None


def test_forgetting_keeps_the_ages_of_what_stays_and_counts_what_is_gone():
    state = say(one_turn(), "more")
    full = prompt((0, 4), (1, 3), (2, 2))
    state = fold_reports(state, GenerationStarted(len(full), 9, full))
    state = fold_reports(state, TokenDecoded(500, "a", 0.5, 14))
    kept = (*full[:2], *full[7:], PromptToken(500, "a", 3))
    state = fold_reports(state, CacheRewritten(kept, ((2, 7),)))
    assert len(state.owners) == state.context_used == 9
    assert serials(state.in_front, 9).tolist() == [0, 1, *range(7, 14)]
    assert reused_positions(state.in_front) == 4
    assert unseen(state.in_front) == {0: (3, 4), 1: (1, 3)}
    state = fold_reports(state, TokenDecoded(501, "b", 0.5, 10))
    assert age(state.in_front, 9) == 0 and age(state.in_front, 8) == 1
    assert len(state.in_front.all_owners) == 15 and len(state.owners) == 10
    kept = (*kept[:2], *kept[4:], PromptToken(501, "b", 3))
    state = fold_reports(state, CacheRewritten(kept, ((2, 9),)))
    assert serials(state.in_front, 8).tolist() == [0, 1, *range(9, 15)]
    assert unseen(state.in_front) == {0: (3, 4), 1: (3, 3)}
    state = fold_reports(state, GenerationFinished("end", GenerationStats()))
    assert unread_part(state) is None, "what was forgotten needs no reading"
    state = say(state, "on")
    longer = (*full, *(PromptToken(500 + n, "x", 3) for n in range(2)), PromptToken(9, "on", 4))
    state = fold_reports(state, GenerationStarted(len(longer), 8, longer))
    state = fold_reports(state, CacheRewritten((*longer[:2], *longer[9:]), ((2, 9),)))
    assert serials(state.in_front, 9).tolist() == [0, 1, *range(9, 15), 15], (
        "what stayed keeps its age"
    )
    assert reused_positions(state.in_front) == 8
    assert [m.text for m in state.messages][:3] == ["hello", "a0 a1 a2 ", "more"], "all stays"


def test_a_new_prompt_sees_everything_again():
    state = say(one_turn(), "more")
    full = prompt((0, 4), (1, 3), (2, 2))
    state = fold_reports(state, GenerationStarted(len(full), 9, full))
    state = fold_reports(state, CacheRewritten(full[5:], ((0, 5),)))
    assert unseen(state.in_front)
    state = fold_reports(state, GenerationFinished("end", GenerationStats()))
    edited, _ = act(EditMessage(0), state, 0.0)
    edited = say(edited, "other")
    assert unseen(edited.in_front) == {}
    state = say(state, "and")
    state = fold_reports(state, GenerationStarted(len(full), 0, full))
    assert unseen(state.in_front) == {}
    assert act(NewChat(), two_turns(), 0.0)[0].in_front.runs == ()


@given(st.data())
def test_ages_after_any_forgetting_are_those_of_the_positions_that_stay(data):
    count = data.draw(st.integers(2, 60))
    cache = CachedText(owners=(0,) * count, runs=((0, 5), (count // 2, 100)), computed=200)
    whole, mask = serials(cache, count), np.zeros(count, bool)
    for _ in range(3):
        first = data.draw(st.integers(0, count - 1))
        mask[first : data.draw(st.integers(first, count))] = True
        edges = np.flatnonzero(np.diff(mask.astype(int), prepend=0, append=0)).reshape(-1, 2)
        gone = tuple((int(actions), int(b)) for actions, b in edges)
        cache = rewritten(cache, (), (0,) * count, gone)
        left = whole[~mask]
        assert serials(cache, len(left)).tolist() == left.tolist()
        assert [199 - age(cache, p) for p in range(len(left))] == left.tolist()


def test_turns_and_how_many_still_fit():
    assert forecast(READY) is None
    state = two_turns()
    assert turns(state.in_front) == (9, 7)
    assert forecast(state).typical == 8
    assert forecast(state).turns == (8192 - 16) // 8
    running = say(state, "third")
    running = fold_reports(running, GenerationStarted(19, 15, prompt((0, 4), (1, 3), (2, 9))))
    assert forecast(running).typical == 9, "the turn that is not over does not count"
    full = replace(state, count=replace(state.count, tokens=8190))
    assert forecast(full).turns == 0


def test_the_system_prompt_is_no_part_of_a_turn():
    owners = (TEMPLATE, SYSTEM, SYSTEM, TEMPLATE, 0, 0, TEMPLATE, 1, TEMPLATE, 2, 3)
    said = tuple(Message(role, "x") for role in ("user", "assistant") * 2)
    state = with_turns(with_cached(replace(READY, tree=ConversationTree(said)), owners=owners))
    assert turns(state.in_front) == (5, 3)


def test_a_status_says_what_is_there():
    status = CacheStatus(5, 8192, 2, 10, 20, (), 7)
    state = fold_reports(two_turns(), status)
    assert state.cache.status == status
    assert len(state.owners) == state.context_used == 5
    running = say(two_turns(), "x")
    assert len(fold_reports(running, status).owners) == 16, "not in the middle of an answer"
    assert fold_reports(READY, status).context_used == 0


@pytest.mark.parametrize(("done", "length", "cut"), [(2, 4, True), (4, 5, False), (5, 5, False)])
def test_a_prompt_that_was_stopped_before_its_last_token_is_cut(done, length, cut):
    """Unlike an answer, whose last token is not computed."""
    state = say(READY, "hello")
    state = fold_reports(state, GenerationStarted(5, 0, prompt((0, 3))), PrefillProgress(done, 5))
    stopped = GenerationFinished("stopped", GenerationStats(5, 0, 0, context_used=length))
    state = fold_reports(state, stopped, CacheStatus(length, 8192, 0, 10, 20, (), 7))
    assert (state.in_front.is_cut, len(state.owners)) == (cut, length)
    assert not one_turn().in_front.is_cut


def test_another_executor_keeps_what_it_took_over():
    state = fold_reports(two_turns(), ExecutorChanged(EXECUTOR, MODEL))
    assert len(state.owners) == 16
    assert fold_reports(state, CacheStatus(0, 8192, 0, 0, 0, (), 0)).owners == ()


def test_measuring_asks_only_for_what_is_new():
    state, _ = act(ColorCache("key-norm", False), two_turns(), 0.0)
    (asks,) = MEASURE.wanted(state, MeasureCache("key-norm", 0, 16))
    state, (asked,) = act(asks, state, 0.0)
    assert MEASURE.wanted(state, MeasureCache("key-norm", 0, 17)) == [], "one question at a time"
    values = tuple(tuple(float(p) for p in range(16)) for _ in range(30))
    state = reply(state, asked, CacheMeasured("key-norm", 0, 1, values))
    assert measured(state).values.shape == (30, 16) and measured_positions(state) == 16
    assert MEASURE.wanted(state, asked) == []
    state = say(state, "x")
    tokens = prompt((0, 4), (1, 3), (2, 2), (3, 3), (4, 1))
    other = fold_reports(state, GenerationStarted(len(tokens), 12, tokens))
    assert measured(other) is None, "some tokens are computed anew"
    state = fold_reports(state, GenerationStarted(len(tokens), 16, tokens))
    state = fold_reports(state, PrefillProgress(len(tokens), len(tokens)))
    assert measured_positions(state) == 16
    (asks,) = MEASURE.wanted(state, MeasureCache("key-norm", 16, len(tokens)))
    state, (asked,) = act(asks, state, 0.0)
    rest = tuple((7.0,) * (len(tokens) - 16) for _ in range(30))
    state = reply(state, asked, CacheMeasured("key-norm", 16, 2, rest))
    assert measured(state).values[3].tolist() == [*range(16), *[7.0] * (len(tokens) - 16)]
    other, _ = act(ColorCache("received", False), state, 0.0)
    assert measured(other) is None
    assert reply(other, asked, CacheMeasured("key-norm", 16, 2, rest)) == other


def test_what_cannot_be_measured_is_said():
    state, _ = act(ColorCache("received", False), two_turns(), 0.0)
    state, (asked,) = act(Ask(MEASURE, MeasureCache("received", 0, 16)), state, 0.0)
    state = reply(state, asked, problem="no queries are kept")
    assert problem(state) == "no queries are kept" and MEASURE.waiting(state) is None
    other, _ = act(ColorCache("key-norm", False), state, 0.0)
    assert problem(other) == ""


def test_overflow_goes_with_every_question():
    state, _ = act(SetOverflow("rolling"), READY, 0.0)
    _, (command,) = act(Send("x"), state, 0.0)
    assert isinstance(command, Generate) and command.overflow == "rolling"


def test_pointing():
    assert act(PointAt(3), READY, 0.0)[0].cache.pointed == 3


def test_bytes_are_those_of_the_rows():
    ring = CacheLayerInfo(0, (2, 3), 100, 64, 10, 20)
    whole = CacheLayerInfo(1, (), 1000, 0, 40, 80)
    layout = CacheLayout((ring, whole))
    assert used_bytes(layout, 50) == 50 * 30 + 50 * 120
    assert used_bytes(layout, 500) == 100 * 30 + 500 * 120


@pytest.mark.parametrize(("keys", "values", "each"), [
    ("fp16", "fp16", 2 * ROW), ("fp32", "fp16", 3 * ROW), ("int8", "int8", 2 * (192 + 8)),
    ("int4", "fp16", 96 + 8 + ROW),
])  # fmt: skip
def test_the_cost_of_another_context_and_precision(keys, values, each):
    other = retyped(MODEL.cache, 3, keys, values)
    assert other.reserved_bytes == 30 * 8192 * each
    assert cache_memory(other, 8192, 2048, None).needed == 30 * 2048 * each
    int8 = CacheLayout(
        tuple(CacheLayerInfo(n, (), 64, 0, 200, 200) for n in range(2)), "int8", "int8"
    )
    assert retyped(int8, 3, "fp16", "fp16").reserved_bytes == 2 * 64 * 2 * ROW


def test_layers_may_keep_heads_of_several_widths():
    """Gemma 4's: 3 heads of 16 values, and 1 of 32."""
    sizes = {3: 16, 1: 32}

    def layout(kind, dtype):
        rows = [row_bytes(dtype, n * d, d) for n, d in sizes.items()]
        layers = [CacheLayerInfo(i, (), 64, 0, rows[i], rows[i], n) for i, n in enumerate(sizes)]
        return CacheLayout(tuple(layers), kind, kind, 64 * 2 * sum(rows))

    kinds = {"fp16": "f16", "fp32": "f32", "int8": "i8", "int4": "i4"}
    for before, after in itertools.product(kinds, kinds):
        found = retyped(layout(before, kinds[before]), 99, after, after)
        assert found == layout(after, kinds[after])


def test_a_partly_forgotten_message_is_cut_where_its_tokens_are():
    pieces = ["one ", "two ", "three ", "four"]
    tail = passage("one two three four", pieces, places((1, 1))[1], ["three ", "four"])
    assert tail.spans == ((8, 14), (14, 18))
    head = passage("one two three four", pieces, places((1, 1))[1], ["one ", "two "])
    assert head.spans == ((0, 4), (4, 8))
