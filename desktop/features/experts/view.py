"""The experts of a mixture: how often each is chosen in each layer, its words, and switches."""

from __future__ import annotations

from typing import Literal

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field
from numpy.typing import NDArray

from llm_lite.core.inspect.expert_choices import Routing
from llm_lite.core.messages import ModelInfo, RoutingRead
from llm_lite.core.messages.gains import gains_of, with_gains
from llm_lite.core.plain_text import one_line
from llm_lite.core.records import replace
from llm_lite.desktop.attention.colors import table
from llm_lite.desktop.features.attention.coloring import draw_ramp, is_light
from llm_lite.desktop.features.attention.rows import is_held
from llm_lite.desktop.features.cache.unread import draw_unread, unread_part
from llm_lite.desktop.features.experts import choice_counts
from llm_lite.desktop.features.experts.model import ROUTING, question
from llm_lite.desktop.features.export_picture.view import default_path, draw_path
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SaveText
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import AnswerSteered, Steer
from llm_lite.desktop.features.tokens.colors import legible, mix
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_DOWNLOAD, ICON_REGENERATE, ICON_UNDO
from llm_lite.desktop.widgets.pixel_image import PixelImage
from llm_lite.desktop.widgets.plots.axes import upright_name
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.token_text import TokenPage, draw_boxes, lay_out, visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    help_mark,
    icon_button,
    popover,
    text,
    tip,
    wrapped,
)

Measure = Literal["load", "weight", "last"]
Switch = Literal["", "router", "off", "always", "last"]  # "": otherwise, as a request may say
Floats = NDArray[np.float32]

SHARP = 512  # pixels that the image of the grid has at least
BALANCE = 14.0  # width of the bars, in spacing units
IN_SIGHT = 0.35  # of the panel's height, for the grid
LISTED = 12  # words
MOST_TOKENS = 2000  # of the text below, the last ones
EVERY_LAYERS = 16  # while an answer is written, tokens are read so many layers' worth at a time
SAVE_PANEL = "experts.save.panel"
SAVE = mark("Save the choices of experts as a table")
TABLE = mark("A line for each token and layer, with the experts and their shares (.csv).")
ABOUT = mark(
    "Each layer has many feed-forward networks, its experts. A router chooses a few of them for "
    "each token, so that a token reads only a part of the weights. A row is a layer, a column an "
    "expert. Click an expert to see which words it handles, and to switch it off."
)
NONE = mark(
    "This model has no experts: every token passes all of its weights. Mixtures of experts, as "
    "Qwen3 30B-A3B or gpt-oss, choose a few for each token."
)
NO_MODEL = mark("Load a mixture of experts to see which of them its tokens choose.")
NOTHING = mark("There is nothing in it yet: say something in the chat.")
READING = mark("Reading which experts its tokens chose.")
MEASURES: tuple[tuple[Measure, str], ...] = (
    ("load", mark("Load")),
    ("weight", mark("Weight")),
    ("last", mark("Last token")),
)
MEASURE_HINTS = (
    mark("How often an expert was chosen; 1 × is what it would be if all were chosen alike."),
    mark("The part of its layer's weight that an expert had, over all tokens."),
    mark("The experts of the newest token, and what each of them weighs."),
)
SWITCHES: tuple[tuple[Switch, str], ...] = (
    ("router", mark("Router")),
    ("off", mark("Off")),
    ("always", mark("Always")),
    ("last", mark("Last")),
)
SWITCH_HINTS = (
    mark("The router decides, as the model was trained."),
    mark("It may be chosen, but what it finds counts nothing."),
    mark("Every token chooses it, before all others."),
    mark("It is chosen only after all others: its place goes to the next one."),
)
_VALUES: dict[Switch, tuple[float, float]] = {
    "router": (1.0, choice_counts.ROUTER),
    "off": (0.0, choice_counts.ROUTER),
    "always": (1.0, choice_counts.ALWAYS),
    "last": (1.0, choice_counts.LAST),
}
AGAIN = mark(
    "Read the conversation afresh with these switches and answer again with the same random "
    "numbers, beside the answer that is there"
)
BALANCED = mark(
    "How evenly a layer uses its experts: the entropy of their loads, as a part of the largest "
    "there could be."
)


