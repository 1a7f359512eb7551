"""The tokenizer: a text cut into tokens while it is typed, stage by stage."""

from __future__ import annotations

import unicodedata

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import MOST_CHARACTERS, TokenizedText
from llm_lite.core.records import replace
from llm_lite.core.text.tokenization.spelling import hexadecimal, shown
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer import steps, tips, tokens_stage
from llm_lite.desktop.features.tokenizer.asking import has_tokenizer, questions, slot_shown
from llm_lite.desktop.features.tokenizer.chips import Chip, Look, draw_chips, kept_page
from llm_lite.desktop.features.tokenizer.examples import EXAMPLES, LANGUAGES
from llm_lite.desktop.features.tokenizer.model import ChooseTokenizing
from llm_lite.desktop.features.tokenizer.state import (
    LONGEST,
    MODEL,
    OTHER,
    Answer,
    Form,
    Stage,
    TokenizerChoice,
    a_word,
    words_of,
)
from llm_lite.desktop.features.tokenizer.tokens_stage import draw_pieces, kind_words
from llm_lite.desktop.language.incoming import NAME, fit_line, shown_path, typed
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.widgets.controls import chooser, picker
from llm_lite.desktop.widgets.icons import ICON_CHAT
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, help_mark, meter, text, wrapped

NONE, FILE = "none", "tokenizer.file"
PATH = "tokenizer.path"
MOST_LISTED = 200
HINT = mark("A GGUF file, a model's folder, or a tokenizer.json")
LANGUAGE_NOTE = mark(
    "The first article of the Universal Declaration of Human Rights, in tokens and in tokens a "
    "word. More tokens for the same words: a fuller context, and slower answers."
)


NORMALIZED = mark("Normalized")
BYTES = mark("Characters and bytes")
NOTHING = mark("This tokenizer takes the text as it is.")
SAME = mark("Changes: {names}. Here they change nothing.")
CHANGES = mark("Changes: {names}.")
MOST_NAMES = 12  # of normalizers
_HUES = (0, 2, 3, 5)  # of characters of 1, 2, 3 and 4 bytes
ABOUT = mark(
    "A model reads and writes numbers. The tokenizer turns text into them: it normalizes the text, "
    "cuts it into words, and each word into pieces of its vocabulary, the tokens."
)
STAGES: tuple[tuple[Stage, str], ...] = (
    ("text", mark("Text")),
    ("steps", mark("Words")),
    ("tokens", mark("Tokens")),
    ("compare", mark("Compare")),
)
STAGE_HINTS = (
    mark("The text as the tokenizer reads it: normalized, and its bytes"),
    mark("The words that it is cut into first, and how each becomes tokens, step by step"),
    mark("The tokens and their numbers, and those that the chat template adds"),
    mark("Another tokenizer beside this one, and what a word costs in each language"),
)
CHAT_HINT = mark(
    "The text as your next message: with the system prompt, the conversation so far and what the "
    "model's chat template writes around them"
)
AS_CHAT, CONTROL = mark("As a message"), mark("Control tokens")
CONTROL_HINT = mark(
    "Off, as in the chat: what is typed stays text. On, a name such as <|im_end|> is the token."
)
NO_MODEL = mark(
    "Once a model is loaded, its tokenizer is applied to this text. Compare takes others too."
)
THERE = mark("A server does not expose its tokenizer. Compare takes those on this machine.")
WAITING = mark("Tokenizing.")


def draw(state: AppState, ui: Ui) -> list[Action]:
    choice = state.tokenizer.choice
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1.5))):
        chosen = _draw_input(ui, choice)
        chosen = _draw_switches(state, ui, chosen)
        told = state.tokenizer.answers[slot_shown(state)].result
        _draw_count(state, ui, told)
        hints = [tr(hint) for hint in STAGE_HINTS]
        stage = chooser(ui, "tokenizer.stage", tr_labels(STAGES), chosen.stage, hints)
    chosen = replace(chosen, stage=stage)
    if chosen.other and stage != "compare" and has_tokenizer(state):
        chosen = _draw_whose(state, ui, chosen)
    chosen, actions = _draw_stage(state, ui, told, chosen)
    if chosen != choice:
        actions.append(ChooseTokenizing(chosen))
    return actions + questions(state, ui)


