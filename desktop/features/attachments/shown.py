"""A message's files in the chat: a line of chips, and under it the text of the one that was
clicked."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.attachments.chip import chip_height, chip_width, draw_chip, note
from llm_lite.desktop.features.attachments.model import UnfoldAttachment
from llm_lite.desktop.features.attachments.text_box import box_height, draw_text_box, preview
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import Message
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.markdown.code_frame import copy_button
from llm_lite.desktop.widgets.ui import Ui

LINES = 16  # of a text that is unfolded; more scroll


class ShownFiles:
    """The files of message `index` in `width` pixels, at its right; without height where there are
    none."""

    def __init__(self, ui: Ui, index: int, message: Message, width: float) -> None:
        self.ui, self.index, self.message, self.width = ui, index, message, width
        self.rows: list[list[tuple[int, str, float]]] = []  # place, note, width
        self.height = 0.0
        if message.attachments:
            self._measure()

    def _measure(self) -> None:
        ui, x = self.ui, 0.0
        for place, attached in enumerate(self.message.attachments):
            words = note(attached, attached.tokens)
            wide = min(chip_width(ui, attached.name, words, closes=False), self.width)
            if not self.rows or x + wide > self.width:
                self.rows.append([])
                x = 0.0
            self.rows[-1].append((place, words, wide))
            x += wide + ui.u(1.5)
        self.height = len(self.rows) * self._row() + self._box()

    def _row(self) -> float:
        return chip_height(self.ui) + self.ui.u(1.5)

    def _unfolded(self) -> str:
        place, attached = self.message.unfolded, self.message.attachments
        return attached[place].text if 0 <= place < len(attached) else ""

    def _box(self) -> float:
        text = self._unfolded()
        if not text:
            return 0.0
        line = self.ui.u(6) if preview(self.ui, text).note else 0.0
        return box_height(self.ui, text, LINES) + self.ui.u(1.5) + line

    def draw(self, at: ImVec2) -> list[Action]:
        """Draw the files with their corner at a place on the screen."""
        ui, actions, y = self.ui, list[Action](), at.y
        for row in self.rows:
            x = at.x + self.width - sum(wide for _, _, wide in row) - ui.u(1.5) * (len(row) - 1)
            for place, words, wide in row:
                attached, name = self.message.attachments[place], self._name(place)
                active = place == self.message.unfolded
                clicked, _ = draw_chip(
                    ui, name, attached, attached.name, words, ImVec2(x, y), wide, active=active
                )
                if clicked and attached.text:
                    actions.append(UnfoldAttachment(self.index, -1 if active else place))
                x += wide + ui.u(1.5)
            y += self._row()
        if text := self._unfolded():
            self._draw_text(text, ImVec2(at.x, y))
        return actions

    def _name(self, place: int) -> str:
        return f"message.{self.index}.file.{place}"

    def _draw_text(self, text: str, at: ImVec2) -> None:
        ui, side = self.ui, self.ui.u(6)
        height = box_height(ui, text, LINES)
        imgui.set_cursor_screen_pos(at)
        draw_text_box(ui, f"message.{self.index}.text", text, ImVec2(self.width, height))
        imgui.set_cursor_screen_pos(ImVec2(at.x + self.width - side - ui.u(3.5), at.y + ui.u(1)))
        copy_button(ui, f"message.{self.index}.copy_file", text, tr("Copy the text"), side)
        if words := preview(ui, text).note:
            small = ui.theme.size("small")
            spot = ImVec2(at.x, at.y + height + ui.u(1))
            draw = imgui.get_window_draw_list()
            draw.add_text(ui.fonts["regular"], small, spot, ui.color("muted"), words)
