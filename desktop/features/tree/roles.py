"""The names of the roles of messages."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Role
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import text, tip

SPEAKERS: dict[Role, str] = {
    "user": mark("You"),
    "assistant": mark("Answer"),
    "system": mark("System"),
    "tool": mark("Tool"),
    "text": mark("Text"),
}
TIPS: dict[Role, str] = {  # of messages of neither a person nor a model
    "system": mark(
        "An instruction within the conversation. The model is told it as one where its chat "
        "template knows such, else as yours."
    ),
    "tool": mark(
        "What a tool has answered. The model is told it as a tool's where its chat template knows "
        "tools, else as yours."
    ),
}


def speaker(role: Role) -> str:
    return tr(SPEAKERS[role])


def draw_role(ui: Ui, role: Role, right: float, top: float) -> None:
    """Draw the role above a message of neither a person nor a model, at its right edge, with a tip
    on how a template formats it."""
    words = speaker(role)
    with ui.font("bold", "small"):
        wide = imgui.calc_text_size(words).x
    imgui.set_cursor_screen_pos(ImVec2(right - wide, top))
    text(ui, words, "muted", "small", bold=True)
    ui.mark(f"role.{role}")
    tip(ui, tr(TIPS[role]) if role in TIPS else "")
