"""Events of an answer, a reading or a target, as an engine reports them: each with its command."""

from llm_lite.core.messages import (
    CacheRewritten,
    ConversationRead,
    GenerationFinished,
    GenerationStarted,
    PrefillProgress,
    SourceRead,
    TargetFinished,
    TargetGrown,
    TokenDecoded,
)
from llm_lite.desktop.features.program.apply import apply

ANSWERED = (GenerationStarted, PrefillProgress, TokenDecoded, CacheRewritten, GenerationFinished)
TRANSLATED = (SourceRead, TargetGrown, TargetFinished)


def command_of(event, state):
    """The command under way that such an event is of; None where there is none, or for others."""
    if isinstance(event, ANSWERED) and state.running is not None:
        return state.running.asked
    if isinstance(event, ConversationRead | PrefillProgress) and state.reading is not None:
        return state.reading.asked
    return state.translating.writing if isinstance(event, TRANSLATED) else None


def fold_reports(state, *events, now=1.0):
    """The state after events of the commands under way."""
    for event in events:
        state = apply(event, state, now, command_of(event, state))
    return state
