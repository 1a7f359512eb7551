"""An encoder-decoder in the state: a source is asked for, its target grows, is cleared and brought
back; whatever comes in whatever order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    Cancel,
    Ended,
    Event,
    ExecutorChanged,
    ModelLoaded,
    ReadAttentionRows,
    ReadTarget,
    SetInterventions,
    TargetGrown,
    Translate,
)
from llm_lite.core.messages.gains import gains_of
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import AttachFiles
from llm_lite.desktop.features.chat.model import NewChat, Regenerate, Send, StopAnswer
from llm_lite.desktop.features.history.model import UndoHistory
from llm_lite.desktop.features.lesson.model import (
    TRACE,
    RunSentence,
    ShowLesson,
    followed_position,
    lesson_page,
    question,
)
from llm_lite.desktop.features.program.act import act
from llm_lite.desktop.features.program.apply import apply
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.quantization.model import RunTask
from llm_lite.desktop.features.resume.model import keeping
from llm_lite.desktop.features.steer.model import Steer
from llm_lite.desktop.features.tokens.state import TARGET
from llm_lite.desktop.features.translator.model import (
    ChooseBeams,
    ChooseCrossHeads,
    ChooseHypothesis,
    ChooseLongest,
    ChooseTask,
    ClearTarget,
    PointAtToken,
    RestoreTarget,
    SetSource,
    StopTarget,
    TintTarget,
    WriteTarget,
    pointed_question,
    rows_of,
    with_part,
)
from llm_lite.desktop.features.translator.state import LONGEST, CrossHeads, TokenAt
from tests.changes import gains_in, weighed
from tests.desktop.cached import with_answer
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.engine.translating import (
    ENCODER_LAYERS,
    HEADS,
    LAYERS,
    TASK,
    as_translator,
    finished,
    grown,
    held,
    source_read,
    whole,
)
from tests.desktop.reports import fold_reports

T5 = as_translator(MODEL)
READY = AppState(model=T5, executor=EXECUTOR)


def do(state, *actions):
    """The state behind them, and the commands of the last."""
    commands = ()
    for action in actions:
        state, commands = act(action, state, 1.0)
    return state, commands


def written(state=READY, source="where is it", *before):
    """With the target of a source."""
    state, (command,) = do(state, *before, WriteTarget(source))
    return fold_reports(state, *whole(command))


def test_a_target_grows_and_its_positions_are_its_own():
    state, commands = do(
        READY, ChooseTask(TASK), ChooseBeams(4), ChooseLongest(50), WriteTarget(" where is it ")
    )
    (command,) = commands
    assert command == Translate(f"{TASK}where is it", 4, 50)
    assert state.busy and not followed_position(state)
    state = fold_reports(state, source_read(command), grown(command, 2))
    assert state.positions == ("<pad>", " it", " is") and state.owners == (TARGET,) * 3
    assert state.translating.text == "it is"
    assert do(state, WriteTarget("another"))[1] == (), "one at a time"
    state = fold_reports(state, finished(command), held(4))
    assert not state.busy and state.context_used == 4 and len(state.rates) == 1
    assert len(state.translating.result.others) == 3


def test_nothing_is_asked_without_a_source_or_while_a_model_loads():
    assert do(READY, WriteTarget(" \n "))[1] == ()
    state, commands = do(AppState(), WriteTarget("a"))
    assert commands == () and "No model is loaded" in state.notices[-1].text
    assert len(do(READY, SetSource("c" * (2 * LONGEST)))[0].translating.draft) == LONGEST
    assert "\x00" not in do(READY, SetSource("a\x00b"))[0].translating.draft


def test_what_another_command_says_is_dropped():
    under_way, (command,) = do(READY, WriteTarget("late"))
    late = replace(command)  # it asks for the same, and was given before
    for state in (under_way, written()):
        for event in (source_read(late), grown(late, 1), finished(late), Ended(), Ended("late")):
            assert apply(event, state, 2.0, late) == state


def test_it_is_stopped_once_and_an_error_is_told():
    state, (command,) = do(READY, WriteTarget("a b"))
    state, commands = do(state, StopTarget())
    (stop,) = commands
    assert isinstance(stop, Cancel) and stop.command is command
    assert do(state, StopTarget())[1] == ()
    state = fold_reports(state, source_read(command), grown(command, 1))
    state = apply(Ended("the source is too long"), state, 2.0, command)
    assert state.notices[-1].text == "The source is too long." and not state.busy
    assert state.translating.text == "b", "what was written stays"
    assert state.translating.problem == "the source is too long"
    again, _ = do(state, WriteTarget("a"))
    assert again.translating.problem == ""


def test_one_that_was_stopped_before_it_was_begun_is_empty():
    state, (command,) = do(READY, WriteTarget("a b"))
    state, _ = do(state, StopTarget())
    state = apply(Ended("it was cancelled", unwanted=True), state, 2.0, command)
    assert not state.busy and not state.notices and not state.translating.problem
    result = state.translating.result
    assert (result.tokens, result.stop_reason) == ((), "stopped")


def test_the_page_is_emptied_and_brought_back():
    state = written(READY, "where is it", ChooseBeams(4))
    empty, commands = do(state, NewChat())
    assert commands == () and empty.translating.draft == "" and not empty.translating.asked
    assert empty.positions == () and empty.context_used == 0 and empty.translating.beams == 4
    assert fold_reports(empty, held(4)).context_used == 0, "nothing of it is shown"
    for back in (RestoreTarget(), UndoHistory()):
        again, _ = do(empty, back)
        assert again.translating == state.translating
        assert again.positions == state.positions and again.context_used == 4
    assert do(READY, ClearTarget())[0] == READY
    other = written(empty, "a b")
    assert do(other, RestoreTarget())[0] == other, "the engine holds another target"


def test_one_that_is_written_ends_before_the_page_is_empty():
    state, (command,) = do(READY, WriteTarget("a b c"))
    state, commands = do(
        fold_reports(state, source_read(command), grown(command, 1)), ClearTarget()
    )
    assert commands == (Cancel(command),) and commands[0].command is command and state.busy
    state = fold_reports(state, finished(command, stop_reason="stopped"), held(3))
    assert not state.busy and not state.translating.asked and state.context_used == 0
    assert do(state, RestoreTarget())[0].translating.asked == "a b c"


def test_another_hypothesis_is_looked_into():
    state = written(READY, "where is it", ChooseBeams(4))
    first, version = state.translating.result, TRACE.stamp(state)
    state, (asked,) = do(state, ChooseHypothesis(1))
    result = state.translating.result
    assert (result.text, result.score) == ("another 1", -2.0)
    assert (
        asked == ReadTarget(tuple(token.token for token in result.tokens)) == ReadTarget((21, 22))
    )
    assert state.positions == ("<pad>", " is", " where") and state.context_used == 0
    assert [other.score for other in result.others] == [-0.5, -1.0, -3.0]
    assert result.others[0].tokens == first.tokens
    state = fold_reports(state, held(2))
    assert state.context_used == 2 and TRACE.stamp(state) != version
    back, _ = do(state, ChooseHypothesis(0))
    assert back.translating.result.text == first.text
    for number in (-1, 3):
        assert do(state, ChooseHypothesis(number)) == (state, ())


def test_tokens_ask_where_they_look():
    state = written()
    state, _ = do(state, PointAtToken(TokenAt("target", 1)))
    asked = pointed_question(state)
    assert isinstance(asked, ReadAttentionRows)
    assert (asked.position, asked.direction, asked.part) == (2, "from", "cross")
    assert len(asked.heads) == LAYERS * HEADS
    state, _ = do(state, ChooseCrossHeads(CrossHeads("head", 1, 2)))
    assert pointed_question(state).heads == ((1, 2),)
    state, _ = do(state, PointAtToken(TokenAt("source", 0)))
    asked = pointed_question(state)
    assert (asked.position, asked.direction) == (0, "to")
    state, _ = do(state, PointAtToken(None))
    assert pointed_question(state) is None


def test_heads_of_each_part_are_weighed():
    known = gains_of(NO_CHANGES, T5)
    assert len(known) == 2 * LAYERS + ENCODER_LAYERS == T5.gain_rows
    parts = [rows_of(T5, part) for part in ("decoder", "cross", "encoder")]
    assert [len(known[rows]) for rows in parts] == [LAYERS, LAYERS, ENCODER_LAYERS]
    off = with_part(known, parts[1], ((0.0,) * HEADS,) * LAYERS)
    state, commands = do(READY, Steer(weighed(off, T5)))
    assert commands == (SetInterventions(weighed(off, T5)),)
    assert gains_in(state) == off
    assert [row[0] for row in off] == [1.0] * LAYERS + [0.0] * LAYERS + [1.0] * ENCODER_LAYERS
    state, (back, *_) = do(state, Steer(weighed(known, T5)))
    assert back == SetInterventions(NO_CHANGES) == SetInterventions(state.steering.interventions)


@pytest.mark.parametrize(
    "action",
    [Send("a"), Regenerate(), RunTask("runs"), RunTask("report"), AttachFiles(("/a.txt",))],
)
def test_what_belongs_to_a_chat_says_why_it_cannot_be(action):
    chat = (Message("user", "a"), Message("assistant", "b", stop_reason="end"))
    choices = replace(READY.quantization.choices, prompt="a")
    held = replace(READY.quantization, choices=choices)
    state, commands = do(replace(READY, tree=ConversationTree(chat), quantization=held), action)
    assert commands == () and state.notices and state.messages == chat


def test_a_step_can_be_measured_and_no_conversation_is_kept():
    state, commands = do(written(), RunTask("step"))
    assert len(commands) == 1
    resume = replace(state.resume, folder="/f", mode="ask")
    state = replace(state, history=replace(state.history, open=3), resume=resume)
    assert keeping(state) == ()


def test_undo_leaves_the_chat_behind_the_page_alone():
    state, _ = do(READY, UndoHistory())
    assert state.notices[-1].text == "There is nothing to undo."


def test_the_lesson_follows_the_last_word_of_a_target():
    state = written()
    state, _ = do(state, ShowLesson(True))
    assert followed_position(state) == 3 and question(state) is not None
    first = TRACE.stamp(state)
    state, (command,) = do(state, RunSentence("another source"))
    assert command.source == "another source" and question(state) is None, "once it is whole"
    state = fold_reports(state, *whole(command))
    assert TRACE.stamp(state) != first and state.translating.draft == "another source"
    state = with_answer(state, TRACE, question(state), problem="none")
    assert lesson_page(state).problem == "none"
    state = fold_reports(state, ExecutorChanged(replace(EXECUTOR, mode="int4"), T5))
    assert lesson_page(state).problem == "", "its numbers are other ones"


texts = st.sampled_from(["", " ", "a", "a b c", "안녕 세상"])
tokens = st.one_of(
    st.none(), st.builds(TokenAt, st.sampled_from(["source", "target"]), st.integers(0, 9))
)
actions = st.one_of(
    st.builds(SetSource, texts),
    st.builds(WriteTarget, texts),
    st.builds(ChooseBeams, st.sampled_from([0, 1, 4])),
    st.builds(ChooseHypothesis, st.integers(-1, 2)),
    st.builds(ChooseLongest, st.sampled_from([-1, 0, 9])),
    st.builds(ChooseTask, st.sampled_from(["", TASK])),
    st.builds(TintTarget, st.booleans()),
    st.builds(PointAtToken, tokens),
    st.builds(ChooseCrossHeads, st.builds(CrossHeads, st.sampled_from(["all", "layer", "head"]))),
    st.builds(RunSentence, texts),
    st.sampled_from(
        [StopTarget(), ClearTarget(), RestoreTarget(), NewChat(), UndoHistory(), StopAnswer()]
    ),
    st.builds(Steer, st.sampled_from([NO_CHANGES, weighed(((0.5,) * HEADS,) * T5.gain_rows, T5)])),
)
commands = st.builds(Translate, texts.filter(str.strip), st.just(2))
of_targets = st.one_of(
    commands.map(source_read),
    st.builds(grown, commands, st.integers(0, 4)),
    commands.map(finished),
    st.just(TargetGrown((), ())),
    st.sampled_from([Ended(), Ended("it failed"), Ended("it was cancelled", unwanted=True)]),
)
events = st.one_of(
    st.builds(held, st.integers(0, 9)),
    st.just(ModelLoaded(T5, EXECUTOR, 0.1)),
    st.just(ModelLoaded(MODEL, EXECUTOR, 0.1)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(actions, events, st.tuples(of_targets, st.booleans())), max_size=25))
def test_any_order_leaves_the_page_sound(steps):
    state = READY
    for step in steps:
        if isinstance(step, tuple):
            event, is_late = step
            late = Translate("late")
            state = apply(event, state, 2.0, late if is_late else state.translating.writing or late)
        elif isinstance(step, Event):
            state = fold_reports(state, step)
        else:
            state, _ = do(state, step)
        translating = state.translating
        assert len(state.owners) <= len(state.positions)
        assert not (translating.stopping or translating.clearing) or translating.running
        assert translating.cleared is None or translating.cleared.cleared is None
        if translating.asked:
            assert len(state.positions) == len(translating.tokens) + 1 or translating.running
        assert followed_position(state) is None or followed_position(state) < len(state.positions)