class ExpertsShown(Struct):
    """The expert and the measure that a person chose, and figures of the choices that were read."""

    measure: Measure = "load"
    row: int = 0  # among the layers with experts
    expert: int = 0
    read: RoutingRead | None = None
    routing: Routing | None = None
    image: PixelImage = field(default_factory=PixelImage)
    drawn: tuple[object, ...] = ()  # what the image was made of
    zoom: tuple[int, int] = (1, 1)  # pixels of the image to a layer, and to an expert
    values: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    counted: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    words_key: tuple[object, ...] = ()
    words: list[choice_counts.Word] = field(default_factory=list)
    page_key: tuple[object, ...] = ()
    page: TokenPage | None = None


class ChoicesFile(Struct):
    """The path of the table in the panel that saves it."""

    path: str = ""


def draw(state: AppState, ui: Ui) -> list[Action]:
    text(ui, tr("Experts"), bold=True)
    help_mark(ui, tr(ABOUT))
    model = state.model
    if model is None:
        wrapped(ui, tr(NO_MODEL))
        return []
    if not model.experts and not state.elsewhere:
        wrapped(ui, tr(NONE))
        return []
    if ui.maps is not None and not state.is_inspected:  # a server has not answered yet
        wrapped(ui, ui.maps.problem)
        return []
    actions, read, problem = requests(state), ROUTING.answer(state), ROUTING.problem(state)
    if read is None or not read.count:
        if unread_part(state) is not None and not problem:
            return actions + draw_unread(state, ui, "experts")
        wrapped(ui, problem or tr(_why_none(state)))
        return actions
    actions += draw_unread(state, ui, "experts")
    shown = ui.local(ExpertsShown)
    routing = _routing_of(shown, read)
    actions += _draw_save(state, ui, routing)
    _draw_facts(state, ui, routing)
    hints = [tr(hint) for hint in MEASURE_HINTS]
    shown.measure = chooser(ui, "experts.measure", tr_labels(MEASURES), shown.measure, hints)
    _draw_grid(state, ui, shown, routing)
    return actions + _draw_expert(state, ui, shown, routing)


def _draw_save(state: AppState, ui: Ui, routing: Routing) -> list[Action]:
    """Draw a button at the right that opens a panel, which saves the choices as a table."""
    side, panel = ui.u(7), ui.local(ChoicesFile)
    imgui.same_line(ui.right(side))
    if icon_button(ui, "experts.save", ICON_DOWNLOAD, tr(SAVE), side=side):
        panel.path = one_line(str(default_path(state, "experts", "csv")))
        ui.opened = SAVE_PANEL
    low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
    at = ImVec2(max(low.x - ui.u(90), ui.u(2)), high.y + ui.u(1))
    with popover(ui, SAVE_PANEL, tr(SAVE), at, ui.u(104)) as opened:
        if not opened:
            return []
        wrapped(ui, tr(TABLE))
        panel.path, wanted, actions = draw_path(ui, SAVE_PANEL, panel.path)
        if wanted:
            actions.append(
                SaveText(wanted, choice_counts.as_csv(routing, texts_of(state, routing)))
            )
        return actions


def requests(state: AppState) -> list[Action]:
    """Return the request for what the tokens chose; while an answer is written, for several tokens
    at a time where there are many layers."""
    if not state.context_used or not state.is_inspected:
        return []
    if not is_held(state, state.context_used - 1):
        return []
    asked, model = question(state), state.model
    new = state.context_used - asked.first
    if new <= 0:
        return []
    writes = state.running is not None and asked.first > 0
    if writes and model is not None and new < len(model.expert_layers) // EVERY_LAYERS:
        return []
    return ROUTING.wanted(state, asked)


