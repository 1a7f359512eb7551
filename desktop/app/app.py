"""The desktop: start-up, the loop, and the way out.

The window, its device and the first frame come first; the engine is imported while that frame is
on the screen. The loop sleeps until there is input, an event of the engine, or a time to draw.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imgui_bundle import imgui

from llm_lite.core.errors import DeviceLostError
from llm_lite.core.gpu.device import Device
from llm_lite.core.messages import EngineOptions, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.app.choosing import FileChoice
from llm_lite.desktop.app.input_method.input_method import InputMethod, instead_of_xim
from llm_lite.desktop.app.interface import Interface, create_context, destroy_context
from llm_lite.desktop.app.layout_text import is_layout
from llm_lite.desktop.app.pacing import FRAME, SOFTWARE_FRAME, Pacer
from llm_lite.desktop.app.program import Lists, Program, lists, open_first_model, with_lists
from llm_lite.desktop.app.screen import Screen
from llm_lite.desktop.app.settings import (
    SettingsStore,
    history_file,
    restore,
    settings_path,
    variants_folder,
)
from llm_lite.desktop.features.presets.host import PresetFiles, presets_folder
from llm_lite.desktop.features.presets.model import ListPresets
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import TellSystemTheme
from llm_lite.desktop.features.program.settings import WindowPlace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts.host import PromptFiles, prompts_folder
from llm_lite.desktop.features.sampling.model import with_asked
from llm_lite.desktop.features.steer.host import InterventionFiles
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.render.window import Geometry, Window, has_input
from llm_lite.desktop.system_theme import SystemTheme
from llm_lite.desktop.widgets.fonts import load_fonts

if TYPE_CHECKING:
    from llm_lite.desktop.features.history.host import HistoryHost


class Starter:
    """Makes the engine on a thread. `wake` is the engine's, and is called once more when `take` has
    something. Where `history` is None, conversations are not kept."""

    def __init__(
        self, device: Device, wake: Callable[[], None], variants: Path, history: Path | None = None
    ) -> None:
        self._history = history
        self._found_history: HistoryHost | None = None
        self._arguments = (device, wake, variants)
        self._made: tuple[Any, Lists] | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="starter", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._begin_history()
            from llm_lite.core.engine.engine import Engine

            self._made = (Engine(*self._arguments), lists())
        except BaseException as error:  # raised where `take` is called
            self._error = error
        self._arguments[1]()

    def _begin_history(self) -> None:
        if self._history is None:
            return
        from llm_lite.desktop.features.history.host import HistoryHost

        self._found_history = HistoryHost(self._history, self._arguments[1])
        self._arguments[1]()

    def take_history(self) -> HistoryHost | None:
        """Return the history, once, when it has been opened; that is before the engine."""
        found, self._found_history = self._found_history, None
        return found

    def take(self) -> tuple[Any, Lists] | None:
        """Return engine and lists, once, when they have been made. Raises what kept them from
        it."""
        if self._error is not None:
            raise self._error
        made, self._made = self._made, None
        return made

    @property
    def engine(self) -> Any:
        """Return the engine if it was made and not taken, else None."""
        return self._made[0] if self._made is not None else None

    def wait(self, seconds: float) -> bool:
        """Wait for the thread at most `seconds`; return True if it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


TITLE = "llm-lite"
Complain = Callable[[str], None]
# Seconds that a thread may keep Python to itself while another one waits: with Python's own 0.005
# the engine loses the time of a token or two to every frame.
SWITCH = 0.0005
LONGEST_SLEEP = 0.5  # seconds; Ctrl-C is noticed between two sleeps
SAVE_PERIOD = 0.25  # seconds between two checks for settings that changed
DIALOG_PERIOD = 0.1  # seconds between two checks of an open file dialog
REBUILD_SECONDS = 10.0  # a device lost again within this time is not tried a third time
LEAST_SAVING = 0.2  # seconds for the history, where the engine took all of these:
CLOSE_SECONDS = 1.2  # for the engine to end; the program is gone in under two


def open_window(
    source: str | None, options: EngineOptions, sampling: SamplingOptions, complain: Complain
) -> bool:
    """Open the window with the model `source` and stay until it is closed. `complain` gets what a
    closing window can no longer show.

    False where the engine did not end in time: its thread is still there. Raises DeviceError when
    there is no display, or no device that can draw to it.
    """
    store = SettingsStore(settings_path())
    state = restore(store.settings, AppState())
    state = with_asked(state, options=options, sampling=sampling)
    sys.setswitchinterval(SWITCH)
    app = App(store, state, complain, history_file())
    try:
        app.start(source)
        app.loop()
    finally:
        ended = app.close()
    return ended


