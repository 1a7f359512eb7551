"""Reasons why views of a chat have nothing to show of an encoder or an encoder-decoder."""

from __future__ import annotations

from collections.abc import Mapping

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import wrapped

NO_STEPS = mark(
    "Steps are measured while a text is written, and an encoder writes none. How long a text took "
    "stands above its tokens."
)
REASONS: Mapping[str, str] = {  # by the name of a view, or of a panel of the rail
    "lens": mark(
        "The logit lens shows which token each layer would write next. An encoder writes none."
    ),
    "kv_cache": mark(
        "An encoder reads a whole text at once and keeps nothing of it for the next: there is no "
        "cache to fill."
    ),
    "runs": mark("Two runs answer one prompt. An encoder writes no answers."),
    "sampler": mark("Sampling chooses the next token of an answer. An encoder writes none."),
    "system_prompt": mark("A system prompt opens a conversation. An encoder holds none."),
    "tools": mark("Tools are called by answers. An encoder writes none."),
    "serving": mark(
        "This window serves chats, and an encoder holds none. On the command line, `llm-lite "
        "serve` serves its vectors at /v1/embeddings."
    ),
    "memory": mark("An encoder needs no memory for a conversation: it reads one text at a time."),
    "report": mark(
        "The report compares how well modes foresee the next token. An encoder foresees none: "
        "compare the similarities of Pairs in each mode."
    ),
}
BARE = ("runs",)  # views that draw to their edges
TRANSLATOR_REASONS: Mapping[str, str] = {  # of an encoder-decoder
    "runs": mark(
        "Two runs answer one message of a chat. To compare weights with an encoder-decoder, write "
        "a target, choose another mode in the Quantization view, and write it again: the scores "
        "of both can be compared."
    ),
    "sampler": mark(
        "Sampling draws the next token of an answer. A target is searched for instead, by greedy "
        "decoding or a beam: choose it below the source."
    ),
    "system_prompt": mark(
        "A system prompt opens a conversation, and an encoder-decoder holds none. Where its file "
        "names tasks, choose one above the source."
    ),
    "tools": mark("Tools are called by answers of a chat. An encoder-decoder calls none."),
    "serving": mark(
        "This window serves chats, and an encoder-decoder holds none. On the command line, "
        "`llm-lite serve` serves its targets."
    ),
    "report": mark(
        "The report compares how well modes foresee running text, and an encoder-decoder does not "
        "continue texts. Write a target in two modes and compare its scores."
    ),
}


def draw_reason(state: AppState, ui: Ui, name: str) -> bool:
    """Draw why the model in use has nothing for the view, and return whether there is such a
    reason."""
    reasons = REASONS if state.encodes else TRANSLATOR_REASONS if state.writes_targets else {}
    if name not in reasons or (name == "serving" and state.serving.phase != "off"):
        return False  # a server that runs can be switched off
    if name in BARE:
        imgui.set_cursor_pos((ui.u(4), ui.u(4)))
        imgui.begin_child("reason", ImVec2(imgui.get_content_region_avail().x - ui.u(4), 0))
    wrapped(ui, tr(reasons[name]))
    ui.mark(f"encoding.reason.{name}")
    if name in BARE:
        imgui.end_child()
    return True
