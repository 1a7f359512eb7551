"""Handles of commands: each ends once, with a result or a sentence, whatever comes in between."""

import threading

import pytest

from llm_lite.core.engine import tokenizing_thread as tokenizing
from llm_lite.core.errors import DeviceLostError, RequestError
from llm_lite.core.handles import CANCELLED, CLOSING, Handle, Report
from llm_lite.core.inspect import attention_export
from llm_lite.core.loading import loader
from llm_lite.core.messages import (
    AnalyzeTensors,
    AnswerRequest,
    Cancel,
    CheckKept,
    Command,
    CompareElsewhere,
    CompareRuns,
    CompareTexts,
    CountTokens,
    DropVariant,
    EffectRead,
    EncodeText,
    Ended,
    Event,
    ExecutorChanged,
    ExportMaps,
    ForgetLearnedDrafts,
    Generate,
    GenerationFinished,
    Inspect,
    InterventionsSet,
    KeepConversation,
    KeepVariant,
    LensResult,
    LoadModel,
    LoadStarted,
    Logged,
    MakeTitle,
    MapsExported,
    MeasureDivergence,
    MeasureModes,
    ModelLoaded,
    OpenCache,
    ProfileStep,
    Read,
    ReadEffect,
    ReadTarget,
    Reconfigure,
    ResumeKept,
    SaveCache,
    SetInterventions,
    Shutdown,
    SpellTokens,
    StartServing,
    StepRequest,
    StopServing,
    StudyKernels,
    Task,
    TokenDecoded,
    TokenizeText,
    Translate,
)
from llm_lite.core.messages.interventions import Interventions
from llm_lite.core.questions import effect
from llm_lite.core.questions.table import QUESTIONS
from tests.changes import scales
from tests.core.engine_client import GREEDY, HELLO, PATIENCE
from tests.runners import exact

NONE = ((0.0,) * 4,) * 2


def all_commands(model, folder):
    """One of every kind; of tasks, which are run alike, at least some."""
    kept = str(folder / "kept.kv")
    return [
        LoadModel(str(model), exact()),
        Generate(HELLO, GREEDY),
        Read(HELLO),
        Translate("Hello there"),
        ReadTarget((5, 6)),
        SpellTokens((5, 6)),
        Reconfigure(exact(context=100)),
        Reconfigure(exact(mode="int8"), by_client=True),
        SaveCache(str(folder / "cache.kv")),
        OpenCache(str(folder / "none.kv")),
        KeepConversation(5, kept, 1 << 30),
        CheckKept(5, kept, HELLO),
        ResumeKept(5, kept, HELLO),
        MakeTitle(5, HELLO),
        ForgetLearnedDrafts(),
        StartServing(),
        StopServing(),
        TokenizeText("Hello there"),
        *(
            SetInterventions(scales(NONE)),
            SetInterventions(Interventions()),
            Inspect(2),
            *(one.example for one in QUESTIONS),
        ),
        *(ExportMaps(str(folder / "maps.npz"), ((0, 0),)), CountTokens(("Hello",))),
        *(EncodeText("Hello"), CompareTexts(("Hello", "there"))),
        CompareRuns(HELLO, (exact(), exact()), GREEDY),
        MeasureDivergence("", exact(), exact(keys="fp16"), 16, 1),
        *(MeasureModes(exact()), AnalyzeTensors("as-stored"), ProfileStep(1)),
        *(KeepVariant("int8"), DropVariant("int8"), StudyKernels("vulkan")),
        *(CompareElsewhere(HELLO), AnswerRequest("r", text="x")),  # which are for others
        Cancel(Inspect(0)),
        Shutdown(),
    ]


def kinds_below(kind):
    for one in kind.__subclasses__():
        yield one
        yield from kinds_below(one)


def events_of(client, handle):
    """What the engine told of a command, so far."""
    client.take()
    return client.of(Event, handle)


def check_ended(client, handle):
    """It has ended once, with its last event."""
    events = events_of(client, handle)
    assert isinstance(events[-1], Ended), handle.command
    assert [type(event) for event in events].count(Ended) == 1, handle.command


