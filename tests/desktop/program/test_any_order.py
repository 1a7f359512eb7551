"""The state stays sound, whatever comes in whatever order."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from llm_lite.core.messages import (
    NO_CHANGES,
    Alternative,
    AttentionRows,
    EffectRead,
    Ended,
    EngineOptions,
    Event,
    ExecutorChanged,
    Generate,
    GenerationFinished,
    GenerationStarted,
    Inspect,
    Interventions,
    InterventionsSet,
    LensResult,
    LoadModel,
    LoadProgress,
    LoadStarted,
    Logged,
    ModelLoaded,
    PrefillProgress,
    ReadAttentionRows,
    ReadEffect,
    Reconfigure,
    SamplingOptions,
    SetInterventions,
    TokenDecoded,
)
from llm_lite.core.messages.interventions import Shift
from llm_lite.desktop.features.chat.model import (
    CancelEdit,
    ContinueAnswer,
    EditMessage,
    NewChat,
    Regenerate,
    Send,
    SetDraft,
    SetSampling,
    StopAnswer,
)
from llm_lite.desktop.features.program.asking import Ask
from llm_lite.desktop.features.program.model import (
    CancelLoading,
    ChooseFile,
    ClearLog,
    DismissNotice,
    OpenModel,
    ResetLayout,
    SetFontSize,
    SetOptions,
    SetTheme,
)
from llm_lite.desktop.features.program.state import (
    AppState,
)
from llm_lite.desktop.features.steer.model import (
    AnswerSteered,
    EndComparison,
    LoadInterventions,
    Steer,
)
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import XRay
from llm_lite.desktop.features.tree.model import ContinueFrom, SwitchVersion
from tests.changes import scales
from tests.desktop.engine.model import EXECUTOR, MODEL
from tests.desktop.program.test_state import STATS, play

WEIGHED = scales(((0.5,) * MODEL.heads,) * MODEL.layers)
SHIFTED = Interventions((Shift("layers.0.feed_forward.residual", (1.0,)),))
CHANGES = st.sampled_from([NO_CHANGES, WEIGHED, SHIFTED])
words = st.sampled_from(["", "a", "안녕", "x" * 50])
WEIGHTS = st.just((0.5, 0.5))


class Reply(Struct, frozen=True):
    """An event of a command of a kind: of the last one, or of one before it."""

    kind: type
    event: Event
    back: int = 1


def answered(events):
    return st.builds(Reply, st.just(Generate), events, st.integers(1, 3))


def replies(kind, results):
    return st.builds(Reply, st.just(kind), results | st.builds(Ended, words))


events = st.one_of(
    st.builds(LoadStarted, words),
    st.builds(LoadProgress, words, st.floats(-1, 2)),
    st.builds(ModelLoaded, st.just(MODEL), st.just(EXECUTOR), st.floats(0, 9)),
    st.builds(Reply, st.just(LoadModel), st.builds(Ended, words, st.booleans())),
    st.builds(Reply, st.just(Reconfigure), st.builds(Ended, words, st.booleans())),
    st.builds(ExecutorChanged, st.just(EXECUTOR), st.just(MODEL)),
    answered(st.builds(GenerationStarted, st.integers(0, 9), st.integers(0, 9))),
    answered(st.builds(PrefillProgress, st.integers(0, 9), st.integers(0, 9))),
    answered(
        st.builds(TokenDecoded, st.integers(0, 9), words, st.just(0.5), st.integers(0, 9)),
    ),
    answered(
        st.builds(
            GenerationFinished,
            st.sampled_from(["end", "length", "stopped", "context"]),
            st.just(STATS),
            words,
        )
    ),
    answered(st.builds(Ended, words, st.booleans())),
    replies(
        ReadAttentionRows, st.builds(AttentionRows, st.integers(0, 9), st.just("from"), WEIGHTS)
    ),
    replies(Inspect, st.builds(LensResult, st.integers(0, 9), st.just(()))),
    replies(SetInterventions, st.builds(InterventionsSet, CHANGES)),
    replies(ReadEffect, st.builds(EffectRead, st.floats(0, 9))),
    st.builds(Logged, st.sampled_from(["info", "warning", "error"]), words, st.just(0.0)),
)
deeds = st.one_of(
    st.builds(Send, words),
    st.builds(SetDraft, words),
    st.builds(EditMessage, st.integers(-1, 5)),
    st.builds(OpenModel, st.one_of(st.none(), words)),
    st.builds(SetOptions, st.sampled_from([EngineOptions(), EngineOptions(backend="cpu")])),
    st.builds(SetSampling, st.just(SamplingOptions(temperature=0.0))),
    st.builds(SetFontSize, st.floats(0, 99)),
    st.builds(DismissNotice, st.integers(0, 9)),
    st.builds(SetXRay, st.builds(XRay, shown=st.booleans(), at=st.integers(0, 9))),
    st.builds(Ask, st.just(LENS), st.builds(Inspect, st.integers(0, 9))),
    st.builds(
        ContinueFrom, st.integers(-1, 5), st.integers(0, 3), st.just(Alternative(7, "x", 0.5))
    ),
    st.builds(SwitchVersion, st.integers(-1, 5), st.integers(-1, 3)),
    st.builds(Steer, CHANGES),
    st.builds(LoadInterventions, CHANGES),
    st.sampled_from(
        [
            StopAnswer(),
            ContinueAnswer(),
            Regenerate(),
            CancelEdit(),
            NewChat(),
            CancelLoading(),
            ClearLog(),
            ChooseFile(),
            ResetLayout(),
            SetTheme("light"),
            AnswerSteered(),
            EndComparison(),
        ]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(events, deeds), max_size=40))
def test_any_order_of_events_and_actions_keeps_the_state_sound(steps):
    state, commands = AppState(), []
    for number, step in enumerate(steps):
        if isinstance(step, Reply):
            asked = [one for one in commands if isinstance(one, step.kind)]
            if len(asked) < step.back:
                continue
            step = (step.event, asked[-step.back])
        state, more = play(state, step, start=0.1 * number)
        commands += more
    assert state.running is None or state.messages
    assert state.editing is None or 0 <= state.editing < len(state.messages)
    for index, message in enumerate(state.messages):
        assert message.id in state.tree.versions(index)
    for message in state.tree:
        assert state.tree.path_to(message.id)[-1] is message
    comparing = state.comparing
    if comparing is not None:
        assert comparing.base in state.tree.versions(comparing.index)
    for command in commands:
        if isinstance(command, Generate):
            assert command.messages[-1].role == ("assistant" if command.continue_last else "user")
