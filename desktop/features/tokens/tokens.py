"""The conversation as the model has it: every token a box, template included.

Under the pointer, a token shows where it looks, or who looks at it.
"""

from __future__ import annotations

import math

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct, field

from llm_lite.core.messages.remote import UNTOLD_TOKENS
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ask_pointed, pointed_rows
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle, own_tokens
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.colors import paint_of, shown_weights, weights_of
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.tokens.state import SYSTEM, Passage, Place, passage, places
from llm_lite.desktop.features.tree.model import (
    ContinueFrom,
    ContinueText,
    SpellAnswer,
    SwitchVersion,
)
from llm_lite.desktop.features.tree.roles import speaker
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_BRANCH, ICON_CHEVRON_LEFT, ICON_CHEVRON_RIGHT
from llm_lite.desktop.widgets.plots.shares import draw_share_lines
from llm_lite.desktop.widgets.token_text import NO_TOKEN, TokenPage, draw_boxes, lay_out, visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, popover, primary_button, text, wrapped

CHOICE = "tokens.choice"
KEEPS = mark("Keeps the answer up to this token, and the model writes on.")
AGAIN = mark("{writer} wrote this. The text up to here is cut into tokens of {reader}.")
ALTERNATIVES = mark(
    "Alternatives to this token, with their probabilities. Choose one, and the answer "
    "goes on from it."
)
UNKNOWN = mark(
    "Alternatives are known until the program ends; the history keeps the probability of each "
    "token."
)
KEPT = mark("The present answer is kept as another version.")
MOST = 5  # tokens that the tooltip names
SWALLOWED = mark(
    "Through so many layers the first token takes nearly all: try it without the first."
)


class Choice(Struct, frozen=True):
    """The token that was clicked."""

    index: int  # of the answer
    token: int | None  # of it; None: it is none of the tokens as they were generated
    end: int  # character of all that the answer spells, behind the token
    words: str
    at: tuple[float, float]  # pixels


class Pointed(Struct):
    """The token under the pointer in this frame."""

    index: int  # of the message
    token: int  # of the passage
    position: int | None
    at: tuple[float, float]  # pointer, upper edge of its line
    line: float  # height of one
    cut: Passage


class LaidPassage(Struct):
    """A message cut into tokens and laid out, and what that was made for."""

    message: Message
    key: tuple[Place | None, float, float]  # place; pixels: width, size of text
    passage: Passage
    page: TokenPage


class TokensShown(Struct):
    """Values that the conversation in tokens keeps from frame to frame."""

    pointed: Pointed | None = None
    choice: Choice | None = None
    passages: dict[int, LaidPassage] = field(default_factory=dict)  # by index of the message
    owners: tuple[int, ...] | None = None  # that the places were made of
    places: dict[int, Place] = field(default_factory=dict)
    spelled_in: tuple[object, ...] = ()  # conversation and model
    spelled: set[int] = field(default_factory=set)  # messages that were asked for, by id


