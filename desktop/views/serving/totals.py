"""What the server did since it was switched on, and how full its cache is."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ServingStatus
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.serving.serving_state import ServingState
from llm_lite.desktop.state.units import percent
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import facts, labelled

CACHE_HINT = mark(
    "Memory for what requests read and write, in pages. Pages of ended requests stay for later "
    "ones that begin alike, until others need them."
)


def draw_totals(serving: ServingState, ui: Ui) -> None:
    status = serving.status
    if status.pages:
        _draw_cache(status, ui)
    if not any((status.finished, status.cancelled, status.failed, status.refused)):
        return
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    facts(ui, "serving.totals", rows(status))


def rows(status: ServingStatus) -> list[tuple[str, str, str]]:
    """Name, value and what it means."""
    ended = [
        (status.finished, tr("answered")),
        (status.cancelled, tr("cancelled")),
        (status.failed, tr("failed")),
        (status.refused, tr("refused")),
    ]
    told = "  ·  ".join(f"{count:,} {words}" for count, words in ended if count)
    reused = status.cached_tokens / status.prompt_tokens if status.prompt_tokens else 0.0
    prompts, answers = (
        tr("{n:,} tokens").format(n=count) for count in (status.prompt_tokens, status.new_tokens)
    )
    share = tr("{share} from the cache").format(share=percent(reused))
    return [
        (tr("Requests"), told, tr("A request is refused while too many others wait.")),
        (tr("Prompts"), f"{prompts}  ·  {share}", tr("Tokens of all prompts.")),
        (tr("Answers"), answers, tr("Tokens of all answers.")),
    ]


def _draw_cache(status: ServingStatus, ui: Ui) -> None:
    """One bar: what running requests hold, and behind it what is kept of ended ones."""
    words = tr("{used} in use, {kept} kept, of {pages} pages").format(
        used=f"{status.pages_used:,}", kept=f"{status.pages_kept:,}", pages=f"{status.pages:,}"
    )
    labelled(ui, tr("Cache"), words, tr(CACHE_HINT))
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, ui.u(1.5)
    radius, used = height / 2, min(1.0, status.pages_used / status.pages)
    held = min(1.0, (status.pages_used + status.pages_kept) / status.pages)
    end = ImVec2(at.x + width, at.y + height)
    draw.add_rect_filled(at, end, ui.color("pressed"), radius)
    for share, color, alpha in ((held, "accent", 0.4), (used, "accent", 1.0)):
        if share > 0:
            filled = ImVec2(at.x + max(width * share, height), end.y)
            draw.add_rect_filled(at, filled, ui.color(color, alpha), radius)
    imgui.dummy(ImVec2(width, height))
    ui.mark("serving.cache")
