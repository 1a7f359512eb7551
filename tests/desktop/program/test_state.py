"""The pure middle: events and actions folded into the state."""

import math

import pytest

from llm_lite.core.handles import Report
from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import (
    Cancel,
    ChatMessage,
    Ended,
    EngineOptions,
    ExecutorChanged,
    FileDamaged,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    PrefillProgress,
    PromptToken,
    Reconfigure,
    TokenDecoded,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import (
    CancelEdit,
    ContinueAnswer,
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    StopAnswer,
    queued_message,
)
from llm_lite.desktop.features.lesson.state import LessonState
from llm_lite.desktop.features.performance.speed import RATE_SAMPLES
from llm_lite.desktop.features.program.act import act, due
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.apply import apply, fold
from llm_lite.desktop.features.program.model import (
    CancelLoading,
    OpenModel,
    SetOptions,
)
from llm_lite.desktop.features.program.notices import expire
from llm_lite.desktop.features.program.state import (
    LOG_LINES,
    NOTICES,
    RECENT_FILES,
    AppState,
    Message,
    Token,
)
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.reports import command_of, fold_reports

READY = AppState(model=MODEL, executor=EXECUTOR)
STATS = GenerationStats(prompt_tokens=5, new_tokens=2, decode_tok_s=40.0, context_used=7)


def play(state, *steps, start=0.0, tick=0.1):
    """Fold actions and events, which are of the commands under way where none is given with them;
    the state and all commands."""
    commands = []
    for number, step in enumerate(steps):
        now = start + number * tick
        if isinstance(step, Action):
            state, told = act(step, state, now)
            commands += told
        else:
            event, command = step if isinstance(step, tuple) else (step, command_of(step, state))
            state = apply(event, state, now, command)
            state, told = due(state)
            commands += told
    return state, commands


def asked(state=READY, text="hello"):
    return play(state, Send(text))[0]


def answered(text="one two", reason="end"):
    first, second = text.split(" ", 1)
    return play(
        asked(),
        GenerationStarted(5, 0),
        PrefillProgress(5, 5),
        TokenDecoded(11, first, 0.5, 6),
        TokenDecoded(12, " " + second, 0.25, 7),
        GenerationFinished(reason, STATS),
    )[0]


def test_send_asks_with_system_prompt_and_empties_the_input():
    state, commands = play(replace(READY, system_prompt=" Be brief. ", draft="hi"), Send(" hi "))
    told = (ChatMessage("system", "Be brief."), ChatMessage("user", "hi"))
    (command,) = commands
    seed = command.sampling.seed
    assert command == Generate(told, replace(READY.sampling, seed=seed))
    assert seed is not None, "known, so that the answer can be given again"
    assert state.messages[-1].sampling == command.sampling
    assert state.draft == ""
    assert [m.text for m in state.messages] == ["hi", ""]
    assert state.running.asked is command


def test_answer_is_collected_with_tokens_and_statistics():
    state = answered()
    last = state.messages[-1]
    assert last.text == "one two"
    assert [(t.id, t.probability) for t in last.tokens] == [(11, 0.5), (12, 0.25)]
    assert (last.stop_reason, last.stats) == ("end", STATS)
    assert not state.busy
    assert state.context_used == 7
    assert state.decode_rate == 40.0


LOADING = replace(READY, load=play(READY, OpenModel("x"))[0].load)


def test_a_message_waits_for_a_model_that_is_loading():
    after, commands = play(replace(LOADING, draft="my text"), Send("my text"))
    assert commands == [] and after.queued and queued_message(after) is None
    assert (after.draft, after.messages, after.notices) == ("my text", (), ())
    assert queued_message(replace(after, load=None)) == Send("my text")


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (asked(), "being written"),
        (replace(LOADING, running=asked().running), "being written"),
        (AppState(), "No model"),
    ],
)
def test_send_that_cannot_be_is_refused_with_a_sentence_and_keeps_the_text(state, word):
    after, commands = play(replace(state, draft="my text"), Send("my text"))
    assert commands == []
    assert after.draft == "my text"
    assert after.messages == state.messages
    assert word in after.notices[-1].text


