"""The panel of a conversation's memory: its length, its precision, its past, and caches on disk."""

from __future__ import annotations

import time

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.memory import cache_memory
from llm_lite.core.messages import KV_TYPES, EngineOptions, KvType, ModelInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.model import AskFreeMemory, SetOverflow
from llm_lite.desktop.features.cache.overflow import draw_overflow
from llm_lite.desktop.features.cache.state import WARN, retyped
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.view import NO_MEMORY, draw_unreported
from llm_lite.desktop.features.resume.model import ClearKept, SetResume
from llm_lite.desktop.features.resume.state import KeptCache, ResumeMode, ResumeState
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.icons import ICON_TRASH
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    meter,
    primary_button,
    text,
    tip,
    wrapped,
)

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
LEAST = 256  # tokens
POOLS = (0, 64 << 20, 128 << 20, 256 << 20, 512 << 20, 1 << 30, 2 << 30, 4 << 30)
CONTEXT = mark(
    "How much of the conversation the model can see at once. Changing it keeps what was said."
)
PRECISION = {
    "fp16": mark("Half of fp32, and as good in practice"),
    "fp32": mark("Exact, twice the memory"),
    "int8": mark("Half of fp16; the answers may differ a little"),
    "int4": mark("A little more than a quarter of fp16; answers differ more than with int8"),
}
POOL = mark("Memory for the KV caches of recent conversations: going back to one needs no prefill.")
OF_TARGETS = mark(
    "Source and target have so many tokens each. A target that reaches the end of the context ends "
    "there, and none is kept for later."
)
RECENT = 2.0  # seconds for which the free memory is believed


class MemoryControls(Struct):
    """Options as they were and as they are chosen, and when free memory was last asked for."""

    pending: tuple[EngineOptions, EngineOptions] | None = None
    asked_at: float = -RECENT


def draw(state: AppState, ui: Ui) -> list[Action]:
    model = state.model
    if state.elsewhere:
        draw_unreported(state, ui, NO_MEMORY)
        return []
    if model is None:
        wrapped(ui, tr("Load a model first: what its conversations take depends on it."))
        return []
    actions: list[Action] = _ask_what_is_free(ui)
    options = _pending(state, ui)
    options = _draw_context(state, ui, model, options)
    options = _draw_types(ui, options)
    _draw_cost(state, ui, model, options)
    options = options if state.writes_targets else _draw_pool(ui, options)
    ui.local(MemoryControls).pending = (state.options, options)
    actions += _draw_apply(state, ui, options)
    if state.writes_targets:
        wrapped(ui, tr(OF_TARGETS))
        return actions
    imgui.separator()
    actions += draw_kept(state, ui)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    imgui.separator()
    overflow = draw_overflow(ui, "memory.overflow", state.overflow)
    return actions if overflow == state.overflow else [*actions, SetOverflow(overflow)]


def _ask_what_is_free(ui: Ui) -> list[Action]:
    controls = ui.local(MemoryControls)
    if ui.now - controls.asked_at < RECENT:
        return []
    controls.asked_at = ui.now
    return [AskFreeMemory()]


def _pending(state: AppState, ui: Ui) -> EngineOptions:
    """Return the options that were chosen and not applied yet; they are forgotten when the options
    change elsewhere."""
    pending = ui.local(MemoryControls).pending
    return state.options if pending is None or pending[0] != state.options else pending[1]


