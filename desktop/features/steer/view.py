"""The interventions in force, with a gain for every head, and what they change."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import (
    NO_CHANGES,
    AttentionPart,
    EffectRead,
    Gains,
    ModelInfo,
    ReadEffect,
)
from llm_lite.core.messages.gains import gains_of, others, with_gains
from llm_lite.core.plain_text import one_line
from llm_lite.desktop.features.attention.state import PART_HINTS, PARTS
from llm_lite.desktop.features.export_picture.view import default_path
from llm_lite.desktop.features.file_chooser.path_field import path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.view import NO_GAINS, draw_unreported
from llm_lite.desktop.features.steer.model import (
    AnswerSteered,
    ReadInterventions,
    SaveInterventions,
    Steer,
    without,
)
from llm_lite.desktop.features.steer.words import in_words, row_words
from llm_lite.desktop.features.tokens.colors import legible, mix
from llm_lite.desktop.features.translator.model import WriteTarget, rows_of, with_part
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import nats
from llm_lite.desktop.widgets.by_keyboard import FLAT, is_on_its_way, press_area
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_FILE, ICON_REGENERATE, ICON_UNDO
from llm_lite.desktop.widgets.plots.head_grid import draw_names, gutter, head_columns
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Face, Rect, Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    help_mark,
    icon_button,
    popover,
    primary_button,
    text,
    tip,
    wrapped,
)

EFFECT: Slot[EffectRead] = Slot("effect", ReadEffect, EffectRead)
MOST = 2.0
MOST_ROWS = 4  # of changes that no head shows, before they scroll
FILE_PANEL = "steer.file"
FILE = mark("Interventions in a file")
FILE_ABOUT = mark(
    "Scales, shifts and choices of experts by the names of their sites, in the JSON form that "
    "llm-lite chat --interventions takes."
)
DRAG = 0.012  # of gain a pixel at text size 15
ABOUT = mark(
    "The output of each head is multiplied by its gain. 1 leaves the head as it is, 0 "
    "ablates it. If the answer stays the same, the head did not matter here. Gains count "
    "from the next token on."
)
ABOUT_ENCODER = mark(
    "The output of each head is multiplied by its gain. 1 leaves the head as it is, 0 "
    "ablates it. The text is encoded again at once: maps, similarities and candidates "
    "show the effect."
)
ABOUT_TARGETS = mark(
    "The output of each head is multiplied by its gain. 1 leaves the head as it is, 0 "
    "ablates it. Gains count from the next token of a target on, the encoder's from the "
    "next source on: write the target again to see the effect."
)
WRITE_AGAIN = mark("Write the target again with these gains. Its score can be compared.")
CELL = mark("Click to ablate or restore, drag up or down for any gain.")
AGAIN = mark(
    "Read the conversation afresh with these changes and answer again with the same random "
    "numbers, beside the answer that is there"
)
KL = mark(
    "KL divergence of the next token's probabilities, with these changes against none, in nats: 0 "
    "means that nothing changes, above 1 the model would mostly say something else."
)
KL_TARGET = mark(
    "KL divergence of the probabilities of the target's last token, with what is changed of the "
    "decoder against nothing, in nats: 0 means that nothing changes."
)


class Drag(Struct):
    """A cell that the button went down on, and its gain then."""

    cell: tuple[int, int] = (0, 0)
    start: float = 1.0
    moved: bool = False


class SteerControls(Struct):
    """The part and layer that are chosen in the view, the cell that is dragged, and a file."""

    part: AttentionPart = "cross"
    layer: int = 0  # with sliders
    drag: Drag = field(default_factory=Drag)
    path: str = ""  # of the file panel


def draw(state: AppState, ui: Ui) -> list[Action]:
    text(ui, tr("Steer"), bold=True)
    help_mark(ui, tr(_about(state)))
    model = state.model
    if state.elsewhere:
        draw_unreported(state, ui, NO_GAINS)
        return []
    if model is None or not (model.layers and model.heads):
        wrapped(ui, tr("Load a model to set the gains of its heads."))
        wrapped(ui, tr(ABOUT), "faint")
        return []
    actions = _draw_file(state, ui)
    actions += _draw_effect(state, ui)
    rows = rows_of(model, _draw_part(state, ui))
    changes = state.steering.interventions
    known = gains_of(changes, model)
    gains = known[rows]
    actions += _draw_others(state, ui, model)
    wanted = _draw_layer(ui, model, gains)
    wanted = _draw_grid(ui, model, wanted)
    if wanted == gains:
        return actions
    return [*actions, Steer(with_gains(changes, with_part(known, rows, wanted), model))]


def _about(state: AppState) -> str:
    return ABOUT_ENCODER if state.encodes else ABOUT_TARGETS if state.writes_targets else ABOUT


def _draw_file(state: AppState, ui: Ui) -> list[Action]:
    """Draw a button at the right that opens a panel, which loads interventions from a file, and
    writes those in force to one."""
    side, panel = ui.u(7), ui.local(SteerControls)
    imgui.same_line(ui.right(side))
    if icon_button(ui, "steer.file", ICON_FILE, tr(FILE), side=side):
        panel.path = panel.path or one_line(str(default_path(state, "interventions", "json")))
        ui.opened = FILE_PANEL
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(max(low.x - ui.u(90), ui.u(2)), high.y + ui.u(1))
    with popover(ui, FILE_PANEL, tr(FILE), at, ui.u(104)) as opened:
        if not opened:
            return []
        wrapped(ui, tr(FILE_ABOUT))
        name = Path(panel.path.strip()).name or "interventions.json"
        target = PathTarget("steer.path", FILE_PANEL, ("*.json",), name)
        typed = path_field(ui, target, panel.path, ("file", "folder"), tr("Path of a JSON file"))
        panel.path, path, actions = typed.path, typed.path.strip(), typed.actions
        if primary_button(ui, "steer.load", tr("Load"), enabled=bool(path)):
            imgui.close_current_popup()
            actions.append(ReadInterventions(path))
        imgui.same_line()
        able = bool(path) and bool(state.steering.interventions)
        if button(ui, "steer.save", tr("Save"), hint=tr("Write those in force"), enabled=able):
            imgui.close_current_popup()
            actions.append(SaveInterventions(path))
        return actions


def _draw_others(state: AppState, ui: Ui, model: ModelInfo) -> list[Action]:
    """Draw a row for each change that no head or expert shows, with a button that ends it."""
    changes = state.steering.interventions
    rest = frozenset(map(id, others(changes, model)))
    shown = [number for number, change in enumerate(changes.changes) if id(change) in rest]
    if not shown:
        return []
    actions: list[Action] = []
    side = ui.u(6)
    step = side + ui.u(0.5)
    height = step * min(len(shown), MOST_ROWS)
    imgui.begin_child("steer.others", ImVec2(0, height), FLAT)
    with ui.font(style="small"):
        wide = imgui.get_content_region_avail().x - side - ui.u(2)
        for place, number in enumerate(shown):
            where, what = row_words(changes.changes[number])
            top = imgui.get_cursor_pos()
            words = f"{where}  ·  {what}"
            imgui.set_cursor_pos_y(top.y + (side - ui.theme.size("small")) / 2)
            text(ui, fit(words, wide), "text", "small")
            ui.mark(f"steer.other.{place}")
            tip(ui, words)
            imgui.set_cursor_pos(ImVec2(top.x + wide + ui.u(1), top.y))
            if icon_button(ui, f"steer.end.{place}", ICON_CLOSE, tr("End this one"), side=side):
                actions.append(Steer(without(changes, model, number)))
            imgui.set_cursor_pos(ImVec2(top.x, top.y + step))
        imgui.dummy(ImVec2(0, 0))
    imgui.end_child()
    return actions


def _draw_part(state: AppState, ui: Ui) -> AttentionPart:
    """Draw which part's heads have their gains shown, and return it; other models have one part."""
    if not state.writes_targets:
        return "decoder"
    controls = ui.local(SteerControls)
    hints = [tr(hint) for hint in PART_HINTS]
    controls.part = chooser(ui, "steer.part", tr_labels(PARTS), controls.part, hints)
    return controls.part


