"""The scripted engine says what the real one says: the same kinds of events, in the same order."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.errors import RequestError
from llm_lite.core.handles import Handle, Report
from llm_lite.core.messages import (
    NO_CHANGES,
    Cancel,
    ChatMessage,
    CheckKept,
    Command,
    ConversationRead,
    CountTokens,
    Ended,
    EngineOptions,
    ForgetLearnedDrafts,
    Generate,
    GenerationFinished,
    GenerationStarted,
    Inspect,
    Interventions,
    KeepConversation,
    LensResult,
    LoadModel,
    Logged,
    MakeTitle,
    Read,
    ReadEffect,
    Reconfigure,
    ResumeKept,
    SamplingOptions,
    SetInterventions,
    SpellTokens,
    TokenDecoded,
    TokenizeText,
)
from llm_lite.core.messages.interventions import Replace, Shift
from llm_lite.core.questions.routing import ROUTING
from llm_lite.core.questions.states import STATES
from llm_lite.core.questions.table import QUESTIONS
from llm_lite.core.records import replace
from tests.changes import scales
from tests.children import PATIENCE
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL

CONTEXT = 64
SAID = (ChatMessage("user", "Why is the sky blue, and red at night?"),)
OTHER = (ChatMessage("user", "Something else, as short as it."),)
FEW = SamplingOptions(seed=1, max_new_tokens=5)
MANY = SamplingOptions(seed=1, max_new_tokens=2 * CONTEXT)
SMALL = replace(MODEL, context=CONTEXT, trained_context=CONTEXT, layers=2, heads=4, kv_heads=2)
MUTED = scales(((0.0, 1.0, 1.0, 1.0), (1.0,) * 4))
SHIFTED = Interventions((Shift("layers.0.feed_forward.residual", (0.5,) * 64),))
REPLACED = Interventions((Replace("layers.0.feed_forward.residual", ((0.5,) * 64,), (0,)),))
OPTIONS = EngineOptions(backend="cpu", context=CONTEXT)


@pytest.fixture
def both(tiny_llama) -> Iterator[tuple[Engine, ScriptedEngine]]:
    """A real engine for the tiny model, and a scripted one with a model of its size."""
    real, scripted = Engine(None), ScriptedEngine(0.0, model=SMALL)
    commands = LoadModel(str(tiny_llama), OPTIONS), LoadModel("tiny", OPTIONS)
    assert kinds(real, commands[0]) == kinds(scripted, commands[1])
    yield real, scripted
    real.close()
    scripted.close()


def reports(engine: Any, handle: Handle) -> Iterator[Report]:
    """What an engine reports until a command has ended, and just behind its end."""
    end, behind = time.monotonic() + PATIENCE, 10
    while behind:
        assert time.monotonic() < end, f"{handle.command} did not end"
        behind -= handle.is_over
        yield from engine.poll()
        time.sleep(0.002)


def kinds(engine: Any, command: Command) -> list[str]:
    """The kinds of events that a command brings, in order; those of the engine itself with a star.
    What comes again and again stands there once, also where two kinds take turns."""
    found = list[str]()
    for report in reports(engine, engine.submit(command)):
        event = report.event
        if isinstance(event, Logged):  # for a person, at any time
            continue
        name = type(event).__name__ + ("" if report.command is command else "*")
        if isinstance(event, Ended) and event.problem:
            name = "unwanted" if event.unwanted else "refused"
        if name not in found[-1:]:
            found.append(name)
        if found[-2:] == found[-4:-2]:
            del found[-2:]
    return found


def result(engine: Any, command: Command, kind: type[Any]) -> Any:
    """The event of a kind that a command brings."""
    told = [one.event for one in reports(engine, engine.submit(command))]
    (found,) = (event for event in told if isinstance(event, kind))
    return found


def script(folder: Path) -> list[Command]:
    path = str(folder / "kept")
    return [
        CountTokens(("abc",), messages=SAID),
        Generate(SAID, FEW),
        SpellTokens((1, 2)),
        # The model has neither experts nor recurrent states.
        *(one.example for one in QUESTIONS if one not in (ROUTING, STATES)),
        SetInterventions(MUTED),
        ReadEffect(),
        SetInterventions(SHIFTED),
        SetInterventions(REPLACED),
        SetInterventions(NO_CHANGES),
        Read(SAID),
        Read(SAID, afresh=True),
        TokenizeText("hello"),
        KeepConversation(1, path, 1 << 30),
        CheckKept(1, path, SAID),
        ResumeKept(1, path, SAID),
        CheckKept(1, path, OTHER),
        ResumeKept(1, path, OTHER),
        MakeTitle(1, SAID),
        ForgetLearnedDrafts(),
        Reconfigure(replace(OPTIONS, mode="fp32")),
        Generate(SAID, FEW, interventions=MUTED),
        Generate(SAID, MANY, overflow="rolling"),
        Generate(SAID, MANY),
        LoadModel("/missing/model.gguf"),
    ]


def test_a_script_brings_the_same_kinds_of_events_in_the_same_order(both, tmp_path):
    scripts = []
    for name in ("real", "scripted"):
        (tmp_path / name).mkdir()
        scripts.append(script(tmp_path / name))
    differ = {}
    for there, here in zip(*scripts, strict=True):
        found = kinds(both[0], there), kinds(both[1], here)
        if found[0] != found[1]:
            differ[repr(here)] = found
    assert not differ


def reused(engine: Any, command: Generate) -> str:
    """How much of its prompt an answer does not compute again."""
    told = [one.event for one in reports(engine, engine.submit(command))]
    (started,) = (event for event in told if isinstance(event, GenerationStarted))
    shares = {0: "nothing", started.prompt_tokens - 1: "all but its last token"}
    return shares.get(started.reused_tokens, "its beginning")


def test_as_much_is_reused_as_by_the_real_one(both):
    """But for what a real one has in its pool of prefixes."""
    open_answer = (*SAID, ChatMessage("assistant", "Well, the sky is"))
    commands = (
        Generate(SAID, FEW, conversation=1),
        Generate(SAID, FEW, conversation=2),
        Generate(OTHER, FEW, conversation=2),
        Generate(SAID, FEW, conversation=2, interventions=MUTED),
        Generate(SAID, FEW, conversation=2, interventions=MUTED),
        Generate(SAID, FEW, conversation=2),  # the same conversation, whatever acted on it
        Reconfigure(replace(OPTIONS, mode="fp32")),
        Generate(SAID, FEW, conversation=2),
        Generate(open_answer, FEW, conversation=2, continue_last=True),
    )
    real, scripted = both
    for number, command in enumerate(commands):
        if isinstance(command, Generate):
            assert reused(scripted, command) == reused(real, command), number
        else:
            assert kinds(scripted, command) == kinds(real, command)


@pytest.mark.parametrize("which", [0, 1], ids=["real", "scripted"])
def test_an_answer_is_cancelled_and_requests_are_served_within_it(both, which):
    engine = both[which]
    if which == 1:
        engine.delay = 0.01
    command = Generate(SAID, SamplingOptions(seed=1, max_new_tokens=1000), overflow="rolling")
    handle, events, inspect = engine.submit(command), [], Inspect(0)
    lens = None
    for report in reports(engine, handle):
        events.append(report.event)
        if isinstance(report.event, TokenDecoded) and lens is None:
            lens = engine.submit(inspect)
        if isinstance(report.event, LensResult):
            assert report.command is inspect and not handle.is_over
            engine.submit(Cancel(command))
    finished = [event for event in events if isinstance(event, GenerationFinished)]
    assert [event.stop_reason for event in finished] == ["stopped"]
    assert lens is not None and lens.is_over


def test_a_change_of_the_model_gives_way_to_a_newer_one(both):
    ends = []
    for engine in both:
        answer = engine.submit(Generate(SAID, MANY))
        changes = [engine.submit(Reconfigure(replace(OPTIONS, mode=m))) for m in ("fp32", "int8")]
        wanted = []
        for handle in changes:
            try:
                handle.result(PATIENCE)
                wanted.append(True)
            except RequestError:
                wanted.append(False)
        answer.result(PATIENCE)
        ends.append(wanted)
    assert ends == [[False, True]] * 2


# What a test gives it


def test_a_test_answers_itself():
    def refuse(command):
        raise RequestError("not today")

    engine = ScriptedEngine(0.0, answers={Inspect: lambda command: LensResult(7, ()), Read: refuse})
    assert engine.submit(Inspect(1)).result(PATIENCE) == LensResult(7, ())
    with pytest.raises(RequestError, match="not today"):
        engine.submit(Read(SAID)).result(PATIENCE)
    engine.answers[Read] = lambda command: 1 / 0
    with pytest.raises(RequestError, match="Read failed: ZeroDivisionError"):
        engine.submit(Read(SAID)).result(PATIENCE)
    assert engine.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_every_question_of_the_table_is_answered(question):
    engine = ScriptedEngine(0.0, answers={})
    engine.submit(Read(SAID)).result(PATIENCE)
    assert isinstance(engine.submit(question.example).result(PATIENCE), question.answer)
    assert engine.close()


def test_steps_wait_for_the_window():
    engine = ScriptedEngine(steps_per_poll=2)
    handle = engine.submit(Read(SAID))
    polled = 0
    while not handle.is_over:
        engine.poll()
        polled += 1
        time.sleep(0.02)
    assert polled > 2
    assert engine.close()


def test_by_hand_nothing_happens_between_two_steps():
    engine = ScriptedEngine(by_hand=True)
    handle, steps = engine.submit(Read(SAID)), 1
    while engine.step():
        steps += 1
    assert steps > 2 and handle.is_over
    assert isinstance(handle.result(), ConversationRead)
