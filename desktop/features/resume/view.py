"""A strip above the input: what is kept of an opened conversation, and the way to go on at once."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.messages import Unfit
from llm_lite.desktop.features.chat.reading import seconds_to_read
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import DismissOffer, Resume, offer_status
from llm_lite.desktop.features.resume.state import OfferStatus
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import duration, size
from llm_lite.desktop.widgets.icons import ICON_CHECK, ICON_CLOCK, ICON_CLOSE, ICON_INFO
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit, icon_button, primary_button, tip

WHY: dict[Unfit, str] = {
    "model": mark("the saved cache is another model's"),
    "weights": mark("the saved cache was computed with other weights or activations"),
    "heads": mark("the interventions differ from those it was saved with"),
    "types": mark("the saved cache has other types of keys and values"),
    "context": mark("the saved cache is longer than the context"),
    "beginning": mark("the conversation does not begin as the saved cache does"),
}
HINT = mark(
    "The KV cache of this conversation is saved on disk. Resumed, the next answer reads "
    "only what is new."
)
ROWS = mark(
    "Attention maps show tokens that are read from now on: no queries are stored for those before."
)


def strip_height(state: AppState, ui: Ui) -> float:
    return ui.u(11) if _shown(state) is not None else 0.0


def draw_strip(state: AppState, ui: Ui, offset: float, width: float) -> list[Action]:
    """Draw the strip in the column of the text, where there is an offer to show."""
    offer = _shown(state)
    if offer is None:
        return []
    at, height = imgui.get_cursor_screen_pos(), ui.u(9)
    x, draw = at.x + offset, imgui.get_window_draw_list()
    end = ImVec2(x + width, at.y + height)
    fill = "accent_soft" if offer.phase == "ready" else "base"
    draw.add_rect_filled(ImVec2(x, at.y), end, ui.color(fill), ui.u(2))
    draw.add_rect(ImVec2(x, at.y), end, ui.color("border"), ui.u(2), ui.u(0.25))
    side = ui.u(6)
    imgui.set_cursor_screen_pos(ImVec2(end.x - side - ui.u(1.5), at.y + (height - side) / 2))
    actions: list[Action] = []
    hint = tr("Not now")
    if icon_button(ui, "chat.resume.dismiss", ICON_CLOSE, hint, side=side, style="small"):
        actions.append(DismissOffer())
    right = end.x - side - ui.u(3)
    if offer.phase == "ready":
        right -= _button_width(ui) + ui.u(1)
        actions += _draw_button(ui, ImVec2(right, at.y), height)
    _draw_words(state, ui, offer, ImVec2(x + ui.u(3), at.y), right - x - ui.u(5), height)
    imgui.set_cursor_screen_pos(ImVec2(at.x, at.y + strip_height(state, ui)))
    return actions


def _shown(state: AppState) -> OfferStatus | None:
    offer, status = state.resume.offer, offer_status(state)
    if status is None or state.resume.dismissed or state.running or state.editing is not None:
        return None
    if offer is None or offer.conversation != state.history.open:
        return None
    if status.phase == "unfit" and status.unfit not in WHY:
        return None
    if status.phase == "resumed" and len(state.owners) < status.tokens:
        return None  # the cache does not hold it any more
    return status if status.phase != "checking" else None


def _button_width(ui: Ui) -> float:
    with ui.font(style="small"):
        return float(imgui.calc_text_size(tr("Resume")).x) + ui.u(8)


def _draw_button(ui: Ui, at: ImVec2, height: float) -> list[Action]:
    with ui.font(style="small"), ui.styled(frame_padding=(ui.u(2), ui.u(1.25))):
        tall = imgui.get_frame_height()
        imgui.set_cursor_screen_pos(ImVec2(at.x, round(at.y + (height - tall) / 2)))
        clicked = primary_button(ui, "chat.resume", tr("Resume"), tr(HINT), width=_button_width(ui))
    return [Resume()] if clicked else []


def _draw_words(
    state: AppState, ui: Ui, offer: OfferStatus, at: ImVec2, room: float, height: float
) -> None:
    """Draw an icon, the first sentence in the text's colour, and the rest behind it."""
    icons = {"resumed": ICON_CHECK, "unfit": ICON_INFO}
    icon, draw = icons.get(offer.phase, ICON_CLOCK), imgui.get_window_draw_list()
    first, rest = offer_words(state, offer)
    with ui.font(style="small"):
        y = round(at.y + (height - ui.theme.size("small")) / 2)
        draw.add_text(ImVec2(at.x, y), ui.color("muted" if offer.unfit else "accent"), icon)
        x = at.x + ui.theme.size("small") + ui.u(2)
        room -= x - at.x
        shown = fit(first, room)
        draw.add_text(ImVec2(x, y), ui.color("text"), shown)
        used = imgui.calc_text_size(shown).x + ui.u(2)
        if shown == first and rest and room - used > ui.u(12):
            draw.add_text(ImVec2(x + used, y), ui.color("muted"), fit(rest, room - used))
    imgui.set_cursor_screen_pos(at)
    imgui.dummy(ImVec2(max(room, 1.0), height))
    ui.mark("chat.resume.words")
    words = f"{first}\n{rest}" if rest else first
    tip(ui, f"{words}\n\n{tr(ROWS)}" if offer.phase in ("ready", "resumed") else words)


def offer_words(state: AppState, offer: OfferStatus) -> tuple[str, str]:
    """Return what comes first, and more where there is room for it."""
    again = seconds_to_read(state, offer.tokens)
    spared = tr("Reading them again takes about {time}.").format(time=duration(1e3 * again))
    rest = spared if again else ""
    if offer.phase == "unfit":
        words = tr("Not resumed: {reason}.").format(reason=tr(WHY[offer.unfit]))
        return words, tr("The next answer reads the conversation again.")
    if offer.phase == "resuming":
        return tr("Resuming"), ""
    if offer.phase == "resumed":
        words = tr("Resumed in {time}.").format(time=duration(1e3 * offer.seconds))
        return words, tr("The next answer reads only what is new.")
    words = tr("Resume at once: {tokens} of {total} tokens kept, {size}.")
    counts = {"tokens": f"{offer.tokens:,}", "total": f"{offer.total:,}"}
    return words.format(**counts, size=size(offer.bytes)), rest
