"""The tokenizer: a text cut into tokens while it is typed, stage by stage."""

from __future__ import annotations

import math
import unicodedata

from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages import TextTokenized
from llm_lite.core.messages.inspecting.tokenizing import MOST_CHARACTERS, TokenizedText, TokenPiece
from llm_lite.core.records import replace
from llm_lite.core.text.token_spelling import data_shown, hexadecimal, shown
from llm_lite.desktop.features.file_chooser.path_field import Pick, path_field
from llm_lite.desktop.features.file_chooser.state import PathTarget
from llm_lite.desktop.features.library.model import ListModels
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.tokenizer import steps
from llm_lite.desktop.features.tokenizer.chips import (
    Chip,
    ChipColors,
    control_colors,
    draw_chips,
    draw_facts,
    is_typed,
    kept_page,
    piece_facts,
    piece_title,
    shown_as_spelled,
    template_colors,
    word_colors,
)
from llm_lite.desktop.features.tokenizer.examples import EXAMPLES, LANGUAGES
from llm_lite.desktop.features.tokenizer.model import TOKENS, ChooseTokenizing, question
from llm_lite.desktop.features.tokenizer.state import (
    LONGEST,
    MODEL,
    OTHER,
    Form,
    Stage,
    TokenizerChoice,
    tokens_per_word,
    word_count,
)
from llm_lite.desktop.language.incoming import NAME, fit_line, shown_path, typed
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.language.units import sentence
from llm_lite.desktop.widgets.controls import chooser, picker
from llm_lite.desktop.widgets.icons import ICON_CHAT
from llm_lite.desktop.widgets.text_input import lines_field
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, fit, heading, help_mark, meter, text, wrapped

REST = 0.06  # seconds without a key press
Placed = tuple[TokenPiece, int, int, bool, bool]  # word, part of it, whether control, whether typed
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


class KeptPieces(Struct):
    """The tokens of a result as chips."""

    text: TokenizedText
    placed: list[Placed]
    chips: list[Chip]


class TokenizerControls(Struct):
    """Values that the view keeps from frame to frame."""

    typed_at: float = -math.inf  # seconds, as `Ui.now`
    asks_path: bool = False  # of another tokenizer
    path: str = ""  # typed
    pieces: dict[str, KeptPieces] = field(default_factory=dict)  # by name of the chips
    characters: dict[str, tuple[TokenizedText, list[Chip]]] = field(default_factory=dict)


def draw(state: AppState, ui: Ui) -> list[Action]:
    choice = state.tokenizer
    with ui.styled(item_spacing=(ui.u(1.5), ui.u(1.5))):
        chosen = _draw_input(ui, choice)
        chosen = _draw_switches(state, ui, chosen)
        tokenized = result_of(state, slot_shown(state))
        _draw_count(state, ui, tokenized)
        hints = [tr(hint) for hint in STAGE_HINTS]
        stage = chooser(ui, "tokenizer.stage", tr_labels(STAGES), chosen.stage, hints)
    chosen = replace(chosen, stage=stage)
    if chosen.other and stage != "compare" and has_tokenizer(state):
        chosen = _draw_whose(state, ui, chosen)
    chosen, actions = _draw_stage(state, ui, tokenized, chosen)
    if chosen != choice:
        actions.append(ChooseTokenizing(chosen))
    return actions + _requests(state, ui)


def _requests(state: AppState, ui: Ui) -> list[Action]:
    choice = state.tokenizer
    rests = ui.now - ui.local(TokenizerControls).typed_at
    if rests < REST:
        ui.redraw_in(REST - rests)
        return []
    compares = choice.stage == "compare"
    actions: list[Action] = []
    if compares and state.library.local is None and not state.library.listing:
        actions.append(ListModels())
    shown = slot_shown(state)
    for slot in (MODEL, OTHER):
        wanted = slot == shown or (compares and bool(choice.other))
        if not wanted or (slot == MODEL and not has_tokenizer(state)):
            continue
        actions += TOKENS[slot].wanted(state, question(state, slot))
    return actions


def has_tokenizer(state: AppState) -> bool:
    """Return whether the tokenizer of the model in use is on this machine."""
    return state.model is not None and state.load is None and not state.elsewhere


