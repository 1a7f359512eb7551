"""The folded groups of the sampling panel: filters, penalties, where an answer ends, its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import LONGEST_GRAMMAR, OPTIONS, Group, Option
from llm_lite.core.records import replace
from llm_lite.desktop.features.sampling.texts import (
    bias_lines,
    biases_of,
    stop_lines,
    stops_of,
)
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.widgets.controls import chooser, slider, toggle
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, labelled, wrapped

FREE = mark("The answer is whatever the model says.")
STOPS = mark("One a line; \\n in it is a line's end, \\t a tab.")
BIASES = mark("One a line: its id, = and the number, as 198=-100; Tokens shows the ids.")
Rows = tuple[Option, ...]


def rows_of(group: Group) -> Rows:
    """Return the options that a folded group of the panel shows, in the order of the table."""
    return tuple(row for row in OPTIONS.values() if row.group == group)


FILTERS, PENALTIES = rows_of("filters"), rows_of("penalties")


def draw_groups(ui: Ui, options: SamplingOptions, lacks: tuple[str, ...] = ()) -> SamplingOptions:
    """`lacks` are fields that the server which answers does not know."""
    greedy = options.temperature == 0
    note = tr("greedy: off") if greedy else _told(options, FILTERS)
    if _opened(ui, "filters", tr("Filters"), note):
        imgui.begin_disabled(greedy)
        options = _draw_rows(ui, options, FILTERS, lacks)
        imgui.end_disabled()
    if _opened(ui, "penalties", tr("Penalties"), _told(options, PENALTIES)):
        options = _draw_rows(ui, options, PENALTIES, lacks)
    if _opened(ui, "stop", tr("Stop and bias"), _told_stops(options)):
        options = _draw_stops(ui, options)
    form = "JSON" if options.json_schema else tr("grammar") if options.grammar else tr("free")
    if _opened(ui, "form", tr("Structured output"), form):
        options = _draw_form(ui, options)
    return options


def _opened(ui: Ui, name: str, label: str, note: str) -> bool:
    """A line that folds a group, and what of it is on."""
    edge = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    if ui.memory.get("sampler.unfold") == name:  # it holds the setting that is looked for
        imgui.set_next_item_open(ui.memory.pop("sampler.unfold") == name)
    with (
        ui.colored(header="-", header_hovered="hover", header_active="pressed"),
        ui.styled(frame_padding=(ui.u(0.75), ui.u(1))),
    ):
        opened = imgui.collapsing_header(f"{label}###sampler.{name}")
    ui.mark(f"sampler.{name}")
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    small = ui.theme.size("small")
    with ui.font(style="small"):
        room = edge - low.x - imgui.calc_text_size(label).x - ui.u(14)
        shown = fit(note, room)
        width = imgui.calc_text_size(shown).x
    at = ImVec2(edge - width, round((low.y + high.y - small) / 2))
    draw = imgui.get_window_draw_list()
    draw.add_text(ui.fonts["regular"], small, at, ui.color("muted"), shown)
    return opened


def _told(options: SamplingOptions, rows: Rows) -> str:
    """Return what of a group is on."""
    if rows is FILTERS and options.mirostat_tau:
        return f"mirostat {options.mirostat_tau:g}"
    words = [
        f"{tr(row.title).lower().removesuffix(' penalty')} {getattr(options, row.name):g}"
        for row in rows
        if row.off is not None and getattr(options, row.name) != row.off
    ]
    return ", ".join(words) or tr("off")


def _draw_rows(
    ui: Ui, options: SamplingOptions, rows: Rows, lacks: tuple[str, ...]
) -> SamplingOptions:
    for row in rows:
        needed = [OPTIONS[name] for name in row.needs]
        if needed and all(getattr(options, one.name) == one.off for one in needed):
            continue
        value = getattr(options, row.name)
        is_replaced = options.mirostat_tau > 0 and row.mirostat_replaces
        shown = tr("off") if value == row.off else tr("replaced") if is_replaced else ""
        options = draw_option(ui, options, row, lacks, shown)
    return options


def draw_option(
    ui: Ui, options: SamplingOptions, row: Option, lacks: tuple[str, ...], shown: str = ""
) -> SamplingOptions:
    """Draw the switch or the slider of an option; `shown` stands in place of its value."""
    value, name, hint = getattr(options, row.name), f"sampler.{row.name}", tr(row.help)
    imgui.begin_disabled(row.name in lacks)
    new: Any = value
    if row.kind == "flag":
        new = toggle(ui, name, tr(row.title), value, hint)
    elif row.slider is not None:
        shown = tr("not sent") if row.name in lacks else shown or f"{value:.{row.digits}f}"
        whole = row.kind == "whole"
        moved = slider(
            ui, name, tr(row.title), value, row.slider,
            whole=whole, log=row.logarithmic, hint=hint, shown=shown,
        )  # fmt: skip
        if moved != value:
            new = int(moved) if whole else round(moved, row.digits)
    imgui.end_disabled()
    return options if new == value else replace(options, **{row.name: new})


def _told_stops(options: SamplingOptions) -> str:
    stops, biases = len(options.stop), len(options.logit_bias)
    words = [trn("{n} stop", "{n} stops", stops).format(n=stops)] if stops else []
    words += [trn("{n} bias", "{n} biases", biases).format(n=biases)] if biases else []
    return ", ".join(words) or tr("none")


def _draw_stops(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    stop = _draw_lines(
        ui, "stop_strings", OPTIONS["stop"], tr(STOPS), options.stop, stop_lines, stops_of
    )
    bias = _draw_lines(
        ui, "logit_bias", OPTIONS["logit_bias"], tr(BIASES), options.logit_bias, bias_lines,
        biases_of,
    )  # fmt: skip
    return replace(options, stop=stop, logit_bias=bias)


def _draw_lines(
    ui: Ui,
    name: str,
    row: Option,
    form: str,
    value: Any,
    written: Callable[[Any], str],
    read: Callable[[str], tuple[Any, str]],
) -> Any:
    """A list in lines. What is typed stays as it is while it means the same."""
    key = f"sampler.{name}"
    count = f"{len(value)}" if value else tr("none")
    labelled(ui, tr(row.title), count, f"{tr(row.help)} {form}")
    typed = ui.memory.get(key, "")
    if read(typed)[0] != value:
        typed = written(value)
    changed, words = _input(ui, key, typed, 3)
    if changed:
        typed = words
    ui.memory[key] = typed
    new, problem = read(typed)
    if problem:
        wrapped(ui, problem, "warning")
    return new


def _draw_form(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    key = "sampler.form.kind"
    present = "grammar" if options.grammar else "schema" if options.json_schema else ""
    schema, grammar = OPTIONS["json_schema"], OPTIONS["grammar"]
    kinds = (
        ("free", tr("Free text")),
        ("schema", tr(schema.title)),
        ("grammar", tr(grammar.title)),
    )
    shown = present or ui.memory.get(key, "free")
    kind = chooser(ui, "sampler.form", kinds, shown)
    if kind != shown:
        options = replace(options, json_schema="", grammar="")
    ui.memory[key] = kind
    if kind == "free":
        wrapped(ui, tr(FREE))
        return options
    is_schema = kind == "schema"
    wrapped(ui, tr((schema if is_schema else grammar).help))
    typed = options.json_schema if is_schema else options.grammar
    changed, words = _input(ui, "sampler.form.text", typed, 7)
    if not changed:
        return options
    words = words[:LONGEST_GRAMMAR]
    return replace(options, json_schema=words) if is_schema else replace(options, grammar=words)


def _input(ui: Ui, name: str, typed: str, lines: int) -> tuple[bool, str]:
    width = imgui.get_content_region_avail().x
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
        size = ImVec2(width, ui.theme.size("small") * (1.3 * lines + 0.8))
        if ui.reaching == name:
            ui.reaching = ""
            imgui.set_keyboard_focus_here()
        changed, words = imgui.input_text_multiline(f"##{name}", typed, size)
    ui.mark(name)
    # Escape closes the panel; it must not restore the text.
    return changed and not imgui.is_key_pressed(imgui.Key.escape, False), words
