"""The habits of servers: each is read as its program would have it, or is one sentence."""

from __future__ import annotations

import json

import pytest

from llm_lite.core.messages import Generate
from llm_lite.core.remote import answer as answer_module
from llm_lite.core.remote.streamed_calls import MOST_ARGUMENTS, MOST_CALLS, StreamedCalls
from llm_lite.core.remote.unpacking import unpacked
from llm_lite.core.text.thinking import Split
from llm_lite.core.tools.calls import read_calls
from tests.core.remote.habits import HABITS, call
from tests.core.remote.servers import scripted
from tests.core.remote.test_answers import (
    ASKED,
    answer_of,
    finished,
    problem_in,
    said,
    started,
)


@pytest.mark.parametrize("name", HABITS)
def test_a_habit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    habit = HABITS[name]
    if habit.stays:
        monkeypatch.setattr(answer_module, "BEHIND_END", 0.1)
    with scripted("plain", habit=habit) as server:
        events = answer_of(server, Generate(ASKED))
    if habit.problem:
        assert habit.problem in problem_in(events)
        assert said(events) == habit.said
        return
    end = finished(events)
    thinking = started(events).thinking
    assert thinking is not None
    split = Split.of(thinking).fed(said(events)).ended()
    heard = read_calls("tags", split.visible_text)
    assert split.thought == habit.thought
    assert heard.visible_text.strip() == habit.said
    found = tuple((one.name, json.loads(one.arguments)) for one in heard.calls)
    assert found == habit.calls and not any(one.problem for one in heard.calls)
    assert (end.stop_reason, end.message) == (habit.stop_reason, habit.note)
    if habit.tokens[0]:
        assert (end.stats.prompt_tokens, end.stats.new_tokens) == habit.tokens


def test_a_stream_that_breaks_before_its_end_is_told() -> None:
    habit = HABITS["no reason, and then the usage"]
    cut = type(habit)(habit.seen, habit.pieces[:-1])
    with scripted("plain", habit=cut) as server:
        assert "was cut off before its end" in problem_in(answer_of(server))


def test_calls_have_limits() -> None:
    heard = StreamedCalls()
    for number in range(MOST_CALLS + 5):
        heard.feed(call(f"f{number}", "", index=0, id=str(number)))
        heard.feed(call(None, '{"a": 1}', index=0))
    rows = heard.written()
    assert len(rows) == MOST_CALLS and all('"arguments": {"a": 1}' in row for row in rows)
    heard = StreamedCalls()
    for _ in range(5):
        heard.feed(call("f", "[" * (1 << 18), index=0, id="a"))
    (row,) = heard.written()
    assert row.count("[") == MOST_ARGUMENTS


def test_what_unpacks_to_much_comes_in_small_pieces() -> None:
    import gzip

    packed = gzip.compress(b"\0" * (8 << 20))
    found = list(unpacked([packed], "gzip", "host"))
    assert sum(map(len, found)) == 8 << 20 and max(map(len, found)) <= 1 << 16
