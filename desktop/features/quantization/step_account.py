"""Draws what a step would cost on an accelerator, layer by layer, and sliders that change it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import AccountParameter, OpAccount, StepAccount
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.measurements import draw_work
from llm_lite.desktop.features.quantization.model import RunTask, SetQuantization
from llm_lite.desktop.features.quantization.step_profile import milliseconds
from llm_lite.desktop.language.translate import language, mark, tr
from llm_lite.desktop.language.units import percent, size, tokens
from llm_lite.desktop.language.units import rate as per_second
from llm_lite.desktop.widgets.controls import line_slider
from llm_lite.desktop.widgets.icons import ICON_GAUGE, ICON_UNDO
from llm_lite.desktop.widgets.plots.legend import LegendEntry, draw_legend
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, facts, heading, text, tip, wrapped

ABOUT = mark(
    "The accelerator's own estimate of the step that is chosen above, without running it. Change "
    "its sizes and rates to see what they would be worth."
)
WAITS = mark("What it waits for: bytes from memory, or its multipliers.")
HOST = mark("What the accelerator does not take runs on the processor beside it.")
BUSY, MOVING, HOST_SERIES = 0, 1, 3  # colours of the theme's series
STEPS = 200  # of a slider, on a scale of ratios


class AccountAsked(Struct):
    """The parameters of the last estimate that a slider asked for; () once it is there."""

    wanted: tuple[tuple[str, float], ...] = ()


class LayerCost(Struct, frozen=True):
    """Seconds of a layer, or of what is outside all layers."""

    name: str
    busy: float  # its multipliers work
    stalled: float  # they wait for memory
    moving: float  # bytes come and go, while it works and while it waits
    host: float

    @property
    def seconds(self) -> float:
        return self.busy + self.stalled + self.host


def layers_of(account: StepAccount) -> tuple[LayerCost, ...]:
    """Return the cost of each layer in order, then of the rest of the model."""
    groups: dict[str, list[OpAccount]] = {}
    for op in account.ops:
        parts = op.label.split(".")
        name = parts[1] if parts[0] == "layers" and len(parts) > 2 else ""
        groups.setdefault(name, []).append(op)
    rest = groups.pop("", [])
    named = [*groups.items(), *([("", rest)] if rest else [])]
    return tuple(_cost(name, ops) for name, ops in named)


def _cost(name: str, ops: Sequence[OpAccount]) -> LayerCost:
    on = [op for op in ops if op.on == "accelerator"]
    busy = sum(min(op.busy, op.seconds) for op in on)
    stalled, moving = sum(op.seconds for op in on) - busy, sum(op.moving for op in on)
    return LayerCost(name, busy, stalled, moving, sum(op.seconds for op in ops if op.on == "host"))


def draw(state: AppState, ui: Ui) -> list[Action]:
    if state.executor is None or not state.executor.accounts:
        return []
    held = state.quantization
    imgui.dummy(ImVec2(0, ui.u(2)))
    heading(ui, tr("On the accelerator"), tr(ABOUT))
    free = _is_free(state)
    actions: list[Action] = []
    if button(ui, "account.ask", tr("Estimate"), ICON_GAUGE, enabled=free):
        actions.append(RunTask("account"))
    account = held.account(state.executor)
    if held.parameters(state.executor):
        imgui.same_line(0, ui.u(2))
        if button(ui, "account.reset", tr("Reset"), ICON_UNDO, enabled=free):
            choices = replace(held.choices, parameters=())
            actions += [SetQuantization(choices), RunTask("account")]
    actions += draw_work(state, ui, "account")
    if account is None:
        return actions
    _draw_facts(ui, account)
    _draw_layers(ui, account)
    actions += _draw_parameters(state, ui, account)
    for line in account.assumptions:
        wrapped(ui, in_language(account, line), "faint")
    return actions


def in_language(account: StepAccount, words: str) -> str:
    """Return a label or an assumption in the language in use, as far as its package has it."""
    return account.translations.get(language(), {}).get(words, words)


def _draw_facts(ui: Ui, account: StepAccount) -> None:
    words = tr("{time} for {tokens}: {rate} tok/s")
    rate = per_second(account.tokens_per_second)
    text(
        ui,
        words.format(time=milliseconds(account.seconds), tokens=tokens(account.tokens), rate=rate),
        bold=True,
    )
    seconds, host = account.seconds, account.seconds_on("host")
    outside = sum(layer.seconds for layer in layers_of(account) if not layer.name)
    moved = sum(op.moved_bytes for op in account.ops if op.on == "accelerator")
    rows = [
        (
            tr("Multipliers"),
            tr("{share} busy while it runs").format(share=percent(account.utilisation)),
            tr(WAITS),
        ),
        (
            tr("Memory"),
            tr("{size} moved, {share} of what it gives").format(
                size=size(moved), share=percent(account.memory_share)
            ),
            tr(WAITS),
        ),
        (
            tr("Processor"),
            f"{milliseconds(host)}, {percent(host / seconds if seconds else 0.0)}",
            tr(HOST),
        ),
        (tr("Outside the layers"), milliseconds(outside), tr("Embeddings and logits, say.")),
        (tr("Energy"), f"{account.joules / account.tokens:.3g} J", tr("Of a token.")),
    ]
    facts(ui, "account", rows)


def _draw_layers(ui: Ui, account: StepAccount) -> None:
    """Draw a bar for each layer: what it multiplies, what it waits, and what the host does."""
    layers = [layer for layer in layers_of(account) if layer.name]
    if not layers:
        return
    most = max(layer.seconds for layer in layers) or 1.0
    small, line = ui.theme.size("small"), ui.theme.size("small") * 0.62
    draw, top = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    width = imgui.get_content_region_avail().x
    with ui.font(style="small"):
        names = [tr("Layer {n}").format(n=one.name) for one in layers]
        room = max(imgui.calc_text_size(name).x for name in names) + ui.u(2)
        every = max(1, int(-(-small // line)))
        for number, name in enumerate(names):
            if number % every == 0:
                at = ImVec2(top.x, round(top.y + number * line + (line - small) / 2))
                draw.add_text(at, ui.color("muted"), name)
    colors = (ui.color_of_series(BUSY), ui.color_of_series(MOVING), ui.color_of_series(HOST_SERIES))
    for number, layer in enumerate(layers):
        x, y = top.x + room, top.y + number * line
        for seconds, color in zip((layer.busy, layer.stalled, layer.host), colors, strict=True):
            end = x + (width - room) * seconds / most
            draw.add_rect_filled(ImVec2(x, y), ImVec2(end, y + line - 1), color)
            x = end
    imgui.invisible_button("account.layers", ImVec2(width, line * len(layers)))
    ui.mark("account.layers")
    if imgui.is_item_hovered():
        number = int((imgui.get_mouse_pos().y - top.y) / line)
        _draw_layer_tip(ui, names, layers, min(max(number, 0), len(layers) - 1))
    entries = [
        LegendEntry(colors[0], tr("multiplies")),
        LegendEntry(colors[1], tr("waits for memory")),
        LegendEntry(colors[2], tr("processor")),
    ]
    draw_legend(ui, "account.legend", entries)
    text(ui, tr("The longest bar: {time}").format(time=milliseconds(most)), "muted", "small")


def _draw_layer_tip(ui: Ui, names: Sequence[str], layers: Sequence[LayerCost], number: int) -> None:
    layer = layers[number]
    words = tr(
        "{name}: {all}. Multiplies {busy} and waits {stalled}, while bytes move for {moving}; "
        "{host} on the processor"
    )
    tip(
        ui,
        words.format(
            name=names[number],
            all=milliseconds(layer.seconds),
            busy=milliseconds(layer.busy),
            stalled=milliseconds(layer.stalled),
            moving=milliseconds(layer.moving),
            host=milliseconds(layer.host),
        ),
    )


def _draw_parameters(state: AppState, ui: Ui, account: StepAccount) -> list[Action]:
    """Draw a slider for each parameter; a new estimate is made once one is let go."""
    held, shown = state.quantization, ui.local(AccountAsked)
    known = held.parameters(state.executor)
    chosen = dict(known)
    width = imgui.get_content_region_avail().x
    for parameter in account.parameters:
        value = chosen.get(parameter.name, parameter.value)
        text(ui, in_language(account, parameter.label), "muted", "small")
        words = f"{value:g} {parameter.unit}".strip()
        name, before = f"account.{parameter.name}", to_slider(parameter, value)
        after = line_slider(ui, name, before, (0, steps_of(parameter)), words, width)
        if after != before:
            chosen[parameter.name] = from_slider(parameter, after)
    changed = tuple(sorted(chosen.items()))
    actions: list[Action] = []
    if changed != known:
        actions.append(SetQuantization(replace(held.choices, parameters=changed)))
    wanted = tuple((p.name, chosen.get(p.name, p.value)) for p in account.parameters)
    is_shown = wanted == tuple((p.name, p.value) for p in account.parameters)
    if is_shown:
        shown.wanted = ()
    elif _is_free(state) and not imgui.is_mouse_down(0) and wanted != shown.wanted:
        shown.wanted = wanted  # once: it may fail
        actions.append(RunTask("account"))
    return actions


def _is_free(state: AppState) -> bool:
    """Return True if an estimate can be asked for now."""
    return state.quantization.work is None and not state.busy and state.load is None


def steps_of(parameter: AccountParameter) -> int:
    """Return the last place of a parameter's slider."""
    return len(parameter.values) - 1 if parameter.values else STEPS


def to_slider(parameter: AccountParameter, value: float) -> int:
    """Return the place of a value on its slider, whose steps are ratios, or the values that there
    are."""
    if parameter.values:
        distances = [abs(one - value) for one in parameter.values]
        return distances.index(min(distances))
    place = STEPS * math.log(value / parameter.least) / math.log(parameter.most / parameter.least)
    return round(min(max(place, 0.0), STEPS))


def from_slider(parameter: AccountParameter, place: int) -> float:
    """Return the value at a place; of ratios to three digits."""
    if parameter.values:
        return parameter.values[place]
    value = parameter.least * (parameter.most / parameter.least) ** (place / STEPS)
    return min(max(float(f"{value:.3g}"), parameter.least), parameter.most)
