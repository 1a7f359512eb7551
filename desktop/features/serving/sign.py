"""The sign of the server in the status bar, only while it is on: how many requests run."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.serving.state import ServingState
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.widgets.icons import ICON_SERVE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import tip


def label(serving: ServingState) -> str:
    """Return the words of the sign; "" while the server is off."""
    if serving.phase != "on":
        return ""
    running = len(serving.running)
    words = trn("Serving {n} request", "Serving {n} requests", running).format(n=running)
    if not running:
        words = tr("Serving")
    waiting = f" +{len(serving.waiting)}" if serving.waiting else ""
    return f"{ICON_SERVE}  {words}{waiting}"


def width(state: AppState, ui: Ui) -> float:
    """Return the pixels that the sign takes, with the gap before it; in the font of the bar."""
    words = label(state.serving)
    return imgui.calc_text_size(words).x + ui.u(5) if words else 0.0


def draw_sign(state: AppState, ui: Ui, height: float) -> None:
    """Draw the sign behind the last item of the bar; a click opens the panel."""
    words = label(state.serving)
    if not words:
        return
    side = ui.u(6.5)
    imgui.same_line(0, ui.u(2))
    imgui.set_cursor_pos_y((height - side) / 2)
    color = "link" if state.serving.running else "muted"
    with ui.colored(button="-", text=color), ui.styled(frame_padding=(ui.u(1.5), 0.0)):
        if imgui.button(f"{words}##serving.sign", ImVec2(0, side)):
            ui.show_popover("serving")
    ui.mark("status.serving")
    tip(ui, f"{state.serving.address}\n{tr('Click to see the requests.')}")