def slot_shown(state: AppState) -> int:
    """Return the slot that is shown: the other one if it was chosen, or if the model has none."""
    choice = state.tokenizer
    other = choice.other != "" and (choice.slot == OTHER or not has_tokenizer(state))
    return OTHER if other else MODEL


def result_of(state: AppState, slot: int) -> TokenizedText | None:
    """Return the last text that the tokenizer of a slot cut, where it is of what is in front."""
    answer = TOKENS[slot].answer(state)
    return answer.result if answer is not None else None


def _draw_input(ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Draw the field of the text, lower if there is little room."""
    room = imgui.get_content_region_avail()
    lines = 4 if room.y > ui.u(150) else 2
    with ui.styled(frame_padding=(ui.u(2.5), ui.u(1.5))):
        flags = imgui.InputTextFlags_.word_wrap
        size = ImVec2(room.x, ui.theme.text * lines + ui.u(3.5))
        changed, words = lines_field("##tokenizer.text", choice.text, size, flags)
    ui.mark("tokenizer.text")
    if imgui.is_item_edited():
        ui.local(TokenizerControls).typed_at = ui.now
    if not changed or imgui.is_key_pressed(imgui.Key.escape, False):
        return choice
    return _with_text(choice, typed(words[:LONGEST]))


def _with_text(choice: TokenizerChoice, words: str) -> TokenizerChoice:
    return replace(choice, text=words, word=None, step=None, playing=False)


def _draw_switches(state: AppState, ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Draw the examples, and how the text is taken, in lines of small buttons."""
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
    """Continue beside the last button, or below it if there is no room."""
    imgui.same_line(0, ui.u(4 if apart else 1))
    with ui.font(style="small"):
        wanted = imgui.calc_text_size(label).x + ui.u(10 if apart else 4)
    if imgui.get_content_region_avail().x < wanted:
        imgui.new_line()


def _pill(ui: Ui, name: str, label: str, active: bool, hint: str = "", icon: str = "") -> bool:
    """Draw a small button, highlighted if `active`; return whether it was pressed."""
    lit = {"button": "accent_soft", "text": "link"} if active else {"text": "muted"}
    with (
        ui.font(style="small"),
        ui.styled(frame_padding=(ui.u(2), ui.u(0.5))),
        ui.colored(**lit),
    ):
        return button(ui, name, label, icon, hint)


def _draw_count(state: AppState, ui: Ui, tokenized: TokenizedText | None) -> None:
    """Draw the tokens of the text, of a word in the mean, and their share of the context."""
    parts = [tr("{n:,} tokens").format(n=tokenized.tokens)] if tokenized else [tr("No tokens yet")]
    if tokenized and (n := tokens_per_word(tokenized)):
        count = word_count(tokenized.text)
        words = trn("{n:.2f} a word, {count:,} word", "{n:.2f} a word, {count:,} words", count)
        parts.append(words.format(n=n, count=count))
    own = slot_shown(state) == MODEL and state.model and not state.elsewhere
    context = _context(state) if own else 0
    share = tokenized.tokens / context if tokenized and context else 0.0
    if context:
        words = tr("{share:.1%} of the context of {n:,}")
        parts.append(words.format(share=share, n=context))
    text(ui, "  ·  ".join(parts), style="small", bold=True)
    ui.mark("tokenizer.count")
    help_mark(ui, tr(ABOUT))
    imgui.set_cursor_pos_y(imgui.get_cursor_pos_y() - ui.u(0.5))
    width = imgui.get_content_region_avail().x
    meter(ui, share, width, ui.u(0.75), "error" if share > 1 else "accent")
    if tokenized and tokenized.characters > len(tokenized.text):
        note = tr("The stages show the first {n:,} characters; the count is of all.")
        wrapped(ui, note.format(n=len(tokenized.text)))


def _context(state: AppState) -> int:
    """Return how many tokens the model takes."""
    if state.model is None:
        return 0
    return state.model.encoder.most_tokens if state.model.encoder else state.model.context


def _draw_whose(state: AppState, ui: Ui, choice: TokenizerChoice) -> TokenizerChoice:
    """Draw the choice of the tokenizer whose stages are shown."""
    results = (result_of(state, MODEL), result_of(state, OTHER))
    names = [fit_line(one.tokenizer, NAME) if one else "…" for one in results]
    options = [("model", names[MODEL]), ("other", names[OTHER])]
    shown = "other" if choice.slot == OTHER else "model"
    slot = OTHER if chooser(ui, "tokenizer.slot", options, shown) == "other" else MODEL
    if slot == choice.slot:
        return choice
    return replace(choice, slot=slot, word=None, step=None, playing=False)


def _draw_stage(
    state: AppState, ui: Ui, tokenized: TokenizedText | None, choice: TokenizerChoice
) -> tuple[TokenizerChoice, list[Action]]:
    slot = slot_shown(state)
    if choice.stage == "compare":
        return draw_compare(state, ui, choice)
    if slot == MODEL and not has_tokenizer(state):
        wrapped(ui, tr(THERE if state.elsewhere else NO_MODEL))
        return choice, []
    if problem := TOKENS[slot].problem(state):
        wrapped(ui, sentence(problem), "warning")
        return choice, []
    if tokenized is None:
        wrapped(ui, tr(WAITING))
        return choice, []
    if choice.stage == "text":
        draw_text_stage(ui, tokenized)
    elif choice.stage == "tokens":
        _draw_tokens(ui, tokenized)
    else:
        choice = steps.draw(ui, tokenized, choice)
    return choice, []


def draw_text_stage(ui: Ui, tokenized: TokenizedText) -> None:
    names = fit_line(", ".join(tokenized.normalizers[:MOST_NAMES]), NAME)
    heading(ui, tr(NORMALIZED))
    changed = tokenized.normalized != tokenized.text
    if not tokenized.normalizers:
        wrapped(ui, tr(NOTHING))
    else:
        wrapped(ui, tr(CHANGES if changed else SAME).format(names=names))
    if changed:
        _draw_characters(
            ui, "tokenizer.normalized", tokenized, tokenized.normalized, with_bytes=False
        )
    imgui.dummy(ImVec2(0, ui.u(1)))
    count = len(tokenized.text.encode("utf-8", "replace"))
    note = tr("{n:,} characters are {bytes:,} bytes in UTF-8: one to four each.")
    heading(ui, tr(BYTES), note.format(n=len(tokenized.text), bytes=count))
    _draw_characters(ui, "tokenizer.character", tokenized, tokenized.text, with_bytes=True)


def _draw_characters(
    ui: Ui, name: str, tokenized: TokenizedText, characters: str, *, with_bytes: bool
) -> None:
    made = ui.local(TokenizerControls).characters
    kept = made.get(name)
    if kept is None or kept[0] is not tokenized:
        chips = [_character_chip(char, with_bytes) for char in characters[:MOST_CHARACTERS]]
        kept = made[name] = (tokenized, chips)
    chips = kept[1]
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, f"{name}.page", chips, chips, width, ui.u(0.5))
    series = ui.theme.palette.series

    def paint(number: int) -> ChipColors:
        size = len(characters[number].encode("utf-8", "replace"))
        fill = u32(series[_HUES[size - 1]], 0.10 + 0.07 * size) if with_bytes else 0
        return ChipColors(fill or ui.color("hover"), ui.color("text"), ui.color("muted"))

    pointed = draw_chips(ui, name, chips, page, paint)
    if pointed is not None:
        char = characters[pointed]
        facts = [
            (tr("Code point"), f"U+{ord(char):04X}"),
            (tr("Name"), unicodedata.name(char, "–").lower()),
            (tr("Bytes"), hexadecimal(char.encode("utf-8", "replace"))),
        ]
        draw_facts(ui, f"“{shown(char)}”", facts)


