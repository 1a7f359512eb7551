"""In the grid, a line for each layer that has a recurrent state instead of attention: a cell a
head, in the colour of how long it remembers."""

from __future__ import annotations

import math

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import ReadStates, StatesRead
from llm_lite.core.records import replace
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.features.attention.coloring import draw_ramp, is_light
from llm_lite.desktop.features.attention.state import AttentionChoice, Head
from llm_lite.desktop.features.program.asking import Slot
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokens.colors import legible
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import cell
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, text, tip, wrapped

STATES: Slot[StatesRead] = Slot("states", ReadStates, StatesRead, lambda asked: "at-rest")
HEIGHT = 5.0  # of a cell, in spacing units
LONGEST = 1024.0  # tokens of the last colour
CONVOLVES = mark("Convolution of the last tokens, without heads")
KEY = mark("State: tokens until half is forgotten")
KEY_HINT = mark(
    "These layers keep no keys and values: each head has one state, a matrix that every token "
    "decays and then writes into. A cell says after how many tokens half of what was written is "
    "forgotten, in the mean over the tokens that were read. Click one to see what its tokens read."
)


def shown_life(tokens: float) -> str:
    """Return how many tokens a half-life is, in few characters."""
    if tokens >= LONGEST * LONGEST:
        return "∞"
    if tokens >= LONGEST:
        return f"{tokens / LONGEST:.0f}k"
    return f"{tokens:.0f}" if tokens >= 10 else f"{tokens:.1f}"


def life_share(tokens: float) -> float:
    """Return the place of a half-life on the scale of colours, which is logarithmic from 1 token
    on."""
    return min(max(math.log(max(tokens, 1e-9)) / math.log(LONGEST), 0.0), 1.0)


def draw_state_key(choice: AttentionChoice, ui: Ui, width: float) -> None:
    """Draw in small text what the colours of states stand for."""
    small, gap, bar = ui.theme.size("small"), ui.u(1.5), ui.u(20)
    draw, at = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    ends = ("≤ 1", "≥ 1k")
    with ui.font(style="small"):
        measure = imgui.calc_text_size
        low, high = (measure(words).x for words in ends)
        name = fit(tr(KEY), max(width - low - high - bar - 3 * gap, ui.u(8)))
        x, color = at.x, ui.color("muted")
        draw.add_text(ImVec2(x, at.y), color, name)
        x += measure(name).x + gap
        draw.add_text(ImVec2(x, at.y), color, ends[0])
        x += low + gap
        draw_ramp(choice, ui, (x, at.y + ui.u(0.75)), bar, small - ui.u(0.75))
        draw.add_text(ImVec2(x + bar + gap, at.y), color, ends[1])
    imgui.dummy(ImVec2(width, small))
    ui.mark("attention.states.key")
    tip(ui, tr(KEY_HINT))


def draw_states(
    state: AppState, choice: AttentionChoice, ui: Ui, layer: int, at: tuple[float, float],
    width: float,
) -> AttentionChoice:  # fmt: skip
    """Draw the cells of a layer's heads on a line of `width` pixels; a click chooses one. A state
    that has no heads is named."""
    read, (x, y) = STATES.answer(state), at
    lives = lives_of(read, layer)
    if not lives:
        of_here = None if state.elsewhere else state.model
        convolves = of_here is not None and layer not in of_here.delta_layers
        with ui.font(style="small"):
            words = tr(CONVOLVES) if convolves else STATES.problem(state) or tr("State")
            words = fit(words, width)
            spot = ImVec2(x, y + (ui.u(HEIGHT) - ui.theme.size("small")) / 2)
            imgui.get_window_draw_list().add_text(spot, ui.color("faint"), words)
        return choice
    each = width / len(lives)
    for head, life in enumerate(lives):
        rect = (round(x + head * each), y, round(x + (head + 1) * each) - 1, y + ui.u(HEIGHT))
        choice = _draw_cell(choice, ui, (layer, head), life, rect)
    return choice


def lives_of(read: StatesRead | None, layer: int) -> tuple[float, ...]:
    """Return the half-lives of a layer's heads; () where they were not read."""
    return dict(read.half_lives).get(layer, ()) if read else ()


def _draw_cell(
    choice: AttentionChoice, ui: Ui, head: Head, life: float,
    rect: tuple[float, float, float, float],
) -> AttentionChoice:  # fmt: skip
    draw, low, high = imgui.get_window_draw_list(), ImVec2(*rect[:2]), ImVec2(*rect[2:])
    red, green, blue, _ = table(choice.colors, is_light(ui))[round(life_share(life) * 255)].tolist()
    fill = red << 16 | green << 8 | blue
    draw.add_rect_filled(low, high, u32(fill))
    with ui.font(style="small"):
        words = shown_life(life)
        wide = imgui.calc_text_size(words).x
        if wide < rect[2] - rect[0]:
            spot = ImVec2(
                round((rect[0] + rect[2] - wide) / 2),
                round((rect[1] + rect[3] - ui.theme.size("small")) / 2),
            )
            draw.add_text(spot, u32(legible(fill)), words)
    name = f"state.{head[0]}.{head[1]}"
    ui.rects[name] = rect
    hovered = ui.at_pointer(rect) and imgui.is_window_hovered()
    focused, pressed = cell(name, rect)
    if pressed or (hovered and imgui.is_mouse_clicked(0)):
        choice = replace(choice, state_head=head)
        if not choice.large and not pressed:
            ui.request("tab:head")
    chosen = head == choice.state_head
    if chosen or hovered:
        color = ui.color("accent" if chosen else "muted")
        draw.add_rect(low, high, color, 0.0, max(1.0, ui.u(0.5)))
    if hovered or (focused and imgui.get_io().nav_active):
        _draw_hover(ui, head, life)
    return choice


def _draw_hover(ui: Ui, head: Head, life: float) -> None:
    with ui.styled(window_padding=(ui.u(3), ui.u(3))):
        if not imgui.begin_tooltip():
            return
    text(ui, state_words(head), bold=True)
    words = tr("Half of what is written is forgotten after {n} tokens.")
    wrapped(ui, words.format(n=shown_life(life)))
    imgui.end_tooltip()


def state_words(head: Head) -> str:
    return tr("Layer {layer}, state of head {head}").format(layer=head[0], head=head[1])
