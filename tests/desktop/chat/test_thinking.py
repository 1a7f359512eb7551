"""An answer that thinks, folded from its events."""

import pytest

from llm_lite.core.handles import Report
from llm_lite.core.messages import (
    ChatMessage,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.message import spent
from llm_lite.desktop.features.chat.model import (
    ContinueAnswer,
    Regenerate,
    Send,
    SetThinking,
    UnfoldThought,
)
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import fold
from tests.desktop.headless import READY
from tests.desktop.other_versions import others
from tests.desktop.reports import fold_reports

INSIDE = Thinking("think", inside=True)


def asked(thinking=INSIDE, state=READY):
    state, _ = act(Send("Why?"), state, 10.0)
    started = GenerationStarted(4, 0, (), thinking)
    return fold_reports(state, started, now=11.0)


def token(number, text):
    return TokenDecoded(number, text, 0.5, 5 + number, (), 500.0)


def heard(state, *texts, now=12.0):
    """A token a second."""
    first = len(state.messages[-1].tokens)
    for number, text in enumerate(texts):
        state = fold_reports(state, token(first + number, text), now=now + number)
    return state


def finished(state, reason="end"):
    stats = GenerationStats(new_tokens=3)
    return fold_reports(state, GenerationFinished(reason, stats), now=99.0)


def test_thoughts_are_no_part_of_the_answer():
    state = heard(asked(), "so", " it", "\n</think>", "\n\n", "Yes", ".")
    answer = state.messages[-1]
    assert (answer.text, answer.thought.text) == ("Yes.", "so it")
    assert answer.whole == "so it\n</think>\n\nYes."
    assert not answer.thought.going_on
    assert answer.thought.tokens == 4
    assert answer.thought.seconds == pytest.approx(0.5 + 3.0)
    assert answer.as_chat() == ChatMessage("assistant", "Yes.", tuple(range(6)), "so it")


def test_tokens_that_come_together_are_heard_as_one_by_one():
    state = asked()
    texts = ("so", " it</th", "ink>", "Yes", ".")
    command = state.running.asked
    reports = [Report(token(n, text), command) for n, text in enumerate(texts)]
    whole, each = (
        fold(reports, state, 12.0).messages[-1],
        heard(state, *texts).messages[-1],
    )
    assert whole.thought.split == each.thought.split
    assert (whole.text, whole.thought.tokens) == (each.text, each.thought.tokens) == ("Yes.", 3)


def test_an_answer_without_thoughts_has_none():
    for thinking in (None, Thinking("think")):
        answer = finished(heard(asked(thinking), "Yes", ".")).messages[-1]
        assert (answer.text, answer.whole) == ("Yes.", "Yes.")
        assert answer.thought is None or (answer.thought.text, answer.thought.tokens) == ("", 0)


def test_an_answer_that_is_stopped_within_its_thoughts_goes_on_there():
    state = finished(heard(asked(), "so", " it</th"), "stopped")
    answer = state.messages[-1]
    assert (answer.text, answer.thought.text) == ("", "so it</th")
    state, (command,) = act(ContinueAnswer(), state, 20.0)
    assert isinstance(command, Generate) and command.continue_last
    assert command.messages[-1].thought == "so it</th"
    state = fold_reports(state, GenerationStarted(6, 5, (), INSIDE), now=21.0)
    answer = heard(state, "ink>", "Yes.").messages[-1]
    assert (answer.text, answer.thought.text) == ("Yes.", "so it")


def test_an_answer_of_thoughts_alone_is_worth_keeping():
    state = finished(heard(asked(), "so"), "length")
    state, _ = act(Regenerate(), state, 20.0)
    assert len(others(state, len(state.messages) - 1)) == 1


def test_thoughts_unfold_and_fold_again():
    state = finished(heard(asked(), "so</think>", "Yes."))
    opened, commands = act(UnfoldThought(1, True), state, 20.0)
    assert opened.messages[1].thought.unfolded and commands == ()
    assert act(UnfoldThought(1, False), opened, 21.0)[0] == state
    for index in (-1, 0, 2):
        assert act(UnfoldThought(index, True), state, 20.0)[0] == state


def test_the_switch_goes_with_every_question():
    state, _ = act(SetThinking(False), READY, 1.0)
    _, (command,) = act(Send("Why?"), state, 2.0)
    assert command.thinking is False
    assert act(Send("Why?"), replace(state, thinking=True), 2.0)[1][0].thinking is True


def test_how_long_it_took():
    found = [spent(x) for x in (0.04, 3.21, 9.94, 9.96, 48.4, 59.6, 125.0)]
    assert found == ["0.0 s", "3.2 s", "9.9 s", "10 s", "48 s", "1 min 0 s", "2 min 5 s"]