def _character_chip(char: str, with_bytes: bool) -> Chip:
    below = hexadecimal(char.encode("utf-8", "replace")) if with_bytes else ""
    return Chip(shown(char), below, char == "\n")


def _draw_tokens(ui: Ui, tokenized: TokenizedText) -> None:
    facts = f"{fit_line(tokenized.tokenizer, NAME)}  ·  {kind_words(tokenized)}"
    text(ui, facts, "muted", "small")
    if not tokenized.tokens:
        wrapped(ui, tr("There are no tokens yet: write a text above."))
        return
    if tokenized.typed:
        wrapped(ui, tr("Framed: control tokens. Grey: what the template writes. Coloured: you."))
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    draw_pieces(ui, "tokenizer.piece", tokenized)


def kind_words(tokenized: TokenizedText) -> str:
    """Name the kind of the tokenizer and the size of its vocabulary."""
    kind = tr("BPE of bytes") if tokenized.of_bytes else tokenized.kind
    return f"{kind}  ·  " + tr("{n:,} tokens in the vocabulary").format(n=tokenized.vocabulary)


def draw_pieces(ui: Ui, name: str, tokenized: TokenizedText) -> None:
    placed, chips = _kept_pieces(ui, name, tokenized)
    width = imgui.get_content_region_avail().x
    page = kept_page(ui, f"{name}.page", chips, chips, width, ui.u(0.5))

    def paint(number: int) -> ChipColors:
        _, word, part, control, own = placed[number]
        if control:
            return control_colors(ui)
        if not own:
            return template_colors(ui, number)
        return word_colors(ui, word, part)

    pointed = draw_chips(ui, name, chips, page, paint)
    if pointed is not None:
        piece, _, _, control, own = placed[pointed]
        note = "" if own and not control else _note(control)
        draw_facts(ui, piece_title(piece), piece_facts(tokenized, piece), note)


