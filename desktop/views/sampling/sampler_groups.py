"""The folded groups of the sampling panel: filters, penalties, where an answer ends, its form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.state.sampling.texts import (
    bias_lines,
    biases_of,
    stop_lines,
    stops_of,
)
from llm_lite.desktop.views.sampling.sampler_hints import HINTS
from llm_lite.desktop.widgets.controls import chooser, slider
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, labelled, wrapped

LONGEST = 1 << 16  # characters of a schema or grammar that is typed
# Label, field, range, the value that is off, digits.
Row = tuple[str, str, tuple[float, float], float, int]
FILTERS: tuple[Row, ...] = (
    ("Top-k", "top_k", (0, 200), 0, 0),
    ("Top-p", "top_p", (0.05, 1.0), 1.0, 2),
    ("Min-p", "min_p", (0.0, 0.5), 0.0, 2),
    ("Typical-p", "typical_p", (0.05, 1.0), 1.0, 2),
    (mark("XTC probability"), "xtc_probability", (0.0, 1.0), 0.0, 2),
    (mark("XTC threshold"), "xtc_threshold", (0.01, 0.5), -1, 2),
    (mark("Mirostat tau"), "mirostat_tau", (0.0, 10.0), 0.0, 1),
    (mark("Mirostat eta"), "mirostat_eta", (0.01, 1.0), -1, 2),
)
PENALTIES: tuple[Row, ...] = (
    (mark("Repetition penalty"), "repetition_penalty", (1.0, 1.5), 1.0, 2),
    (mark("Presence penalty"), "presence_penalty", (0.0, 2.0), 0.0, 2),
    (mark("Frequency penalty"), "frequency_penalty", (0.0, 2.0), 0.0, 2),
    (mark("Last tokens"), "penalty_window", (1, 1024), -1, 0),
    ("DRY", "dry_multiplier", (0.0, 2.0), 0.0, 2),
    (mark("DRY base"), "dry_base", (1.0, 3.0), -1, 2),
    (mark("DRY allowed length"), "dry_allowed_length", (1, 20), -1, 0),
)
NEEDS = {  # a row is shown only where one of these is on
    "xtc_threshold": ("xtc_probability",),
    "mirostat_eta": ("mirostat_tau",),
    "penalty_window": ("repetition_penalty", "presence_penalty", "frequency_penalty"),
    "dry_base": ("dry_multiplier",),
    "dry_allowed_length": ("dry_multiplier",),
}
REPLACED = ("top_k", "top_p", "min_p", "typical_p", "xtc_probability")  # by Mirostat


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


def _on(options: SamplingOptions, field: str, rows: tuple[Row, ...]) -> bool:
    off = next(row[3] for row in rows if row[1] == field)
    return bool(getattr(options, field) != off)


def _told(options: SamplingOptions, rows: tuple[Row, ...]) -> str:
    """What of a group is on."""
    if rows is FILTERS and options.mirostat_tau:
        return f"mirostat {options.mirostat_tau:g}"
    words = [
        f"{tr(label).lower().removesuffix(' penalty')} {getattr(options, field):g}"
        for label, field, _, off, _ in rows
        if off >= 0 and getattr(options, field) != off
    ]
    return ", ".join(words) or tr("off")


def _draw_rows(
    ui: Ui, options: SamplingOptions, rows: tuple[Row, ...], lacks: tuple[str, ...]
) -> SamplingOptions:
    for label, field, bounds, off, digits in rows:
        if field in NEEDS and not any(_on(options, need, rows) for need in NEEDS[field]):
            continue
        value = getattr(options, field)
        is_replaced = options.mirostat_tau > 0 and field in REPLACED
        shown = (
            tr("off") if value == off else tr("replaced") if is_replaced else f"{value:.{digits}f}"
        )
        if field in lacks:
            shown = tr("not sent")
        imgui.begin_disabled(field in lacks)
        new = slider(
            ui, f"sampler.{field}", tr(label), value, bounds,
            whole=digits == 0, hint=tr(HINTS[field]), shown=shown,
        )  # fmt: skip
        imgui.end_disabled()
        if new != value:
            rounded: Any = int(new) if digits == 0 else round(new, digits)
            options = replace(options, **{field: rounded})
    return options


def _told_stops(options: SamplingOptions) -> str:
    stops, biases = len(options.stop), len(options.logit_bias)
    words = [trn("{n} stop", "{n} stops", stops).format(n=stops)] if stops else []
    words += [trn("{n} bias", "{n} biases", biases).format(n=biases)] if biases else []
    return ", ".join(words) or tr("none")


def _draw_stops(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    stop = _draw_lines(ui, "stop_strings", tr("Stop strings"), options.stop, stop_lines, stops_of)
    bias = _draw_lines(
        ui, "logit_bias", tr("Logit bias"), options.logit_bias, bias_lines, biases_of
    )
    return replace(options, stop=stop, logit_bias=bias)


def _draw_lines(
    ui: Ui,
    name: str,
    label: str,
    value: Any,
    written: Callable[[Any], str],
    read: Callable[[str], tuple[Any, str]],
) -> Any:
    """A list in lines. What is typed stays as it is while it means the same."""
    key = f"sampler.{name}"
    labelled(ui, label, f"{len(value)}" if value else tr("none"), tr(HINTS[name]))
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
    kinds = (("free", tr("Free text")), ("schema", tr("JSON schema")), ("grammar", tr("Grammar")))
    shown = present or ui.memory.get(key, "free")
    kind = chooser(ui, "sampler.form", kinds, shown)
    if kind != shown:
        options = replace(options, json_schema="", grammar="")
    ui.memory[key] = kind
    if kind == "free":
        wrapped(ui, tr(HINTS["form"]))
        return options
    is_schema = kind == "schema"
    wrapped(ui, tr(HINTS["json_schema" if is_schema else "grammar"]))
    typed = options.json_schema if is_schema else options.grammar
    changed, words = _input(ui, "sampler.form.text", typed, 7)
    if not changed:
        return options
    words = words[:LONGEST]
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
