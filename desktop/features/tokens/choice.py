"""The ways on from a token of an answer: the model writes on behind it, or something else comes."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.requests import obstacle, own_tokens
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.tree.model import ContinueFrom, ContinueText
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_BRANCH
from llm_lite.desktop.widgets.token_text import visible
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import popover, primary_button, text, wrapped

CHOICE = "tokens.choice"
KEEPS = mark("Keeps the answer up to this token, and the model writes on.")
AGAIN = mark("{writer} wrote this. The text up to here is cut into tokens of {reader}.")
OTHERS = mark(
    "Alternatives to this token, with their probabilities. Choose one, and the answer "
    "goes on from it."
)
UNKNOWN = mark(
    "Alternatives are known until the program ends; the history keeps the probability of each "
    "token."
)
BESIDE = mark("The present answer is kept as another version.")


class Choice(Struct, frozen=True):
    """The token that was clicked."""

    index: int  # of the answer
    token: int | None  # of it; None: it is none of the tokens as they were generated
    end: int  # character of all that the answer spells, behind the token
    words: str
    at: tuple[float, float]  # pixels


def draw_choice(state: AppState, ui: Ui) -> list[Action]:
    choice: Choice | None = ui.memory.get(CHOICE)
    if choice is None or choice.index >= len(state.messages):
        return []
    message = state.messages[choice.index]
    title = tr("From “{token}” on").format(token=visible(choice.words))
    with popover(ui, CHOICE, title, ImVec2(*choice.at), ui.u(84)) as shown:
        if not shown:
            return []
        with ui.styled(item_spacing=(ui.u(2), ui.u(1.5))):
            actions = _draw_on(state, ui, choice, message)
            at = choice.token
            if at is not None and at < len(message.tokens):
                actions += _draw_others(ui, choice, message, at)
        if actions:
            imgui.close_current_popup()
        return actions


def _draw_on(state: AppState, ui: Ui, choice: Choice, message: Message) -> list[Action]:
    """Behind the token."""
    own, model, written = own_tokens(state, message), state.model, message.written
    if own or written is None or model is None or written.model.path == model.path:
        wrapped(ui, tr(KEEPS))
    else:
        wrapped(ui, tr(AGAIN).format(writer=written.model.name, reader=model.name))
    problem, label = obstacle(state), f"{ICON_BRANCH}  {tr('Continue from here')}"
    clicked = primary_button(ui, f"{CHOICE}.on", label, problem, enabled=not problem)
    wrapped(ui, tr(BESIDE))
    if not clicked:
        return []
    if choice.token is not None and own and not message.restored:
        return [ContinueFrom(choice.index, choice.token + 1)]
    return [ContinueText(choice.index, choice.end)]


def _draw_others(ui: Ui, choice: Choice, message: Message, count: int) -> list[Action]:
    """In its place."""
    token = message.tokens[count]
    imgui.dummy(ImVec2(0, ui.u(1.5)))
    if not token.alternatives:
        wrapped(ui, tr(UNKNOWN))
        return []
    text(ui, tr("Or choose another token"), bold=True)
    wrapped(ui, tr(OTHERS))
    actions: list[Action] = []
    for other in token.alternatives:
        same = other.token == token.id
        if _draw_alternative(ui, visible(other.text), other.probability, other.token, same):
            actions.append(ContinueFrom(choice.index, count, other))
    return actions


def _draw_alternative(ui: Ui, label: str, likely: float, token: int, same: bool) -> bool:
    """A row with a bar behind it, as long as the token is likely."""
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
