"""Caches of conversations on disk: whether they are kept, how much they may take, and whose."""

from __future__ import annotations

import time

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import ClearKept, SetResume
from llm_lite.desktop.features.resume.state import KeptCache, ResumeMode, ResumeState
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, meter, text, tip, wrapped

MODES: tuple[tuple[ResumeMode, str], ...] = (
    ("off", mark("Off")),
    ("ask", mark("Ask")),
    ("always", mark("Always")),
)
HINTS: dict[ResumeMode, str] = {
    "off": mark("Nothing is kept on disk. A conversation that is opened is read again."),
    "ask": mark("The KV cache of a conversation is saved on disk, and offered when it is opened."),
    "always": mark("A saved KV cache is loaded as soon as its conversation is opened."),
}
BUDGETS = (*(n << 28 for n in (1, 2)), *(n << 30 for n in (1, 2, 4, 8, 16, 32, 64)))
BUDGET_HINT = mark("Those that were not opened for longest make room.")
ROWS = 3  # conversations in the list of the popover


def draw_kept(state: AppState, ui: Ui) -> list[Action]:
    """A section of the popover."""
    resume = state.resume
    text(ui, tr("Resume conversations at once"), style="small")
    labels = [(mode, tr(label)) for mode, label in MODES]
    hints = [tr(words) for words in HINTS.values()]
    mode = chooser(ui, "kept.mode", labels, resume.mode, hints)
    wrapped(ui, tr(HINTS[mode]))
    budget = _draw_budget(ui, resume) if mode != "off" else resume.budget
    actions: list[Action] = _draw_used(ui, resume) if mode != "off" or resume.kept else []
    if (mode, budget) != (resume.mode, resume.budget):
        actions.append(SetResume(mode, budget))
    return actions


def _draw_budget(ui: Ui, resume: ResumeState) -> int:
    place = min(range(len(BUDGETS)), key=lambda i: abs(BUDGETS[i] - resume.budget))
    chosen = slider(
        ui, "kept.budget", tr("On disk, at most"), place, (0, len(BUDGETS) - 1),
        whole=True, hint=tr(BUDGET_HINT), shown=size(resume.budget),
    )  # fmt: skip
    return resume.budget if int(chosen) == place else BUDGETS[int(chosen)]


def _draw_used(ui: Ui, resume: ResumeState) -> list[Action]:
    """How much is used, by whom, and the way to be rid of it."""
    if not resume.kept:
        wrapped(ui, tr("Nothing is kept yet."), "faint")
        return []
    count, side = len(resume.kept), ui.u(6)
    words = trn("{used} for {n} conversation", "{used} for {n} conversations", count)
    top, right = imgui.get_cursor_pos_y(), ui.right(side)
    imgui.set_cursor_pos_y(top + (side - ui.theme.size("small")) / 2)
    text(ui, words.format(used=size(resume.used), n=count), "muted", "small")
    ui.mark("kept.used")
    imgui.same_line(right)
    imgui.set_cursor_pos_y(top)
    hint = tr("Remove all of them. Conversations stay, and are read again when they are opened.")
    actions: list[Action] = []
    if icon_button(ui, "kept.clear", ICON_TRASH, hint, side=side, style="small"):
        actions.append(ClearKept())
    meter(ui, resume.used / max(resume.budget, 1), imgui.get_content_region_avail().x, ui.u(1.25))
    return actions + draw_list(ui, "kept", resume.kept[:ROWS])


def draw_list(ui: Ui, name: str, caches: tuple[KeptCache, ...]) -> list[Action]:
    """A line for each: title, day, size. A click opens the conversation."""
    actions: list[Action] = []
    with ui.styled(item_spacing=(0.0, 0.0)):
        for number, cache in enumerate(caches):
            note = f"{day(cache.created)}  ·  {size(cache.bytes)}"
            title = cache.title or tr("A conversation")
            if draw_line(ui, f"{name}.{number}", title, note, tr("Open the conversation")):
                actions.append(OpenConversation(cache.conversation))
    return actions


def draw_line(ui: Ui, name: str, title: str, note: str, hint: str) -> bool:
    """One line that can be clicked, where there is a `hint`; its note at the right."""
    draw, at = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    width, height, pad = imgui.get_content_region_avail().x, ui.u(6), ui.u(1.5)
    clicked = imgui.invisible_button(name, ImVec2(max(width, 1.0), height)) and bool(hint)
    ui.mark(name)
    if hint and imgui.is_item_hovered():
        end = ImVec2(at.x + width, at.y + height)
        draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
    with ui.font(style="small"):
        y = round(at.y + (height - ui.theme.size("small")) / 2)
        wide = imgui.calc_text_size(note).x
        shown = fit(title, width - wide - pad * 2 - ui.u(3))
        draw.add_text(ImVec2(at.x + pad, y), ui.color("text"), shown)
        draw.add_text(ImVec2(at.x + width - pad - wide, y), ui.color("muted"), note)
    tip(ui, f"{title}\n{hint}" if hint else title)
    return clicked


def day(when: float) -> str:
    """Of today the time, of other days the date; in the order that sorts."""
    then, now = time.localtime(when), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%m-%d" if then.tm_year == now.tm_year else "%Y-%m-%d", then)
