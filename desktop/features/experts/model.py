"""The question which experts the tokens chose."""

from __future__ import annotations

from llm_lite.core.messages import ReadRouting, RoutingRead
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState


def question(state: AppState) -> ReadRouting:
    """Return what is asked next: of the tokens that are not known yet."""
    read = ROUTING.answer(state)
    return ReadRouting(0 if read is None else read.first + read.count)


def _cut(read: RoutingRead, end: int) -> RoutingRead:
    """Return the choices of the tokens before a position."""
    each = len(read.layers) * read.chosen * (end - read.first)
    return replace(
        read, experts_chosen=read.experts_chosen[: 2 * each], shares=read.shares[: 4 * each]
    )


def joined(held: RoutingRead | None, found: RoutingRead, asked: ReadRouting) -> RoutingRead | None:
    """Return what was found behind what is held of the tokens before; None where choices of tokens
    between are missing, or those that are held are of others: all is asked again."""
    if asked.first == 0:
        return found
    if held is None or found.epoch != held.epoch or found.first != asked.first:
        return None
    before = _cut(held, asked.first)
    return replace(
        found,
        first=held.first,
        experts_chosen=before.experts_chosen + found.experts_chosen,
        shares=before.shares + found.shares,
    )


ROUTING: Slot[RoutingRead] = Slot(
    "routing", ReadRouting, RoutingRead, lambda asked: "so-far", join=joined, recorded=True
)