def _draw_effect(state: AppState, ui: Ui) -> list[Action]:
    """Draw how far the next token's distribution moves, and buttons to reset or answer again."""
    steering, effect = state.steering, EFFECT.answer(state)
    changed = bool(steering.interventions)
    asks = changed and state.context_used and not state.elsewhere
    actions = EFFECT.wanted(state, ReadEffect()) if asks else list[Action]()
    hint = tr("End all interventions")
    if button(ui, "steer.reset", tr("Reset"), ICON_UNDO, hint, enabled=changed):
        actions.append(Steer(NO_CHANGES))
    if state.writes_targets:
        actions += _draw_write_again(state, ui)
    elif not state.encodes:
        actions += _draw_again(state, ui, changed)
    words = widest = tr("Nothing is changed")
    if changed:
        widest = words = in_words(steering.interventions)
        unknown = effect is None or math.isnan(effect.kl)
        if effect_is_shown(state) and (not unknown or EFFECT.waiting(state) or actions):
            where = tr("KL {kl} nats at the last token")
            if state.holds_conversations:
                where = tr("KL {kl} nats at the next token alone")
            kl = "…" if effect is None or unknown else nats(effect.kl)
            widest = words + "  ·  " + where.format(kl=nats(0.0))
            words += "  ·  " + where.format(kl=kl)
    imgui.same_line(0, ui.u(3))
    with ui.font(style="small"):
        wide = max(imgui.calc_text_size(words).x, imgui.calc_text_size(widest).x)
        beside = wide <= imgui.get_content_region_avail().x  # nothing moves when the number comes
    if beside:
        imgui.align_text_to_frame_padding()
        text(ui, words, "text" if changed else "muted", "small")
    else:
        imgui.new_line()
        wrapped(ui, words, "text" if changed else "muted")
    ui.mark("steer.effect")
    explained = state.holds_conversations or (state.writes_targets and effect is not None)
    tip(ui, tr(KL_TARGET if state.writes_targets else KL) if explained else "")
    return actions