def _draw_context(
    state: AppState, ui: Ui, model: ModelInfo, options: EngineOptions
) -> EngineOptions:
    most = max(model.trained_context, model.context, LEAST + 1)
    shown = options.context or model.context
    value = int(
        slider(
            ui, "memory.context", tr("Context"), min(max(shown, LEAST), most), (LEAST, most),
            whole=True, log=True, hint=tr(CONTEXT), shown=tr("{n:,} tokens").format(n=shown),
        )
    )  # fmt: skip
    if not imgui.is_item_active() and value == min(max(shown, LEAST), most):
        return options
    return replace(options, context=min(most, -(-value // 256) * 256))


def _draw_types(ui: Ui, options: EngineOptions) -> EngineOptions:
    types: list[tuple[KvType, str]] = [(kind, kind) for kind in KV_TYPES]
    hints = [tr(PRECISION[kind]) for kind in KV_TYPES]
    text(ui, tr("Keys"), style="small")
    keys = chooser(ui, "memory.keys", types, options.keys, hints)
    text(ui, tr("Values"), style="small")
    values = chooser(ui, "memory.values", types, options.values, hints)
    return replace(options, keys=keys, values=values)


def _draw_cost(state: AppState, ui: Ui, model: ModelInfo, options: EngineOptions) -> None:
    """Draw what the cache takes now and would take, and whether the machine has that much."""
    layout = model.cache
    if not layout.layers:
        return
    now = layout.reserved_bytes
    wanted = retyped(layout, model.kv_heads, options.keys, options.values)
    known = state.memory_available
    free = None if known is None else known + now  # what the cache takes now is given back first
    cost = cache_memory(wanted, model.context, options.context or model.context, free)
    same = cost.needed == now
    changed = tr("The cache would take {needed}, now {now}")
    words = tr("The cache takes {now}") if same else changed
    text(ui, words.format(needed=size(cost.needed), now=size(now)), bold=True)
    ui.mark("memory.cost")
    if free is None:
        return
    share = cost.needed / max(free, 1)
    color = "error" if not cost.fits else "warning" if share > WARN else "accent"
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(1.25), color)
    note = tr("{free} of memory are free for it.").format(free=size(free))
    if not cost.fits:
        note = tr("That does not fit: {free} are free, enough for {largest:,} tokens.").format(
            free=size(free), largest=cost.largest
        )
    wrapped(ui, note, "muted" if cost.fits else "error")


def _draw_pool(ui: Ui, options: EngineOptions) -> EngineOptions:
    place = min(range(len(POOLS)), key=lambda i: abs(POOLS[i] - options.pool_budget))
    shown = size(options.pool_budget) if options.pool_budget else tr("none")
    chosen = slider(
        ui, "memory.pool", tr("Recent conversations"), place, (0, len(POOLS) - 1),
        whole=True, hint=tr(POOL), shown=shown,
    )  # fmt: skip
    return options if int(chosen) == place else replace(options, pool_budget=POOLS[int(chosen)])


def _draw_apply(state: AppState, ui: Ui, options: EngineOptions) -> list[Action]:
    changed = options != state.options
    actions: list[Action] = []
    if primary_button(ui, "memory.apply", tr("Apply"), enabled=changed and not state.load):
        actions.append(SetOptions(options))
    imgui.same_line()
    if button(ui, "memory.revert", tr("Reset"), enabled=changed):
        ui.local(MemoryControls).pending = None
    return actions


def draw_kept(state: AppState, ui: Ui) -> list[Action]:
    """Draw the section of caches on disk."""
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
    """Draw how much is used, by which conversations, and a button that removes it."""
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
    """Draw a line for each: title, day, size. A click opens the conversation."""
    actions: list[Action] = []
    with ui.styled(item_spacing=(0.0, 0.0)):
        for number, cache in enumerate(caches):
            note = f"{day(cache.created)}  ·  {size(cache.bytes)}"
            title = cache.title or tr("A conversation")
            if draw_line(ui, f"{name}.{number}", title, note, tr("Open the conversation")):
                actions.append(OpenConversation(cache.conversation))
    return actions


def draw_line(ui: Ui, name: str, title: str, note: str, hint: str) -> bool:
    """Draw a line that can be clicked, where there is a `hint`; its note at the right."""
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
    """Return the time of a moment of today, else its date, in the order that sorts."""
    then, now = time.localtime(when), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%m-%d" if then.tm_year == now.tm_year else "%Y-%m-%d", then)
