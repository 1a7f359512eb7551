"""Questions about rows of attention: of the token under the pointer, and of one by each large
head."""

from __future__ import annotations

from llm_lite.core.messages import (
    AttentionPart,
    AttentionRows,
    AttentionRowsMode,
    Direction,
    ReadAttentionRows,
)
from llm_lite.desktop.features.attention.state import Head
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Extent, Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark

NOTHING_LOCKED = mark("Lock heads in the Attention view first: click their maps.")
MODES: dict[str, AttentionRowsMode] = {
    "head": "heads",
    "layer": "layer-mean",
    "locked": "heads",
    "rollout": "rollout",
}
HeadRows = dict[tuple[AttentionPart, Head], AttentionRows]  # of one token


def extent(question: ReadAttentionRows) -> Extent:
    """Return the tokens that a row depends on: those that the token sees, or all that may look
    back at it."""
    if question.part == "encoder":  # each token of a source sees all of it
        return "all"
    return question.position + 1 if question.direction == "from" else "at-rest"


def _beside(known: HeadRows | None, rows: AttentionRows, question: ReadAttentionRows) -> HeadRows:
    """Return the rows of further heads beside those of the same token."""
    key = (question.part, question.heads[0])
    if known is None or any(one.position != rows.position for one in known.values()):
        return {key: rows}
    return {**known, key: rows}


ROWS: Slot[AttentionRows] = Slot("rows", ReadAttentionRows, AttentionRows, extent, recorded=True)
HEAD_ROWS: Slot[HeadRows] = Slot(
    "head-rows", ReadAttentionRows, AttentionRows, extent, join=_beside, recorded=True
)


def is_held(state: AppState, position: int) -> bool:
    """Return whether the cache holds a token of what is in front at a position."""
    if (
        state.elsewhere and state.holds_conversations
    ):  # a server need not report the tokens of its prompt
        return bool(state.owners)
    return position < min(len(state.owners), state.context_used) or not state.holds_conversations


def pointed_question(state: AppState) -> ReadAttentionRows | None:
    """Return what is asked about the token under the pointer; None while there is none."""
    xray = state.xray
    if xray.at is None or not is_held(state, xray.at) or lacks_heads(state):
        return None
    direction: Direction = "to" if xray.looks_back else "from"
    heads = ((xray.layer, xray.head),) if xray.by == "head" else state.attention.locked
    return ReadAttentionRows(
        xray.at,
        direction,
        MODES[xray.by],
        heads if MODES[xray.by] == "heads" else (),
        xray.layer,
        state.attention.exclude_first,
    )


def lacks_heads(state: AppState) -> bool:
    """Return whether the mean over locked heads is to be shown, and none is locked."""
    return state.xray.by == "locked" and not state.attention.locked


def rows_of(state: AppState, question: ReadAttentionRows | None) -> AttentionRows | None:
    """Return the rows that answer a question about a token, with a sentence in their place where
    there are none; None before they are read."""
    known = ROWS.answered(state)
    if question is None or known is None or known.question != question:
        return None
    if known.problem:
        return AttentionRows(question.position, question.direction, (), known.problem)
    rows: AttentionRows = known.answer
    return rows


def pointed_rows(state: AppState) -> AttentionRows | None:
    """Return where the token under the pointer looks, or what looks at it, as `rows_of` does."""
    if state.xray.at is not None and lacks_heads(state):
        direction: Direction = "to" if state.xray.looks_back else "from"
        return AttentionRows(state.xray.at, direction, (), NOTHING_LOCKED)
    return rows_of(state, pointed_question(state))


def ask_pointed(state: AppState) -> list[Action]:
    """Ask about the token under the pointer."""
    question = pointed_question(state)
    return ROWS.wanted(state, question) if question is not None else []
