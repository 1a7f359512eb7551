"""What the conversation may take of the machine's memory: its length, its precision, its past."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.memory import cache_memory
from llm_lite.core.messages import KV_TYPES, EngineOptions, KvType, ModelInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.kept import draw_kept
from llm_lite.desktop.features.cache.model import AskFreeMemory, SetOverflow
from llm_lite.desktop.features.cache.overflow import draw_overflow
from llm_lite.desktop.features.cache.state import WARN, retyped
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.untold import MEMORY, draw_untold
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, meter, primary_button, text, wrapped

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


def draw(state: AppState, ui: Ui) -> list[Action]:
    model = state.model
    if state.elsewhere:
        draw_untold(state, ui, MEMORY)
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
    ui.memory["memory.options"] = (state.options, options)
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
    if ui.now - ui.memory.get("memory.asked", -RECENT) < RECENT:
        return []
    ui.memory["memory.asked"] = ui.now
    return [AskFreeMemory()]


def _pending(state: AppState, ui: Ui) -> EngineOptions:
    """What was chosen and not applied yet; forgotten when the options change elsewhere."""
    held = ui.memory.get("memory.options")
    if held is None or held[0] != state.options:
        return state.options
    found: EngineOptions = held[1]
    return found


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
    """What the cache takes now and would take, and whether the machine has that much."""
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
        ui.memory.pop("memory.options")
    return actions
