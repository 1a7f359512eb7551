"""How the next token is chosen: each control says what it does to the text."""

from __future__ import annotations

from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.model import SetOverflow
from llm_lite.desktop.features.cache.overflow import draw_overflow
from llm_lite.desktop.features.chat.model import ResetSampling, SetSampling, SetThinking
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
from llm_lite.desktop.features.sampling.advised import advice, sampler
from llm_lite.desktop.features.sampling.sampler_groups import draw_groups, draw_option
from llm_lite.desktop.language.core_words import said
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import capital, tokens
from llm_lite.desktop.widgets.controls import picker, toggle
from llm_lite.desktop.widgets.icons import ICON_DICE, ICON_SAVE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, icon_button, primary_button, text, wrapped

HINT = mark(
    "A preset is a system prompt, all that is set here, the weight mode and the gains of heads."
)
GREEDY = mark("Always take the likeliest token: the same question gives the same answer.")
THINKING = mark(
    "The model thinks before it answers: better answers to hard questions, and later. Its thoughts "
    "are folded above the answer."
)
LONGEST_PATH = 4096  # characters
NONE = mark("No preset")


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
    return actions if overflow == state.overflow else [*actions, SetOverflow(overflow)]


def advised(state: AppState) -> str:
    """Where values are from that nobody has set: the model's files, or the card of its family."""
    sources: dict[str, list[str]] = {}
    for default in advice(state):
        name = tr(OPTIONS[default.name].title).lower()
        sources.setdefault(default.source, []).append(f"{name} {default.value:g}")
    words = tr("{values}: {source}.")
    return " ".join(
        capital(words.format(values=", ".join(values), source=said(source)))
        for source, values in sources.items()
    )


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
    return replace(options, seed=max(0, min(seed, 2**31 - 1)))


def draw_presets(state: AppState, ui: Ui) -> list[Action]:
    side = ui.u(7)
    width = imgui.get_content_region_avail().x - side - ui.u(2)
    names = [("", tr(NONE)), *((name, name) for name in state.presets)]
    used = state.preset if state.preset in state.presets else ""
    chosen = picker(ui, "presets.list", names, used, width, tr(HINT))
    imgui.same_line()
    if icon_button(ui, "presets.more", ICON_SAVE, tr("Save, import, export or delete"), side=side):
        ui.memory["presets.open"] = not ui.memory.get("presets.open", False)
    actions: list[Action] = [ChoosePreset(chosen)] if chosen and chosen != used else []
    if ui.memory.get("presets.open", False):
        actions += _draw_tools(ui, used)
    imgui.separator()
    return actions


def _draw_tools(ui: Ui, used: str) -> list[Action]:
    wrapped(ui, tr(HINT))
    actions: list[Action] = []
    name = _input(ui, "presets.name", tr("Name"), used, LONGEST_NAME)
    label = tr("Replace") if name == used and used else tr("Save")
    if primary_button(ui, "presets.save", label, enabled=bool(name)):
        actions.append(SavePreset(name))
    imgui.same_line()
    if button(ui, "presets.delete", tr("Delete"), enabled=bool(used)):
        actions.append(DeletePreset(used))
        ui.memory.pop("presets.name", None)
    path = _input(ui, "presets.path", tr("Path of a file"), "", LONGEST_PATH)
    if button(
        ui, "presets.import", tr("Import"), hint=tr("Read a preset's file"), enabled=bool(path)
    ):
        actions.append(ImportPreset(path))
    imgui.same_line()
    hint = tr("Write what is set now to this file")
    if button(ui, "presets.export", tr("Export"), hint=hint, enabled=bool(path)):
        actions.append(ExportPreset(path))
    return actions


def _input(ui: Ui, name: str, label: str, first: str, longest: int) -> str:
    imgui.set_next_item_width(-1)
    typed = ui.memory.get(name) or first
    _, typed = imgui.input_text_with_hint(f"##{name}", label, typed)
    ui.mark(name)
    ui.memory[name] = typed = typed[:longest]
    return typed.strip()