def _draw_again(state: AppState, ui: Ui, changed: bool) -> list[Action]:
    imgui.same_line(0, ui.u(2))
    able = changed and not state.busy and _has_answer(state)
    again = button(ui, "steer.again", tr("Regenerate"), ICON_REGENERATE, tr(AGAIN), enabled=able)
    return [AnswerSteered()] if again else []


def effect_is_shown(state: AppState) -> bool:
    """Return whether the effect comes from what changed: what is changed of an encoder waits for
    the next source."""
    model = state.model
    if model is None or not model.translates:
        return True
    changes = state.steering.interventions.changes
    return any(not change.site.startswith("encoder.") for change in changes)


def _draw_write_again(state: AppState, ui: Ui) -> list[Action]:
    imgui.same_line(0, ui.u(2))
    able, label = not state.busy and bool(state.translating.draft.strip()), tr("Write again")
    again = button(ui, "steer.again", label, ICON_REGENERATE, tr(WRITE_AGAIN), enabled=able)
    return [WriteTarget(state.translating.draft)] if again else []


def _has_answer(state: AppState) -> bool:
    return bool(state.messages) and state.messages[-1].role == "assistant"


def _draw_layer(ui: Ui, model: ModelInfo, gains: Gains) -> Gains:
    """Draw a slider for a whole layer and one for each of its KV groups."""
    shown = _attending(model, gains)
    layer = min(shown, key=lambda one: abs(one - ui.local(SteerControls).layer))
    row = gains[layer]
    room = imgui.get_content_region_avail().x
    grouped = 1 < model.kv_heads <= 4 and model.heads > model.kv_heads
    grouped = grouped and model.heads % model.kv_heads == 0
    columns = model.kv_heads + 1 if grouped else 1
    each = (room - ui.u(3) * (columns - 1)) / columns
    spans = [(tr("Layer {i}").format(i=layer), 0, model.heads)]
    if grouped:
        group = model.heads // model.kv_heads
        named = tr("Group {i}")
        spans += [(named.format(i=i), i * group, (i + 1) * group) for i in range(model.kv_heads)]
    for number, (label, first, last) in enumerate(spans):
        if number:
            imgui.same_line(0, ui.u(3))
        imgui.begin_child(f"steer.{number}", ImVec2(each, ui.u(10)), FLAT)
        now = sum(row[first:last]) / (last - first)
        moved = slider(ui, f"steer.span.{number}", label, now, (0.0, MOST))
        imgui.end_child()
        if abs(moved - now) > 1e-4:
            row = (*row[:first], *((round(moved, 3),) * (last - first)), *row[last:])
    return (*gains[:layer], row, *gains[layer + 1 :])


