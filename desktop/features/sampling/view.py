"""The panel of the sampling options: presets, temperature, folded groups, length and seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import LONGEST_GRAMMAR, OPTIONS, Group, Option
from llm_lite.core.records import replace
from llm_lite.core.tools.kept_schema import left_in
from llm_lite.desktop.features.cache.model import SetOverflow
from llm_lite.desktop.features.cache.overflow import draw_overflow
from llm_lite.desktop.features.chat.model import ResetSampling, SetEffort, SetSampling, SetThinking
from llm_lite.desktop.features.chat.state import Effort
from llm_lite.desktop.features.file_chooser.path_field import Pick, path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.presets.model import (
    LONGEST_NAME,
    ChoosePreset,
    DeletePreset,
    ExportPreset,
    ImportPreset,
    SavePreset,
)
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.sampling.lists import (
    bias_lines,
    biases_of,
    stop_lines,
    stops_of,
)
from llm_lite.desktop.features.sampling.model import advice, sampler
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.language.units import capital, tokens
from llm_lite.desktop.widgets.controls import chooser, picker, slider, toggle
from llm_lite.desktop.widgets.icons import ICON_DICE, ICON_SAVE
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    labelled,
    primary_button,
    text,
    wrapped,
)

FREE = mark("The answer is whatever the model says.")
STOPS = mark("One a line; \\n in it is a line's end, \\t a tab.")
BIASES = mark("One a line: its id, = and the number, as 198=-100; Tokens shows the ids.")
HINT = mark(
    "A preset is a system prompt, all that is set here, the weight mode and the interventions."
)
GREEDY = mark("Always take the likeliest token: the same question gives the same answer.")
THINKING = mark(
    "The model thinks before it answers: better answers to hard questions, and later. Its thoughts "
    "are folded above the answer."
)
EFFORTS: tuple[tuple[Effort, str], ...] = (
    ("", mark("Default")),
    ("low", mark("Low")),
    ("medium", mark("Medium")),
    ("high", mark("High")),
)
EFFORT_HINT = mark(
    "How much the model is to think before it answers: its chat template writes it into the "
    "prompt. Default is what the template writes by itself."
)
NONE = mark("No preset")
Rows = tuple[Option, ...]


class SamplingControls(Struct):
    """Values that the panel keeps from frame to frame."""

    unfold: str = ""  # the group to open in the next frame, as it holds a setting that is sought
    form: str = "free"  # of structured output: free, schema or grammar
    lines: dict[str, str] = field(default_factory=dict)  # typed for a list, by the option's name
    shows_tools: bool = False  # that save, read and delete presets
    name: str = ""  # typed for a preset
    path: str = ""  # typed for a preset's file


def rows_of(group: Group) -> Rows:
    """Return the options that a folded group of the panel shows, in the order of the table."""
    return tuple(row for row in OPTIONS.values() if row.group == group)


FILTERS = rows_of("filters")
PENALTIES = rows_of("penalties")


def draw(state: AppState, ui: Ui) -> list[Action]:
    actions = draw_presets(state, ui)
    old = sampler(state)
    if words := advised(state):
        wrapped(ui, words)
    new = _draw_temperature(ui, old)
    connection = state.remote.connection
    lacks = connection.server.lacks if connection is not None else ()
    if connection is not None and lacks:
        name = connection.server.title
        wrapped(ui, tr("What {server} does not take is greyed.").format(server=name))
    new = draw_groups(ui, new, lacks)
    longest = OPTIONS["max_new_tokens"]
    new = draw_option(ui, new, longest, (), tokens(new.max_new_tokens))
    new = _draw_seed(ui, new)
    for row in OPTIONS.values():
        if row.kind == "flag" and not row.group:
            new = draw_option(ui, new, row, lacks)
    thinking = state.thinking
    if state.model is not None and state.model.switches_thinking:
        thinking = toggle(ui, "sampler.thinking", tr("Think first"), thinking, tr(THINKING))
    limits = state.model is not None and "max_thinking_tokens" not in lacks
    if limits and state.model and state.model.switches_thinking and thinking:
        most = new.max_thinking_tokens
        shown = tokens(most) if most else tr("no limit")
        new = draw_option(ui, new, OPTIONS["max_thinking_tokens"], (), shown)
    effort = state.effort
    if state.takes_effort:
        text(ui, tr("Reasoning effort"), style="small")
        effort = chooser(ui, "sampler.effort", tr_labels(EFFORTS), effort, [tr(EFFORT_HINT)] * 4)
    overflow = state.overflow
    if connection is None:  # what is done when a context is full, its server decides
        overflow = draw_overflow(ui, "sampler.overflow", overflow)
    imgui.separator()
    own = bool(state.sampling_chosen) or state.sampling != SamplingOptions()
    if button(ui, "sampler.defaults", tr("Back to the defaults"), enabled=own):
        actions.append(ResetSampling())
    elif new != old:
        actions.append(SetSampling(new))
    if thinking != state.thinking:
        actions.append(SetThinking(thinking))
    if effort != state.effort:
        actions.append(SetEffort(effort))
    return actions if overflow == state.overflow else [*actions, SetOverflow(overflow)]


def advised(state: AppState) -> str:
    """Name the values that nobody has set, and their source: the model's files, or its card."""
    sources: dict[str, list[str]] = {}
    for default in advice(state):
        name = tr(OPTIONS[default.name].title).lower()
        sources.setdefault(default.source, []).append(f"{name} {default.value:g}")
    words = tr("{values}: {source}.")
    return " ".join(
        capital(words.format(values=", ".join(values), source=translated(source)))
        for source, values in sources.items()
    )


