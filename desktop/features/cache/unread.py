"""The part of the conversation in front that is not in the cache: all views say the same about it,
and it is read by itself where that is quick, else by a button."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import CompareAnswer, CompareRuns
from llm_lite.desktop.features.attention.model import ReadAgain
from llm_lite.desktop.features.cache.overflow import used_share
from llm_lite.desktop.features.chat.reading import seconds_to_read, tokens_in_front
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle, reading_key, under_way
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import offer_status
from llm_lite.desktop.features.tokens.state import unread
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration
from llm_lite.desktop.widgets.head_maps import HeadMaps
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, meter, text, wrapped

AT_ONCE = 2.0  # seconds: a conversation that is read in less is read without a question
SETTLED = 0.7  # seconds without a change, before it is
NOTHING = mark("The cache does not hold this conversation.")
OTHER = mark(
    "The cache holds the first {n:,} of {whole:,} tokens of this conversation as it is now."
)
OTHER_UNCOUNTED = mark("The cache holds the first {n:,} tokens of this conversation as it is now.")
QUERIES = mark(
    "The queries of the first {n:,} tokens were not kept. They come when the conversation is read "
    "again."
)
MORE = mark("The cache goes on with {n:,} tokens of another version of this conversation.")


class Unread(Struct, frozen=True):
    """The part that views lack of the conversation in front: all behind the first `held` tokens, of
    `whole` where that is known; or, with `queries`, the queries of the first tokens."""

    held: int
    whole: int | None
    queries: int = 0
    more: int = 0  # tokens of another version that the cache has behind all of this one


def unread_part(state: AppState, maps: HeadMaps | None = None) -> Unread | None:
    """Return what is not read; None where all is, where an answer is being written, and where a
    server has the cache. With `maps`, queries count too, but for those of a comparison that runs:
    behind it the engine reads again what the cache held."""
    here = state.model is not None and state.holds_conversations and not state.elsewhere
    if not here or not state.messages or state.running:
        return None
    held, whole = len(state.owners), tokens_in_front(state)
    if _lacks_message(state) or state.in_front.is_cut:
        return Unread(held, whole)
    if more := state.cached.length - state.in_front.used:
        return Unread(held, whole, more=more)
    if maps is None or maps.problem or not maps.layers:
        return None
    if any(isinstance(command, CompareAnswer | CompareRuns) for command in under_way(state)):
        return None
    first = maps.rows.start
    return Unread(held, whole, first) if first > max(0, maps.length - maps.ring_rows) else None


def _lacks_message(state: AppState) -> bool:
    """Return whether a message with text was not read: it has no token in the cache, nor one that
    was forgotten to make room; found once for a text and a conversation, as every view asks in each
    frame."""
    global _last
    (known, messages), lacks = _last
    owners = state.in_front.all_owners or state.owners
    if known is not owners or messages is not state.messages:
        lacks = unread(owners, [bool(message.whole) for message in state.messages])
        _last = (owners, state.messages), lacks
    return lacks


_last: tuple[tuple[object, object], bool] = (None, None), False


def words(found: Unread) -> str:
    """Return what is not read, as a sentence."""
    if found.queries:
        return tr(QUERIES).format(n=found.queries)
    if found.more:
        return tr(MORE).format(n=found.more)
    if not found.held:
        return tr(NOTHING)
    if found.whole is None:
        return tr(OTHER_UNCOUNTED).format(n=found.held)
    return tr(OTHER).format(n=found.held, whole=found.whole)


def is_read_at_once(state: AppState) -> bool:
    """Return whether the conversation may be read without a question: in under two seconds, once,
    while the engine has nothing else to do and no kept cache waits to be resumed."""
    whole, offer = tokens_in_front(state), offer_status(state)
    waits = offer is not None and offer.phase in ("checking", "ready", "resuming")
    if whole is None or obstacle(state) or used_share(state) > 1:
        return False
    if waits and not state.resume.dismissed:
        return False
    if state.read_for == reading_key(state):  # which brought no more
        return False
    return 0 < seconds_to_read(state, whole) < AT_ONCE


def draw_unread(state: AppState, ui: Ui, name: str, maps: HeadMaps | None = None) -> list[Action]:
    """Draw what is not read, if anything is not, and the button that reads the conversation again;
    one that is read quickly is read at once."""
    if state.reading is not None:
        draw_reading(state, ui)
        return []
    found = unread_part(state, maps)
    compares = state.cached.used and state.cached.prompt_settings != state.prompt_settings
    if found is None or (compares and state.counted.asked is not None):
        return []
    if is_read_at_once(state):
        return [ReadAgain()] if _has_settled(state, ui) else []
    wrapped(ui, words(found))
    ui.mark(f"{name}.unread")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    return draw_read_again(state, ui, name)


class Settling(Struct):
    """The conversation and settings that were in front last, and since when."""

    key: tuple[object, ...] = ()
    since: float = 0.0  # seconds, as `Ui.now`


def _has_settled(state: AppState, ui: Ui) -> bool:
    """Return whether the same has been in front for a moment: a prompt is typed letter by letter,
    and versions are looked through."""
    held, key = ui.local(Settling), reading_key(state)
    if held.key != key:
        held.key, held.since = key, ui.now
    left = held.since + SETTLED - ui.now
    if left > 0:
        ui.redraw_in(left)
    return left <= 0


def draw_read_again(state: AppState, ui: Ui, name: str) -> list[Action]:
    """Draw the button that reads the conversation in front, with the time that this takes; not one
    that is longer than the context."""
    fits = used_share(state) <= 1
    hint = "" if fits else tr("It is longer than the context, and cannot be read whole.")
    seconds = seconds_to_read(state, tokens_in_front(state) or 0)
    label = tr("Read this conversation again")
    if seconds:
        label = tr("Read this conversation again: {time}").format(time=duration(1e3 * seconds))
    again = button(ui, f"{name}.read", label, hint=hint, enabled=fits)
    return [ReadAgain()] if again else []


def draw_reading(state: AppState, ui: Ui) -> None:
    """Draw how much has been read of the conversation on its way into the cache."""
    reading = state.reading
    assert reading is not None
    progress = tr("Reading {n:,} of {whole:,} tokens") if reading.total else tr("Reading")
    text(ui, progress.format(n=reading.done, whole=reading.total), "muted", "small")
    imgui.same_line(0, ui.u(2))
    x, y = imgui.get_cursor_pos_x(), imgui.get_cursor_pos_y()
    imgui.set_cursor_pos_y(y + (ui.theme.size("small") - ui.u(1)) / 2)
    meter(ui, reading.done / max(reading.total, 1), ui.u(30), ui.u(1))
    imgui.set_cursor_pos((x, y))
    imgui.dummy(ImVec2(ui.u(30), ui.theme.size("small")))