class App:
    """The program in its window. It keeps conversations in the file `history`; None: nowhere.
    Raises DeviceError when there is no display, or no device that can draw to it."""

    def __init__(
        self,
        store: SettingsStore,
        state: AppState,
        complain: Complain = lambda problem: None,
        history: Path | None = None,
    ) -> None:
        self._store = store
        self._history = history
        self._complain_outside = complain
        self.engine: Any = None
        self._starter: Starter | None = None  # until there is an engine
        self._system_theme: SystemTheme | None = None  # once the first frame is there
        self._rebuilt_at = -math.inf
        self._lost: list[Device] = []
        self._title = TITLE
        self._saved_at = -math.inf
        self._pacer = Pacer()
        self._listening = True  # to the engine: its news end the sleep
        with instead_of_xim() as ours:
            self.window = Window(TITLE, _geometry(store.settings.window))
        self._input_method = InputMethod(self.window, lambda text: self.program.note(text))
        try:
            self.device = self._begun_with = self._open_device()
            self._context = create_context()
            self.window.connect_imgui()
            if ours:
                self._input_method.attach()
            faces = load_fonts(self.window.ui_scale).faces
            interface = Interface(faces, self.window.ui_scale, store.settings)
            self.screen = Screen.make(self.device, self.window)
        except BaseException:
            self.window.close()
            raise
        self.program = Program(state, interface)
        self._presets = PresetFiles(presets_folder())
        self.program.use("presets", self._presets)
        self.program.use("steer", InterventionFiles())
        self.program.use("prompts", PromptFiles(prompts_folder()))
        for host in self.program.hosts.values():
            host.wake = self._wake
        self.program.hosts["serving"].wake = self.window.wake
        self._files = FileChoice(self.program, lambda: self._pacer.on_input(time.monotonic()))
        self.program.on_choose_file = self._files.choose_model
        self.program.on_choose_attachments = self._files.choose_attachments
        self.program.on_choose_import = self._files.choose_import
        self.program.on_choose_conversations = self._files.choose_conversations
        self.program.on_choose_path = self._files.choose_path
        self.window.on_drop = self._files.drop
        self.window.on_refresh = self._refresh
        self.window.on_problem = lambda text: self.program.note(translated(text))

    def start(self, source: str | None) -> None:
        """Draw the first frame; the engine with its model follows while the window answers."""
        for problem in self._store.problems:
            self.program.warn(problem)
        open_first_model(self.program, source)
        self._draw()
        # A folder is read: not before the first frame.
        self.program.do(ListPresets(self._presets.names(), ""))
        self._system_theme = SystemTheme(self.window.wake)
        self._begin_tools()
        self._begin_library()
        self._begin_remote()
        self._starter = Starter(self.device, self._wake, variants_folder(), self._history)
        self._pacer.on_input(time.monotonic())

    def _begin_tools(self) -> None:
        from llm_lite.desktop.features.tools.host import ToolHost, tools_file

        self.program.use_tools(ToolHost(tools_file(), self.window.wake))

    def _begin_library(self) -> None:
        from llm_lite.desktop.features.library.host import LibraryHost
        from llm_lite.desktop.features.library.host_services import CoreServices

        library = LibraryHost(CoreServices(lambda: self.device.info), self.window.wake)
        self.program.use("library", library)
        library.begin()

    def _begin_remote(self) -> None:
        from llm_lite.desktop.features.remote.host import RemoteHost

        self.program.use("remote", RemoteHost(self.window.wake))

    def _take_engine(self) -> None:
        """Take the engine once it has been made, and send it the commands that waited."""
        if self._starter is not None and (history := self._starter.take_history()) is not None:
            self.program.use("history", history)
        made = self._starter.take() if self._starter is not None else None
        if made is None:
            return
        self._starter, (self.engine, found) = None, made
        if self._begun_with is not self.device:
            self.engine.device_lost(self.device)
        self.program.state = with_lists(self.program.state, found)
        self.program.start(self.engine)
        self._pacer.on_input(time.monotonic())
        # The program is whole. Collecting garbage, as when a model is unloaded, need not go through
        # it again: that would hold up a frame for 40 ms.
        gc.freeze()

    def loop(self) -> None:
        """Run until the window is closed."""
        while not self.window.should_close:
            self.turn()

    def turn(self) -> None:
        """Sleep until something happens, or for LONGEST_SLEEP; draw if there is something new."""
        self._sleep()
        self._listening = True
        self._poll()
        if self._pacer.take(time.monotonic()):
            self._draw(following=self._pacer.following)
        self._listening = not self._pacer.expects()

    def _wake(self) -> None:
        """Wake the window for news, on the engine's thread; a frame that is due anyway will show
        them."""
        if self._listening:
            self.window.wake()

    def _sleep(self) -> None:
        longest = DIALOG_PERIOD if self._files.open else LONGEST_SLEEP
        now = time.monotonic()
        seconds = self._pacer.wait(now, self._input_method.wait(now, longest))
        if seconds > 0:
            self.window.wait_events(seconds)
        else:
            self.window.poll_events()

    def _poll(self) -> None:
        """Handle what has happened since the last turn: input, events, an answered dialog,
        settings."""
        now = time.monotonic()
        if self.engine is None:
            self._take_engine()
        composes = self._input_method.poll(now)
        if self.window.drawable and (has_input() or composes):
            self._pacer.on_input(now)
        if self.program.update():
            self._pacer.on_change(now)
            self._name_window()
        self._files.poll()
        self._poll_theme()
        self._save(now)

    def _poll_theme(self) -> None:
        if self._system_theme is None:
            return
        self._system_theme.watch(self.program.state.appearance == "system")
        theme = self._system_theme.take()
        if theme is not None:
            self.program.do(TellSystemTheme(theme))
            self._pacer.on_input(time.monotonic())

    def _name_window(self) -> None:
        model = self.program.state.model
        title = f"{model.name} – {TITLE}" if model else TITLE
        if title != self._title:
            self._title = title
            self.window.set_title(title)

    def _draw(self, *, following: bool = False) -> None:
        interface = self.program.interface
        interface.scale = self.window.ui_scale
        interface.composition = self._input_method.composition
        try:
            acted = self._picture(following)
        except DeviceLostError as error:
            self._rebuild(error)
            return
        now = time.monotonic()
        if acted:
            self._pacer.on_input(now)
        self._input_method.update(now, goes_to_input=interface.takes_typing)
        ends = (notice.until for notice in self.program.state.notices)
        self._pacer.again(interface.ui.redraw_at, *ends)

    def _picture(self, following: bool) -> list[Action]:
        """Draw a frame, beside which the engine leaves a core free; return what the person did in
        it."""
        if self.engine is None:
            return self.screen.show(self.program, following=following)
        self.engine.frame(True)
        try:
            return self.screen.show(self.program, following=following)
        finally:
            self.engine.frame(False)

    def _refresh(self) -> None:
        """Draw at once, as the window has another size or was uncovered, and some frames more to
        settle."""
        self._draw()
        self._pacer.on_input(time.monotonic())

    def _rebuild(self, error: DeviceLostError) -> None:
        """Open a device again after a loss, once a while; conversation and engine stay."""
        now = time.monotonic()
        if now - self._rebuilt_at < REBUILD_SECONDS:
            raise error
        self._rebuilt_at = now
        self._close_screen()
        if self.engine is not None:
            self.engine.device_lost(None)
        self._lost.append(self.device)  # the engine may still hold buffers of it
        self.device = self._open_device()
        self.screen = Screen.make(self.device, self.window)
        if self.engine is not None:
            self.engine.device_lost(self.device)
        self.program.warn(
            tr("The Vulkan device was lost and opened again: {error}").format(error=error)
        )
        self._pacer.on_input(now)

    def _open_device(self) -> Device:
        device = Device.open(window_extensions=self.window.extensions)
        self.window.attach(device)
        self._pacer.frame = SOFTWARE_FRAME if device.info.kind == "software" else FRAME
        return device

    def _save(self, now: float, at_once: bool = False) -> None:
        if now - self._saved_at < SAVE_PERIOD and not at_once:
            return
        self._saved_at = now
        state, place = self.program.state, self._store.settings.window
        place = _place(self.window.geometry(), place)
        io = imgui.get_io()
        layout = None
        if at_once or io.want_save_ini_settings:
            layout, io.want_save_ini_settings = imgui.save_ini_settings_to_memory(), False
            if not is_layout(layout):  # a window that was destroyed has no size
                layout = None
        self._store.update(state, place, now, self._complain, layout=layout, at_once=at_once)

    def _complain(self, problem: str) -> None:
        self.program.warn(problem)
        self._complain_outside(fit_line(problem))

    def close(self) -> bool:
        """Save, stop the engine, release everything; return False, at once, if the engine hangs."""
        self._save(time.monotonic(), at_once=True)
        self._files.close()
        if self._system_theme is not None:
            self._system_theme.close()
        self.program.close_hosts()
        self._input_method.close()
        if not self._close_engine(CLOSE_SECONDS):
            return False
        self._close_screen()
        self.window.disconnect_imgui()
        destroy_context(self._context)
        for device in (*self._lost, self.device):
            device.close()
        self.window.close()
        return True

    def _close_engine(self, seconds: float) -> bool:
        """Save the conversation and end the engine; return False if it still runs after
        `seconds`."""
        end = time.monotonic() + seconds
        history = self.program.history
        if history is None and self._starter is not None:
            history = self._starter.take_history()
        if history is not None:
            history.end()
            self.program.keep()
        ended = self._end_engine(end)
        self.program.take_last_events()
        if history is not None and not history.finish(max(LEAST_SAVING, end - time.monotonic())):
            self._complain_outside(tr("The end of the conversation could not be saved."))
        return ended

    def _end_engine(self, end: float) -> bool:
        seconds = end - time.monotonic()
        if self._starter is not None:
            if not self._starter.wait(seconds):
                return False
            self.engine = self._starter.engine
        if self.engine is None:
            return True
        return bool(self.engine.close(max(0.0, end - time.monotonic())))

    def _close_screen(self) -> None:
        self.screen.close()
        self.window.detach()


def _geometry(place: WindowPlace) -> Geometry:
    position = None if place.x is None or place.y is None else (place.x, place.y)
    return Geometry(place.width, place.height, position, place.maximized)


def _place(geometry: Geometry, old: WindowPlace) -> WindowPlace:
    """Return what to remember; a maximized window keeps the size it had before."""
    if geometry.maximized:
        return replace(old, maximized=True)
    x, y = geometry.position or (None, None)
    return WindowPlace(x, y, geometry.width, geometry.height, False)