def draw_presets(state: AppState, ui: Ui) -> list[Action]:
    side = ui.u(7)
    width = imgui.get_content_region_avail().x - side - ui.u(2)
    names = [("", tr(NONE)), *((name, name) for name in state.presets)]
    used = state.preset if state.preset in state.presets else ""
    chosen = picker(ui, "presets.list", names, used, width, tr(HINT))
    imgui.same_line()
    controls = ui.local(SamplingControls)
    if icon_button(ui, "presets.more", ICON_SAVE, tr("Save, import, export or delete"), side=side):
        controls.shows_tools = not controls.shows_tools
    actions: list[Action] = [ChoosePreset(chosen)] if chosen and chosen != used else []
    if controls.shows_tools:
        actions += _draw_tools(ui, controls, used)
    imgui.separator()
    return actions


def _draw_tools(ui: Ui, controls: SamplingControls, used: str) -> list[Action]:
    wrapped(ui, tr(HINT))
    actions: list[Action] = []
    controls.name = _input(ui, "presets.name", tr("Name"), controls.name or used, LONGEST_NAME)
    name = controls.name.strip()
    label = tr("Replace") if name == used and used else tr("Save")
    if primary_button(ui, "presets.save", label, enabled=bool(name)):
        actions.append(SavePreset(name))
    imgui.same_line()
    if button(ui, "presets.delete", tr("Delete"), enabled=bool(used)):
        actions.append(DeletePreset(used))
        controls.name = ""
    target = PathTarget("presets.path", "sampler", ("*.json",), f"{name or 'preset'}.json")
    picks: tuple[Pick, ...] = ("file", "folder")
    typed = path_field(ui, target, controls.path, picks, tr("Path of a file"))
    controls.path = typed.path
    actions += typed.actions
    path = controls.path.strip()
    if button(
        ui, "presets.import", tr("Import"), hint=tr("Read a preset's file"), enabled=bool(path)
    ):
        actions.append(ImportPreset(path))
    imgui.same_line()
    hint = tr("Write what is set now to this file")
    if button(ui, "presets.export", tr("Export"), hint=hint, enabled=bool(path)):
        actions.append(ExportPreset(path))
    return actions


def _input(ui: Ui, name: str, label: str, typed: str, longest: int) -> str:
    imgui.set_next_item_width(-1)
    _, typed = imgui.input_text_with_hint(f"##{name}", label, typed)
    ui.mark(name)
    return typed[:longest]