def _kept_pieces(ui: Ui, name: str, tokenized: TokenizedText) -> tuple[list[Placed], list[Chip]]:
    """Return the tokens and their chips, which are made once for a result."""
    pieces = ui.local(TokenizerControls).pieces
    kept = pieces.get(name)
    if kept is None or kept.text is not tokenized:
        placed = _placed(tokenized)
        chips = [_token_chip(tokenized, each) for each in placed]
        kept = pieces[name] = KeptPieces(tokenized, placed, chips)
    return kept.placed, kept.chips


def _placed(tokenized: TokenizedText) -> list[Placed]:
    found: list[Placed] = [(piece, 0, 0, True, True) for piece in tokenized.before]
    number = 0
    for word in tokenized.words:
        for part, piece in enumerate(word.pieces):
            own = is_typed(tokenized, word.start)
            found.append((piece, number, part, word.control, own))
        number += 1 if word.pieces and word.spelled.strip("Ġ▁ ") else 0
    return [*found, *((piece, 0, 0, True, True) for piece in tokenized.after)]


def _token_chip(tokenized: TokenizedText, placed: Placed) -> Chip:
    piece = placed[0]
    words = data_shown(piece.data) if piece.data else shown_as_spelled(piece.token)
    return Chip(words, str(piece.id), piece.data.endswith(b"\n") and not placed[3])


def _note(control: bool) -> str:
    if control:
        return tr("A control token: it stands for no text and steers the model.")
    return tr("The chat template writes it.")


def draw_compare(
    state: AppState, ui: Ui, choice: TokenizerChoice
) -> tuple[TokenizerChoice, list[Action]]:
    choice, actions = _draw_choice(state, ui, choice)
    has = (has_tokenizer(state), choice.other != "")
    shown = [slot for slot in (MODEL, OTHER) if has[slot]]
    width = imgui.get_content_region_avail().x
    if len(shown) == 2 and width > ui.u(150):
        _draw_columns(state, ui, shown)
    else:
        for slot in shown:
            _draw_answer(state, ui, slot)
            imgui.dummy(ImVec2(0, ui.u(1.5)))
    answers = [TOKENS[slot].answer(state) for slot in shown]
    _draw_languages(ui, [answer for answer in answers if answer is not None])
    return choice, actions


