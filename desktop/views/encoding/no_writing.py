"""Views and panels of what a model writes say, of an encoder, why there is nothing to show."""

from __future__ import annotations

from collections.abc import Mapping

from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import wrapped

STEPS = mark(
    "Steps are measured while a text is written, and an encoder writes none. How long a text took "
    "stands above its tokens."
)
REASONS: Mapping[str, str] = {  # by the name of a view, or of a panel of the rail
    "conversations": mark(
        "An encoder holds no conversations. They are here again with a model that writes."
    ),
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


def draw_reason(state: AppState, ui: Ui, name: str) -> bool:
    """Whether an encoder is in use and the view is of what is written; the sentence is drawn."""
    if not state.encodes or name not in REASONS:
        return False
    wrapped(ui, tr(REASONS[name]))
    ui.mark(f"encoding.reason.{name}")
    return True