def texts_of(state: AppState, routing: Routing) -> tuple[str, ...]:
    """Return the texts of the tokens up to the last whose choices were read, by position."""
    return state.positions[: routing.first + len(routing.chosen)]


def _why_none(state: AppState) -> str:
    if state.context_used and is_held(state, state.context_used - 1):
        return READING
    return NOTHING


def _routing_of(shown: ExpertsShown, read: RoutingRead) -> Routing:
    """Return the arrays of what was read, made once."""
    if shown.read is not read or shown.routing is None:
        shown.read, shown.routing = read, Routing.of(read)
        shown.counted = choice_counts.counts(shown.routing)
    routing = shown.routing
    shown.row = min(shown.row, len(routing.layers) - 1)
    shown.expert = min(shown.expert, routing.experts - 1)
    return routing


def _draw_facts(state: AppState, ui: Ui, routing: Routing) -> None:
    tokens, layers, chosen = routing.chosen.shape
    words = tr("{chosen} of {experts} experts for each token, in {layers} layers.")
    choices = words.format(chosen=chosen, experts=routing.experts, layers=layers)
    held = trn("{n:,} token", "{n:,} tokens", tokens).format(n=tokens)
    if routing.first:
        held = tr("Tokens {first:,} to {last:,}: choices of those before are not kept.").format(
            first=routing.first, last=routing.first + tokens - 1
        )
    wrapped(ui, f"{choices} {held}" if routing.first else f"{choices} {held}.")


def _values(shown: ExpertsShown, routing: Routing) -> Floats:
    """Return what the cells show, [layers, experts]."""
    if shown.measure == "load":
        return choice_counts.loads(routing)
    if shown.measure == "weight":
        return choice_counts.weights(routing)
    return choice_counts.weights(
        replace(routing, chosen=routing.chosen[-1:], shares=routing.shares[-1:])
    )


def shown_value(measure: Measure, value: float) -> str:
    """Return a cell's value as text."""
    return f"{value:.2g} ×" if measure == "load" else f"{value:.1%}"


