"""Two ways to run the model answer one prompt, side by side beside the conversation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

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
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.program.status_bar import backend_labels
from llm_lite.desktop.features.quantization.divergence import (
    PointedToken,
    draw_details,
    draw_strip,
    kl_color,
    strip_height,
    summary,
    taller,
)
from llm_lite.desktop.features.quantization.model import (
    RunTask,
    SetQuantization,
    ShowRuns,
    StopTask,
)
from llm_lite.desktop.features.quantization.state import Choices, RunAnswer, RunComparison, RunToken
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.features.tokens.colors import likely
from llm_lite.desktop.features.tokens.state import align
from llm_lite.desktop.language.core_words import translated_stage
from llm_lite.desktop.language.translate import mark, tr, tr_labels
from llm_lite.desktop.language.units import capital, duration, rate, sentence, size
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.controls import line_slider, picker, picker_width, toggle
from llm_lite.desktop.widgets.icons import ICON_CLOSE
from llm_lite.desktop.widgets.token_text import TokenPage, draw_boxes, lay_out
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import (
    button,
    fit,
    icon_button,
    meter,
    primary_button,
    text,
    tip,
    wrapped,
)

NAMES = ("A", "B")
TWO_MACHINES = mark(
    "The model of this machine and the one elsewhere answer the same prompt, at once. Their texts "
    "are tinted by how unlikely each found its own tokens, and the first token that differs stands "
    "out."
)
UNSCORED = mark(
    "How likely B finds what A said is not told: that takes the whole distribution of every token, "
    "and both models to cut text into the same tokens. OpenAI's protocol has neither."
)
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
EXPLAINED = mark(
    "Both runs answer the same prompt. Then B scores every token of A's answer: "
    "the strip shows how far the two distributions are apart at each token, also "
    "after the answers diverge."
)
GREEDY = mark("Both take the likeliest token. Otherwise both draw with the same seed.")
REACH = (16, 512)  # tokens
LEAST_PROMPT, LEAST_SLIDER = 40.0, 50.0  # spacing units of what shares a line with a button


class RunPage(Struct):
    """The layout of a run's answer, and what it was made of."""

    tokens: tuple[RunToken, ...]
    size: tuple[float, float]  # pixels: of the column, of the font
    page: TokenPage


class RunPages(Struct):
    """Layouts of the answers, by run."""

    runs: dict[int, RunPage] = field(default_factory=dict)


def draw(state: AppState, ui: Ui) -> list[Action]:
    """Draw the view into the whole of the current window."""
    actions = _draw_head(state, ui)
    pad = ui.u(3)
    width = min(imgui.get_content_region_avail().x - 2 * pad, ui.u(300))
    x = imgui.get_cursor_pos_x() + (imgui.get_content_region_avail().x - width) / 2
    imgui.set_cursor_pos_x(x)
    imgui.begin_child("runs", ImVec2(width, 0), FLAT)
    width = imgui.get_content_region_avail().x  # a scroll bar takes some of it
    choices = state.quantization.choices
    column = float(round((width - ui.u(8)) / 2))
    if state.remote.connection is not None:
        _draw_machines(ui, state.remote.connection, column)
        changed = choices
    else:
        changed = draw_run_settings(state, ui, choices, column)
    changed, asked = _draw_prompt(state, ui, changed, width)
    actions += asked
    if changed != choices:
        actions.append(SetQuantization(changed))
    actions += _draw_result(state, ui, column)
    imgui.end_child()
    return actions


def _draw_head(state: AppState, ui: Ui) -> list[Action]:
    imgui.set_cursor_pos(ImVec2(imgui.get_cursor_pos_x() + ui.u(3), imgui.get_cursor_pos_y()))
    imgui.align_text_to_frame_padding()
    side = ui.u(7)
    with ui.font("bold"):
        title = fit(tr("Two runs, one prompt"), imgui.get_content_region_avail().x - side - ui.u(2))
    text(ui, title, bold=True)
    tip(ui, tr(EXPLAINED))
    imgui.same_line(ui.right(side))
    if icon_button(ui, "runs.close", ICON_CLOSE, tr("Back to the conversation"), side=side):
        return [ShowRuns(False)]
    return []