def _draw_input(ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Where the text is typed; lower where there is little room."""
    room = imgui.get_content_region_avail()
    lines = 4 if room.y > ui.u(150) else 2
    with ui.styled(frame_padding=(ui.u(2.5), ui.u(1.5))):
        flags = imgui.InputTextFlags_.word_wrap
        size = ImVec2(room.x, ui.theme.text * lines + ui.u(3.5))
        changed, words = imgui.input_text_multiline("##tokenizer.text", choice.text, size, flags)
    ui.mark("tokenizer.text")
    if imgui.is_item_edited():
        ui.memory["tokenizer.typed"] = ui.now
    if not changed or imgui.is_key_pressed(imgui.Key.escape, False):
        return choice
    return _with_text(choice, typed(words[:LONGEST]))


def _with_text(choice: TokenizerChoice, words: str) -> TokenizerChoice:
    return replace(choice, text=words, word=None, step=None, playing=False)


def _draw_switches(state: AppState, ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Examples, and how the text is taken, in lines of small buttons."""
    for number, (name, label, is_word, example) in enumerate(EXAMPLES):
        label = tr(label) if is_word else label
        if number:
            _go_on(ui, label)
        if _pill(ui, f"tokenizer.example.{name}", label, choice.text == example):
            choice = _with_text(choice, example)
    as_chat, control = choice.form == "chat" and not state.encodes, choice.control
    if has_tokenizer(state) and not state.encodes:
        _go_on(ui, tr(AS_CHAT), apart=True)
        as_chat ^= _pill(ui, "tokenizer.chat", tr(AS_CHAT), as_chat, tr(CHAT_HINT), ICON_CHAT)
    if not as_chat:
        _go_on(ui, tr(CONTROL), apart=not has_tokenizer(state))
        control ^= _pill(ui, "tokenizer.control", tr(CONTROL), control, tr(CONTROL_HINT))
    form: Form = "chat" if as_chat else "plain"
    form = choice.form if state.encodes else form
    if (form, control) == (choice.form, choice.control):
        return choice
    return replace(choice, form=form, control=control, word=None, step=None, playing=False)


def _go_on(ui: Ui, label: str, apart: bool = False) -> None:
    """Beside the last button, or below it where there is no room."""
    imgui.same_line(0, ui.u(4 if apart else 1))
    with ui.font(style="small"):
        wanted = imgui.calc_text_size(label).x + ui.u(10 if apart else 4)
    if imgui.get_content_region_avail().x < wanted:
        imgui.new_line()


def _pill(ui: Ui, name: str, label: str, active: bool, hint: str = "", icon: str = "") -> bool:
    """A small button that is lit while it is in force."""
    lit = {"button": "accent_soft", "text": "link"} if active else {"text": "muted"}
    with (
        ui.font(style="small"),
        ui.styled(frame_padding=(ui.u(2), ui.u(0.5))),
        ui.colored(**lit),
    ):
        return button(ui, name, label, icon, hint)


def _draw_count(state: AppState, ui: Ui, told: TokenizedText | None) -> None:
    """Tokens of the text, for a word, and of the context."""
    parts = [tr("{n:,} tokens").format(n=told.tokens)] if told else [tr("No tokens yet")]
    if told and (n := a_word(told)):
        count = words_of(told.text)
        words = trn("{n:.2f} a word, {count:,} word", "{n:.2f} a word, {count:,} words", count)
        parts.append(words.format(n=n, count=count))
    own = slot_shown(state) == MODEL and state.model and not state.elsewhere
    context = _context(state) if own else 0
    share = told.tokens / context if told and context else 0.0
    if context:
        words = tr("{share:.1%} of the context of {n:,}")
        parts.append(words.format(share=share, n=context))
    text(ui, "  ·  ".join(parts), style="small", bold=True)
    ui.mark("tokenizer.count")
    help_mark(ui, tr(ABOUT))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(0.5))
    width = imgui.get_content_region_avail().x
    meter(ui, share, width, ui.u(0.75), "error" if share > 1 else "accent")
    if told and told.characters > len(told.text):
        note = tr("The stages show the first {n:,} characters; the count is of all.")
        wrapped(ui, note.format(n=len(told.text)))