@pytest.mark.parametrize("is_loaded", [True, False])
def test_every_command_ends_once(client, tiny_llama, tmp_path, is_loaded):
    commands = all_commands(tiny_llama, tmp_path)
    kinds = {type(command) for command in commands} | {StepRequest}
    assert not {kind for kind in kinds_below(Command) if not issubclass(kind, Task)} - kinds
    if is_loaded:
        client.load(tiny_llama)
        client.ask()
    else:
        del commands[0]
    for command in commands:
        handle = client.send(command)
        assert handle._over.wait(PATIENCE), command
        check_ended(client, handle)
    for command in commands:  # of an engine that has closed
        handle = client.send(command)
        assert handle.is_over and (type(command) is Shutdown) == (problem_of(handle) == "")


def problem_of(handle):
    try:
        handle.result(PATIENCE)
    except RequestError as error:
        return str(error)
    return ""


def test_the_result_is_the_last_event_and_problems_are_raised(client, tiny_llama, tmp_path):
    with pytest.raises(RequestError, match="no model is loaded"):
        client.result(Inspect(0))
    with pytest.raises(RequestError, match="no such file"):
        client.result(LoadModel(str(tmp_path / "missing.gguf"), exact()))
    assert isinstance(client.result(LoadModel(str(tiny_llama), exact())), ModelLoaded)
    answer = client.result(Generate(HELLO, GREEDY))
    assert isinstance(answer, GenerationFinished) and answer.stop_reason == "length"
    assert isinstance(client.result(Inspect(2)), LensResult)
    assert client.result(SetInterventions(scales(NONE))) == InterventionsSet(scales(NONE))


def test_a_result_is_not_waited_for_without_end(client, tiny_llama, hook):
    reached, go_on = hook.block_make()
    handle = client.send(LoadModel(str(tiny_llama), exact()))
    assert reached.wait(PATIENCE)
    with pytest.raises(RequestError, match=r"LoadModel did not end within 0\.01 s"):
        handle.result(0.01)
    go_on.set()
    assert isinstance(handle.result(PATIENCE), ModelLoaded)


def test_behind_its_end_a_handle_tells_nothing():
    reports = []
    handle = Handle(Inspect(0), reports.append)
    handle.end("it went wrong")
    handle.emit(EffectRead(0.0))
    handle.finish(EffectRead(0.0))
    assert [report.event for report in reports] == [Ended("it went wrong")]
    with pytest.raises(RequestError, match="it went wrong"):
        handle.result()


def test_who_has_read_the_end_finds_the_handle_over():
    seen: list[bool] = []
    reader = threading.Thread(target=lambda: seen.append(handle.is_over))

    def deliver(report: Report) -> None:
        reader.start()  # it has the report, while the engine's thread is not yet back
        reader.join(0.1)

    handle = Handle(Inspect(0), deliver)
    handle.end()
    reader.join(PATIENCE)
    assert seen == [True]


def test_an_answer_that_waits_is_cancelled(client, tiny_llama, hook):
    reached, go_on = hook.block_make()
    load = client.send(LoadModel(str(tiny_llama), exact()))
    answer = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    answer.cancel()
    go_on.set()
    with pytest.raises(RequestError, match=CANCELLED):
        answer.result(PATIENCE)
    assert isinstance(load.result(PATIENCE), ModelLoaded)
    assert events_of(client, answer) == [Ended(CANCELLED, unwanted=True)]
    assert client.ask()[0].stop_reason == "length"