def _draw_prompt(
    state: AppState, ui: Ui, choices: Choices, width: float
) -> tuple[Choices, list[Action]]:
    work, start = state.quantization.work, imgui.get_cursor_screen_pos().x
    label = tr("Stop") if work else tr("Ask both")
    room = imgui.calc_text_size(tr("Ask both")).x + ui.u(9)
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    beside = width - room - ui.u(2)
    has_line = beside < ui.u(LEAST_PROMPT)  # of its own: the button stands below it
    imgui.set_next_item_width(width if has_line else beside)
    flags = imgui.InputTextFlags_.enter_returns_true
    with ui.styled(frame_padding=(ui.u(2.5), ui.u(1.75))):
        entered, words = imgui.input_text_with_hint(
            "##runs.prompt", tr("A prompt for both"), choices.prompt, flags
        )
        ui.mark("runs.prompt")
        if not has_line:
            imgui.same_line(0, ui.u(2))
        if work:
            clicked = button(ui, "runs.start", label, enabled=not work.stopping, width=room)
        else:
            ready = bool(words.strip()) and state.model is not None
            clicked = primary_button(ui, "runs.start", label, enabled=ready, width=room)
    choices = replace(choices, prompt=words)
    choices = replace(
        choices, greedy=toggle(ui, "runs.greedy", tr("Greedy"), choices.greedy, tr(GREEDY))
    )
    shown = tr("up to {n} tokens").format(n=choices.length)
    taken = imgui.get_item_rect_max().x - start + ui.u(6)
    if width - taken >= ui.u(LEAST_SLIDER):
        imgui.same_line(0, ui.u(6))
        imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() + ui.u(0.75))
    else:
        taken = 0.0
    wide = min(ui.u(76), width - taken)
    length = line_slider(ui, "runs.length", choices.length, REACH, shown, wide)
    choices = replace(choices, length=length)
    asked: list[Action] = []
    if work and clicked:
        asked.append(StopTask())
    elif (clicked or entered) and not work:
        asked += [SetQuantization(choices), RunTask("runs")]
    return choices, asked


def _draw_machines(ui: Ui, connection: Connection, column: float) -> None:
    """Draw the names of both machines, above their columns: there is nothing to choose."""
    here = tr("The model of this machine, as it is loaded")
    top = imgui.get_cursor_pos()
    for run, words in enumerate((here, f"{connection.model.title}  ·  {connection.where}")):
        imgui.set_cursor_pos(ImVec2(top.x + run * (column + ui.u(8)), top.y))
        _draw_badge(ui, run)
        imgui.same_line(0, ui.u(1.5))
        imgui.align_text_to_frame_padding()
        with ui.font(style="small"):
            imgui.text_unformatted(fit(words, column - ui.u(9)))
        tip(ui, words)


def _draw_result(state: AppState, ui: Ui, column: float) -> list[Action]:
    held = state.quantization
    comparison, work = held.comparison, held.work
    if problem := held.problem("runs"):
        wrapped(ui, sentence(problem), "error")
    if comparison is None:
        imgui.dummy(ImVec2(0, ui.u(2)))
        wrapped(ui, tr(TWO_MACHINES if state.elsewhere else EXPLAINED))
        return []
    if work and work.kind == "runs" and (not all(a.executor for a in comparison.answers)):
        _draw_progress(ui, work.stage, work.fraction)
    return _draw_runs(state, ui, comparison, column)


def _draw_progress(ui: Ui, stage: str, fraction: float) -> None:
    text(ui, capital(translated_stage(stage)), "muted", "small")
    meter(ui, fraction, imgui.get_content_region_avail().x, ui.u(1))


def _draw_runs(state: AppState, ui: Ui, comparison: RunComparison, column: float) -> list[Action]:
    """Draw numbers, then both answers in a part that scrolls, then the strip below them."""
    actions = []
    top, gap = imgui.get_cursor_pos(), ui.u(8)
    for run, answer in enumerate(comparison.answers):
        imgui.set_cursor_pos(ImVec2(top.x + run * (column + gap), top.y + ui.u(1)))
        actions += _draw_numbers(state, ui, comparison, run, answer, column)
    room = imgui.get_content_region_avail().y - strip_height(ui) - ui.u(2)
    if comparison.elsewhere:
        imgui.begin_child("runs.answers", ImVec2(0, max(room, ui.u(20))))
        _draw_answers(ui, comparison, column, gap)
        imgui.end_child()
        _draw_unscored(ui, comparison)
        return actions
    pages = _pages(ui, comparison, column)
    tall = max(page.height for page in pages) + ui.u(4)  # the strip follows short answers
    imgui.begin_child("runs.answers", ImVec2(0, max(min(room, tall), ui.u(20))))
    pointed = _draw_answers(ui, comparison, column, gap)
    imgui.end_child()
    on_strip = draw_strip(ui, comparison, taller(ui, room - max(tall, ui.u(16))))
    pointed = on_strip if on_strip is not None else pointed
    ui.local(PointedToken).number = pointed
    if pointed is not None and pointed < len(comparison.forced):
        draw_details(ui, comparison, pointed)
    return actions


def _draw_unscored(ui: Ui, comparison: RunComparison) -> None:
    text(ui, summary(comparison), style="small", bold=True)
    ui.mark("runs.unscored")
    wrapped(ui, tr(UNSCORED))


