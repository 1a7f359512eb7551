"""The end of the context: seen coming, and what is done then."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Overflow
from llm_lite.desktop.state.cache_state import ALARM, WARN
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.turns import forecast
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, wrapped

OVERFLOWS: tuple[tuple[Overflow, str], ...] = (
    ("stop", "Stop"),
    ("forget-middle", "Forget the middle"),
    ("rolling", "Rolling"),
)
WHEN_FULL: dict[Overflow, str] = {
    "stop": "When it is full, the answer ends.",
    "forget-middle": (
        "When it is full, the system prompt and the first turn stay, and the oldest turns after "
        "them are forgotten."
    ),
    "rolling": (
        "When it is full, the first few tokens stay, and what follows them is forgotten as new "
        "tokens come."
    ),
}
FORGOTTEN: dict[Overflow, str] = {
    "forget-middle": "the middle is forgotten",
    "rolling": "the oldest is forgotten",
}
SOON: dict[Overflow, str] = {
    "stop": "then the answer ends",
    **{kind: f"then {what}" for kind, what in FORGOTTEN.items()},
}
STAYS = "The whole conversation stays in the window; what the model no longer sees is marked."


def used_share(state: AppState) -> float:
    return state.context_used / max(state.model.context, 1) if state.model else 0.0


def fullness(share: float) -> str:
    """The colour of a context that is so full."""
    return "error" if share >= ALARM else "warning" if share >= WARN else "accent"


def headroom(state: AppState) -> tuple[str, str]:
    """How long the context lasts, in words, and their colour; "" before the first turn."""
    share, found = used_share(state), forecast(state)
    forgets = state.overflow != "stop"  # then nothing ends when it is full
    color = "muted" if share < WARN else "warning" if forgets else fullness(share)
    if found is None:
        return "", color
    if not found.turns and forgets:
        return f"with the next turn, {FORGOTTEN[state.overflow]}", color
    if not found.turns:
        return "the next turn may not fit", color if share >= WARN else "warning"
    turns = f"{found.turns:,} more turn{'s' if found.turns != 1 else ''}"
    return f"room for about {turns}", color


def draw_overflow(ui: Ui, name: str, value: Overflow) -> Overflow:
    """The choice of what happens, and a line that explains it."""
    text(ui, "When the context is full", style="small")
    value = chooser(ui, name, OVERFLOWS, value, tuple(WHEN_FULL.values()))
    wrapped(ui, f"{WHEN_FULL[value]} {STAYS if value != 'stop' else ''}".strip())
    return value


def _phrases(state: AppState, share: float) -> tuple[tuple[str, ...], str]:
    """From the longest to the shortest, and their colour."""
    if share < WARN / 2:
        return (f"{share:.0%} of the context", f"{share:.0%}"), "faint"
    ahead, color = headroom(state)
    soon = SOON[state.overflow] if share >= WARN else ""
    parts = [f"{share:.0%} of the context", *filter(None, (ahead, soon))]
    short = f"{share:.0%} full"
    return ("  ·  ".join(parts), f"{short}  ·  {soon or ahead}", short), color


def shade(state: AppState) -> str:
    """The colour of the meter: nothing ends where something is forgotten instead."""
    color = fullness(used_share(state))
    return "warning" if color == "error" and state.overflow != "stop" else color


def draw_meter(state: AppState, ui: Ui, right: float, y: float, room: float) -> None:
    """In small type up to `right`: how full the context is; as it fills, how long it lasts."""
    share = used_share(state)
    if state.model is None or not state.context_used:
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
