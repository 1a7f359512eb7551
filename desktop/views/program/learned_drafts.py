"""Whether drafts learn from answers, how much they have learned, and the end of it: in the menu of
executors."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.core.messages import DraftLearning, DraftsLearned, EngineOptions
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.learned_drafts import ForgetLearned
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.units import size
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, text, wrapped

LEARNING: tuple[tuple[DraftLearning, str], ...] = (
    ("off", mark("Off")), ("use", mark("Use only")), ("learn", mark("Learn")),
)  # fmt: skip
HINTS: dict[DraftLearning, str] = {
    "off": mark("What was answered in other conversations is not used, and nothing is learned."),
    "use": mark("Draft from what was learned so far. Nothing is added to it."),
    "learn": mark(
        "Draft from this model's answers in other conversations too. Which tokens follow "
        "which in them is kept in a small file on this machine. Questions are not learned."
    ),
}
DELETE_HINT = mark("Delete what was learned, of all models. Conversations stay.")
NOTHING = mark("Nothing is learned yet.")


def draw_learned_drafts(ui: Ui, options: EngineOptions) -> EngineOptions:
    """The options as they are chosen."""
    text(ui, tr("Drafts learned from answers"), style="small")
    hints = [tr(words) for words in HINTS.values()]
    labels, before = tr_labels(LEARNING), options.learned_drafts
    chosen = chooser(ui, "executor.learned", labels, before, hints)
    wrapped(ui, tr(HINTS[chosen]))
    return replace(options, learned_drafts=chosen)


def draw_learned(state: AppState, ui: Ui) -> list[Action]:
    """How much was learned, and the way to be rid of it; nothing before the engine has said so."""
    learned = state.learned_drafts
    if learned is None:
        return []
    if not learned.answers and not learned.disk_bytes:
        wrapped(ui, tr(NOTHING), "faint")
        return []
    words = learned_words(learned)
    side = ui.u(6)
    top, right = imgui.get_cursor_pos_y(), ui.right(side)
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("small")) / 2)
    text(ui, words, "muted", "small")
    ui.mark("executor.learned.used")
    imgui.same_line(right)
    imgui.set_cursor_pos_y(top)
    name, hint = "executor.learned.delete", tr(DELETE_HINT)
    if icon_button(ui, name, ICON_TRASH, hint, side=side, style="small"):
        return [ForgetLearned()]
    return []


def learned_words(learned: DraftsLearned) -> str:
    """Of the model in use how many answers, of all models how much on disk."""
    parts = []
    if learned.answers:
        many = trn("{n:,} answer learned", "{n:,} answers learned", learned.answers)
        parts.append(many.format(n=learned.answers))
    if learned.disk_bytes:
        parts.append(tr("{size} on disk").format(size=size(learned.disk_bytes)))
    return "  ·  ".join(parts)