def _draw_numbers(
    state: AppState, ui: Ui, comparison: RunComparison, run: int, answer: RunAnswer, width: float
) -> list[Action]:
    """Draw what the run is, four figures, and the button that applies its options to the chat."""
    imgui.begin_group()
    stats, executor = answer.stats, answer.executor
    kept = _keeps(state, comparison.options[run])
    options = comparison.options[run]
    there = executor is not None and executor.backend == "remote"
    if executor and there:
        title = executor.device
    elif executor:
        title = f"{executor.mode}  ·  {executor.activations}  ·  {executor.backend}"
    else:
        title = options.mode
    if not there and (options.keys != "fp16" or options.values != "fp16"):
        title += f"  ·  KV {_kv_name(options)}"
    text(ui, title, style="small", bold=True)
    _draw_measures(
        ui,
        [
            (
                "tok/s",
                rate(stats.decode_tok_s if stats else 0),
                tr("Measured in its own steps only."),
            ),
            (
                tr("first token"),
                duration(stats.ttft_ms if stats else 0),
                tr("The whole prompt, then one."),
            ),
            (
                tr("weights"),
                size(answer.weight_bytes) if answer.weight_bytes else "–",
                _weights_hint(answer),
            ),
            (
                tr("cache a token"),
                size(answer.cache_bytes) if answer.cache_bytes else "–",
                tr("Bytes of a token's keys and values, in all layers together."),
            ),
        ],
        width,
    )
    name = f"runs.keep.{NAMES[run].lower()}"
    actions: list[Action] = []
    if comparison.elsewhere:
        imgui.end_group()
        return actions
    with ui.font(style="small"):
        hint = tr("The chat uses this mode and cache from its next token on")
        label = tr("The chat's mode") if kept else tr("Keep this mode")
        able = not kept and state.load is None and state.quantization.work is None
        if button(ui, name, label, hint=hint, enabled=able):
            actions = [SetOptions(_merged(state.options, options)), ShowRuns(False)]
    imgui.end_group()
    return actions


def _draw_badge(ui: Ui, run: int) -> None:
    """Draw the run's letter on its colour."""
    at, draw, side = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list(), ui.u(6.5)
    low, high = at, ImVec2(at.x + side, at.y + side)
    draw.add_rect_filled(low, high, ui.color("accent" if run == 0 else "pressed"), ui.u(1.5))
    with ui.font("bold", "small"):
        wide = imgui.calc_text_size(NAMES[run])
        spot = ImVec2(round(at.x + (side - wide.x) / 2), round(at.y + (side - wide.y) / 2))
        color = ui.color("on_accent" if run == 0 else "text")
        draw.add_text(spot, color, NAMES[run])
    imgui.dummy(ImVec2(side, side))


def _weights_hint(answer: RunAnswer) -> str:
    words = tr("All weights, as this run keeps them; they are read for each token.")
    return f"{words} {tr('It is the model of the chat.')}" if answer.shared else words


def _kv_name(options: EngineOptions) -> str:
    keys, values = options.keys, options.values
    return keys if keys == values else f"{keys}, {values}"