class TokenItem:
    """One message at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width = width
        self.passage, self.page = laid(state, ui, index, message, width)
        self.shown = shown_height(self.passage, self.page)
        self.label = ui.theme.size("small") + ui.u(2)
        self.tools = ui.u(7) if has_versions(state, index) else 0.0
        self.height = self.label + self.shown + self.tools + ui.u(2)

    def draw(self) -> list[Action]:
        ui, at = self.ui, imgui.get_cursor_screen_pos()
        small = ui.theme.size("small")
        draw = imgui.get_window_draw_list()
        draw.add_text(ui.fonts["bold"], small, at, ui.color("muted"), self._title())
        top = at.y + self.label
        name = f"message.{self.index}"
        ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + self.height)
        paint = paint_of(self.state, ui, self.message, self.passage)
        draw_boxes(ui, self.page, (at.x, top), paint, self._marked(), draw)
        self._point(at.x, top)
        asked = ask_spelling(self.state, ui, self.index)
        if not self.tools:
            return asked
        imgui.set_cursor_screen_pos(ImVec2(at.x, top + self.shown + ui.u(0.5)))
        return asked + draw_versions(self.state, ui, self.index)

    def _title(self) -> str:
        yours = self.message.role in ("user", "text")
        words = speaker(self.message.role)
        first, own = self.passage.first, self.passage.own
        if first is not None and SYSTEM in self.state.owners[first : first + own]:
            words = tr("System prompt, then you") if yours else tr("System prompt, then answer")
        if self.passage.first is None and not self.message.tokens:
            return f"{words}  ·  {tr('not in the KV cache')}"
        return words

    def _marked(self) -> dict[int, int]:
        first = self.passage.first
        if first is None:
            return {}
        pointed = (self.state.xray.at, self.state.cache.pointed)
        return {at - first: self.ui.color("accent") for at in pointed if at is not None}

    def _point(self, x: float, top: float) -> None:
        """Note the token under the pointer, for the conversation that is drawn."""
        held = imgui.HoveredFlags_.allow_when_blocked_by_active_item
        mouse = imgui.get_mouse_pos()
        self._mark_rects(x, top)
        if not imgui.is_window_hovered(held):
            return
        token = self.page.at(mouse.x - x, mouse.y - top)
        if token == NO_TOKEN or not 0 <= mouse.y - top < self.shown:
            return
        first = self.passage.first
        position = None if first is None else first + token
        line = self.page.line
        edge = top + (mouse.y - top) // line * line
        self.ui.local(TokensShown).pointed = Pointed(
            self.index, token, position, (mouse.x, edge), line, self.passage
        )

    def _mark_rects(self, x: float, top: float) -> None:
        """Keep where the tokens in sight lie, for the tour and the tests."""
        draw, line = imgui.get_window_draw_list(), self.page.line
        low, high = draw.get_clip_rect_min().y - top, draw.get_clip_rect_max().y - top
        for box in self.page.between(low, high):
            if box.token >= 0:
                y = top + box.line * line
                name = f"token.{self.index}.{box.token - self.passage.own}"
                self.ui.rects.setdefault(name, (x + box.x, y, x + box.x + box.width, y + line))


def shown_height(passage: Passage, page: TokenPage) -> float:
    """Return the height of a page without the empty line behind a break at its end."""
    return page.height - (page.line if passage.breaks else 0.0)


def laid(
    state: AppState, ui: Ui, index: int, message: Message, width: float
) -> tuple[Passage, TokenPage]:
    """Return a message cut into tokens and laid out; both are kept while the message, its place and
    the width stay."""
    known = ui.local(TokensShown).passages
    place = place_of(state, ui, index)
    key = (place, width, ui.theme.text)
    held = known.get(index)
    if held is None or held.message is not message or held.key != key:
        words = message.pieces
        cut = passage(message.whole, words, place, state.positions, len(message.tokens))
        page = lay_out(ui, cut.text, cut.spans, width)
        held = known[index] = LaidPassage(message, key, cut, page)
    return held.passage, held.page


def place_of(state: AppState, ui: Ui, index: int) -> Place | None:
    kept = ui.local(TokensShown)
    if kept.owners is not state.owners:
        kept.owners, kept.places = state.owners, places(state.owners, state.positions)
    return kept.places.get(index)


def draw_pointed(state: AppState, ui: Ui) -> list[Action]:
    """Draw, after all messages, the tip of the token under the pointer; a click selects it."""
    shown = ui.local(TokensShown)
    pointed, shown.pointed = shown.pointed, None
    if imgui.is_popup_open(CHOICE):
        return []
    actions: list[Action] = []
    at = pointed.position if pointed else None
    if at is None and state.attention.row is not None and state.attention.row < len(state.owners):
        at = state.attention.row
    flipped = bool(imgui.get_io().key_shift)
    wanted = replace(state.xray, at=at, flipped=flipped and at is not None)
    if wanted != state.xray:
        actions.append(SetXRay(wanted))
    actions += ask_pointed(state)
    if pointed is None:
        return actions
    _draw_tip(state, ui, pointed)
    if imgui.is_mouse_clicked(0):
        actions += _click(state, ui, pointed)
    return actions


def _click(state: AppState, ui: Ui, pointed: Pointed) -> list[Action]:
    """Select the token; one of an answer opens its alternatives."""
    message, cut = state.messages[pointed.index], pointed.cut
    if message.role == "assistant" and pointed.token >= cut.own:
        end = cut.spans[pointed.token][1] - (len(cut.text) - len(message.whole))
        at = (pointed.at[0], pointed.at[1] + pointed.line)
        words = _words(state, pointed)
        choice = Choice(pointed.index, cut.token(pointed.token), end, words, at)
        ui.local(TokensShown).choice = choice
        ui.opened = CHOICE
    same = pointed.position == state.attention.row
    row = None if same else pointed.position
    return [SetAttention(replace(state.attention, row=row))]


def ask_spelling(state: AppState, ui: Ui, index: int) -> list[Action]:
    """Ask once what the tokens of an answer stand for that the history has brought back."""
    message = state.messages[index]
    if not message.restored or not own_tokens(state, message):
        return []
    model = state.model.path if state.model else ""
    kept, key = ui.local(TokensShown), (state.chat, model)
    if kept.spelled_in != key:
        kept.spelled_in, kept.spelled = key, set()
    if message.id in kept.spelled:
        return []
    kept.spelled.add(message.id)
    return [SpellAnswer(index)]


def _draw_tip(state: AppState, ui: Ui, pointed: Pointed) -> None:
    """Draw the token, how likely it was, and the tokens that it attends to most."""
    back, gap = state.xray.looks_back, ui.u(1)  # never over the words that light up
    y = pointed.at[1] - gap if back else pointed.at[1] + pointed.line + gap
    imgui.set_next_window_pos(ImVec2(pointed.at[0], y), 0, ImVec2(0, 1 if back else 0))
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    with ui.styled(item_spacing=(ui.u(2), ui.u(1.25))):
        _draw_facts(state, ui, pointed)
        draw_most_attended(state, ui, ui.u(60))
    imgui.end_tooltip()


def _draw_facts(state: AppState, ui: Ui, pointed: Pointed) -> None:
    message, token = state.messages[pointed.index], pointed.cut.token(pointed.token)
    text(ui, f"“{visible(_words(state, pointed))}”", bold=True)
    facts = []
    if pointed.position is not None:
        facts.append(tr("position {n:,}").format(n=pointed.position))
    if not pointed.cut.own <= pointed.token < pointed.cut.behind:
        facts.append(tr("the chat template's own"))
    elif token is not None and token < len(message.tokens):
        number = message.tokens[token].id
        facts[:0] = [tr("token {n:,}").format(n=number)] if number < UNTOLD_TOKENS else []
    likely = math.nan if token is None else message.likelihood(token)
    if not math.isnan(likely):
        facts.append(tr("{share:.1%} likely").format(share=likely))
    text(ui, "  ·  ".join(facts) or tr("not in the KV cache"), "muted", "small")
    _draw_drafts(ui, message, token)


def _draw_drafts(ui: Ui, message: Message, token: int | None) -> None:
    """Draw what had been drafted for its place."""
    outcome = message.drafting(token)
    if outcome == "accepted":
        text(ui, tr("Drafted, and accepted."), "good", "small")
    elif token is not None and outcome == "rejected":
        guessed = visible("".join(message.tokens[token].rejected))
        wrapped(ui, tr("Draft rejected here: “{text}”").format(text=guessed), "warning", "small")


def _words(state: AppState, pointed: Pointed) -> str:
    if pointed.position is not None and pointed.position < len(state.positions):
        return state.positions[pointed.position]
    tokens, token = state.messages[pointed.index].tokens, pointed.cut.token(pointed.token)
    return tokens[token].text if token is not None and token < len(tokens) else ""


def draw_most_attended(state: AppState, ui: Ui, width: float) -> None:
    """Draw the tokens that the one under the pointer attends to most, with their shares."""
    rows = pointed_rows(state)
    if rows is not None and rows.note:
        imgui.dummy(ImVec2(width, 0))
        wrapped(ui, rows.note[:1].upper() + rows.note[1:] + ".")
    rows = weights_of(state)
    if rows is None:
        return
    reverse = rows.direction == "to"
    weights = shown_weights(rows, state.attention)
    best = [i for i in np.argsort(-weights)[:MOST].tolist() if weights[i] > 0]
    if state.xray.by == "rollout" and not reverse and weights[0] > 0.9:
        wrapped(ui, tr(SWALLOWED))
    text(ui, tr("Most looked at by") if reverse else tr("Looks most at"), style="small", bold=True)
    words = state.positions
    lines = [(words[at] if at < len(words) else "", float(weights[at])) for at in best]
    draw_share_lines(ui, "tokens.look", lines)


def has_versions(state: AppState, index: int) -> bool:
    return len(state.tree.versions(index)) > 1


def _place(state: AppState, index: int) -> str:
    """Return which version of a message is shown: "2 / 3"."""
    return f"{state.tree.version(index) + 1} / {len(state.tree.versions(index))}"


def versions_width(state: AppState, ui: Ui, index: int) -> float:
    """Return the width of what `draw_versions` draws, in pixels."""
    with ui.font(style="small"):
        words = imgui.calc_text_size(_place(state, index)).x
    return float(ui.u(6) * 2 + ui.u(0.5) * 2 + words)


def draw_versions(state: AppState, ui: Ui, index: int) -> list[Action]:
    """Draw the number of the version of a message that is shown, between two buttons."""
    side = ui.u(6)
    count, place = len(state.tree.versions(index)), state.tree.version(index)
    wanted = place
    name = f"message.{index}"
    hint = tr("Previous version")
    if icon_button(ui, f"{name}.before", ICON_CHEVRON_LEFT, hint, side=side, style="small"):
        wanted = max(0, place - 1)
    imgui.same_line(0, ui.u(0.5))
    at, shown = imgui.get_cursor_screen_pos(), _place(state, index)
    with ui.font(style="small"):
        room = imgui.calc_text_size(shown).x
        spot = ImVec2(at.x, at.y + (side - ui.theme.size("small")) / 2)
        imgui.get_window_draw_list().add_text(spot, ui.color("muted"), shown)
    imgui.dummy(ImVec2(room, side))
    imgui.same_line(0, ui.u(0.5))
    hint = tr("Next version")
    if icon_button(ui, f"{name}.next", ICON_CHEVRON_RIGHT, hint, side=side, style="small"):
        wanted = min(count - 1, place + 1)
    return [SwitchVersion(index, wanted)] if wanted != place else []


def draw_choice(state: AppState, ui: Ui) -> list[Action]:
    choice = ui.local(TokensShown).choice
    if choice is None or choice.index >= len(state.messages):
        return []
    message = state.messages[choice.index]
    title = tr("From “{token}” on").format(token=visible(choice.words))
    with popover(ui, CHOICE, title, ImVec2(*choice.at), ui.u(84)) as shown:
        if not shown:
            return []
        with ui.styled(item_spacing=(ui.u(2), ui.u(1.5))):
            actions = _draw_continue(state, ui, choice, message)
            at = choice.token
            if at is not None and at < len(message.tokens):
                actions += _draw_alternatives(ui, choice, message, at)
        if actions:
            imgui.close_current_popup()
        return actions


def _draw_continue(state: AppState, ui: Ui, choice: Choice, message: Message) -> list[Action]:
    """Draw the button that goes on behind the token."""
    own, model, written = own_tokens(state, message), state.model, message.written
    if own or written is None or model is None or written.model.path == model.path:
        wrapped(ui, tr(KEEPS))
    else:
        wrapped(ui, tr(AGAIN).format(writer=written.model.name, reader=model.name))
    problem, label = obstacle(state), f"{ICON_BRANCH}  {tr('Continue from here')}"
    clicked = primary_button(ui, f"{CHOICE}.on", label, problem, enabled=not problem)
    wrapped(ui, tr(KEPT))
    if not clicked:
        return []
    if choice.token is not None and own and not message.restored:
        return [ContinueFrom(choice.index, choice.token + 1)]
    return [ContinueText(choice.index, choice.end)]


def _draw_alternatives(ui: Ui, choice: Choice, message: Message, count: int) -> list[Action]:
    """Draw the alternatives that may take its place."""
    token = message.tokens[count]
    imgui.dummy(ImVec2(0, ui.u(1.5)))
    if not token.alternatives:
        wrapped(ui, tr(UNKNOWN))
        return []
    text(ui, tr("Or choose another token"), bold=True)
    wrapped(ui, tr(ALTERNATIVES))
    actions: list[Action] = []
    for other in token.alternatives:
        same = other.token == token.id
        if _draw_alternative(ui, visible(other.text), other.probability, other.token, same):
            actions.append(ContinueFrom(choice.index, count, other))
    return actions


def _draw_alternative(ui: Ui, label: str, likely: float, token: int, same: bool) -> bool:
    """Draw a row with a bar behind it, as long as the token is likely; return whether it was
    pressed."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    width, height = imgui.get_content_region_avail().x, ui.u(8)
    name = f"{CHOICE}.{token}"
    clicked = press_area(name, ImVec2(width, height)) and not same
    ui.mark(name)
    end = ImVec2(at.x + width, at.y + height)
    hovered = imgui.is_item_hovered() and not same
    draw.add_rect_filled(at, end, ui.color("pressed" if hovered else "hover"), ui.u(1.5))
    bar = ImVec2(at.x + max(width * likely, ui.u(3)), end.y)
    draw.add_rect_filled(at, bar, ui.color("accent_soft"), ui.u(1.5))
    y = at.y + (height - ui.theme.text) / 2
    with ui.font("bold" if same else "regular"):
        draw.add_text(ImVec2(at.x + ui.u(2.5), y), ui.color("text"), label)
    with ui.font(style="small"):
        shown = f"{likely:.1%}" + (f"  ·  {tr('chosen')}" if same else "")
        x = end.x - ui.u(2.5) - imgui.calc_text_size(shown).x
        spot = ImVec2(x, at.y + (height - ui.theme.size("small")) / 2)
        draw.add_text(spot, ui.color("muted"), shown)
    return clicked
