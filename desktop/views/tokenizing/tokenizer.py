"""The tokenizer: a text cut into tokens while it is typed, stage by stage."""

from __future__ import annotations

from dataclasses import replace

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.texts.tokenizing import ChooseTokenizing
from llm_lite.desktop.language.translate import mark, tr, tr_labels, trn
from llm_lite.desktop.state.incoming import NAME, fit_line, typed
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.tokenizing.examples import EXAMPLES
from llm_lite.desktop.state.tokenizing.tokenizer_state import (
    LONGEST,
    MODEL,
    OTHER,
    Form,
    Stage,
    TokenizerChoice,
    a_word,
    words_of,
)
from llm_lite.desktop.views.tokenizing import compare, steps, text_stage, tokens_stage
from llm_lite.desktop.views.tokenizing.asking import has_tokenizer, questions, slot_shown
from llm_lite.desktop.widgets.controls import chooser
from llm_lite.desktop.widgets.icons import ICON_CHAT
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, help_mark, meter, text, wrapped

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
        return compare.draw(state, ui, choice)
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
        text_stage.draw(ui, told)
    elif choice.stage == "tokens":
        tokens_stage.draw(ui, told)
    else:
        choice = steps.draw(ui, told, choice)
    return choice, []
