"""States of the window whose conversation is in the engine's cache."""

from llm_lite.core.records import replace
from llm_lite.desktop.features.program.asked import Asked, Exchange
from llm_lite.desktop.features.program.cached_text import CachedText


def with_cached(state, texts=(), owners=None, used=None):
    """Return the state with a text in the cache that is all of what is in front: texts of its
    tokens and their owners, of which `used` are computed. Where only `used` is given, what the
    tokens are is not known."""
    texts = tuple(texts)
    if owners is None:
        owners = (0 if state.messages else -1,) * len(texts or range(used or 0))
    used = max(len(texts), len(owners)) if used is None else used
    texts = texts or ("x",) * len(owners)
    cached = CachedText(
        state.chat,
        tuple(message.id for message in state.messages),
        state.prompt_settings if state.holds_conversations else None,
        texts=texts,
        ids=tuple(range(len(texts))),
        owners=tuple(owners),
        used=used,
        runs=((0, 0),),
        computed=used,
    )
    return replace(state, cached=cached)


def with_answer(state, slot, question, answer=None, problem=""):
    """Return the state with an answer to a question about what is in front, or why there is
    none."""
    asked = Asked(question, slot.stamp(state), answer, problem)
    return replace(state, asks={**state.asks, slot: Exchange(answered=asked)})