def _draw_image(state: AppState, ui: Ui, shown: ExpertsShown, routing: Routing) -> None:
    """Write the image of the grid where what it shows has changed."""
    shown.image.begin()
    colors = state.attention.colors, is_light(ui)
    key = (shown.read, shown.measure, *colors)
    if shown.drawn == key:
        return
    values = shown.values = _values(shown, routing)
    top = max(float(values.max()), 1e-9)
    levels = np.rint(values / top * 255).astype(np.int64)
    rgb = table(*colors)[levels].astype(np.uint32)
    packed = rgb[..., 0] | rgb[..., 1] << 8 | rgb[..., 2] << 16 | np.uint32(0xFF000000)
    rows, columns = values.shape
    zoom = shown.zoom = -(-SHARP // rows), -(-SHARP // columns)
    shown.image.write(packed.astype(np.uint32).repeat(zoom[0], axis=0).repeat(zoom[1], axis=1))
    shown.drawn = key


def _draw_grid(state: AppState, ui: Ui, shown: ExpertsShown, routing: Routing) -> None:
    """Draw a row a layer and a column an expert, and how evenly each layer uses its experts."""
    _draw_image(state, ui, shown, routing)
    draw, top = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
    small, rows = ui.theme.size("small"), len(routing.layers)
    with ui.font(style="small"):
        numbers = imgui.calc_text_size("000").x
        left = top.x + small + ui.u(1) + numbers + ui.u(1)
        room = imgui.get_content_region_avail().x
        width = float(int(max(top.x + room - ui.u(BALANCE + 2) - left, ui.u(20))))
        draw.add_text(ImVec2(left, top.y), ui.color("muted"), tr("Expert"))
        beside = left + width + ui.u(2)
        draw.add_text(ImVec2(beside, top.y), ui.color("muted"), fit(tr("Balance"), ui.u(BALANCE)))
    least, tall = ui.u(1), imgui.get_window_height() * IN_SIGHT
    step = float(max(int(min(tall / rows, ui.u(6))), int(least), 2))
    low = ImVec2(left, top.y + small + ui.u(1))
    high = ImVec2(left + width, low.y + step * rows)
    upright_name(ui, tr("Layer"), top.x, low.y, high.y, draw)
    texture, first, last = shown.image.whole(routing.experts * shown.zoom[1], rows * shown.zoom[0])
    draw.add_image(texture, low, high, ImVec2(*first), ImVec2(*last))
    with ui.font(style="small"):
        for row in range(0, rows, max(1, int(-(-small // step)))):
            words = f"{routing.layers[row]}"
            spot = ImVec2(
                left - ui.u(1) - imgui.calc_text_size(words).x,
                round(low.y + row * step + (step - small) / 2),
            )
            draw.add_text(spot, ui.color("muted"), words)
    even = choice_counts.balance(shown.counted)
    for row in range(rows):
        y, gap = low.y + row * step, 0.15 * step
        end = beside + ui.u(BALANCE) * float(even[row])
        draw.add_rect_filled(
            ImVec2(beside, y + gap), ImVec2(end, y + step - gap), ui.color("faint")
        )
    imgui.set_cursor_screen_pos(low)
    imgui.invisible_button("experts.grid", ImVec2(width, high.y - low.y))
    ui.mark("experts.grid")
    _use_pointer(ui, shown, routing, low, (width / routing.experts, step))
    _frame(ui, (shown.row, shown.expert), low, (width / routing.experts, step), "text")
    imgui.set_cursor_screen_pos(ImVec2(beside, low.y))
    imgui.invisible_button("experts.balance", ImVec2(ui.u(BALANCE), high.y - low.y))
    if imgui.is_item_hovered():
        row = min(max(int((imgui.get_mouse_pos().y - low.y) / step), 0), rows - 1)
        words = tr("Layer {layer}: {share:.0%}").format(layer=routing.layers[row], share=even[row])
        tip(ui, f"{words}. {tr(BALANCED)}")
    imgui.set_cursor_screen_pos(ImVec2(left, high.y + ui.u(1)))
    _draw_key(state, ui, shown)


def _frame(ui: Ui, at: tuple[int, int], low: ImVec2, size: tuple[float, float], color: str) -> None:
    """Draw a line around a cell."""
    x, y = low.x + at[1] * size[0], low.y + at[0] * size[1]
    out = max(1.0, ui.u(0.4))
    corners = ImVec2(x - out, y - out), ImVec2(x + size[0] + out, y + size[1] + out)
    imgui.get_window_draw_list().add_rect(*corners, ui.color(color), 0.0, out)


def _use_pointer(
    ui: Ui, shown: ExpertsShown, routing: Routing, low: ImVec2, size: tuple[float, float]
) -> None:
    """Tell what is under the pointer; a click chooses it."""
    if not imgui.is_item_hovered():
        return
    mouse = imgui.get_mouse_pos()
    row = min(max(int((mouse.y - low.y) / size[1]), 0), len(routing.layers) - 1)
    expert = min(max(int((mouse.x - low.x) / size[0]), 0), routing.experts - 1)
    _frame(ui, (row, expert), low, size, "muted")
    if imgui.is_mouse_clicked(0):
        shown.row, shown.expert = row, expert
    with ui.styled(window_padding=(ui.u(3), ui.u(2))):
        if imgui.begin_tooltip():
            text(ui, expert_name(routing.layers[row], expert), bold=True)
            text(ui, _taken(shown, routing, row, expert))
            value = shown_value(shown.measure, float(shown.values[row, expert]))
            label = tr(dict(MEASURES)[shown.measure])
            text(ui, f"{label}: {value}", "muted", "small")
            imgui.end_tooltip()


def expert_name(layer: int, expert: int) -> str:
    return tr("Layer {layer}, expert {expert}").format(layer=layer, expert=expert)


def _taken(shown: ExpertsShown, routing: Routing, row: int, expert: int) -> str:
    count, tokens = int(shown.counted[row, expert]), len(routing.chosen)
    words = tr("Chosen by {count:,} of {tokens:,} tokens ({share:.1%})")
    return words.format(count=count, tokens=tokens, share=count / tokens)


def _draw_key(state: AppState, ui: Ui, shown: ExpertsShown) -> None:
    """Draw what the colours stand for."""
    at, draw, bar = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.u(30)
    small = ui.theme.size("small")
    draw_ramp(state.attention, ui, (at.x, at.y + ui.u(0.5)), bar, small - ui.u(1))
    top = float(shown.values.max()) if shown.values.size else 0.0
    words = tr("0 to {most}").format(most=shown_value(shown.measure, top))
    with ui.font(style="small"):
        draw.add_text(ImVec2(at.x + bar + ui.u(1.5), at.y), ui.color("muted"), words)
    imgui.dummy(ImVec2(bar, small + ui.u(1)))
    ui.mark("experts.key")


def _draw_expert(state: AppState, ui: Ui, shown: ExpertsShown, routing: Routing) -> list[Action]:
    """Draw the expert that is chosen: its switches, its words, and who it handled in the text."""
    layer, expert, model = routing.layers[shown.row], shown.expert, state.model
    imgui.align_text_to_frame_padding()
    text(ui, expert_name(layer, expert), bold=True)
    ui.mark("experts.name")
    _draw_steps(ui, shown, routing)
    wrapped(ui, _taken(shown, routing, shown.row, expert) + ".")
    actions: list[Action] = []
    if model is not None and model.experts and not state.elsewhere:
        actions = _draw_switches(state, ui, model, layer, expert)
    _draw_words(state, ui, shown, routing)
    _draw_text(state, ui, shown, routing)
    return actions


def _draw_steps(ui: Ui, shown: ExpertsShown, routing: Routing) -> None:
    """Draw buttons that go to the next expert and layer, for the keyboard too."""
    steps = (
        ("previous", "‹", tr("The expert before"), (0, -1)),
        ("next", "›", tr("The next expert"), (0, 1)),
        ("up", "↑", tr("The layer before"), (-1, 0)),
        ("down", "↓", tr("The next layer"), (1, 0)),
    )
    for number, (name, label, hint, (rows, columns)) in enumerate(steps):
        imgui.same_line(0, ui.u(2 if number == 0 else 0.5))
        if button(ui, f"experts.{name}", label, "", hint):
            shown.row = (shown.row + rows) % len(routing.layers)
            shown.expert = (shown.expert + columns) % routing.experts


def _draw_switches(
    state: AppState, ui: Ui, model: ModelInfo, layer: int, expert: int
) -> list[Action]:
    """Draw whether the expert counts, and buttons to reset all and to answer again."""
    changes = state.steering.interventions
    gains = gains_of(changes, model)
    found = choice_counts.switches_of(model, gains, layer, expert)
    now: Switch = next((name for name, values in _VALUES.items() if values == found), "")
    hints = [tr(hint) for hint in SWITCH_HINTS]
    wanted = chooser(ui, "experts.switch", tr_labels(SWITCHES), now, hints)
    actions: list[Action] = []
    if wanted and wanted != now:
        changed = choice_counts.with_switches(model, gains, layer, expert, _VALUES[wanted])
        actions.append(Steer(with_gains(changes, changed, model)))
    switched = state.steering.switched_experts(model)
    if button(ui, "experts.reset", tr("Reset"), ICON_UNDO, tr("All experts as the router says"),
              enabled=bool(switched)):  # fmt: skip
        plain = choice_counts.without_switches(model, gains)
        actions.append(Steer(with_gains(changes, plain, model)))
    imgui.same_line(0, ui.u(2))
    answered = bool(state.messages) and state.messages[-1].role == "assistant"
    able = bool(switched) and not state.busy and answered
    if button(ui, "experts.again", tr("Regenerate"), ICON_REGENERATE, tr(AGAIN), enabled=able):
        actions.append(AnswerSteered())
    imgui.same_line(0, ui.u(3))
    imgui.align_text_to_frame_padding()
    words = tr("All experts as the router says")
    if switched:
        words = trn("{n:,} expert switched", "{n:,} experts switched", switched).format(n=switched)
    text(ui, words, "text" if switched else "muted", "small")
    return actions


def _draw_words(state: AppState, ui: Ui, shown: ExpertsShown, routing: Routing) -> None:
    """Draw the words whose tokens chose the expert, those that did more often than others first."""
    texts = texts_of(state, routing)
    key = (shown.read, texts, shown.row, shown.expert)
    if shown.words_key != key:
        shown.words = choice_counts.words_of(routing, shown.row, shown.expert, texts)
        shown.words_key = key
    if not shown.words:
        return
    text(ui, tr("Words that it handles"), "muted", "small")
    room, x = imgui.get_content_region_avail().x, 0.0
    with ui.font(style="small"):
        for number, word in enumerate(shown.words[:LISTED]):
            label = f"{visible(word.text)}  {word.count}/{word.of}"
            wide = imgui.calc_text_size(label).x + ui.u(3)
            if number and x + wide <= room:
                imgui.same_line(0, ui.u(3))
            else:
                x = 0.0
            x += wide
            imgui.text_unformatted(label)
            ui.mark(f"experts.word.{number}")


def _draw_text(state: AppState, ui: Ui, shown: ExpertsShown, routing: Routing) -> None:
    """Draw the text, each token in the colour of what the expert weighed for it."""
    first = max(routing.first, routing.first + len(routing.chosen) - MOST_TOKENS)
    texts = texts_of(state, routing)
    last = min(routing.first + len(routing.chosen), len(texts))
    width = imgui.get_content_region_avail().x
    key = (texts, first, last, width, ui.theme)
    if shown.page is None or shown.page_key != key:
        words = texts[first:last]
        ends = np.cumsum([len(word) for word in words]).tolist()
        spans = tuple(zip([0, *ends[:-1]], ends, strict=True)) if ends else ()
        shown.page, shown.page_key = lay_out(ui, "".join(words), spans, width), key
    shares = choice_counts.shares_of(routing, shown.row, shown.expert)[first - routing.first :]
    top, palette = max(float(np.abs(shares).max(initial=0.0)), 1e-9), ui.theme.palette

    def color_of(token: int) -> tuple[int, int]:
        share = abs(float(shares[token])) if 0 <= token < len(shares) else 0.0
        if not share:
            return 0, ui.color("muted")
        fill = mix(palette.panel, palette.accent, 0.15 + 0.75 * share / top)
        return u32(fill), u32(legible(fill))

    at = imgui.get_cursor_screen_pos()
    draw_boxes(ui, shown.page, (at.x, at.y), color_of, {}, imgui.get_window_draw_list())
    imgui.invisible_button("experts.text", ImVec2(max(width, 1), max(shown.page.height, 1)))
    ui.mark("experts.text")
    if not imgui.is_item_hovered():
        return
    mouse = imgui.get_mouse_pos()
    token = shown.page.at(mouse.x - at.x, mouse.y - at.y)
    if 0 <= token < len(shares):
        _draw_token_tip(state, ui, routing, shown.row, first + token)


def _draw_token_tip(state: AppState, ui: Ui, routing: Routing, row: int, position: int) -> None:
    """Draw who handled a token in the layer that is chosen."""
    place = position - routing.first
    with ui.styled(window_padding=(ui.u(3), ui.u(2))):
        if not imgui.begin_tooltip():
            return
    label = visible(state.positions[position])
    words = tr("“{label}” at {n:,}, layer {layer}")
    text(ui, words.format(label=label, n=position, layer=routing.layers[row]), bold=True)
    pairs = zip(routing.chosen[place, row], routing.shares[place, row], strict=True)
    for expert, share in sorted(pairs, key=lambda pair: -abs(pair[1])):
        words = tr("Expert {expert}: {share:.1%}")
        text(ui, words.format(expert=int(expert), share=float(share)), "text", "small")
    imgui.end_tooltip()
