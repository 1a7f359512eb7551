"""What a function answered, as a message of the chat: a line that unfolds."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.tools.fences import SHOWN, result_as_code
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState, Message
from llm_lite.desktop.features.selection.selecting import draw_page
from llm_lite.desktop.features.selection.selection import SAID
from llm_lite.desktop.features.tools.calling import UnfoldResult
from llm_lite.desktop.features.tools.state import ToolReply
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import mark, tr, trn
from llm_lite.desktop.language.units import duration
from llm_lite.desktop.widgets.icons import ICON_CHEVRON_DOWN, ICON_CHEVRON_RIGHT
from llm_lite.desktop.widgets.markdown.rich_text import Page, rich_text
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

WAYS = {
    "server": mark("{name} on {server} answered"),
    "hand": mark("{name}, answered by you"),
    "refused": mark("{name}, refused by you"),
    "failed": mark("{name} on {server} failed"),
}


class ResultItem:
    """One result at its width: its height, and how it is drawn at the cursor."""

    def __init__(self, state: AppState, ui: Ui, index: int, message: Message, width: float) -> None:
        assert message.reply is not None
        self.state, self.ui, self.index, self.message = state, ui, index, message
        self.width, self.reply = width, message.reply
        self.row, self.pad = ui.u(8), ui.u(3)
        self.page: Page | None = None
        if self.reply.unfolded:
            room = float(round(width - self.pad * 2))
            self.page = rich_text(ui).page(ui, result_as_code(message.text, SHOWN), room)

    @property
    def height(self) -> float:
        return self.row + (self.page.height + self.pad if self.page else 0.0)

    def draw(self) -> list[Action]:
        at = imgui.get_cursor_screen_pos()
        name = f"message.{self.index}"
        self.ui.rects[name] = (at.x, at.y, at.x + self.width, at.y + self.height)
        turned = self._draw_line(at)
        if self.page is not None:
            self._draw_text(self.page, ImVec2(at.x, at.y + self.row))
        return [UnfoldResult(self.index, not self.reply.unfolded)] if turned else []

    def _draw_line(self, at: ImVec2) -> bool:
        """Whether it was clicked."""
        ui, small = self.ui, self.ui.theme.size("small")
        imgui.set_cursor_screen_pos(at)
        size = ImVec2(self.width, self.row)
        clicked = imgui.invisible_button(f"##result.{self.index}", size)
        hovered = imgui.is_item_hovered()
        ui.mark(f"message.{self.index}.result")
        draw = imgui.get_window_draw_list()
        if hovered:
            end = ImVec2(at.x + self.width, at.y + self.row)
            draw.add_rect_filled(at, end, ui.color("hover"), ui.u(1.5))
        y = round(at.y + (self.row - small) / 2)
        icon = ICON_CHEVRON_DOWN if self.reply.unfolded else ICON_CHEVRON_RIGHT
        bad = self.reply.how == "failed"
        color = ui.color("warning" if bad else "text" if hovered else "muted")
        font, x = ui.fonts["regular"], at.x + self.pad
        draw.add_text(font, small, ImVec2(x, y), color, icon)
        x += small + ui.u(2)
        with ui.font(style="small"):
            facts = figures(self.message.text, self.reply)
            right = imgui.calc_text_size(facts).x
            words = heading(self.reply)
            room = at.x + self.width - self.pad - right - ui.u(4) - x
            words = fit(words, room)
            draw.add_text(ImVec2(x, y), color, words)
            x += imgui.calc_text_size(words).x + ui.u(3)
            left = at.x + self.width - self.pad - right - ui.u(4) - x
            if not self.reply.unfolded and self.reply.how != "refused" and left > ui.u(12):
                brief = fit(fit_line(self.message.text[:400], 300), left)
                draw.add_text(ImVec2(x, y), ui.color("text"), brief)
            spot = ImVec2(at.x + self.width - self.pad - right, y)
            draw.add_text(spot, ui.color("muted"), facts)
        return clicked

    def _draw_text(self, page: Page, at: ImVec2) -> None:
        spot, name = (at.x + self.pad, at.y), f"result.{self.index}"
        width = self.width - self.pad * 2
        draw_page(self.state, self.ui, (self.index, SAID), page, spot, width, name)


def heading(reply: ToolReply) -> str:
    name = reply.name or tr("A call that cannot be read")
    return tr(WAYS[reply.how]).format(name=name, server=reply.server)


def figures(text: str, reply: ToolReply) -> str:
    """Its size, and the time that a server took."""
    if reply.how == "refused":
        return ""
    count = len(text)
    size = trn("{n} character", "{n} characters", count).format(n=f"{count:,}")
    return f"{size}  ·  {duration(1e3 * reply.seconds)}" if reply.server else size