def _attending(model: ModelInfo, gains: Gains) -> list[int]:
    """Return the layers that have heads: others have a recurrent state."""
    return [layer for layer in range(len(gains)) if layer not in model.recurrent_layers]


def _draw_grid(ui: Ui, model: ModelInfo, gains: Gains) -> Gains:
    """Draw a row a layer, a cell a head.

    There are hundreds of cells: only the one at the pointer, and the one that is held, are items.
    """
    over, above = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    imgui.dummy(ImVec2(0, ui.theme.size("small")))  # the numbers of the heads stay in sight
    imgui.begin_child("steer.grid", ImVec2(0, 0), FLAT, imgui.WindowFlags_.no_saved_settings)
    beside, gap = gutter(ui), ui.u(0.5)
    room = imgui.get_content_region_avail()
    laid = head_columns(ui, model.heads, room.x - beside)
    columns, lines = laid.count, laid.lines
    width = float(int(min((room.x - beside) / columns - gap, ui.u(24))))
    shown = _attending(model, gains)
    height = float(int(max(ui.u(4), min(ui.u(8), room.y / (len(shown) * lines) - gap))))
    top, low = imgui.get_cursor_screen_pos(), imgui.get_window_pos().y
    left, step = top.x, lines * (height + gap)
    bottom = low + imgui.get_window_height()
    draw_names(ui, over, (left, above.y), bottom, "steer.names")
    _draw_numbers(ui, over, (left + beside, above.y), width + gap, columns)
    offsets = laid.offsets(model.heads)
    held = ui.local(SteerControls).drag.cell if imgui.is_mouse_down(0) else None
    by_keys = is_on_its_way()
    for place, layer in enumerate(shown):
        y = top.y + place * step
        if y > bottom or y + step < low:
            continue
        gains = _draw_label(ui, layer, (left, y, left + beside - gap, y + height), gains)
        for line, offset in enumerate(offsets[1:], 1):
            _draw_offset(ui, offset, left + beside - gap, y + line * (height + gap), height)
        for head in range(model.heads):
            x0 = left + beside + head % columns * (width + gap)
            y0 = y + head // columns * (height + gap)
            rect = ui.rects[f"steer.{layer}.{head}"] = (x0, y0, x0 + width, y0 + height)
            if (layer, head) == held or by_keys or ui.at_pointer(rect):
                gains = _draw_cell(ui, (layer, head), rect, gains)
            else:
                _paint(ui, rect, gains[layer][head])
    imgui.set_cursor_screen_pos(top)
    imgui.dummy(ImVec2(room.x, len(shown) * step - gap))
    imgui.end_child()
    return gains


def _draw_numbers(
    ui: Ui, draw: imgui.ImDrawList, at: tuple[float, float], step: float, count: int
) -> None:
    """Draw the numbers of the heads above their columns, as many as find room."""
    with ui.font(style="small"):
        every = 1 if step > imgui.calc_text_size("00").x + ui.u(1) else 4
        for head in range(0, count, every):
            width = imgui.calc_text_size(str(head)).x
            x = at[0] + head * step + (step - ui.u(0.5) - width) / 2
            draw.add_text(ImVec2(round(x), at[1]), ui.color("muted"), str(head))


def _draw_offset(ui: Ui, offset: int, right: float, y: float, height: float) -> None:
    """Draw before a further line of a layer's heads what is added to the numbers above."""
    with ui.font(style="small"):
        words = f"+{offset}"
        x = right - imgui.calc_text_size(words).x
        spot = ImVec2(x, round(y + (height - ui.theme.size("small")) / 2))
        imgui.get_window_draw_list().add_text(spot, ui.color("muted"), words)


