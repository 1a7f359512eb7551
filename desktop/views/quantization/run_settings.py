"""What each of two runs is: how its weights, activations and cache are kept, and what computes it,
each choice below its name."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import (
    ACTIVATIONS,
    KV_TYPES,
    MODES,
    Activations,
    Backend,
    EngineOptions,
    KvType,
    Mode,
)
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.state.quant_state import Choices
from llm_lite.desktop.views.quantization.two_machines import NAMES, draw_badge
from llm_lite.desktop.widgets.controls import picker, picker_width
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

BACKENDS: tuple[tuple[Backend, str], ...] = (
    ("auto", mark("Auto")), ("vulkan", "Vulkan"), ("cpu", "CPU"), ("numpy", "NumPy"),
)  # fmt: skip
MODE_LABELS: tuple[tuple[Mode, str], ...] = tuple((mode, mode) for mode in MODES)
CACHE_LABELS: tuple[tuple[KvType, str], ...] = tuple((kind, kind) for kind in KV_TYPES)
ACTIVATION_LABELS: tuple[tuple[Activations, str], ...] = tuple(
    (kind, mark("auto") if kind == "auto" else kind) for kind in ACTIVATIONS
)
TITLES = (mark("Weights"), mark("Activations"), mark("KV cache"), mark("Executor"))
HINTS = (
    mark("How weights are kept"),
    mark("float32 or int8 activations; auto: what is fastest"),
    mark("How the cache's keys and values are kept"),
    mark("Where it runs"),
)
# Values, in the order of TITLES: shown whole where there is room, and everywhere.
LONGEST = ("as-stored", mark("auto"), "fp16", "Vulkan")
USUAL = ("fp16", mark("auto"), "fp16", mark("Auto"))


def draw_run_settings(ui: Ui, choices: Choices, column: float) -> Choices:
    """Draw the choices of each run above its column, `column` pixels wide, and return them. Where
    columns are too narrow for them, the runs stand one below the other."""
    top, gap = imgui.get_cursor_pos(), ui.u(8)
    stacked = not _has_room_for_two(ui, column)
    options = []
    for run in (0, 1):
        if stacked:
            imgui.set_cursor_pos_x(top.x)
            options.append(_draw_run(ui, run, choices.runs[run], 2 * column + gap))
        else:
            imgui.set_cursor_pos(ImVec2(top.x + run * (column + gap), top.y))
            options.append(_draw_run(ui, run, choices.runs[run], column))
    return replace(choices, runs=(options[0], options[1]))


def _draw_run(ui: Ui, run: int, options: EngineOptions, width: float) -> EngineOptions:
    """Draw the four choices on one line, or on two where their names have no room on one."""
    titled = ui.theme.size("small") + ui.u(1)
    top = imgui.get_cursor_pos()
    imgui.set_cursor_pos(ImVec2(top.x, top.y + titled))
    draw_badge(ui, run)
    gap, edge = ui.u(1), _edge(ui)
    rooms = _rooms(ui, width)
    name = f"runs.{NAMES[run].lower()}"
    pitch = titled + imgui.get_frame_height() + ui.u(1)
    x, y, line = top.x + edge, top.y, 0.0

    def begin(number: int) -> tuple[float, str]:
        """Draw the title of a choice, set the cursor below it, and return its width and hint."""
        nonlocal x, y, line
        if number and line + rooms[number] > width - edge + 1:
            x, y, line = top.x + edge, y + pitch, 0.0
        imgui.set_cursor_pos(ImVec2(x, y))
        _draw_title(ui, tr(TITLES[number]), rooms[number])
        imgui.set_cursor_pos(ImVec2(x, y + titled))
        x, line = x + rooms[number] + gap, line + rooms[number] + gap
        return rooms[number], tr(HINTS[number])

    mode = picker(ui, f"{name}.mode", MODE_LABELS, options.mode, *begin(0))
    kinds = tr_labels(ACTIVATION_LABELS)
    activations = picker(ui, f"{name}.activations", kinds, options.activations, *begin(1))
    cache = picker(ui, f"{name}.cache", CACHE_LABELS, options.keys, *begin(2))
    backends = tr_labels(BACKENDS)
    backend = picker(ui, f"{name}.backend", backends, options.backend, *begin(3))
    if cache != options.keys:
        options = replace(options, keys=cache, values=cache)
    return replace(options, mode=mode, activations=activations, backend=backend)


def _rooms(ui: Ui, width: float) -> list[float]:
    """Return the widths of the four choices in a run's `width`: on one line, or on two of two."""
    room, gap = width - _edge(ui), ui.u(1)
    for values in (LONGEST, USUAL):
        needed = _needed(ui, values)
        spare = (room - 3 * gap - sum(needed)) / 4
        if spare >= 0:
            return [float(int(least + spare)) for least in needed]
    return [float(int((room - gap) / 2))] * 4


def _has_room_for_two(ui: Ui, width: float) -> bool:
    """Return whether two choices on a line show their names and usual values whole."""
    return (width - _edge(ui) - ui.u(1)) / 2 >= max(_needed(ui, USUAL))


def _needed(ui: Ui, values: tuple[str, ...]) -> list[float]:
    """Return the pixels that each choice needs for its name, or its value with its arrow."""
    with ui.font(style="small"):
        return [
            max(imgui.calc_text_size(tr(title)).x, picker_width(ui, tr(value)))
            for title, value in zip(TITLES, values, strict=True)
        ]


def _edge(ui: Ui) -> float:
    """Return the pixels that a run's badge takes with the gap behind it."""
    return float(ui.u(6.5) + ui.u(1.5))


def _draw_title(ui: Ui, words: str, width: float) -> None:
    with ui.font(style="small"), ui.colored(text="muted"):
        imgui.text_unformatted(fit(words, width))
