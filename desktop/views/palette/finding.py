"""What the palette lists for a query. It costs the same however many conversations are kept: those
are searched by the history, and come when they are found."""

from __future__ import annotations

from llm_lite.core.records import dataclass
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.palette import items
from llm_lite.desktop.views.palette.items import Item
from llm_lite.desktop.views.palette.matching import Match, fold, match
from llm_lite.desktop.widgets.ui import Ui

SHOWN = 60  # results
NEWEST = 6  # conversations that are listed before anything is typed
RECENT = 25.0  # points for what was chosen lately
SAID = 20.0  # points of a conversation in which the words stand, but not in its title


@dataclass(frozen=True, slots=True)
class Finding:
    item: Item
    at: tuple[int, ...] = ()  # places of the letters that match
    heading: str = ""  # above it


def found(query: str, state: AppState, ui: Ui) -> list[Finding]:
    query = fold(query).strip()
    return _matching(query, state, ui) if query else _offered(state, ui)


def _offered(state: AppState, ui: Ui) -> list[Finding]:
    """Before anything is typed: recent choices, then conversations, then all commands."""
    known = {item.key: item for item in items.fixed(state, ui)}
    talks = {item.key: item for item in items.newest(state)}
    recent = [_recent(key, {**known, **talks}, state) for key in state.palette.recent]
    first = [item for item in recent if item is not None]
    taken = {item.key for item in first}
    newest = [item for item in talks.values() if item.key not in taken][:NEWEST]
    rest = [item for item in known.values() if item.key not in taken]
    rows = _under(tr("Recent choices"), first) + _under(tr("Newest conversations"), newest)
    return rows + _under(tr("All commands"), rest)


def _recent(key: str, known: dict[str, Item], state: AppState) -> Item | None:
    if key.startswith("head:"):
        return next(iter(items.heads(key.removeprefix("head:"), state)), None)
    return known.get(key)


def _under(heading: str, of: list[Item]) -> list[Finding]:
    return [Finding(item, heading="" if number else heading) for number, item in enumerate(of)]


def _matching(query: str, state: AppState, ui: Ui) -> list[Finding]:
    recent = {key: RECENT - place for place, key in enumerate(state.palette.recent)}
    scored: dict[str, tuple[float, Finding]] = {}

    def add(item: Item, fits: Match | None, plus: float = 0.0) -> None:
        if fits is not None and item.key not in scored:
            points = fits.score + plus + recent.get(item.key, 0.0)
            scored[item.key] = (points, Finding(item, fits.at))

    for item in items.heads(query, state):
        add(item, Match(200.0))
    for item in items.fixed(state, ui):
        add(item, match(query, item.title, item.words))
    for item in items.conversations(state):
        add(item, match(query, item.title), -5.0)
    if state.palette.found_for:
        for item in items.said(state):
            add(item, match(query, item.title) or Match(SAID), -5.0)
    ordered = sorted(scored.values(), key=lambda one: -one[0])
    return [row for _, row in ordered[:SHOWN]]
