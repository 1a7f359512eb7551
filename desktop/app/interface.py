"""Everything that is drawn in the window: rail, docked views, status bar, toasts, shortcuts.

One object for one Dear ImGui context. `frame` is called between new_frame and render; the window,
the tour and the tests all draw through it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from imgui_bundle import ImVec2, imgui, implot

from llm_lite.desktop.app import focus, layout
from llm_lite.desktop.app.input_method.messages import NOTHING
from llm_lite.desktop.app.input_method.overlay import draw_composition
from llm_lite.desktop.app.layout_text import LAYOUT_VERSION
from llm_lite.desktop.app.pacing import Turns
from llm_lite.desktop.features.commands.keys import (
    answer_keys,
    focus_input,
    goes_to_input,
    take_typed,
)
from llm_lite.desktop.features.encoder.reasons import draw_reason
from llm_lite.desktop.features.encoder.text_page import focus_field
from llm_lite.desktop.features.feature import View
from llm_lite.desktop.features.history.model import UndoHistory
from llm_lite.desktop.features.history.view import focus_search
from llm_lite.desktop.features.layouts.model import KeepSizes
from llm_lite.desktop.features.layouts.state import Sizes
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.palette.view import draw as draw_palette
from llm_lite.desktop.features.palette.view import draw_shortcuts
from llm_lite.desktop.features.program import rail, status_bar
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.guard import Guard, say_failed
from llm_lite.desktop.features.program.model import DismissNotice, ResetLayout
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, Notice
from llm_lite.desktop.features.registry import OVERLAYS, PAGES, VIEWS
from llm_lite.desktop.features.selection.find import open_find
from llm_lite.desktop.features.selection.selecting import copy
from llm_lite.desktop.language.catalogues import catalogue
from llm_lite.desktop.language.translate import number, tr, use
from llm_lite.desktop.system_theme import ThemeName
from llm_lite.desktop.widgets.fonts import BASE_SIZE
from llm_lite.desktop.widgets.frame_times import FrameTimes
from llm_lite.desktop.widgets.icons import ICON_CLOSE, ICON_ERROR, ICON_INFO, ICON_WARNING
from llm_lite.desktop.widgets.theme import apply_theme, make_theme
from llm_lite.desktop.widgets.ui import Face, Ui
from llm_lite.desktop.widgets.widgets import button, icon_button

if TYPE_CHECKING:
    from llm_lite.desktop.attention.maps import AttentionMaps


STILL = imgui.WindowFlags_.no_scrollbar | imgui.WindowFlags_.no_scroll_with_mouse
DOCKED = imgui.WindowFlags_.no_collapse | imgui.WindowFlags_.no_background | STILL
DOCKED |= imgui.WindowFlags_.no_focus_on_appearing
PADDING = {"middle": (2, 1), "left": (2, 2), "beside": (2, 1)}  # of views, in spacing units
FIXED = (
    imgui.WindowFlags_.no_decoration
    | imgui.WindowFlags_.no_docking
    | imgui.WindowFlags_.no_move
    | imgui.WindowFlags_.no_saved_settings
    | imgui.WindowFlags_.no_bring_to_front_on_focus
    | imgui.WindowFlags_.no_nav_focus
)
NOTICES_SHARE = 0.12  # of the window: where notices take so much already, older ones wait
NOTICE_ICONS = {"info": ICON_INFO, "warning": ICON_WARNING, "error": ICON_ERROR}
NOTICE_COLORS = {"info": "accent", "warning": "warning", "error": "error"}


def create_context() -> Any:
    """Create an ImGui and ImPlot context, current, that reads and writes no file by itself."""
    context: Any = imgui.create_context()
    none = imgui.Key.none  # panels are gone through with keys of our own
    context.config_nav_windowing_key_next = context.config_nav_windowing_key_prev = none
    implot.create_context()
    io = imgui.get_io()
    io.set_ini_filename("")
    io.set_log_filename("")
    io.config_flags |= imgui.ConfigFlags_.docking_enable
    io.config_flags |= imgui.ConfigFlags_.nav_enable_keyboard
    io.config_docking_always_tab_bar = True
    io.config_windows_move_from_title_bar_only = True
    io.config_input_text_cursor_blink = False  # a steady caret costs nothing at rest
    io.config_error_recovery_enable_assert = False
    return context


def destroy_context(context: Any) -> None:
    """Undo `create_context`; renderer and window have dropped it."""
    imgui.set_current_context(context)
    implot.destroy_context()
    imgui.destroy_context(context)


class Interface:
    def __init__(self, fonts: dict[Face, Any], scale: float, settings: Settings) -> None:
        self.scale = scale
        self.ui = Ui(make_theme(settings.theme, settings.font_size, scale), fonts)
        self.ui.sizes.add(("regular", BASE_SIZE * scale))  # Dear ImGui's first frame has it
        self.maps: AttentionMaps | None = None
        self.composition = NOTHING  # of an input method, at the caret
        self.takes_typing = False  # what is typed in no field goes to the chat's input
        self._applied: tuple[ThemeName, float, float] | None = None
        self._last_language: str | None = None  # the language that was chosen last
        self._turns = Turns(VIEWS)
        self._guard = Guard()
        self._missing: dict[str, int] = {}  # what the remembered layout does not place
        self._laid: object = None  # the layout that panels have their sizes of
        self._shown: layout.Shown | None = None  # the side panels of the frame before
        self._drags = False  # a panel is made wider or narrower
        self._measured: Sizes | None = None  # of the panels, before that
        # A text that was refused as it was read is "", whatever version it had.
        self._build_layout = settings.layout_version != LAYOUT_VERSION or not settings.layout
        if not self._build_layout:
            imgui.load_ini_settings_from_memory(settings.layout)
            self._build_layout = not layout.places_views(settings.layout)
            self._missing = {} if self._build_layout else layout.missing(settings.layout)

    def use_maps(self, maps: AttentionMaps) -> None:
        """Let views request maps from `maps`, which the program has drawn."""
        self.maps = self.ui.maps = maps

    @property
    def frames(self) -> FrameTimes:
        return self.ui.frames

    def frame(self, state: AppState, now: float, *, following: bool = False) -> list[Action]:
        """Draw `state`; what the person did. `following`: the frame follows the engine or input,
        and views may keep their pictures until it is their turn."""
        self._use_theme(state)
        self._use_language(state)
        ui = self.ui
        at = ("attention",) if state.attention.large else ()
        wide = imgui.get_io().display_size.x / ui.theme.text
        ui.shows_list = state.layouts.shows_list(wide)
        ui.shows_inspector = state.layouts.shows_inspector(wide)
        self._turns.begin(following, self._relies_on(state), at)
        ui.now, ui.redraw_at = now, math.inf
        pointer = imgui.get_io().mouse_pos
        ui.pointer = (pointer.x, pointer.y)
        ui.before, ui.rects = ui.rects, {}
        ui.keep_sizes()
        size = imgui.get_main_viewport().size
        width, height = ui.rail_width, ui.status_height
        actions = answer_keys(state, ui)
        self.takes_typing = goes_to_input(state, ui)
        take_typed(state, ui, composing=bool(self.composition.text))
        actions += self._answer_requests(state)
        with pane("rail", 0, 0, width, size.y - height, ui):
            focus.enter(ui, "rail")
            actions += self._guard.draw("rail", rail.draw, state, ui)
            above = {"palette": draw_palette, "shortcuts": draw_shortcuts, **OVERLAYS}
            for name, draw in above.items():
                actions += self._guard.draw(name, draw, state, ui)
            edge(ui, (1, 0, 1, 1))
        actions += self._draw_middle(state, width, size.x - width, size.y - height)
        actions += self._draw_views(state)
        with pane("status", 0, size.y - height, size.x, height, ui):
            focus.enter(ui, "status")
            actions += self._guard.draw("status bar", status_bar.draw, state, ui)
            edge(ui, (0, 0, 1, 0))
        actions += self._guard.draw("notices", partial(self._draw_notices, height), state, ui)
        actions += self._keep_sizes(state)
        composing = self.composition
        actions += self._guard.draw(
            "composition", lambda _, ui: draw_composition(composing, ui), state, ui
        )
        if any(isinstance(action, ResetLayout) for action in actions):
            self.reset_layout()
        return actions

    def reset_layout(self) -> None:
        """Place every view where it was at first, from the next frame on."""
        self._build_layout = True

    def _use_theme(self, state: AppState) -> None:
        wanted = (state.theme, state.font_size, self.scale)
        if wanted != self._applied:
            if self._applied and self._applied[2] != self.scale:
                layout.rescale(self.scale / self._applied[2])
            self._applied = wanted
            self.ui.theme = make_theme(*wanted)
            apply_theme(self.ui.theme)

    def _use_language(self, state: AppState) -> None:
        if state.language != self._last_language:
            self._last_language = state.language
            use(catalogue(state.language))

    def _answer_requests(self, state: AppState) -> list[Action]:
        """Do what commands requested of the window."""
        requests, self.ui.requests = self.ui.requests, []
        shown = [view for view in VIEWS if self._is_shown(view, state)]
        leaves = _page(state) and any(what.startswith("view:") for what in requests)
        for what in requests:
            self._answer(what, state, shown)
        return [ShowLibrary(False), ShowLesson(False)] if leaves else []

    def _answer(self, what: str, state: AppState, shown: list[View]) -> None:
        ui = self.ui
        match what.partition(":"):
            case ("input", _, _):
                focus_field(ui) if state.encodes else focus_input(ui)
            case ("copy", _, _):
                if not copy(state, ui, markdown=True):
                    _copy_last_answer(state)
            case ("find", _, _):
                open_find(ui)
            case ("search", _, _):
                focus_search(ui)
            case ("palette", _, _):
                ui.show_popover("palette")
            case (("next_panel" | "previous_panel") as step, _, _):
                focus.go(ui, 1 if step == "next_panel" else -1, shown)
            case (("next_tab" | "previous_tab") as step, _, _):
                focus.turn_tab(ui, 1 if step == "next_tab" else -1, shown)
            case ("view", _, name):
                view = next(view for view in VIEWS if view.name == name)
                focus.show(ui, view) if view in shown else ui.request(what)
            case ("tab", _, name):
                imgui.set_window_focus(next(view.window for view in VIEWS if view.name == name))

    def _is_shown(self, view: View, state: AppState) -> bool:
        if _page(state):
            return False
        match view.place:
            case "left":
                return self.ui.shows_list
            case "beside":
                return state.layouts.name == "compare"
            case "upper right" | "lower right":
                return self.ui.shows_inspector
        return True

    def _draw_middle(
        self, state: AppState, left: float, width: float, height: float
    ) -> list[Action]:
        """Draw the docked views, or the page that stands in their place, where they stay docked."""
        page = _page(state)
        if not page:
            self._draw_dockspace(state, left, width, height)
            return []
        height = max(height - self.ui.notices_height, self.ui.u(40))
        with pane("host", left, 0, width, height, self.ui):
            keep = imgui.DockNodeFlags_.keep_alive_only
            imgui.dock_space(imgui.get_id(layout.DOCKSPACE), ImVec2(0, 0), keep)
            with self._ground((4, 3), STILL):
                focus.enter(self.ui, "host")
                if imgui.is_window_appearing():
                    focus.take()
                return self._guard.draw(page, PAGES[page], state, self.ui, say_failed)

    def _draw_dockspace(self, state: AppState, left: float, width: float, height: float) -> None:
        with pane("host", left, 0, width, height, self.ui):
            root = imgui.get_id(layout.DOCKSPACE)
            size = ImVec2(width, height)
            if self._build_layout:
                self._build_layout = False
                layout.build_layout(root, size, self.ui.theme.text)
                self._laid = None
            layout.hide_tabs()
            imgui.dock_space(root, ImVec2(0, 0))
            if self._missing and layout.place(root, self._missing):
                self._missing = {}
            self._use_sizes(state, width)

    def _use_sizes(self, state: AppState, width: float) -> None:
        """Apply the sizes of the layout in use, when it or what it shows has changed."""
        layouts, text = state.layouts, self.ui.theme.text
        shown = layout.Shown(self.ui.shows_list, self.ui.shows_inspector)
        laid = (layouts.name, layouts.sides.sizes, shown, round(width), text)
        if laid != self._laid and imgui.internal.find_window_by_name(VIEWS[0].window) is not None:
            done = layout.apply(layouts, text, self.scale, width, shown)
            self._laid = (
                laid if done and shown == self._shown else None
            )  # a panel comes a frame late
            self._shown = shown

    def _keep_sizes(self, state: AppState) -> list[Action]:
        """Return an action with the sizes to which a person has just dragged the panels."""
        down, cursor = imgui.is_mouse_down(0), imgui.get_mouse_cursor()
        resizes = (imgui.MouseCursor_.resize_ew, imgui.MouseCursor_.resize_ns)
        dragged, self._drags = self._drags, down and (self._drags or cursor in resizes)
        if self._drags == dragged:
            return []
        now = layout.measured(state.layouts, self.ui.theme.text, self.ui.shows_inspector)
        before, self._measured = self._measured, now
        if before is None or self._drags:
            return []
        known = state.layouts.sides.sizes
        found = layout.changed(known, before, now)
        return [] if found == known else [KeepSizes(state.layouts.name, found)]

    def _draw_views(self, state: AppState) -> list[Action]:
        actions: list[Action] = []
        ui = self.ui
        for view in VIEWS:
            if not self._is_shown(view, state):
                continue
            with ui.styled(window_padding=(0.0, 0.0)):
                shown = self._turns.open(view, ui, DOCKED)
            if shown:
                low, size = imgui.get_window_pos(), imgui.get_window_size()
                ui.rects[f"view.{view.name}"] = (low.x, low.y, low.x + size.x, low.y + size.y)
                actions += self._draw_view(view, state)
            self._mark_tab(view.name)
            self._turns.close(view, ui)
        if ui.maps is not None:
            ui.maps.asks("")
        return actions

    def _draw_view(self, view: View, state: AppState) -> list[Action]:
        """Draw a view in a child window: ground and scrollbar of the docked one are painted by its
        host, and would be gone while the view rests."""
        ui, still = self.ui, view.place in ("middle", "left", "beside")
        with self._ground(PADDING.get(view.place, (4, 4)), STILL if still else 0):
            focus.enter(ui, view.name)
            return self._guard.draw(view.name, partial(draw_view, view), state, ui, say_failed)

    @contextmanager
    def _ground(self, padding: tuple[float, float], flags: int) -> Iterator[None]:
        ui, (across, down) = self.ui, padding
        pad = (ui.u(across), ui.u(down))
        with ui.styled(window_padding=pad), ui.colored(child_bg="panel"):
            padded = imgui.ChildFlags_.always_use_window_padding | imgui.ChildFlags_.nav_flattened
            imgui.begin_child("view", ImVec2(0, 0), padded, flags)
        yield
        imgui.end_child()

    def _relies_on(self, state: AppState) -> tuple[object, ...]:
        """Return what changes every view's picture: theme, language, room, layout, textures that
        may be gone."""
        size, atlas, maps = imgui.get_io().display_size, imgui.get_io().fonts.tex_data, self.ui.maps
        textures = (atlas and atlas.unique_id, maps, maps and maps.vanished)
        shown = tuple(self._is_shown(view, state) for view in VIEWS)
        drawn = (self._applied, number(), self._build_layout, shown)
        return (*drawn, size.x, size.y, *textures)

    def _mark_tab(self, name: str) -> None:
        window: Any = imgui.internal.get_current_window()
        rect = window.dc.dock_tab_item_rect
        self.ui.rects[f"tab.{name}"] = (rect.min.x, rect.min.y, rect.max.x, rect.max.y)

    def _draw_notices(self, bottom: float, state: AppState, ui: Ui) -> list[Action]:
        """Draw notices one above the other, the newest lowest, in the place that the conversation
        or a page leaves to them. Older ones wait until there is room: the log has them all."""
        actions: list[Action] = []
        size, gap, taken = imgui.get_main_viewport().size, ui.u(2), 0.0
        place = ui.rects.get("chat.notices")
        if place is None:  # a page is shown, or the conversation lies behind another tab
            place = (ui.rail_width + gap, 0.0, size.x - ui.u(4), size.y - bottom)
        left, _, right, y = place
        wide = min(ui.u(96), right - left)
        for notice in reversed(state.notices):
            if taken >= NOTICES_SHARE * size.y:
                break
            height, done = self._draw_notice(notice, ImVec2(right, y - gap - taken), wide)
            actions += done
            taken += height + gap
        ui.notices_height = taken + gap if taken else 0.0
        return actions

    def _draw_notice(
        self, notice: Notice, corner: ImVec2, wide: float
    ) -> tuple[float, list[Action]]:
        """Draw a notice with its lower right corner at `corner`; return its height in pixels and
        actions."""
        ui, actions = self.ui, list[Action]()
        imgui.set_next_window_pos(corner, imgui.Cond_.always, ImVec2(1, 1))
        imgui.set_next_window_size_constraints(ImVec2(wide, 0), ImVec2(wide, ui.u(200)))
        flags = imgui.WindowFlags_.always_auto_resize | imgui.WindowFlags_.no_focus_on_appearing
        flags |= FIXED & ~imgui.WindowFlags_.no_bring_to_front_on_focus
        with ui.styled(window_padding=(ui.u(3), ui.u(2.5))), ui.colored(window_bg="raised"):
            imgui.begin(f"##notice.{notice.id}", None, flags)
        low, size = imgui.get_window_pos(), imgui.get_window_size()
        ui.rects[f"notice.{notice.id}"] = (low.x, low.y, low.x + size.x, low.y + size.y)
        _bring_to_front(imgui.internal.get_current_window())
        side = ui.u(6)
        right = ui.right(side)
        top = imgui.get_cursor_pos_y()
        with ui.colored(text=NOTICE_COLORS[notice.level]):
            imgui.text_unformatted(NOTICE_ICONS[notice.level])
        imgui.same_line(0, ui.u(2))
        imgui.push_text_wrap_pos(right - ui.u(2))
        imgui.text_unformatted(notice.text)
        imgui.pop_text_wrap_pos()
        name = f"notice.{notice.id}"
        if notice.undo and button(ui, f"{name}.undo", tr("Undo")):
            actions += [UndoHistory(), DismissNotice(notice.id)]
        imgui.set_cursor_pos(ImVec2(right, top - ui.u(1)))
        if icon_button(ui, f"{name}.close", ICON_CLOSE, tr("Dismiss"), side=side, style="small"):
            actions.append(DismissNotice(notice.id))
        height = imgui.get_window_height()
        imgui.end()
        return height, actions


def _page(state: AppState) -> str:
    """Return the page that stands in the place of the docked views; "" where these are shown."""
    return "lesson" if state.lesson.shown else "library" if state.library.shown else ""


def draw_view(view: View, state: AppState, ui: Ui) -> list[Action]:
    """Draw what the view shows or, with a model that has nothing for it, why it is empty."""
    return [] if draw_reason(state, ui, view.name) else view.draw(state, ui)


def _bring_to_front(notice: Any) -> None:
    """Put a notice over everything but an open popover, which is being used."""
    context: Any = imgui.get_current_context()
    popups = [popup.window for popup in context.open_popup_stack if popup.window is not None]
    if popups:
        imgui.internal.bring_window_to_display_behind(notice, popups[0])
    else:
        imgui.internal.bring_window_to_display_front(notice)


def _copy_last_answer(state: AppState) -> None:
    answers = [message for message in state.messages if message.role == "assistant"]
    if answers:
        imgui.set_clipboard_text(answers[-1].text)


class pane:  # noqa: N801 - reads as a function
    """A fixed window without padding or border, at a place."""

    def __init__(self, name: str, x: float, y: float, width: float, height: float, ui: Ui) -> None:
        self._name, self._at, self._size, self._ui = name, ImVec2(x, y), ImVec2(width, height), ui

    def __enter__(self) -> None:
        imgui.set_next_window_pos(self._at)
        imgui.set_next_window_size(self._size)
        styled = self._ui.styled(
            window_padding=(0.0, 0.0),
            window_rounding=0.0,
            window_border_size=0.0,
            window_min_size=(1.0, 1.0),
        )
        clear = imgui.WindowFlags_.no_background  # the frame is cleared to what it would be
        with styled:
            imgui.begin(f"##{self._name}", None, FIXED | clear)

    def __exit__(self, *error: object) -> None:
        imgui.end()


def edge(ui: Ui, line: tuple[int, int, int, int]) -> None:
    """Draw a hairline along a side of the current window; its ends are in shares of the size."""
    at, size, thick = imgui.get_window_pos(), imgui.get_window_size(), ui.u(0.25)
    x0, y0, x1, y1 = line
    low = ImVec2(at.x + x0 * size.x - x0 * thick, at.y + y0 * size.y)
    high = ImVec2(at.x + x1 * size.x, at.y + y1 * size.y + (0 if x0 else thick))
    imgui.get_window_draw_list().add_rect_filled(low, high, ui.color("border"))