def _draw_measures(ui: Ui, numbers: list[tuple[str, str, str]], width: float) -> None:
    """Draw values with their names below them; two on a line where four have no room."""
    small, draw = ui.theme.size("small"), imgui.get_window_draw_list()
    wide = max(
        *(imgui.calc_text_size(value).x for _, value, _ in numbers),
        *(imgui.calc_text_size(label).x * small / ui.theme.text for label, _, _ in numbers),
    )
    columns = len(numbers) if wide + ui.u(1) <= width / len(numbers) else 2
    at, share = imgui.get_cursor_screen_pos(), width / columns
    high = ui.theme.text + small + ui.u(1.5)
    for number, (label, value, hint) in enumerate(numbers):
        row, column = divmod(number, columns)
        spot = ImVec2(at.x + column * share, at.y + row * high)
        draw.add_text(ui.fonts["regular"], ui.theme.text, spot, ui.color("text"), value)
        below = ImVec2(spot.x, spot.y + ui.theme.text + ui.u(0.75))
        draw.add_text(ui.fonts["regular"], small, below, ui.color("muted"), label)
        imgui.set_cursor_screen_pos(spot)
        imgui.dummy(ImVec2(share - ui.u(1), high))
        tip(ui, hint)
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + -(-len(numbers) // columns) * high))
    imgui.dummy(ImVec2(0, 0))


def _merged(chat: EngineOptions, run: EngineOptions) -> EngineOptions:
    return replace(
        chat,
        mode=run.mode,
        activations=run.activations,
        backend=run.backend,
        keys=run.keys,
        values=run.values,
    )


def _keeps(state: AppState, run: EngineOptions) -> bool:
    return _merged(state.options, run) == state.options


def _draw_answers(ui: Ui, comparison: RunComparison, column: float, gap: float) -> int | None:
    """Draw both texts, and return the token of A's text under the pointer."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    pages = _pages(ui, comparison, column)
    partings = comparison.partings
    pointed = None if comparison.elsewhere else ui.local(PointedToken).number
    found = None
    for run, (page, parting) in enumerate(zip(pages, partings, strict=True)):
        x = at.x + run * (column + gap)
        marked = {} if pointed is None else {pointed: ui.color("text")}
        if run and (parting is None or (pointed or 0) > parting):
            marked = {}

        def paint(token: int, run: int = run, parting: int | None = parting) -> tuple[int, int]:
            return _paint(ui, comparison, parting, run, token)

        draw_boxes(ui, page, (x, at.y), paint, marked, draw)
        _mark_rects(ui, run, page, (x, at.y))
        mouse = imgui.get_mouse_pos()
        if imgui.is_window_hovered() and 0 <= mouse.y - at.y < page.height:
            token = page.at(mouse.x - x, mouse.y - at.y)
            same = run == 0 or parting is None or token <= parting
            found = token if token >= 0 and same else found
    middle = at.x + column + gap / 2
    height = max(*(page.height for page in pages), ui.u(20))
    low, high = ImVec2(middle, at.y), ImVec2(middle, at.y + height)
    draw.add_line(low, high, ui.color("border"), max(1.0, ui.u(0.25)))
    imgui.dummy(ImVec2(2 * column + gap, height))
    return found


def _mark_rects(ui: Ui, run: int, page: TokenPage, at: tuple[float, float]) -> None:
    for box in page.boxes:
        y = at[1] + box.line * page.line
        name = f"runs.{NAMES[run].lower()}.token.{box.token}"
        ui.rects.setdefault(name, (at[0] + box.x, y, at[0] + box.x + box.width, y + page.line))


def _paint(
    ui: Ui, comparison: RunComparison, parting: int | None, run: int, token: int
) -> tuple[int, int]:
    """Return a token's colours. That where they diverge stands out; others of A's are tinted."""
    if token == parting:
        return ui.color("accent"), ui.color("on_accent")
    if comparison.elsewhere:
        return _tint(ui, comparison.answers[run], token), ui.color("text")
    if run == 0 and 0 <= token < len(comparison.forced):
        return kl_color(ui, comparison.forced[token].kl), ui.color("text")
    if run and parting is not None and token > parting:
        return ui.color("pressed", 0.6), ui.color("text")  # as the badge of B
    return 0, ui.color("text")


def _tint(ui: Ui, answer: RunAnswer, token: int) -> int:
    """Return the tint of a token by how unlikely its run found it."""
    chance = answer.tokens[token].probability if 0 <= token < len(answer.tokens) else math.nan
    return likely(ui, chance)


def _pages(ui: Ui, comparison: RunComparison, column: float) -> list[TokenPage]:
    """Lay out both texts, narrower than columns by a scroll bar, which may cover the right one."""
    width = column - imgui.get_style().scrollbar_size
    return [_laid(ui, run, answer, width) for run, answer in enumerate(comparison.answers)]


def _laid(ui: Ui, run: int, answer: RunAnswer, width: float) -> TokenPage:
    pages, size = ui.local(RunPages).runs, (width, ui.theme.text)
    kept = pages.get(run)
    if kept is None or kept.tokens is not answer.tokens or kept.size != size:
        spans = align(answer.text, [token.text for token in answer.tokens])
        kept = pages[run] = RunPage(answer.tokens, size, lay_out(ui, answer.text, spans, width))
    return kept.page


def draw_run_settings(state: AppState, ui: Ui, choices: Choices, column: float) -> Choices:
    """Draw the choices of each run above its column, `column` pixels wide, and return them. Where
    columns are too narrow for them, the runs stand one below the other."""
    top, gap = imgui.get_cursor_pos(), ui.u(8)
    stacked = not _has_room_for_two(ui, column)
    options, backends = [], backend_labels(state)
    for run in (0, 1):
        if stacked:
            imgui.set_cursor_pos_x(top.x)
            options.append(_draw_run(ui, run, choices.runs[run], 2 * column + gap, backends))
        else:
            imgui.set_cursor_pos(ImVec2(top.x + run * (column + gap), top.y))
            options.append(_draw_run(ui, run, choices.runs[run], column, backends))
    return replace(choices, runs=(options[0], options[1]))


def _draw_run(
    ui: Ui, run: int, options: EngineOptions, width: float, backends: Sequence[tuple[Backend, str]]
) -> EngineOptions:
    """Draw the four choices on one line, or on two where their names have no room on one."""
    titled = ui.theme.size("small") + ui.u(1)
    top = imgui.get_cursor_pos()
    imgui.set_cursor_pos(ImVec2(top.x, top.y + titled))
    _draw_badge(ui, run)
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
