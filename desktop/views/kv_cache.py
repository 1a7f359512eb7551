"""The memory of the conversation: what is reserved for keys and values, and how much is used."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from desktop.actions import Action
from desktop.state import AppState
from desktop.ui import Ui
from desktop.units import size
from desktop.widgets import facts, heading, meter, text, wrapped

NOTE = (
    "Each token leaves a key and a value in every layer, so that later tokens can look back "
    "without reading the text again."
)


def draw(state: AppState, ui: Ui) -> list[Action]:
    heading(ui, "Key and value cache", NOTE)
    model, executor = state.model, state.executor
    if model is None or executor is None:
        wrapped(ui, "No model is loaded.")
        return []
    used = state.context_used
    share = used / model.context if model.context else 0.0
    per_token = model.kv_bytes // max(model.context, 1)
    text(ui, f"{used:,} of {model.context:,} tokens", bold=True)
    meter(ui, share, imgui.get_content_region_avail().x, ui.u(2))
    ui.mark("kv_cache.used")
    wrapped(ui, f"{size(used * per_token)} used of {size(model.kv_bytes)} reserved.")
    imgui.dummy(ImVec2(0, ui.u(1)))
    facts(
        ui,
        "kv",
        [
            (
                "Stored as",
                f"{executor.keys} / {executor.values}",
                "fp16 halves the memory; fp32 is exact.",
            ),
            ("A token takes", size(per_token), "Keys and values of all layers together."),
            ("Layers", str(model.layers), "Each has a cache of its own."),
            (
                "A layer keeps",
                f"2 × {model.kv_heads} heads × {model.head_dim}",
                "Keys and values, for each head, of this many numbers a token.",
            ),
            ("Trained for", f"{model.trained_context:,} tokens", _TRAINED),
        ],
    )
    _draw_reuse(state, ui)
    return []


_TRAINED = "Beyond the length of its training a model loses the thread."


def _draw_reuse(state: AppState, ui: Ui) -> None:
    stats = state.last_stats
    if stats is None or not stats.prompt_tokens:
        return
    imgui.dummy(ImVec2(0, ui.u(2)))
    heading(
        ui,
        "Reuse in the last answer",
        "What the cache already held was not computed again.",
    )
    reused = stats.reused_tokens / stats.prompt_tokens
    meter(ui, reused, imgui.get_content_region_avail().x, ui.u(2), "good")
    read = stats.prompt_tokens - stats.reused_tokens
    wrapped(ui, f"{stats.reused_tokens} prompt tokens were there, {read} were read.")
