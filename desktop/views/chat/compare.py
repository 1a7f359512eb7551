"""An answer beside the one that was given before: where the two part."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.inspecting import EndComparison
from llm_lite.desktop.actions.requests import versions
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.state.state import AppState, Message
from llm_lite.desktop.state.token_state import align
from llm_lite.desktop.widgets.icons import ICON_CLOSE
from llm_lite.desktop.widgets.token_text import TokenPage, draw_boxes, lay_out
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import icon_button


class CompareItem:
    """Both at their width: the height, and how they are drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, width: float) -> None:
        assert state.comparing is not None
        kept = versions(state, index)
        self.ui, self.index, self.width = ui, index, width
        base = kept[min(state.comparing.base, len(kept) - 1)][0]
        self.pair = (base, state.messages[index])
        self.writing = state.running is not None
        self.parting = first_difference(*self.pair)
        self.column = float(round((width - ui.u(8)) / 2))
        self.pages = [
            _laid(ui, f"compare.{side}", message, self.column)
            for side, message in enumerate(self.pair)
        ]
        self.label = ui.theme.size("small") + ui.u(4)
        tallest = max(page.height for page in self.pages)
        self.height = self.label + tallest + ui.u(4)
        self.end = self.label + self.pages[1].height + ui.u(8)  # of the answer at the right

    def draw(self) -> list[Action]:
        ui, at = self.ui, imgui.get_cursor_screen_pos()
        draw = imgui.get_window_draw_list()
        ui.rects["compare"] = (at.x, at.y, at.x + self.width, at.y + self.height)
        for side, page in enumerate(self.pages):
            x = at.x + side * (self.column + ui.u(8))
            draw_boxes(
                ui, page, (x, at.y + self.label), self._paint, {}, imgui.get_window_draw_list()
            )
        middle = at.x + self.column + ui.u(4)
        low, high = ImVec2(middle, at.y), ImVec2(middle, at.y + self.height - ui.u(4))
        draw.add_line(low, high, ui.color("border"), max(1.0, ui.u(0.25)))
        return self._draw_head(at)

    def _draw_head(self, at: ImVec2) -> list[Action]:
        """Titles, summary and the way out; they stay in sight while the answers scroll."""
        ui, draw = self.ui, imgui.get_window_draw_list()
        small, side = ui.theme.size("small"), ui.u(6)
        lowest = at.y + self.height - self.label
        y = min(max(at.y, imgui.get_window_pos().y + ui.u(1)), lowest)
        if y > at.y:
            low = ImVec2(at.x - ui.u(1), y - ui.u(1))
            high = ImVec2(at.x + self.width + ui.u(1), y + self.label)
            draw.add_rect_filled(low, high, ui.color("base"))
        for number, title in enumerate((tr("As it was"), tr("With your gains"))):
            spot = ImVec2(at.x + number * (self.column + ui.u(8)), y)
            draw.add_text(ui.fonts["bold"], small, spot, ui.color("muted"), title)
        self._draw_summary(ImVec2(at.x, y), small)
        imgui.set_cursor_screen_pos(ImVec2(at.x + self.width - side, y - ui.u(1.5)))
        hint = tr("Keep the answer at the right; the other stays beside it as a version")
        done = icon_button(ui, "compare.close", ICON_CLOSE, hint, side=side, style="small")
        return [EndComparison()] if done and not self.writing else []

    def _paint(self, token: int) -> tuple[int, int]:
        """What both said is plain; from where they diverge on, it is tinted."""
        ui = self.ui
        if self.parting is None or token < self.parting:
            return 0, ui.color("text")
        if token == self.parting:
            return ui.color("accent"), ui.color("on_accent")
        return ui.color("accent", 0.2), ui.color("text")

    def _draw_summary(self, at: ImVec2, small: float) -> None:
        ui = self.ui
        if self.parting is not None:
            words = tr("diverge at token {n}").format(n=self.parting + 1)
        elif self.writing:
            words = tr("the same so far")
        else:
            words = tr("the same, token for token")
        with ui.font(style="small"):
            x = at.x + self.width - imgui.calc_text_size(words).x - ui.u(8)
        draw = imgui.get_window_draw_list()
        draw.add_text(ui.fonts["regular"], small, ImVec2(x, at.y), ui.color("muted"), words)


def scroll_to_end(item: CompareItem, top: float) -> None:
    """To where the answer at the right ends: the other one may be much longer."""
    wanted = top + item.end - imgui.get_window_height()
    imgui.set_scroll_y(min(max(wanted, 0.0), imgui.get_scroll_max_y()))


def first_difference(base: Message, other: Message) -> int | None:
    """The first token where the two part; None while one is the beginning of the other, unless
    it has ended."""
    for number, (a, b) in enumerate(zip(base.tokens, other.tokens, strict=False)):
        if a.id != b.id:
            return number
    shorter = min(len(base.tokens), len(other.tokens))
    ended = all(message.stop_reason is not None for message in (base, other))
    return shorter if ended and len(base.tokens) != len(other.tokens) else None


def _laid(ui: Ui, name: str, message: Message, width: float) -> TokenPage:
    held: Any = ui.memory.get(name)
    key = (width, ui.theme.text)
    if held is None or held[0] is not message.whole or held[1] != key:
        spans = align(message.whole, message.pieces)
        held = (message.whole, key, lay_out(ui, message.whole, spans, width))
        ui.memory[name] = held
    page: TokenPage = held[2]
    return page