def _draw_choice(
    state: AppState, ui: Ui, choice: TokenizerChoice
) -> tuple[TokenizerChoice, list[Action]]:
    """Draw the choice of another tokenizer, of a model on this machine or by a path."""
    models = [(str(one.path), one.name) for one in (state.library.local or ())[:MOST_LISTED]]
    other = choice.other or NONE
    options = [(NONE, tr("Set another tokenizer beside it")), *models, (FILE, tr("A file"))]
    if other not in dict(options):
        options.insert(1, (other, shown_path(other)))
    controls = ui.local(TokenizerControls)
    width = imgui.get_content_region_avail().x
    picked = picker(ui, "tokenizer.other", options, FILE if controls.asks_path else other, width)
    controls.asks_path = picked == FILE
    if picked != FILE:
        return replace(choice, other="" if picked == NONE else picked), []
    found, actions = _draw_path(ui, controls, width)
    if not found:
        return choice, actions
    controls.asks_path = False
    return replace(choice, other=found), actions


def _draw_path(ui: Ui, controls: TokenizerControls, width: float) -> tuple[str, list[Action]]:
    """Draw the field of a path, and return the path if it was entered in this frame, else "", and
    what is to be chosen."""
    label = tr("Show")
    room = imgui.calc_text_size(label).x + ui.u(7)
    picks: tuple[Pick, ...] = ("file", "folder")
    typed = path_field(ui, PathTarget(PATH), controls.path, picks, tr(HINT), width - room)
    controls.path = typed.path
    imgui.same_line()
    pressed = button(ui, "tokenizer.show", label, enabled=bool(typed.path.strip()))
    shows = pressed or typed.entered or typed.is_chosen
    return typed.path.strip() if shows else "", typed.actions


def _draw_columns(state: AppState, ui: Ui, shown: list[int]) -> None:
    if not imgui.begin_table("tokenizers", 2, imgui.TableFlags_.sizing_stretch_same):
        return
    imgui.table_next_row()
    for slot in shown:
        imgui.table_next_column()
        _draw_answer(state, ui, slot)
    imgui.end_table()
    imgui.dummy(ImVec2(0, ui.u(1)))


def _draw_answer(state: AppState, ui: Ui, slot: int) -> None:
    tokenized = result_of(state, slot)
    if problem := TOKENS[slot].problem(state):
        wrapped(ui, sentence(problem), "warning")
        ui.mark(f"tokenizer.problem.{slot}")
        return
    if tokenized is None:
        wrapped(ui, tr("Reading the tokenizer."))
        return
    with ui.font("bold"):
        name = fit(fit_line(tokenized.tokenizer, NAME), imgui.get_content_region_avail().x)
    text(ui, name, bold=True)
    count = tr("{n:,} tokens").format(n=tokenized.tokens)
    n = tokens_per_word(tokenized)
    words = tr("{n:.2f} a word").format(n=n) if n else ""
    text(ui, f"{count}  ·  {words}" if n else count, style="small", bold=True)
    text(ui, kind_words(tokenized), "muted", "small")
    imgui.dummy(ImVec2(0, ui.u(0.5)))
    draw_pieces(ui, f"tokenizer.beside.{slot}", tokenized)


def _draw_languages(ui: Ui, answers: list[TextTokenized]) -> None:
    """Draw a row a language: for each tokenizer a bar, its tokens, and tokens a word."""
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
            _draw_bar(ui, place, tokens, most, tokens / word_count(sample))
        imgui.dummy(ImVec2(0, ui.u(0.25)))
    ui.mark("tokenizer.languages")


def _draw_key(ui: Ui, place: int, answer: TextTokenized) -> None:
    """Draw a dot in the colour of a tokenizer's bars, and its name."""
    at, small = imgui.get_cursor_screen_pos(), ui.theme.size("small")
    center, radius = ImVec2(at.x + ui.u(1.5), at.y + small * 0.6), ui.u(1)
    imgui.get_window_draw_list().add_circle_filled(center, radius, ui.color_of_series(place))
    imgui.set_cursor_screen_pos(ImVec2(at.x + ui.u(4), at.y))
    with ui.font(style="small"):
        words = fit(fit_line(answer.result.tokenizer, NAME), imgui.get_content_region_avail().x)
    text(ui, words, "muted", "small")


def _draw_bar(ui: Ui, place: int, tokens: int, most: int, tokens_per_word: float) -> None:
    words = tr("{tokens:,} tokens  ·  {n:.2f} a word").format(tokens=tokens, n=tokens_per_word)
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
