"""The end of the context: seen coming, and what is done then."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Overflow
from llm_lite.desktop.features.cache.state import ALARM, WARN
from llm_lite.desktop.features.chat.reading import forecast, tokens_in_front
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, wrapped

OVERFLOWS: tuple[tuple[Overflow, str], ...] = (
    ("stop", mark("Stop")),
    ("forget-middle", mark("Forget the middle")),
    ("rolling", mark("Rolling")),
)
WHEN_FULL: dict[Overflow, str] = {
    "stop": mark("When it is full, the answer ends."),
    "forget-middle": mark(
        "When it is full, the system prompt and the first turn stay, and the oldest turns after "
        "them are forgotten."
    ),
    "rolling": mark(
        "When it is full, the first few tokens stay, and what follows them is forgotten as new "
        "tokens come."
    ),
}
NEXT: dict[Overflow, str] = {
    "stop": mark("the next turn may not fit"),
    "forget-middle": mark("with the next turn, the middle is forgotten"),
    "rolling": mark("with the next turn, the oldest is forgotten"),
}
SOON: dict[Overflow, str] = {
    "stop": mark("then the answer ends"),
    "forget-middle": mark("then the middle is forgotten"),
    "rolling": mark("then the oldest is forgotten"),
}
TOO_LONG: dict[Overflow, str] = {
    "stop": "",
    "forget-middle": mark("the middle is forgotten"),
    "rolling": mark("the oldest is forgotten"),
}
STAYS = mark("The whole conversation stays in the window; what the model no longer sees is marked.")


def used_share(state: AppState) -> float:
    """Return the share of the context that the conversation in front takes; 0 where a server does
    not tell how long its context is."""
    whole = state.model.context if state.model else 0
    return (tokens_in_front(state) or 0) / whole if whole else 0.0


def fullness(share: float) -> str:
    """Return the colour for this share of the context."""
    return "error" if share >= ALARM else "warning" if share >= WARN else "accent"


def headroom(state: AppState) -> tuple[str, str]:
    """Return how long the context lasts, in words, and their colour; "" before the first turn."""
    share, found = used_share(state), forecast(state)
    forgets = state.overflow != "stop"  # then nothing ends when it is full
    color = "muted" if share < WARN else "warning" if forgets else fullness(share)
    if found is None:
        return "", color
    if not found.turns:
        return tr(NEXT[state.overflow]), color if forgets or share >= WARN else "warning"
    words = trn("room for about {n:,} more turn", "room for about {n:,} more turns", found.turns)
    return words.format(n=found.turns), color


def draw_overflow(ui: Ui, name: str, value: Overflow) -> Overflow:
    """Draw the choice of what happens, and a line that explains it."""
    text(ui, tr("When the context is full"), style="small")
    value = chooser(ui, name, tr_labels(OVERFLOWS), value, [tr(how) for how in WHEN_FULL.values()])
    wrapped(ui, f"{tr(WHEN_FULL[value])} {tr(STAYS) if value != 'stop' else ''}".strip())
    return value


def _phrases(state: AppState, share: float) -> tuple[tuple[str, ...], str]:
    """Return phrases from the longest to the shortest, and their colour."""
    if share < WARN / 2:
        return (tr("{share:.0%} of the context").format(share=share), f"{share:.0%}"), "faint"
    if share > 1:
        whole, follows = tr("longer than the context"), TOO_LONG[state.overflow]
        short = tr(follows) if follows else tr("too long")
        return (f"{whole}  ·  {short}" if follows else whole, short), shade(state)
    ahead, color = headroom(state)
    soon = tr(SOON[state.overflow]) if share >= WARN else ""
    parts = [tr("{share:.0%} of the context").format(share=share), *filter(None, (ahead, soon))]
    short = tr("{share:.0%} full").format(share=share)
    return ("  ·  ".join(parts), f"{short}  ·  {soon or ahead}", short), color


def shade(state: AppState) -> str:
    """Return the colour of the meter: nothing ends where something is forgotten instead."""
    color = fullness(used_share(state))
    return "warning" if color == "error" and state.overflow != "stop" else color


def draw_meter(state: AppState, ui: Ui, right: float, y: float, room: float) -> None:
    """Draw in small type, up to `right`, how full the context is, and how long it lasts as it
    fills."""
    share = used_share(state)
    if state.model is None or not state.model.context or not tokens_in_front(state):
        return
    phrases, color = _phrases(state, share)
    bar, height, draw = ui.u(12), ui.u(0.75), imgui.get_window_draw_list()
    with ui.font(style="small"):
        fitting = [p for p in phrases if imgui.calc_text_size(p).x + bar + ui.u(2) <= room]
        if not fitting:
            return
        wide = imgui.calc_text_size(fitting[0]).x
        draw.add_text(ImVec2(round(right - wide), y), ui.color(color), fitting[0])
    low = ImVec2(right - wide - ui.u(2) - bar, y + (ui.theme.size("small") - height) / 2)
    high = ImVec2(low.x + bar, low.y + height)
    draw.add_rect_filled(low, high, ui.color("pressed"), height / 2)
    filled = ImVec2(low.x + max(bar * min(share, 1.0), height), high.y)
    draw.add_rect_filled(low, filled, ui.color(shade(state)), height / 2)
    ui.rects["chat.context"] = (low.x, y, right, y + ui.theme.size("small"))