def test_empty_send_does_nothing():
    assert play(READY, Send("  \n")) == (READY, [])


def test_stop_is_sent_once_and_keeps_what_was_said():
    state = asked()
    command = state.running.asked
    state, commands = play(
        state,
        TokenDecoded(3, "so-far", 1.0, 3),
        StopAnswer(),
        StopAnswer(),
        GenerationFinished("stopped", STATS),
        (Ended(), command),
    )
    assert [told.command for told in commands] == [command]
    assert commands[0].command is command
    assert state.messages[-1].text == "so-far"
    assert state.messages[-1].stop_reason == "stopped"


def test_continue_sends_the_answer_with_its_tokens_and_appends():
    state, commands = play(answered(reason="length"), ContinueAnswer())
    (command,) = commands
    assert command.continue_last
    assert command.messages[-1] == ChatMessage("assistant", "one two", (11, 12))
    state, _ = play(
        state,
        TokenDecoded(13, " three", 1.0, 8),
        GenerationFinished("end", STATS),
    )
    assert state.messages[-1].text == "one two three"
    assert len(state.messages) == 2


def test_continue_of_an_empty_answer_asks_again():
    failed = replace(READY, tree=ConversationTree((Message("user", "q"), Message("assistant", ""))))
    state, (command,) = play(failed, ContinueAnswer())
    assert not command.continue_last
    assert command.messages == (ChatMessage("user", "q"),)
    assert len(state.messages) == 2


def test_regenerate_drops_the_answer():
    state, (command,) = play(answered(), Regenerate())
    assert command.messages == (ChatMessage("user", "hello"),)
    assert state.messages[-1].text == ""
    assert len(state.messages) == 2


def test_edit_replaces_what_followed_only_when_sent():
    state, commands = play(answered(), EditMessage(0))
    assert state.draft == "hello"
    assert len(state.messages) == 2
    assert commands == []
    kept, _ = play(state, CancelEdit())
    assert (kept.draft, kept.editing, kept.messages) == ("", None, state.messages)
    state, (command,) = play(state, Send("other"))
    assert command.messages == (ChatMessage("user", "other"),)
    assert [m.text for m in state.messages] == ["other", ""]


def test_where_nothing_is_said_there_is_nothing_to_say_again_or_to_leave():
    state = AppState(model=MODEL, draft="kept")
    assert act(Regenerate(), state, 0.0) == (state, ())
    assert act(NewChat(), state, 0.0) == (state, ())


def test_new_chat_leaves_the_conversation_to_the_history():
    state, commands = play(answered(), NewChat())
    assert (state.messages, commands, state.notices) == ((), [], ())
    assert state.chat == answered().chat + 1


def test_new_chat_while_answering_cancels_the_answer_and_hears_no_more_of_it():
    before = asked()
    left = before.running.asked
    state, (cancel, command) = play(before, NewChat(), Send("next"))
    assert cancel.command is left and state.running.asked is command
    late = (TokenDecoded(3, "late", 1.0, 3), GenerationFinished("stopped", STATS), Ended())
    after, commands = play(state, *((event, left) for event in late))
    assert (after, commands) == (state, [])
    assert [m.text for m in state.messages] == ["next", ""]


def test_an_answer_that_is_cancelled_before_it_was_begun_is_stopped():
    state, (_, command, cancel) = play(asked(), NewChat(), Send("next"), StopAnswer())
    assert cancel.command is command and state.running.stopping
    state, _ = play(state, (Ended("it was cancelled", unwanted=True), command))
    assert not state.busy and state.messages[-1].stop_reason == "stopped"
    assert state.notices == ()


def test_an_answer_that_fails_says_why_and_keeps_what_was_said():
    state = asked()
    failed = (Ended("the device is gone"), state.running.asked)
    state, _ = play(state, TokenDecoded(3, "so-far", 1.0, 3), failed)
    last = state.messages[-1]
    assert (last.text, last.stop_reason, last.problem) == ("so-far", "error", "the device is gone")
    assert not state.busy and state.notices == (), "it is said once, at the answer"
    away = replace(asked(), lesson=LessonState(shown=True))
    failed = (Ended("the device is gone"), away.running.asked)
    assert play(away, failed)[0].notices[-1].text == "The device is gone.", "which is not in sight"