def test_an_answer_that_is_written_is_cancelled_and_keeps_its_tokens(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(4)
    answer = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    answer.cancel()
    finished = answer.result(PATIENCE)
    assert finished.stop_reason == "stopped"
    told = [event for event in events_of(client, answer) if isinstance(event, TokenDecoded)]
    assert len(told) == finished.stats.new_tokens > 0
    answer.cancel()  # once more, to no effect
    check_ended(client, answer)


def test_loads_are_cancelled_and_nothing_else(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached, go_on = hook.block_make()
    running = client.send(LoadModel(str(tiny_llama), exact()))
    waiting = client.send(LoadModel(str(tiny_llama), exact()))
    read = client.send(Read(HELLO))
    assert reached.wait(PATIENCE)
    waiting.cancel()
    running.cancel()
    go_on.set()
    for handle in (running, waiting):
        with pytest.raises(RequestError, match="loading was cancelled"):
            handle.result(PATIENCE)
        check_ended(client, handle)
        assert events_of(client, handle)[-1].unwanted
    assert read.result(PATIENCE).prompt


def test_a_change_of_the_model_is_cancelled(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached, go_on = hook.block_make()
    change = client.send(Reconfigure(exact(context=100)))
    assert reached.wait(PATIENCE)
    change.cancel()
    go_on.set()
    with pytest.raises(RequestError, match="the change was cancelled"):
        change.result(PATIENCE)
    check_ended(client, change)
    assert not client.of(ExecutorChanged)


def test_a_request_that_waits_for_a_step_is_cancelled(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(4)
    answer = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    lens, effect = client.send(Inspect(2)), client.send(ReadEffect())
    lens.cancel()
    answer.cancel()
    assert problem_of(lens) == CANCELLED
    assert isinstance(effect.result(PATIENCE), EffectRead)
    assert events_of(client, lens) == [Ended(CANCELLED, unwanted=True)]


def test_a_cancelled_answer_leaves_requests_between_two_steps_be(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(4)
    answer = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    lens, gains = client.send(Inspect(2)), client.send(SetInterventions(scales(NONE)))
    text = client.send(TokenizeText("Hello"))
    client.send(Cancel(answer.command))
    assert isinstance(lens.result(PATIENCE), LensResult)
    assert gains.result(PATIENCE).interventions == scales(NONE)
    assert text.result(PATIENCE).result.text == "Hello"
    assert client.until(GenerationFinished).stop_reason == "stopped"
    assert tuple(map(tuple, client.engine._host.runner.gains)) == NONE


def test_a_second_answer_waits_and_its_handle_ends(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(3)
    first = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    second, target = client.send(Generate(HELLO, GREEDY)), client.send(Translate("Hello"))
    assert events_of(client, second) == events_of(client, target) == []
    assert not first.is_over
    first.cancel()
    assert first.result(PATIENCE).stop_reason == "stopped"
    assert second.result(PATIENCE).stop_reason == "length"
    with pytest.raises(RequestError, match="is no encoder-decoder"):
        target.result(PATIENCE)
    for handle in (first, second, target):
        check_ended(client, handle)


def losing(monkeypatch, times):
    """The device is lost so many times as the effect of interventions is read."""
    after, calls = effect.logits_after, []

    def lose(position, replay, **more):
        calls.append(replay)
        if len(calls) <= times:
            raise DeviceLostError("the device was lost")
        return after(position, replay, **more)

    monkeypatch.setattr(effect, "logits_after", lose)
    return calls


def test_a_lost_device_gives_the_request_to_the_executor_that_takes_over(
    client, tiny_llama, monkeypatch
):
    client.load(tiny_llama)
    client.ask()
    calls = losing(monkeypatch, 1)
    effect, lens = client.send(ReadEffect()), client.send(Inspect(2))
    assert effect.result(PATIENCE).kl == pytest.approx(0, abs=1e-6)
    assert client.until(ExecutorChanged).executor.backend == "cpu"
    assert isinstance(lens.result(PATIENCE), LensResult) and len(calls) == 3
    check_ended(client, effect)


def test_a_device_that_is_lost_in_the_middle_of_an_answer(client, tiny_llama, hook, monkeypatch):
    client.load(tiny_llama)
    whole = client.ask()[1]
    losing(monkeypatch, 1)
    asked = []

    def ask(step, stop):
        if not asked:
            asked.append(client.send(ReadEffect()))

    hook.at_step = ask
    finished, tokens = client.ask()
    assert isinstance(asked[0].result(PATIENCE), EffectRead)
    assert (finished.stop_reason, tokens) == ("length", whole)
    assert client.of(ExecutorChanged)[0].executor.backend == "cpu"
    check_ended(client, asked[0])


@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_request_that_fails_on_every_executor_ends(client, tiny_llama, monkeypatch, backend):
    """On the C++ executor, behind which there is no other, at once."""
    client.load(tiny_llama, exact(backend))
    client.ask()
    losing(monkeypatch, 2)
    with pytest.raises(RequestError, match="the device was lost"):
        client.result(ReadEffect())
    assert isinstance(client.result(ReadEffect()), EffectRead)
    assert client.ask()[0].stop_reason == "length"


def test_a_defect_on_the_thread_that_exports_is_a_sentence(client, tiny_llama, monkeypatch):
    client.load(tiny_llama)
    client.ask()
    left = []
    monkeypatch.setattr(threading, "excepthook", left.append)

    def broken(*_):
        raise IndexError("planted")

    monkeypatch.setattr(attention_export, "write", broken)
    with pytest.raises(RequestError, match="an internal error"):
        client.result(ExportMaps("x.npz", ((0, 0),)))
    assert not client.of(MapsExported)


def test_closing_ends_all_that_is_open(client, tiny_llama, hook, monkeypatch):
    go_on = threading.Event()

    def slow(source):
        assert go_on.wait(PATIENCE)
        raise RequestError("it came too late")

    monkeypatch.setattr(tokenizing, "open_tokenizer", slow)
    client.load(tiny_llama)
    reached = hook.block_step(4)
    answer = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    left = [client.send(command) for command in (
        Inspect(2), TokenizeText("Hello", "x"), Read(HELLO), LoadModel(str(tiny_llama), exact()),
        Reconfigure(exact(context=100)), StudyKernels("cpu"),
    )]  # fmt: skip
    assert client.engine.close(PATIENCE)
    assert answer.result(0).stop_reason == "stopped"
    for handle in left:
        if not isinstance(handle.command, Inspect):  # it may have been served before
            assert problem_of(handle) != "", handle.command
        check_ended(client, handle)
    go_on.set()
    late = client.send(Inspect(2))
    with pytest.raises(RequestError, match=CLOSING):
        late.result(0)
    assert client.engine.close(PATIENCE), "once more, to no effect"


def stuck_load(monkeypatch):
    """A file on a server that does not answer: what is set as it is opened, what lets it go on, and
    what is set then."""
    reached, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    open_model = loader.open_model

    def stuck(*arguments, **options):
        reached.set()
        assert go_on.wait(PATIENCE)
        monkeypatch.setattr(loader, "open_model", open_model)
        try:
            return open_model(*arguments, **options)
        finally:
            ended.set()

    monkeypatch.setattr(loader, "open_model", stuck)
    return reached, go_on, ended


def test_a_load_that_was_left_to_itself_tells_nothing_behind_its_end(
    client, tiny_llama, monkeypatch
):
    client.load(tiny_llama)
    reached, go_on, ended = stuck_load(monkeypatch)
    load = client.send(LoadModel(str(tiny_llama), exact()))
    waiting = client.send(Generate(HELLO, GREEDY))
    assert reached.wait(PATIENCE)
    stuck = client.engine._thread
    load.cancel()
    with pytest.raises(RequestError, match="loading was cancelled"):
        load.result(PATIENCE)
    assert waiting.result(PATIENCE).stop_reason == "length", "the model that was there answers"
    go_on.set()
    assert ended.wait(PATIENCE)
    stuck.join(PATIENCE)
    kinds = [type(event) for event in events_of(client, load)]
    assert kinds == [LoadStarted, Ended]
    assert "left to itself" in next(e.text for e in client.of(Logged) if e.level == "warning")


def test_an_engine_that_does_not_close_in_time_leaves_no_handle_open(
    client, tiny_llama, monkeypatch
):
    reached, go_on, _ = stuck_load(monkeypatch)
    load = client.send(LoadModel(str(tiny_llama), exact()))
    waiting = client.send(Read(HELLO))
    assert reached.wait(PATIENCE)
    assert not client.engine.close(0.01)
    for handle in (load, waiting):
        with pytest.raises(RequestError, match=CLOSING):
            handle.result(0)
    go_on.set()


def test_cancel_ends_the_command_that_it_names(client, tiny_llama, hook):
    client.load(tiny_llama)
    reached = hook.block_step(4)
    command = Generate(HELLO, GREEDY)
    answer = client.send(command)
    assert reached.wait(PATIENCE)
    client.result(Cancel(Generate(HELLO, GREEDY)))  # another one, though it says the same
    assert not answer.is_cancelled
    client.result(Cancel(command))
    assert answer.result(PATIENCE).stop_reason == "stopped"
