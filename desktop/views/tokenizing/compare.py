"""Two tokenizers on the same text, and what a word costs in each language."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.incoming import NAME, fit_line, shown_path
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.tokenizing.examples import LANGUAGES
from llm_lite.desktop.state.tokenizing.tokenizer_state import (
    MODEL,
    OTHER,
    Answer,
    TokenizerChoice,
    a_word,
    words_of,
)
from llm_lite.desktop.views.tokenizing.asking import has_tokenizer
from llm_lite.desktop.views.tokenizing.tokens_stage import draw_pieces, kind_words
from llm_lite.desktop.widgets.controls import picker
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, text, wrapped

NONE, FILE = "none", "tokenizer.file"
PATH = "tokenizer.path"
MOST_LISTED = 200
HINT = mark("A GGUF file, a model's folder, or a tokenizer.json")
LANGUAGE_NOTE = mark(
    "The first article of the Universal Declaration of Human Rights, in tokens and in tokens a "
    "word. More tokens for the same words: a fuller context, and slower answers."
)


def draw(state: AppState, ui: Ui, choice: TokenizerChoice) -> tuple[TokenizerChoice, list[Action]]:
    choice = _draw_choice(state, ui, choice)
    answers = state.tokenizer.answers
    has = (has_tokenizer(state), choice.other != "")
    shown = [(slot, answers[slot]) for slot in (MODEL, OTHER) if has[slot]]
    width = imgui.get_content_region_avail().x
    if len(shown) == 2 and width > ui.u(150):
        _draw_columns(ui, shown, width)
    else:
        for slot, answer in shown:
            _draw_answer(ui, slot, answer)
            imgui.dummy(ImVec2(0, ui.u(1.5)))
    _draw_languages(ui, [answer for _, answer in shown])
    return choice, []


def _draw_choice(state: AppState, ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Of models on this machine, or by a path."""
    models = [(str(one.path), one.name) for one in (state.library.local or ())[:MOST_LISTED]]
    other = choice.other or NONE
    options = [(NONE, tr("Set another tokenizer beside it")), *models, (FILE, tr("A file"))]
    if other not in dict(options):
        options.insert(1, (other, shown_path(other)))
    asks = ui.memory.get(FILE, False)
    width = imgui.get_content_region_avail().x
    picked = picker(ui, "tokenizer.other", options, FILE if asks else other, width)
    ui.memory[FILE] = picked == FILE
    if picked != FILE:
        return replace(choice, other="" if picked == NONE else picked)
    found = _draw_path(ui, width)
    if not found:
        return choice
    ui.memory[FILE] = False
    return replace(choice, other=found)


def _draw_path(ui: Ui, width: float) -> str:
    """The path that was entered in this frame, else ""."""
    label = tr("Show")
    room = imgui.calc_text_size(label).x + ui.u(7)
    imgui.set_next_item_width(width - room)
    _, path = imgui.input_text_with_hint(f"##{PATH}", tr(HINT), ui.memory.get(PATH, ""))
    entered = imgui.is_item_deactivated() and imgui.is_key_pressed(imgui.Key.enter, False)
    ui.mark(PATH)
    ui.memory[PATH] = path = path[:4096]
    imgui.same_line()
    pressed = button(ui, "tokenizer.show", label, enabled=bool(path.strip()))
    return path.strip() if pressed or entered else ""


def _draw_columns(ui: Ui, shown: list[tuple[int, Answer]], width: float) -> None:
    if not imgui.begin_table("tokenizers", 2, imgui.TableFlags_.sizing_stretch_same):
        return
    imgui.table_next_row()
    for slot, answer in shown:
        imgui.table_next_column()
        _draw_answer(ui, slot, answer)
    imgui.end_table()
    imgui.dummy(ImVec2(0, ui.u(1)))


def _draw_answer(ui: Ui, slot: int, answer: Answer) -> None:
    told = answer.result
    if answer.message:
        wrapped(ui, answer.message[:1].upper() + answer.message[1:] + ".", "warning")
        ui.mark(f"tokenizer.problem.{slot}")
        return
    if told is None:
        wrapped(ui, tr("Reading the tokenizer."))
        return
    with ui.font("bold"):
        name = fit(fit_line(told.tokenizer, NAME), imgui.get_content_region_avail().x)
    text(ui, name, bold=True)
    count = tr("{n:,} tokens").format(n=told.tokens)
    n = a_word(told)
    words = tr("{n:.2f} a word").format(n=n) if n else ""
    text(ui, f"{count}  ·  {words}" if n else count, style="small", bold=True)
    text(ui, kind_words(told), "muted", "small")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    draw_pieces(ui, f"tokenizer.beside.{slot}", told)


def _draw_languages(ui: Ui, answers: list[Answer]) -> None:
    """A row a language: a bar for each tokenizer, its tokens and tokens a word."""
    known = [answer for answer in answers if len(answer.samples) == len(LANGUAGES)]
    if not known:
        return
    heading(ui, tr("Tokens by language"), tr(LANGUAGE_NOTE))
    rows = [(name, sample, number) for number, (name, sample) in enumerate(LANGUAGES)]
    most = max(max(answer.samples) for answer in known)
    for place, answer in enumerate(known):
        _draw_key(ui, place, answer)
    for name, sample, number in rows:
        text(ui, name, style="small", bold=True)
        for place, answer in enumerate(known):
            tokens = answer.samples[number]
            _draw_bar(ui, place, tokens, most, tokens / words_of(sample))
        imgui.dummy(ImVec2(0, ui.u(0.25)))
    ui.mark("tokenizer.languages")


def _draw_key(ui: Ui, place: int, answer: Answer) -> None:
    """A dot in the colour of a tokenizer's bars, and its name."""
    at, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    center, radius = ImVec2(at.x + ui.u(1.5), at.y + small * 0.6), ui.u(1)
    imgui.get_window_draw_list().add_circle_filled(center, radius, ui.color_of_series(place))
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(4), at.y))
    name = answer.result.tokenizer if answer.result else ""
    with ui.font(style="small"):
        words = fit(fit_line(name, NAME), imgui.get_content_region_avail().x)
    text(ui, words, "muted", "small")


def _draw_bar(ui: Ui, place: int, tokens: int, most: int, a_word: float) -> None:
    words = tr("{tokens:,} tokens  ·  {n:.2f} a word").format(tokens=tokens, n=a_word)
    width, small = imgui.get_content_region_avail().x, ui.theme.size("small")
    with ui.font(style="small"):
        room = max(imgui.calc_text_size(words).x, ui.u(48)) + ui.u(2)
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    thick, long = ui.u(2), max(width - room, ui.u(10)) * tokens / max(most, 1)
    top = at.y + (small * 1.3 - thick) / 2
    color = ui.color_of_series(place)
    draw.add_rect_filled(ImVec2(at.x, top), ImVec2(at.x + long, top + thick), color, thick / 2)
    left = at.x + max(width - room, ui.u(10)) + ui.u(2)
    spot = ImVec2(round(left), round(at.y))
    draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
    imgui.dummy(ImVec2(width, round(small * 1.3)))