def test_load_and_cancel():
    state, commands = play(
        AppState(),
        OpenModel("m.gguf"),
        LoadProgress("reading", 0.5),
        CancelLoading(),
        CancelLoading(),
    )
    load = LoadModel("m.gguf", EngineOptions())
    assert commands == [load, Cancel(load)] and commands[1].command is commands[0]
    assert (state.load.stage, state.load.fraction) == ("reading", 0.5)
    state, _ = play(state, (Ended("cancelled", unwanted=True), commands[0]))
    assert state.load is None
    assert state.notices[-1].level == "info"


def test_failed_load_keeps_model_and_conversation():
    before = answered()
    state, (load,) = play(before, OpenModel("bad"))
    state, _ = play(state, (LoadStarted("bad"), load), (Ended("bad: not a GGUF file"), load))
    assert (state.model, state.messages, state.load) == (MODEL, before.messages, None)
    assert state.notices[-1].text == "bad: not a GGUF file."


def test_second_load_is_refused():
    state, commands = play(READY, OpenModel("one"), OpenModel("two"))
    assert [c.source for c in commands] == ["one"]
    assert "already loading" in state.notices[-1].text


def test_recent_files_are_unique_and_bounded():
    state = AppState()
    for number in range(20):
        model = replace(MODEL, path=f"/m/{number % 12}")
        state = apply(ModelLoaded(model, EXECUTOR, 1.0), state, 0.0)
    assert len(state.recent) == RECENT_FILES
    assert len(set(state.recent)) == RECENT_FILES
    assert state.recent[0] == "/m/7"


def test_executor_change_says_why():
    lost = replace(EXECUTOR, reason="the Vulkan device was lost")
    state, _ = play(answered(), ExecutorChanged(lost, MODEL))
    assert state.messages == answered().messages
    assert state.notices[-1].text == "The Vulkan device was lost."
    again, _ = play(replace(state, notices=()), ExecutorChanged(lost, MODEL))
    assert again.notices == ()


def test_a_load_goes_on_where_the_executor_changes_meanwhile():
    """As its device is lost, or as clients get their room."""
    loading = LoadModel("/m/other", EngineOptions())
    state, _ = play(READY, (LoadStarted("/m/other"), loading), LoadProgress("reading", 0.5))
    state, _ = play(state, ExecutorChanged(replace(EXECUTOR, mode="int4"), MODEL))
    assert (state.load.source, state.load.fraction) == ("/m/other", 0.5)
    assert state.executor.mode == "int4"
    assert play(state, (Ended("cancelled", unwanted=True), loading))[0].load is None


def test_a_mode_that_a_client_of_the_server_switched_is_the_one_in_use():
    state, _ = play(READY, LoadStarted("/m/model", "int4"))
    assert state.load.mode == "int4"
    elsewhere = EngineOptions(backend="cpu", mode="int4", activations="a8", context=77, force=True)
    state, _ = play(state, ExecutorChanged(replace(EXECUTOR, mode="int4"), MODEL, elsewhere))
    assert state.options == replace(READY.options, mode="int4", activations="a8")
    assert play(state, SetOptions(READY.options))[1] == [Reconfigure(READY.options)]


def test_options_reconfigure_a_loaded_model_only():
    options = EngineOptions(backend="cpu")
    state, commands = play(READY, SetOptions(options))
    assert commands == [Reconfigure(options)]
    assert state.load
    assert play(state, (ExecutorChanged(EXECUTOR, MODEL), commands[0]))[0].load is None
    assert play(asked(), SetOptions(options))[1] == [Reconfigure(options)]  # it goes on
    assert play(AppState(), SetOptions(options))[1] == []
    assert play(READY, SetOptions(READY.options))[1] == []


