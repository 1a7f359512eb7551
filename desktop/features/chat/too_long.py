"""A strip above the input where the conversation fills the context: how long it is, and the ways
on."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Overflow
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.model import SetOverflow
from llm_lite.desktop.features.cache.overflow import STAYS, WHEN_FULL
from llm_lite.desktop.features.chat.model import ContinueAnswer, Regenerate
from llm_lite.desktop.features.chat.reading import tokens_words, too_long
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_INFO
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, tip

ANSWER = 512  # tokens that a larger context leaves for what comes
WAYS: tuple[tuple[Overflow, str], ...] = (
    ("rolling", mark("Forget the oldest")),
    ("forget-middle", mark("Forget the middle")),
)
FOR_ALL = mark("It holds for all conversations, until it is changed under Sampling.")
LARGER = mark("The cache takes more memory; what was said stays, and is read again.")


def ways_height(state: AppState, ui: Ui) -> float:
    return ui.u(19) if too_long(state) is not None else 0.0


def draw_ways(state: AppState, ui: Ui, offset: float, width: float) -> list[Action]:
    """Draw the strip in the column of the text, where the conversation is too long."""
    used, model = too_long(state), state.model
    if used is None or model is None:
        return []
    at, height = imgui.get_cursor_screen_pos(), ui.u(17)
    x, draw = at.x + offset, imgui.get_window_draw_list()
    end = ImVec2(x + width, at.y + height)
    draw.add_rect_filled(ImVec2(x, at.y), end, ui.color("base"), ui.u(2))
    draw.add_rect(ImVec2(x, at.y), end, ui.color("border"), ui.u(2), ui.u(0.25))
    words = tr("The conversation has {tokens} tokens, the context holds {context:,}.")
    words = words.format(tokens=tokens_words(state, used), context=model.context)
    _draw_words(ui, words, ImVec2(x + ui.u(3), at.y + ui.u(2)), width - ui.u(6))
    imgui.set_cursor_screen_pos(ImVec2(x + ui.u(3), at.y + ui.u(8)))
    actions: list[Action] = []
    with ui.font(style="small"), ui.styled(item_spacing=(ui.u(2), 0.0)):
        for overflow, label in WAYS:
            hint = f"{tr(WHEN_FULL[overflow])} {tr(STAYS)}\n{tr(FOR_ALL)}"
            if button(ui, f"chat.too_long.{overflow}", tr(label), hint=hint):
                actions += [SetOverflow(overflow), *_goes_on(state)]
                ui.request("input")
            imgui.same_line()
        if larger := larger_context(state, used):
            label = tr("Context of {n:,}").format(n=larger)
            if button(ui, "chat.too_long.larger", label, hint=tr(LARGER)):
                actions.append(SetOptions(replace(state.options, context=larger)))
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + ways_height(state, ui)))
    return actions


def _draw_words(ui: Ui, words: str, at: ImVec2, room: float) -> None:
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        draw.add_text(at, ui.color("warning"), ICON_INFO)
        x = at.x + small + ui.u(2)
        draw.add_text(ImVec2(x, at.y), ui.color("text"), fit(words, at.x + room - x))
    imgui.set_cursor_screen_pos(at)
    imgui.dummy(ImVec2(max(room, 1.0), small))
    ui.mark("chat.too_long")
    tip(ui, words)


def _goes_on(state: AppState) -> list[Action]:
    """Return what the answer that did not fit goes on with."""
    last = state.messages[-1]
    if last.role != "assistant":
        return []
    if last.stop_reason == "context" and last.whole:
        return [ContinueAnswer()]
    return [Regenerate()] if last.stop_reason == "error" and not last.whole else []


def larger_context(state: AppState, used: int) -> int:
    """Return a context, in tokens, into which the conversation and an answer fit; 0 where the
    model was trained for none."""
    model, wanted = state.model, 256
    if model is None:
        return 0
    while wanted < used + ANSWER:
        wanted *= 2
    wanted = min(wanted, model.trained_context)
    return wanted if wanted > max(model.context, used) else 0