def _draw_temperature(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    greedy = options.temperature == 0
    chosen = toggle(ui, "sampler.greedy", tr("Greedy"), greedy, tr(GREEDY))
    if chosen != greedy:
        return replace(options, temperature=0.0 if chosen else SamplingOptions().temperature)
    if greedy:
        wrapped(ui, tr(GREEDY))
        return options
    return draw_option(ui, options, OPTIONS["temperature"], ())


def _draw_seed(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    row = OPTIONS["seed"]
    fixed = toggle(ui, "sampler.seed_fixed", tr(row.title), options.seed is not None, tr(row.help))
    if not fixed:
        return replace(options, seed=None)
    imgui.set_next_item_width(ui.u(36))
    seed = options.seed if options.seed is not None else 1
    _, seed = imgui.input_int("##seed", min(seed, 2**31 - 1), 0)
    ui.mark("sampler.seed")
    imgui.same_line()
    if button(ui, "sampler.reseed", tr("New seed"), ICON_DICE, tr("The seed after this one")):
        seed += 1
    imgui.same_line()
    text(ui, "")
    seed = row.meant(seed)  # -1, as other programs have it: a new one for each answer
    return replace(options, seed=seed and max(0, min(seed, 2**31 - 1)))


def draw_groups(ui: Ui, options: SamplingOptions, lacks: tuple[str, ...] = ()) -> SamplingOptions:
    """Draw the folded groups. `lacks` names fields that the server which answers does not know."""
    greedy = options.temperature == 0
    note = tr("greedy: off") if greedy else _summary(options, FILTERS)
    if _draw_header(ui, "filters", tr("Filters"), note):
        imgui.begin_disabled(greedy)
        options = _draw_rows(ui, options, FILTERS, lacks)
        imgui.end_disabled()
    if _draw_header(ui, "penalties", tr("Penalties"), _summary(options, PENALTIES)):
        options = _draw_rows(ui, options, PENALTIES, lacks)
    if _draw_header(ui, "stop", tr("Stop and bias"), _stops_summary(options)):
        options = _draw_stops(ui, options)
    form = "JSON" if options.json_schema else tr("grammar") if options.grammar else tr("free")
    if _draw_header(ui, "form", tr("Structured output"), form):
        options = _draw_form(ui, options)
    return options


def _draw_header(ui: Ui, name: str, label: str, note: str) -> bool:
    """Draw the line that folds a group, and `note` at its right edge."""
    edge = imgui.get_cursor_screen_pos().x + imgui.get_content_region_avail().x
    controls = ui.local(SamplingControls)
    if controls.unfold == name:
        imgui.set_next_item_open(True)
        controls.unfold = ""
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


def _summary(options: SamplingOptions, rows: Rows) -> str:
    """Name the options of a group that are on, with their values."""
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
        if value == row.minus_one == row.high:
            shown = tr("no limit")
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


def _stops_summary(options: SamplingOptions) -> str:
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
    """Draw a list in lines. What is typed stays as it is while it means the same."""
    count = f"{len(value)}" if value else tr("none")
    labelled(ui, tr(row.title), count, f"{tr(row.help)} {form}")
    kept = ui.local(SamplingControls).lines
    typed = kept.get(name, "")
    if read(typed)[0] != value:
        typed = written(value)
    changed, words = _input_lines(ui, f"sampler.{name}", typed, 3)
    if changed:
        typed = words
    kept[name] = typed
    new, problem = read(typed)
    if problem:
        wrapped(ui, problem, "warning")
    return new


def _draw_form(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    controls = ui.local(SamplingControls)
    present = "grammar" if options.grammar else "schema" if options.json_schema else ""
    schema, grammar = OPTIONS["json_schema"], OPTIONS["grammar"]
    kinds = (
        ("free", tr("Free text")),
        ("schema", tr(schema.title)),
        ("grammar", tr(grammar.title)),
    )
    shown = present or controls.form
    kind = chooser(ui, "sampler.form", kinds, shown)
    if kind != shown:
        options = replace(options, json_schema="", grammar="")
    controls.form = kind
    if kind == "free":
        wrapped(ui, tr(FREE))
        return options
    is_schema = kind == "schema"
    wrapped(ui, tr((schema if is_schema else grammar).help))
    typed = options.json_schema if is_schema else options.grammar
    changed, words = _input_lines(ui, "sampler.form.text", typed, 7)
    if is_schema and (names := left_in(typed)):
        wrapped(ui, tr("Left to the model: {names}").format(names=", ".join(names)))
    if not changed:
        return options
    words = words[:LONGEST_GRAMMAR]
    return replace(options, json_schema=words) if is_schema else replace(options, grammar=words)


def _input_lines(ui: Ui, name: str, typed: str, lines: int) -> tuple[bool, str]:
    width = imgui.get_content_region_avail().x
    with ui.styled(frame_padding=(ui.u(2), ui.u(1.5))), ui.font("mono", "small"):
        size = ImVec2(width, ui.theme.size("small") * (1.3 * lines + 0.8))
        if ui.reaching == name:
            ui.reaching = ""
            imgui.set_keyboard_focus_here()
        changed, words = lines_field(f"##{name}", typed, size)
    ui.mark(name)
    # Escape closes the panel; it must not restore the text.
    return changed and not imgui.is_key_pressed(imgui.Key.escape, False), words