def test_a_later_wish_takes_the_place_of_one_that_is_prepared():
    """What the first brought meanwhile is shown, and does not end the wait for the second."""
    first, second = EngineOptions(mode="int8"), EngineOptions(mode="int4")
    state, commands = play(READY, SetOptions(first), SetOptions(second))
    assert commands == [Reconfigure(first), Reconfigure(second)]
    older, newer = commands
    late = ExecutorChanged(replace(EXECUTOR, mode="int8"), MODEL, first)
    state, _ = play(state, (LoadStarted("/m/model"), older), (late, older), (Ended(), older))
    assert state.load and (state.options.mode, state.executor.mode) == ("int4", "int8")
    failed, _ = play(state, (Ended("no memory"), newer))
    assert failed.load is None and failed.options.mode == "int8", "that is what goes on"
    superseded, _ = play(state, (Ended("a newer change", unwanted=True), older))
    assert superseded.load is state.load and superseded.notices == state.notices
    done = ExecutorChanged(replace(EXECUTOR, mode="int4"), MODEL, second)
    state, _ = play(state, (done, newer))
    assert state.load is None and state.options.mode == "int4"


def test_live_rate_counts_arrivals_over_time():
    state = asked()
    for number in range(21):
        token = TokenDecoded(number, "x", 1.0, number)
        state = fold_reports(state, token, now=10 + number * 0.05)
    assert state.decode_rate == pytest.approx(20.0)
    assert state.rates[-1].rate == pytest.approx(20.0)


def test_tokens_of_one_batch_make_no_rate():
    state = asked()
    for number in range(5):
        state = fold_reports(state, TokenDecoded(number, "x", 1.0, number), now=10.0)
    assert state.decode_rate == 0.0
    assert state.rates == ()


def test_tokens_heard_together_are_the_same_as_one_by_one():
    """Whatever comes between them; `forced` tokens keep what was judged before."""
    forced = (Token(0, "a", 0.5), Token(1, "b", 0.25))
    state = asked()
    state = replace(state, running=replace(state.running, forced=forced))
    command, dropped = state.running.asked, Generate(())
    heard = [
        GenerationStarted(3, 0, (PromptToken(5, "hi", 0),)),
        *(TokenDecoded(n, chr(97 + n), math.nan if n < 2 else 0.9, 2 + n) for n in range(4)),
        *(TokenDecoded(n, chr(97 + n), 0.8, 2 + n) for n in range(4, 6)),
        GenerationFinished("end", STATS, ""),
    ]
    reports = [Report(event, command) for event in heard]
    reports.insert(5, Report(Logged("info", "between", 0.0)))
    reports.insert(6, Report(TokenDecoded(9, "?", 1.0, 9), dropped))
    together, alone = fold(reports, state, 2.0), state
    for report in reports:
        alone = apply(report.event, alone, 2.0, report.command)
    assert together == alone
    assert together.messages[-1].text == "abcdef"
    assert [token.probability for token in together.messages[-1].tokens[:3]] == [0.5, 0.25, 0.9]


def test_rings_are_bounded():
    state = asked()
    for number in range(LOG_LINES + 50):
        state = apply(Logged("info", str(number), 0.0), state, 0.0)
    for number in range(RATE_SAMPLES * 2):
        state = fold_reports(state, TokenDecoded(number, "", 1.0, number), now=number * 0.21)
    for number in range(10):
        state = apply(FileDamaged(f"problem {number}"), state, 0.0)
    assert len(state.log) == LOG_LINES
    assert state.log[-1].text == str(LOG_LINES + 49)
    assert RATE_SAMPLES / 2 <= len(state.rates) <= RATE_SAMPLES
    assert state.rates[0].begin == 0.0, "the beginning of a long answer stays"
    assert len(state.notices) == NOTICES


def test_notices_expire():
    state = apply(FileDamaged("problem"), AppState(), 0.0)
    assert expire(state, 1.0) is state
    assert expire(state, 60.0).notices == ()


def test_stray_objects_are_refused():
    with pytest.raises(TypeError):
        apply(object(), AppState(), 0.0)
    with pytest.raises(TypeError):
        act(object(), AppState(), 0.0)
