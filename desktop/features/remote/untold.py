"""What an engine elsewhere does not tell is said in the place where it would be shown."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.remote import HeldCache
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_LINK
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts, meter, text, wrapped

PAGES = mark(
    "A server keeps keys and values in pages, for all that ask it. Pages of answers that have "
    "ended stay until others need them: what begins the same is not read again."
)
NOTHING = mark("The server reports its cache when an answer has ended.")


CACHE = mark(
    "The keys and values of this conversation lie on that machine. The server does not "
    "report what its cache holds."
)
STEER = mark("Gains of heads are set where the model runs. OpenAI's protocol has none.")
MODES = mark(
    "How weights are kept was chosen where the server was started. Here it can neither be changed "
    "nor measured."
)
STEP = mark("Where the time of a step goes is measured in the engine of this program only.")
MEMORY = mark("The memory of this conversation lies on that machine, as its server was started.")
EXECUTOR = mark("Device, weights and activations were chosen where the server was started.")
HERE = mark("A model of this machine shows it: disconnect, or open one.")


def draw_there(state: AppState, ui: Ui) -> None:
    """Draw the cache as far as its server reports it."""
    connection = state.remote.connection
    assert connection is not None
    if connection.server.glass:
        draw_where(ui, connection)
        draw_cache_there(state, ui)
    else:
        draw_untold(state, ui, CACHE)


def draw_where(ui: Ui, connection: Connection) -> None:
    with ui.colored(text="accent"), ui.font(style="small"):
        imgui.text_unformatted(ICON_LINK)
    imgui.same_line(0, ui.u(1.5))
    text(ui, connection.where, style="small", bold=True)


def draw_untold(state: AppState, ui: Ui, reason: str, *, way_back: bool = True) -> None:
    """Draw who computes, one sentence why something is not shown, and where it would be."""
    connection = state.remote.connection
    assert connection is not None
    draw_where(ui, connection)
    wrapped(ui, tr(reason))
    if way_back:
        imgui.dummy(ImVec2(0, ui.u(0.5)))
        wrapped(ui, tr(HERE), "faint")


def draw_cache_there(state: AppState, ui: Ui) -> None:
    cache = state.remote.cache
    if cache is None:
        wrapped(ui, tr(NOTHING))
        return
    _draw_gauge(ui, cache)
    imgui.dummy(ImVec2(0, ui.u(1)))
    rows = [
        (tr("Used by answers"), _pages(cache, cache.pages_used), ""),
        (tr("Prefix cache"), _pages(cache, cache.pages_kept), tr(PAGES)),
        (tr("In all"), _pages(cache, cache.pages), ""),
        (tr("This answer"), tr("{n:,} tokens").format(n=cache.tokens), ""),
        (
            tr("Queries kept"),
            tr("from token {n:,} on").format(n=cache.first_query),
            tr("Maps can be made of these tokens and all that follow."),
        ),
    ]
    facts(ui, "remote.cache.facts", rows)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    wrapped(ui, tr(PAGES), "faint")


def _pages(cache: HeldCache, count: int) -> str:
    words = tr("{pages:,} pages, {tokens:,} tokens")
    return words.format(pages=count, tokens=count * cache.page_tokens)


def _draw_gauge(ui: Ui, cache: HeldCache) -> None:
    share = (cache.pages_used + cache.pages_kept) / max(cache.pages, 1)
    words = tr("{share:.0%} of the server's cache is full").format(share=min(share, 1.0))
    text(ui, words, style="small", bold=True)
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(1.5))
    ui.mark("remote.cache")
