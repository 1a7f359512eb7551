"""Messages that the model no longer sees are marked, never taken away."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.cache.state import unseen
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.language.units import tokens
from llm_lite.desktop.widgets.icons import ICON_EYE, ICON_EYE_OFF
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

GONE = mark("The model no longer sees this")
BACK = mark("From here on the model sees the conversation")


class Unseen:
    """Lines where the model's sight ends or begins, and bars beside what it lost."""

    def __init__(self, state: AppState, ui: Ui) -> None:
        self._ui, self.lost = ui, _lost(state, ui)

    def height(self, index: int) -> float:
        """Return the height of the line above message `index`; 0 where there is none."""
        return self._ui.theme.size("small") + self._ui.u(3) if self._words(index) else 0.0

    def draw(self, index: int, x: float, y: float, width: float) -> None:
        """Draw the line above message `index`, which begins at a place in the window."""
        words, icon = self._words(index), ICON_EYE_OFF if index in self.lost else ICON_EYE
        ui, height = self._ui, self.height(index)
        corner = imgui.get_window_pos()
        at = ImVec2(corner.x + x, corner.y + y - height - imgui.get_scroll_y())
        if not words or at.y + height < corner.y or at.y > corner.y + imgui.get_window_height():
            return
        _line(ui, at, width, f"{icon}  {words}", "warning" if index in self.lost else "muted")
        name = f"message.{index}.{'unseen' if index in self.lost else 'seen'}"
        ui.rects[name] = (at.x, at.y, at.x + width, at.y + height)

    def shade(self, index: int, x: float, y: float, width: float, height: float) -> None:
        """Draw a bar at the left of a message where some of its tokens were forgotten."""
        if index not in self.lost:
            return
        lost, whole = self.lost[index]
        ui, corner = self._ui, imgui.get_window_pos()
        low = ImVec2(corner.x + x - ui.u(3), corner.y + y - imgui.get_scroll_y())
        high = ImVec2(low.x + ui.u(0.75), low.y + height)
        color = ui.color("warning", 0.9 if lost == whole else 0.45)
        imgui.get_window_draw_list().add_rect_filled(low, high, color, ui.u(0.4))

    def _words(self, index: int) -> str:
        before = self.lost.get(index - 1)
        if index not in self.lost:
            return tr(BACK) if before else ""
        lost, whole = self.lost[index]
        if lost < whole:
            words = tr("The model no longer sees {tokens} of the {whole} that follow")
            return words.format(tokens=tokens(lost), whole=whole)
        return "" if before and before[0] == before[1] else tr(GONE)


class ForgottenMessages(Struct):
    """The messages with forgotten tokens, and what they were found for."""

    key: object = None
    lost: dict[int, tuple[int, int]] = {}


def _lost(state: AppState, ui: Ui) -> dict[int, tuple[int, int]]:
    """Return the messages with forgotten tokens: how many, and of how many. The result is kept
    until something else is forgotten."""
    cache = state.cache
    key = (cache.forgotten, len(cache.all_owners))
    kept = ui.local(ForgottenMessages)
    if kept.key != key:
        kept.key, kept.lost = key, unseen(cache)
    return kept.lost


def _line(ui: Ui, at: ImVec2, width: float, words: str, color: str) -> None:
    """Draw words in the middle of a hairline."""
    draw, small = imgui.get_window_draw_list(), ui.theme.size("small")
    with ui.font(style="small"):
        words = fit(words, width - ui.u(8))
        room = imgui.calc_text_size(words).x
        left = round(at.x + (width - room) / 2)
        draw.add_text(ImVec2(left, at.y + ui.u(0.5)), ui.color(color), words)
    y, thick = round(at.y + ui.u(0.5) + small / 2), ui.u(0.25)
    for a, b in ((at.x, left - ui.u(2)), (left + room + ui.u(2), at.x + width)):
        if b > a:
            draw.add_rect_filled(ImVec2(a, y), ImVec2(b, y + thick), ui.color("border"))