def _draw_label(ui: Ui, layer: int, rect: Rect, gains: Gains) -> Gains:
    """The layer's number: a click ablates or restores all of it, and has its sliders shown."""
    ui.rects[f"steer.layer.{layer}"] = rect
    controls = ui.local(SteerControls)
    lit = chosen = controls.layer == layer
    if ui.at_pointer(rect):
        if _button(f"steer.layer.{layer}", rect):
            controls.layer = layer
            if chosen:
                value = 1.0 if any(gain != 1.0 for gain in gains[layer]) else 0.0
                gains = _with_row(gains, layer, (value,) * len(gains[layer]))
        lit = lit or imgui.is_item_hovered()
        tip(ui, tr("Click for the sliders of this layer, again to ablate or restore all of it."))
    small = ui.theme.size("small")
    face: Face = "bold" if chosen else "regular"
    with ui.font(face, "small"):
        x = rect[2] - imgui.calc_text_size(f"{layer}").x
        spot = ImVec2(x, round((rect[1] + rect[3] - small) / 2))
        color = ui.color("accent" if lit else "muted")
        imgui.get_window_draw_list().add_text(spot, color, f"{layer}")
    return gains


def _button(name: str, rect: Rect) -> bool:
    """Make a part of the screen a button, and return whether it was clicked."""
    x0, y0, x1, y1 = rect
    imgui.set_cursor_screen_pos(ImVec2(x0, y0))
    return press_area(name, ImVec2(x1 - x0, y1 - y0))


def _draw_cell(ui: Ui, cell: tuple[int, int], rect: Rect, gains: Gains) -> Gains:
    """Draw a cell that may be clicked or dragged."""
    layer, head = cell
    gain, controls = gains[layer][head], ui.local(SteerControls)
    clicked = _button(f"steer.{layer}.{head}", rect)
    active, hovered = imgui.is_item_active(), imgui.is_item_hovered()
    _paint(ui, rect, gain)
    if not (clicked or active or hovered):
        return gains
    corners, thick = (ImVec2(*rect[:2]), ImVec2(*rect[2:])), max(1.0, ui.u(0.3))
    imgui.get_window_draw_list().add_rect(*corners, ui.color("text"), ui.u(0.75), thick)
    if imgui.is_item_activated():
        controls.drag = Drag(cell, gain)
        controls.layer = layer
    drag = controls.drag
    if active and drag.cell == cell and imgui.is_mouse_dragging(0):
        delta: Any = imgui.get_mouse_drag_delta(0)
        drag.moved = True
        wanted = drag.start - delta.y * DRAG * 15 / ui.theme.text
        gain = round(min(MOST, max(0.0, wanted)), 2)
    elif clicked and not drag.moved:
        gain = 1.0 if gain != 1.0 else 0.0
    if active and drag.moved:
        imgui.set_tooltip(
            tr("Layer {layer}, head {head}: {gain:.2f}").format(layer=layer, head=head, gain=gain)
        )
    else:
        words = tr("Layer {layer}, head {head}: gain {gain:.2f}.")
        tip(ui, f"{words.format(layer=layer, head=head, gain=gain)} {tr(CELL)}")
    if gain == gains[layer][head]:
        return gains
    row = gains[layer]
    return _with_row(gains, layer, (*row[:head], gain, *row[head + 1 :]))


def _with_row(gains: Gains, layer: int, row: tuple[float, ...]) -> Gains:
    return (*gains[:layer], row, *gains[layer + 1 :])


def _paint(ui: Ui, rect: Rect, gain: float) -> None:
    """Fill a cell: quiet at 1, towards red below, towards blue above, with the number beside 1."""
    x0, y0, x1, y1 = rect
    draw, palette = imgui.get_window_draw_list(), ui.theme.palette
    low, high, rounding = ImVec2(x0, y0), ImVec2(x1, y1), ui.u(0.75)
    if gain == 1.0:
        draw.add_rect_filled(low, high, u32(palette.hover), rounding)
        return
    strength, small = min(1.0, abs(gain - 1.0)), ui.theme.size("small")
    fill = mix(palette.hover, palette.error if gain < 1 else palette.accent, 0.85 * strength)
    draw.add_rect_filled(low, high, u32(fill), rounding)
    shown = tr("off") if gain == 0 else f"{gain:.2f}".rstrip("0").rstrip(".")
    with ui.font(style="small"):
        wide = imgui.calc_text_size(shown).x
        if wide < x1 - x0 and small <= y1 - y0:
            spot = ImVec2((x0 + x1 - wide) / 2, round((y0 + y1 - small) / 2))
            draw.add_text(spot, u32(legible(fill)), shown)
