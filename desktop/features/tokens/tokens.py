"""The conversation as the model has it: every token a box, template included.

Under the pointer, a token shows where it looks, or who looks at it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages.remote import UNTOLD_TOKENS
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetXRay, SwitchVersion
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetAttention
from llm_lite.desktop.features.program.requests import own_tokens
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tokens.choice import CHOICE, Choice
from llm_lite.desktop.features.tokens.colors import paint_of, shown_weights, weights_of
from llm_lite.desktop.features.tokens.state import SYSTEM, Passage, Place, passage, places
from llm_lite.desktop.features.tree.model import SpellAnswer
from llm_lite.desktop.features.tree.roles import speaker
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_LEFT, ICON_CHEVRON_RIGHT
from llm_lite.desktop.widgets.plots.shares import draw_share_lines
from llm_lite.desktop.widgets.token_text import NO_TOKEN, TokenPage, draw_boxes, lay_out, visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button, text, wrapped

MOST = 5  # tokens that the tooltip names
SWALLOWED = mark(
    "Through so many layers the first token takes nearly all: try it without the first."
)


class Pointed(Struct):
    """The token under the pointer in this frame."""

    index: int  # of the message
    token: int  # of the passage
    position: int | None
    at: tuple[float, float]  # pointer, upper edge of its line
    line: float  # height of one
    cut: Passage


class TokenItem:
    """One message at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width = width
        self.passage, self.page = laid(state, ui, index, message, width)
        self.shown = shown_height(self.passage, self.page)
        self.label = ui.theme.size("small") + ui.u(2)
        self.tools = ui.u(7) if message.versions else 0.0
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
        self.ui.memory["tokens.pointed"] = Pointed(
            self.index, token, position, (mouse.x, edge), line, self.passage
        )

    def _mark_rects(self, x: float, top: float) -> None:
        """Where the tokens in sight lie, for the tour and the tests."""
        draw, line = imgui.get_window_draw_list(), self.page.line
        low, high = draw.get_clip_rect_min().y - top, draw.get_clip_rect_max().y - top
        for box in self.page.between(low, high):
            if box.token >= 0:
                y = top + box.line * line
                name = f"token.{self.index}.{box.token - self.passage.own}"
                self.ui.rects.setdefault(name, (x + box.x, y, x + box.x + box.width, y + line))


def shown_height(passage: Passage, page: TokenPage) -> float:
    """Without the empty line behind a break."""
    return page.height - (page.line if passage.breaks else 0.0)


def laid(
    state: AppState, ui: Ui, index: int, message: Message, width: float
) -> tuple[Passage, TokenPage]:
    """Cut into tokens and laid out; kept while the message, its place and the width stay."""
    known: dict[int, Any] = ui.memory.setdefault("passages", {})
    place = place_of(state, ui, index)
    key = (place, width, ui.theme.text)
    held = known.get(index)
    if held is None or held[0] is not message or held[1] != key:
        words = message.pieces
        cut = passage(message.whole, words, place, state.positions, len(message.tokens))
        held = known[index] = (message, key, cut, lay_out(ui, cut.text, cut.spans, width))
    return held[2], held[3]


def place_of(state: AppState, ui: Ui, index: int) -> Place | None:
    held = ui.memory.get("places")
    if held is None or held[0] is not state.owners:
        held = ui.memory["places"] = (state.owners, places(state.owners, state.positions))
    found: dict[int, Place] = held[1]
    return found.get(index)


def draw_pointed(state: AppState, ui: Ui) -> list[Action]:
    """After all messages: what the pointer is over, and what a click does."""
    pointed: Pointed | None = ui.memory.pop("tokens.pointed", None)
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
    if pointed is None:
        return actions
    _draw_tip(state, ui, pointed)
    if imgui.is_mouse_clicked(0):
        actions += _click(state, ui, pointed)
    return actions


def _click(state: AppState, ui: Ui, pointed: Pointed) -> list[Action]:
    """Hold the token; one of an answer shows what else it might have been, and the ways on."""
    message, cut = state.messages[pointed.index], pointed.cut
    if message.role == "assistant" and pointed.token >= cut.own:
        end = cut.spans[pointed.token][1] - (len(cut.text) - len(message.whole))
        at = (pointed.at[0], pointed.at[1] + pointed.line)
        words = _words(state, pointed)
        ui.memory[CHOICE] = Choice(pointed.index, cut.token(pointed.token), end, words, at)
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
    held = ui.memory.get("spelled")
    if held is None or held[0] != (state.chat, model):
        held = ui.memory["spelled"] = ((state.chat, model), set[int]())
    if message.key in held[1]:
        return []
    held[1].add(message.key)
    return [SpellAnswer(index)]


def _draw_tip(state: AppState, ui: Ui, pointed: Pointed) -> None:
    """The token, how likely it was, and the tokens it looks at most."""
    back, gap = state.xray.looks_back, ui.u(1)  # never over the words that light up
    y = pointed.at[1] - gap if back else pointed.at[1] + pointed.line + gap
    imgui.set_next_window_pos(ImVec2(pointed.at[0], y), 0, ImVec2(0, 1 if back else 0))
    with ui.styled(window_padding=(ui.u(3), ui.u(2.5)), item_spacing=(ui.u(2), ui.u(1))):
        if not imgui.begin_tooltip():
            return
    with ui.styled(item_spacing=(ui.u(2), ui.u(1.25))):
        _draw_facts(state, ui, pointed)
        draw_looks(state, ui, ui.u(60))
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
    """What had been guessed for its place."""
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


def draw_looks(state: AppState, ui: Ui, width: float) -> None:
    """The tokens that the one under the pointer looks at most, with their shares."""
    rows = state.attention_rows
    if rows is not None and rows.position == state.xray.at and rows.message:
        imgui.dummy(ImVec2(width, 0))
        wrapped(ui, rows.message[:1].upper() + rows.message[1:] + ".")
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


def versions_width(message: Message, ui: Ui) -> float:
    """Of what `draw_versions` draws, in pixels."""
    with ui.font(style="small"):
        words = imgui.calc_text_size(f"{message.place + 1} / {len(message.versions) + 1}").x
    return float(ui.u(6) * 2 + ui.u(0.5) * 2 + words)


def draw_versions(state: AppState, ui: Ui, index: int) -> list[Action]:
    """Which of the versions of a message is shown: a step back, a step on."""
    message, side = state.messages[index], ui.u(6)
    count, place = len(message.versions) + 1, message.place
    wanted = place
    name = f"message.{index}"
    hint = tr("Previous version")
    if icon_button(ui, f"{name}.before", ICON_CHEVRON_LEFT, hint, side=side, style="small"):
        wanted = max(0, place - 1)
    imgui.same_line(0, ui.u(0.5))
    at, shown = imgui.get_cursor_screen_pos(), f"{place + 1} / {count}"
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
