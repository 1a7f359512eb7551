"""The prompts that fit what is typed behind a "/" at the start of the draft, above the input."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui
from msgspec import Struct

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.model import WantPrompts
from llm_lite.desktop.features.prompts.state import SavedPrompt
from llm_lite.desktop.features.prompts.view import is_inserting, use
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import fit

MOST_ROWS = 6  # in sight
LONGEST_COMMAND = 60  # characters


class SlashControls(Struct):
    dismissed: str | None = None  # the draft that prompts are no longer offered for
    draft: str | None = None  # the one that `place` belongs to
    place: int = 0  # of the marked prompt
    requested: bool = False  # the prompts were read for this command


class Slash:
    """The list of one frame: the prompts that are offered, and the one that Enter inserts."""

    def __init__(self, state: AppState, ui: Ui) -> None:
        self.state, self.ui = state, ui
        self._controls = controls = ui.local(SlashControls)
        draft = state.draft
        self.found: tuple[SavedPrompt, ...] = ()
        is_command = draft.startswith("/") and "\n" not in draft and len(draft) <= LONGEST_COMMAND
        if not is_command:
            controls.dismissed, controls.requested = None, False
        offered = controls.dismissed != draft and not is_inserting(ui)
        self.is_command = is_command and offered
        if self.is_command:
            self.found = state.prompts.found(draft[1:])
            self._begin(draft)

    def _begin(self, draft: str) -> None:
        place = self._controls.place if self._controls.draft == draft else 0
        self._mark(max(0, min(place, len(self.found) - 1)))

    def _mark(self, place: int) -> None:
        self.place = place
        self._controls.draft, self._controls.place = self.state.draft, place

    @property
    def is_open(self) -> bool:
        return self.is_command and bool(self.found)

    def dismiss(self) -> bool:
        """Offer no prompts for this draft any more, and return whether any were offered."""
        if not self.is_open:
            return False
        self._controls.dismissed = self.state.draft
        return True

    def choose(self) -> list[Action]:
        """Insert the marked prompt."""
        return use(self.ui, self.found[self.place]) if self.is_open else []

    def draw(self, at: ImVec2, width: float, *, active: bool) -> list[Action]:
        """Draw the list with its lower edge at the input, whose corner is at `at`."""
        if not self.is_command:
            return []
        actions: list[Action] = []
        if not self._controls.requested:  # once for each command
            self._controls.requested = True
            actions.append(WantPrompts())
        if not self.found:
            self._draw_none(at)
            return actions
        if active:
            self._move()
        back = imgui.get_cursor_screen_pos()
        actions += self._draw_list(at, width)
        imgui.set_cursor_screen_pos(back)
        return actions

    def _draw_none(self, at: ImVec2) -> None:
        """Explain the slash where the library is empty."""
        ui, library = self.ui, self.state.prompts
        if self.state.draft != "/" or not library.read or library.prompts:
            return
        words, size = (
            tr("There are no prompts yet: the button with the books, at the right, adds some."),
            ui.u(7),
        )
        low, draw = ImVec2(at.x, at.y - size - ui.u(1.5)), imgui.get_window_draw_list()
        with ui.font(style="small"):
            wide = imgui.calc_text_size(words)
            high = ImVec2(low.x + wide.x + ui.u(6), low.y + size)
            draw.add_rect_filled(low, high, ui.color("raised"), ui.u(2))
            draw.add_rect(low, high, ui.color("border"), ui.u(2), ui.u(0.25))
            spot = ImVec2(low.x + ui.u(3), round(low.y + (size - wide.y) / 2))
            draw.add_text(spot, ui.color("muted"), words)

    def _move(self) -> None:
        step = imgui.is_key_pressed(imgui.Key.down_arrow) - imgui.is_key_pressed(imgui.Key.up_arrow)
        if step:
            self._mark((self.place + step) % len(self.found))

    def _draw_list(self, at: ImVec2, width: float) -> list[Action]:
        ui, row = self.ui, self.ui.u(9)
        rows = min(len(self.found), MOST_ROWS)
        height = rows * row + ui.u(2) + ui.u(6)
        spot = ImVec2(at.x, at.y - height - ui.u(1.5))
        imgui.set_cursor_screen_pos(spot)
        with ui.styled(window_padding=(ui.u(1), ui.u(1))):
            padded = imgui.ChildFlags_.always_use_window_padding
            clear = imgui.WindowFlags_.no_background | imgui.WindowFlags_.no_saved_settings
            imgui.begin_child("##slash", ImVec2(width, height), padded, clear)
        # Dear ImGui paints a child's ground below those that were there before.
        draw, high = imgui.get_window_draw_list(), ImVec2(spot.x + width, spot.y + height)
        draw.add_rect_filled(spot, high, ui.color("raised"), ui.u(2))
        draw.add_rect(spot, high, ui.color("border"), ui.u(2), ui.u(0.25))
        clicked = self._draw_rows(row, rows)
        self._draw_keys(row, rows)
        imgui.end_child()
        ui.mark("slash")
        return use(ui, clicked) if clicked is not None else []

    def _draw_rows(self, row: float, rows: int) -> SavedPrompt | None:
        """The marked one stays in sight."""
        ui, clicked = self.ui, None
        first = max(0, min(self.place - rows + 1, len(self.found) - rows))
        draw, corner = imgui.get_window_draw_list(), imgui.get_cursor_screen_pos()
        width, small = imgui.get_content_region_avail().x, ui.theme.size("small")
        for number, prompt in enumerate(self.found[first : first + rows]):
            low = ImVec2(corner.x, corner.y + number * row)
            imgui.set_cursor_screen_pos(low)
            if imgui.invisible_button(f"##slash.{number}", ImVec2(width, row)):
                clicked = prompt
            ui.mark(f"slash.{number}")
            high = ImVec2(low.x + width, low.y + row)
            if first + number == self.place:
                draw.add_rect_filled(low, high, ui.color("accent_soft"), ui.u(1.5))
            elif imgui.is_item_hovered():
                draw.add_rect_filled(low, high, ui.color("hover"), ui.u(1.5))
            x = low.x + ui.u(2)
            with ui.font("bold"):
                label = fit(prompt.name, width * 0.45)
                wide = imgui.calc_text_size(label).x
                y = round(low.y + (row - ui.theme.text) / 2)
                draw.add_text(ImVec2(x, y), ui.color("text"), label)
            x += wide + ui.u(3)
            with ui.font(style="small"):
                words = fit(prompt.first_line, max(high.x - ui.u(2) - x, 1.0))
                y = round(low.y + (row - small) / 2)
                draw.add_text(ImVec2(x, y), ui.color("muted"), words)
        return clicked

    def _draw_keys(self, row: float, rows: int) -> None:
        ui, low = self.ui, imgui.get_window_pos()
        words = tr("Up and Down choose  ·  Enter inserts  ·  Esc closes")
        spot = ImVec2(low.x + ui.u(3), low.y + rows * row + ui.u(2.5))
        with ui.font(style="small"):
            imgui.get_window_draw_list().add_text(spot, ui.color("faint"), words)
