"""The tree of choices of an answer that keeps to a schema or grammar: in each place the tokens that
were allowed, which of them came, and what the model made of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.core.messages import Alternative
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message, Token
from llm_lite.desktop.features.tree.model import ContinueFrom
from llm_lite.desktop.language.translate import tr, trn
from llm_lite.desktop.widgets.by_keyboard import FLAT
from llm_lite.desktop.widgets.icons import ICON_CHOICES
from llm_lite.desktop.widgets.plots.shares import share_words
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, popover, tip, wrapped

PANEL = "tokens.choices"
WIDTH, ROW, ROWS = 130, 8, 12  # spacing units; rows that are shown at once
LABEL = 36  # spacing units for the token that came
LONGEST = 200  # characters of tokens that had to come, on one row


class Row(Struct, frozen=True):
    """A place with a choice; or, where `token` is None, text that had to come."""

    text: str
    place: int = 0  # of the token in the answer
    token: Token | None = None


class ChoicesOpened(Struct):
    """The answer whose tree was opened last, and its rows."""

    index: int = 0  # of the message
    at: tuple[float, float] = (0.0, 0.0)  # pixels
    tokens: Sequence[Token] | None = None  # that the rows were made of
    rows: tuple[Row, ...] = ()


def rows_of(tokens: Sequence[Token]) -> tuple[Row, ...]:
    return tuple(_rows(tokens))


def _rows(tokens: Sequence[Token]) -> Iterator[Row]:
    forced = ""
    for place, token in enumerate(tokens):
        if token.allowed is not None and token.allowed.count == 1:
            forced += token.text
            continue
        if forced:
            yield Row(forced[:LONGEST])
            forced = ""
        if token.allowed is not None:
            yield Row(token.text, place, token)
    if forced:
        yield Row(forced[:LONGEST])


def has_choices(message: Message) -> bool:
    """Return whether a message was written under a schema or grammar."""
    # Its last tokens may be those of a stop string, which no grammar held.
    return any(token.allowed is not None for token in message.tokens[:2])


def draw_choices_button(state: AppState, ui: Ui, index: int, side: float) -> None:
    """Draw the button of the tree behind other buttons of an answer that kept to a grammar."""
    if not has_choices(state.messages[index]):
        return
    imgui.same_line(0, ui.u(1))
    hint = tr("The tree of choices: what the grammar allowed in each place")
    name = f"message.{index}.choices"
    if icon_button(ui, name, ICON_CHOICES, hint, side=side, style="small"):
        low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        opened = ui.local(ChoicesOpened)
        opened.index, opened.at = index, (low.x, high.y + ui.u(1))
        ui.opened = PANEL


def draw_choices(state: AppState, ui: Ui) -> list[Action]:
    """Draw the tree at the button that opened it."""
    opened = ui.local(ChoicesOpened)
    index, at = opened.index, opened.at
    if index >= len(state.messages) or not has_choices(state.messages[index]):
        return []
    actions: list[Action] = []
    with popover(ui, PANEL, tr("Choices of the grammar"), ImVec2(*at), ui.u(WIDTH)) as shown:
        if not shown:
            return actions
        message = state.messages[index]
        rows = _kept_rows(ui, message)
        wrapped(ui, _summary(message))
        height = ui.u(ROW) * min(len(rows), ROWS)
        imgui.begin_child("tree", ImVec2(0, height), FLAT)
        clipper = imgui.ListClipper()
        clipper.begin(len(rows), ui.u(ROW))
        while clipper.step():
            for number in range(clipper.display_start, clipper.display_end):
                other = _draw_row(ui, rows[number], number, len(rows))
                if other is not None and not state.busy:
                    actions.append(ContinueFrom(index, rows[number].place, other))
                    imgui.close_current_popup()
        clipper.end()
        imgui.end_child()
    return actions


def _kept_rows(ui: Ui, message: Message) -> tuple[Row, ...]:
    """Return the rows of an answer, which are made again only when it grows."""
    opened = ui.local(ChoicesOpened)
    if opened.tokens is not message.tokens:
        opened.tokens, opened.rows = message.tokens, rows_of(message.tokens)
    return opened.rows


def _summary(message: Message) -> str:
    held = [token.allowed for token in message.tokens if token.allowed is not None]
    forced = sum(allowed.count == 1 for allowed in held)
    text = trn(
        "{forced} of {n} token had to come as it is.",
        "{forced} of {n} tokens had to come as they are.",
        len(held),
    )
    more = tr(
        "Beside each other one stand what else was allowed, and how likely the model found it. "
        "Choose another, and the answer goes on from there."
    )
    return f"{text.format(forced=forced, n=len(held))} {more}"


def _draw_row(ui: Ui, row: Row, number: int, count: int) -> Alternative | None:
    """Draw the trunk of the tree, what came, and its branches; return the one that is clicked."""
    at, draw = imgui.get_cursor_screen_pos(), imgui.get_window_draw_list()
    height = ui.u(ROW)
    middle, trunk = at.y + height / 2, at.x + ui.u(3)
    top, low = at.y if number else middle, at.y + height if number < count - 1 else middle
    draw.add_line(ImVec2(trunk, top), ImVec2(trunk, low), ui.color("border"), ui.u(0.5))
    free = row.token is not None
    shade = ui.color("accent" if free else "muted")
    draw.add_circle_filled(ImVec2(trunk, middle), ui.u(1.25 if free else 0.75), shade)
    words = at.y + (height - ui.theme.text) / 2
    left = at.x + ui.u(7)
    room = imgui.get_content_region_avail().x - ui.u(8)
    if row.token is None:
        with ui.font("mono"):
            shown = fit(_spelled(row.text), room)
            draw.add_text(ImVec2(left, words), ui.color("muted"), shown)
        imgui.dummy(ImVec2(0, height))
        return None
    with ui.font("mono"):
        shown = fit(_spelled(row.text), ui.u(LABEL) - ui.u(2))
        draw.add_text(ImVec2(left, words), ui.color("text"), shown)
    imgui.set_cursor_screen_pos(ImVec2(left + ui.u(LABEL), at.y + ui.u(0.75)))
    chosen = _draw_branches(ui, row.token, number, at.x + room)
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + height))
    imgui.dummy(ImVec2(0, 0))
    return chosen


def _spelled(text: str) -> str:
    """Show a token on one line, with signs for blanks, by which tokens may differ."""
    return text.replace("\n", "⏎").replace("\t", "→").replace(" ", "␣")


def _draw_branches(ui: Ui, token: Token, number: int, right: float) -> Alternative | None:
    """Draw what else was allowed as buttons, as many as fit, and the number of all."""
    allowed = token.allowed
    assert allowed is not None
    chosen = None
    with ui.font(style="small"), ui.styled(frame_padding=(ui.u(1.5), 0.0)):
        counted = trn("{n} allowed", "{n} allowed", allowed.count).format(n=f"{allowed.count:,}")
        end = right - imgui.calc_text_size(counted).x
        for other in allowed.best:
            if other.token == token.id:
                continue
            label = f"{_spelled(other.text)}  {share_words(other.probability)}"
            if imgui.get_cursor_screen_pos().x + imgui.calc_text_size(label).x + ui.u(5) > end:
                break
            name = f"{PANEL}.{number}.{other.token}"
            if imgui.button(f"{label}##{name}", ImVec2(0, ui.u(ROW - 1.5))):
                chosen = other
            ui.mark(name)
            imgui.same_line(0, ui.u(1))
        y = imgui.get_cursor_screen_pos().y + (ui.u(ROW - 1.5) - ui.theme.size("small")) / 2
        imgui.set_cursor_screen_pos(ImVec2(end, y))
        with ui.colored(text="muted"):
            imgui.text_unformatted(counted)
        share = tr("The model gave {share} of its probability to what was allowed here.")
        tip(ui, share.format(share=share_words(allowed.probability)))
    return chosen
