"""What an answer has thought, above what it says: a line that unfolds; while the model thinks, the
last two lines of its thoughts below it."""

from __future__ import annotations

import re

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.actions.act import Action
from llm_lite.desktop.actions.chatting import UnfoldThought
from llm_lite.desktop.commands.hints import with_keys
from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.state import AppState
from llm_lite.desktop.state.thoughts import Thought
from llm_lite.desktop.state.units import tokens
from llm_lite.desktop.views.selection.selecting import draw_page
from llm_lite.desktop.views.selection.selection import THOUGHT
from llm_lite.desktop.widgets.by_keyboard import press_area
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN, ICON_CHEVRON_RIGHT
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import tip

LIVE_LINES = 2
EMPTY_LINES = re.compile(r"\n\s*\n")
HINT = mark("The model's reasoning before its answer. Later turns leave it out of the prompt.")


class ThoughtFold:
    """The thoughts of message `index` in `width` pixels; of no height where there are none."""

    def __init__(
        self, ui: Ui, index: int, thought: Thought | None, width: float, writing: bool
    ) -> None:
        self.ui, self.index, self.thought, self.width = ui, index, thought, width
        self.live = bool(writing and thought and thought.going_on)
        self.row = ui.u(7)
        self.page: Page | None = None
        if thought is None or not thought.text:
            return
        if thought.unfolded or self.live:
            rich = rich_text(ui, "thoughts")
            room = float(round(width))
            # Of two lines none is to be empty.
            words = thought.text if thought.unfolded else EMPTY_LINES.sub("\n", thought.text)
            self.page = rich.page(ui, words, room, quoted=True, live=self.live)

    @property
    def height(self) -> float:
        if self.thought is None or not self.thought.text:
            return 0.0
        shown = self._shown_height()
        return self.row + (shown + self.ui.u(3) if shown else 0.0) + self.ui.u(1)

    def _shown_height(self) -> float:
        if self.page is None or self.thought is None:
            return 0.0
        most = LIVE_LINES * self.ui.theme.line
        return self.page.height if self.thought.unfolded else min(self.page.height, most)

    def draw(self, state: AppState, at: ImVec2) -> list[Action]:
        """With its corner at a place on the screen."""
        if self.thought is None or not self.thought.text:
            return []
        turned = self._draw_line(at, self.thought)
        if self.page is not None:
            self._draw_text(state, self.page, at.x, at.y + self.row + self.ui.u(0.5))
        return [UnfoldThought(self.index, not self.thought.unfolded)] if turned else []

    def _draw_line(self, at: ImVec2, thought: Thought) -> bool:
        """Whether it was clicked."""
        ui, small = self.ui, self.ui.theme.size("small")
        words = heading(thought, self.live)
        with ui.font(style="small"):
            width = small + ui.u(1.5) + imgui.calc_text_size(words).x
        imgui.set_cursor_screen_pos(ImVec2(at.x - ui.u(1.5), at.y))
        size = ImVec2(width + ui.u(3), self.row)
        clicked = press_area(f"##thought.{self.index}", size)
        hovered = imgui.is_item_hovered()
        ui.mark(f"message.{self.index}.thought")
        tip(ui, with_keys(tr(HINT), "thoughts"))
        draw, color = imgui.get_window_draw_list(), ui.color("text" if hovered else "muted")
        low, high = imgui.get_item_rect_min(), imgui.get_item_rect_max()
        if hovered:
            draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1.5))
        y = round(at.y + (self.row - small) / 2)
        icon = ICON_CHEVRON_DOWN if thought.unfolded else ICON_CHEVRON_RIGHT
        font = ui.fonts["regular"]
        draw.add_text(font, small, ImVec2(at.x, y), color, icon)
        draw.add_text(font, small, ImVec2(at.x + small + ui.u(1.5), y), color, words)
        return clicked

    def _draw_text(self, state: AppState, page: Page, x: float, y: float) -> None:
        height = self._shown_height()
        hidden = page.height - height  # above what is shown
        draw = imgui.get_window_draw_list()
        low, high = ImVec2(x, y), ImVec2(x + self.width, y + height)
        draw.push_clip_rect(low, ImVec2(high.x + self.ui.u(4), high.y), True)
        name, corner = f"thought.{self.index}", (x, y - hidden)
        if self.thought is not None and self.thought.unfolded:
            draw_page(state, self.ui, (self.index, THOUGHT), page, corner, self.width, name)
        else:
            rich_text(self.ui, "thoughts").draw(self.ui, page, *corner, self.width, name)
        if self.live:
            self._draw_caret(page, x, y - hidden)
        draw.pop_clip_rect()
        self.ui.rects[f"message.{self.index}.thoughts"] = (low.x, low.y, high.x, high.y)

    def _draw_caret(self, page: Page, x: float, y: float) -> None:
        ui, (top, laid) = self.ui, page.blocks[-1]
        if laid.runs:
            run = laid.runs[-1]
            spot = ImVec2(x + run.x + run.width + ui.u(2), y + top + run.y + ui.theme.text / 2)
            imgui.get_window_draw_list().add_circle_filled(spot, ui.u(1), ui.color("accent"))


def heading(thought: Thought, live: bool) -> str:
    """The line that says how long the model thought."""
    if live:
        words = tr("Thinking for {time}, {tokens}")
        return words.format(time=spent(thought.seconds), tokens=tokens(thought.tokens))
    if not thought.tokens:  # read from a file that does not say
        return tr("Thoughts")
    words = tr("Thought for {time}, {tokens}")
    return words.format(time=spent(thought.seconds), tokens=tokens(thought.tokens))


def spent(seconds: float) -> str:
    """'0.4 s', '3.2 s', '48 s', '2 min 5 s'."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