def _context(state: AppState) -> int:
    """Tokens that the model takes."""
    if state.model is None:
        return 0
    return state.model.encoder.most_tokens if state.model.encoder else state.model.context


def _draw_whose(state: AppState, ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Which of the two tokenizers the stages are of."""
    names = [
        fit_line(a.result.tokenizer, NAME) if a.result else "…" for a in state.tokenizer.answers
    ]
    options = [("model", names[MODEL]), ("other", names[OTHER])]
    shown = "other" if choice.slot == OTHER else "model"
    slot = OTHER if chooser(ui, "tokenizer.slot", options, shown) == "other" else MODEL
    if slot == choice.slot:
        return choice
    return replace(choice, slot=slot, word=None, step=None, playing=False)


def _draw_stage(
    state: AppState, ui: Ui, told: TokenizedText | None, choice: TokenizerChoice
) -> tuple[TokenizerChoice, list[Action]]:
    slot = slot_shown(state)
    answer = state.tokenizer.answers[slot]
    if choice.stage == "compare":
        return draw_compare(state, ui, choice)
    if slot == MODEL and not has_tokenizer(state):
        wrapped(ui, tr(THERE if state.elsewhere else NO_MODEL))
        return choice, []
    if answer.message:
        wrapped(ui, answer.message[:1].upper() + answer.message[1:] + ".", "warning")
        return choice, []
    if told is None:
        wrapped(ui, tr(WAITING))
        return choice, []
    if choice.stage == "text":
        draw_text_stage(ui, told)
    elif choice.stage == "tokens":
        tokens_stage.draw(ui, told)
    else:
        choice = steps.draw(ui, told, choice)
    return choice, []


def draw_text_stage(ui: Ui, told: TokenizedText) -> None:
    names = fit_line(", ".join(told.normalizers[:MOST_NAMES]), NAME)
    heading(ui, tr(NORMALIZED))
    changed = told.normalized != told.text
    if not told.normalizers:
        wrapped(ui, tr(NOTHING))
    else:
        wrapped(ui, tr(CHANGES if changed else SAME).format(names=names))
    if changed:
        _draw_characters(ui, "tokenizer.normalized", told, told.normalized, with_bytes=False)
    imgui.dummy(ImVec2(0, ui.u(1)))
    count = len(told.text.encode("utf-8", "replace"))
    note = tr("{n:,} characters are {bytes:,} bytes in UTF-8: one to four each.")
    heading(ui, tr(BYTES), note.format(n=len(told.text), bytes=count))
    _draw_characters(ui, "tokenizer.character", told, told.text, with_bytes=True)


def _draw_characters(
    ui: Ui, name: str, told: TokenizedText, characters: str, *, with_bytes: bool
) -> None:
    held = ui.memory.get(f"{name}.made")
    if held is None or held[0] is not told:
        chips = [_chip(char, with_bytes) for char in characters[:MOST_CHARACTERS]]
        held = ui.memory[f"{name}.made"] = (told, chips)
    chips = held[1]
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, f"{name}.page", chips, chips, width, ui.u(0.5))
    series = ui.theme.palette.series

    def paint(number: int) -> Look:
        size = len(characters[number].encode("utf-8", "replace"))
        fill = u32(series[_HUES[size - 1]], 0.10 + 0.07 * size) if with_bytes else 0
        return Look(fill or ui.color("hover"), ui.color("text"), ui.color("muted"))

    pointed = draw_chips(ui, name, chips, page, paint)
    if pointed is not None:
        char = characters[pointed]
        facts = [
            (tr("Code point"), f"U+{ord(char):04X}"),
            (tr("Name"), unicodedata.name(char, "–").lower()),
            (tr("Bytes"), hexadecimal(char.encode("utf-8", "replace"))),
        ]
        tips.draw_facts(ui, f"“{shown(char)}”", facts)


def _chip(char: str, with_bytes: bool) -> Chip:
    below = hexadecimal(char.encode("utf-8", "replace")) if with_bytes else ""
    return Chip(shown(char), below, char == "\n")


def draw_compare(
    state: AppState, ui: Ui, choice: TokenizerChoice
) -> tuple[TokenizerChoice, list[Action]]:
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
