"""How the next token is chosen: each control says what it does to the text."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import imgui

from llm_lite.core.messages import SamplingOptions
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.caching import SetOverflow
from llm_lite.desktop.actions.chatting import SetSampling, SetThinking
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.views.cache.overflow import draw_overflow
from llm_lite.desktop.widgets.controls import slider, toggle
from llm_lite.desktop.widgets.icons import ICON_DICE
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, text, wrapped

HINTS = {
    "greedy": "Always take the likeliest token: the same question gives the same answer.",
    "temperature": (
        "Below 1 the likely tokens become likelier and the text calmer; above 1 rare tokens "
        "come up and the text wanders."
    ),
    "top_k": "Only the k likeliest tokens may be chosen. 0 lets all of them in.",
    "top_p": (
        "Only the likeliest tokens whose probabilities add up to p may be chosen: few where the "
        "model is sure, many where it is not. 1 lets all of them in."
    ),
    "min_p": (
        "A token must be at least this fraction as likely as the likeliest one. 0 lets all in."
    ),
    "repetition_penalty": (
        "Tokens that were said lately become less likely. 1 is off; much above 1.2 the model "
        "avoids even the words it needs."
    ),
    "max_new_tokens": "The answer ends after this many tokens; Continue makes more.",
    "thinking": (
        "The model thinks before it answers: better answers to hard questions, and later. Its "
        "thoughts are folded above the answer."
    ),
    "seed": "The start of the random numbers. The same seed gives the same answer again.",
}


def draw(state: AppState, ui: Ui) -> list[Action]:
    old = state.sampling
    new = _draw_temperature(ui, old)
    greedy = new.temperature == 0
    imgui.begin_disabled(greedy)
    new = _draw_filters(ui, new)
    imgui.end_disabled()
    value = new.repetition_penalty
    value = slider(
        ui, "sampler.penalty", "Repetition penalty", value, (1.0, 1.5),
        hint=HINTS["repetition_penalty"], shown="off" if value <= 1 else "",
    )  # fmt: skip
    new = replace(new, repetition_penalty=round(value, 2))
    count = slider(
        ui, "sampler.max_new_tokens", "Longest answer", new.max_new_tokens, (16, 8192),
        whole=True, log=True, hint=HINTS["max_new_tokens"], shown=f"{new.max_new_tokens} tokens",
    )  # fmt: skip
    new = replace(new, max_new_tokens=int(count))
    new = _draw_seed(ui, new)
    thinking = state.thinking
    if state.model is not None and state.model.switches_thinking:
        thinking = toggle(ui, "sampler.thinking", "Think first", thinking, HINTS["thinking"])
    overflow = draw_overflow(ui, "sampler.overflow", state.overflow)
    imgui.separator()
    if button(ui, "sampler.defaults", "Back to the defaults", enabled=new != SamplingOptions()):
        new = SamplingOptions()
    actions: list[Action] = [SetSampling(new)] if new != old else []
    if thinking != state.thinking:
        actions.append(SetThinking(thinking))
    return actions if overflow == state.overflow else [*actions, SetOverflow(overflow)]


def _draw_temperature(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    greedy = options.temperature == 0
    chosen = toggle(ui, "sampler.greedy", "Greedy", greedy, HINTS["greedy"])
    if chosen != greedy:
        return replace(options, temperature=0.0 if chosen else SamplingOptions().temperature)
    if greedy:
        wrapped(ui, HINTS["greedy"])
        return options
    value = slider(
        ui, "sampler.temperature", "Temperature", options.temperature, (0.05, 2.0),
        hint=HINTS["temperature"],
    )  # fmt: skip
    return replace(options, temperature=round(value, 2))


def _draw_filters(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    count = slider(
        ui, "sampler.top_k", "Top-k", options.top_k, (0, 200), whole=True,
        hint=HINTS["top_k"], shown=str(options.top_k or "off"),
    )  # fmt: skip
    top_p = slider(
        ui, "sampler.top_p", "Top-p", options.top_p, (0.05, 1.0),
        hint=HINTS["top_p"], shown="off" if options.top_p >= 1 else "",
    )  # fmt: skip
    min_p = slider(
        ui, "sampler.min_p", "Min-p", options.min_p, (0.0, 0.5),
        hint=HINTS["min_p"], shown="off" if options.min_p <= 0 else "",
    )  # fmt: skip
    return replace(options, top_k=int(count), top_p=round(top_p, 2), min_p=round(min_p, 2))


def _draw_seed(ui: Ui, options: SamplingOptions) -> SamplingOptions:
    fixed = toggle(ui, "sampler.seed_fixed", "Fixed seed", options.seed is not None, HINTS["seed"])
    if not fixed:
        return replace(options, seed=None)
    imgui.set_next_item_width(ui.u(36))
    seed = options.seed if options.seed is not None else 1
    _, seed = imgui.input_int("##seed", min(seed, 2**31 - 1), 0)
    ui.mark("sampler.seed")
    imgui.same_line()
    if button(ui, "sampler.reseed", "Next", ICON_DICE, "The next seed"):
        seed += 1
    imgui.same_line()
    text(ui, "")
    return replace(options, seed=max(0, min(seed, 2**31 - 1)))
