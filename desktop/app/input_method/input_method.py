"""Keys between the window and Dear ImGui: for a field with the focus they go to IBus first.

The daemon writes its address into a file for each display (`ibus_get_socket_path` of libibus);
fcitx5 writes the same file for its own imitation of IBus.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imgui_bundle import imgui

# isort: split
import glfw

from llm_lite.desktop.app.input_method.exchange import Exchange, Key
from llm_lite.desktop.app.input_method.messages import Composition, Connected, Lost
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.render.window import Window, end_frame_of_input

if TYPE_CHECKING:
    from llm_lite.desktop.app.input_method.daemon import Daemon


LONGEST_FILE = 4096  # bytes
MACHINE_FILES = (Path("/etc/machine-id"), Path("/var/lib/dbus/machine-id"))
OURS = ("", "ibus", "fcitx")  # names of input methods for X11 that IBus's interface replaces
AGAIN_SECONDS = 3.0  # between two searches for a daemon
REST_SECONDS = 60.0  # after one that did not answer
MOVING = 3  # frames without a field, after which there is none
MOST_LOSSES = 5  # daemons that were there and ended; after these no other is searched


@contextmanager
def instead_of_xim() -> Iterator[bool]:
    """Replace X's own input method while a window is made, if keys go to IBus by this program: it
    would bring every character twice. Compose keys stay X's. Yields True if it is replaced."""
    wanted, before = is_wanted(os.environ), os.environ.get("XMODIFIERS")
    if wanted:
        os.environ["XMODIFIERS"] = "@im=none"
    try:
        yield wanted
    finally:
        if wanted and before is None:
            del os.environ["XMODIFIERS"]
        elif wanted and before is not None:
            os.environ["XMODIFIERS"] = before


class ImguiField:
    """The field that Dear ImGui has given the focus. Its GLFW backend stays in charge of all that
    no input method has held back."""

    def key(self, key: int, scancode: int, action: int, mods: int) -> None:
        from llm_lite.desktop.app.input_method.keys import feed

        feed(key, scancode, action, mods)

    def character(self, code: int) -> None:
        imgui.get_io().add_input_character(code)

    def text(self, text: str) -> None:
        imgui.get_io().add_input_characters_utf8(text)

    def symbol(self, keyval: int, state: int) -> None:
        from llm_lite.desktop.app.input_method import keys

        mods = sum(mod for mod, mask in keys.MASKS if state & mask)
        if keyval in keys.KEYS_OF:
            for action in (glfw.PRESS, glfw.RELEASE):
                self.key(keys.KEYS_OF[keyval], 0, action, mods)
        elif not mods & (glfw.MOD_CONTROL | glfw.MOD_ALT | glfw.MOD_SUPER):
            self.text(keys.character_of(keyval))

    def separate(self) -> None:
        end_frame_of_input()


class InputMethod:
    """`attach` it to a window that feeds Dear ImGui; then `poll` before each frame and `update`
    after it. All on the main thread. `note` gets a sentence about a daemon that fails."""

    def __init__(self, window: Window, note: Callable[[str], None]) -> None:
        self._window, self._note = window, note
        self._exchange = Exchange(ImguiField())
        self._daemon: Daemon | None = None
        self._keyboard: Any = None
        self._retry_at = 0.0
        self._losses = 0
        self._without = MOVING  # frames in a row in which no field took text
        self._address = 0
        self._callbacks: list[Any] = []
        self._focused = True  # the window; a callback reports changes

    @property
    def composition(self) -> Composition:
        return self._exchange.composition

    def attach(self) -> None:
        """Install callbacks after Dear ImGui's own, which they call. By GLFW's own functions: the
        package would free the callback that was there before, which Dear ImGui calls."""
        handle = self._window.handle
        self._address = ctypes.cast(handle, ctypes.c_void_p).value or 0
        glfw.set_input_mode(handle, glfw.LOCK_KEY_MODS, glfw.TRUE)
        package: Any = glfw
        library = package._glfw
        for kind, install, act in (
            (package._GLFWkeyfun, library.glfwSetKeyCallback, self._on_key),
            (package._GLFWcharfun, library.glfwSetCharCallback, self._on_character),
            (package._GLFWmousebuttonfun, library.glfwSetMouseButtonCallback, self._on_button),
            (package._GLFWwindowfocusfun, library.glfwSetWindowFocusCallback, self._on_focus),
        ):
            callback = kind(act)
            self._callbacks.append(callback)  # held as long as GLFW may call it
            install(handle, callback)

    def _on_key(self, _window: Any, key: int, scancode: int, action: int, mods: int) -> None:
        question = None
        if self._exchange.sends_keys:
            question = self._keyboard.read(key, scancode, action, mods)
        one = Key(key, scancode, action, mods)
        if not self._exchange.type(one, question, time.monotonic()):
            imgui.backends.glfw_key_callback(self._address, key, scancode, action, mods)

    def _on_character(self, _window: Any, code: int) -> None:
        if not self._exchange.write(code):
            imgui.backends.glfw_char_callback(self._address, code)

    def _on_button(self, _window: Any, button: int, action: int, mods: int) -> None:
        def press() -> None:
            if action == glfw.PRESS:
                self._exchange.leave()
            imgui.backends.glfw_mouse_button_callback(self._address, button, action, mods)

        self._exchange.after_keys(press)

    def _on_focus(self, _window: Any, focused: int) -> None:
        self._focused = bool(focused)
        if not focused:
            self._exchange.focus(False)
        imgui.backends.glfw_window_focus_callback(self._address, focused)

    def poll(self, now: float) -> bool:
        """Handle what the daemon has sent; return True if that changes the picture."""
        before = self.composition
        for news in self._daemon.take() if self._daemon is not None else ():
            if isinstance(news, Connected) and self._daemon is not None:
                self._exchange.connect(self._daemon)
            elif isinstance(news, Lost):
                self._drop_daemon(news.reason, now)
            self._exchange.handle(news, now)
        self._exchange.check(now)
        if self._exchange.gives_up(now):
            self._drop_daemon(tr("it did not answer in time"), now + REST_SECONDS)
            self._exchange.end()
        return self.composition != before

    def _drop_daemon(self, reason: str, now: float) -> None:
        self._daemon = None
        self._retry_at = now + AGAIN_SECONDS
        if reason:
            self._losses += 1
            words = tr("The input method (IBus) stopped: {reason}. Keys are typed as they are.")
            self._note(words.format(reason=reason))

    def wait(self, now: float, longest: float) -> float:
        """Return the seconds that the loop may sleep, at most `longest`."""
        return min(longest, max(0.0, self._exchange.wait(now)))

    def update(self, now: float, *, goes_to_input: bool = False) -> None:
        """Update focus and caret after a frame: which field takes text, and where. `goes_to_input`:
        what is typed without a field opens the chat's input, from its first key on."""
        if not self._address:
            return
        context: Any = imgui.get_current_context()
        data = context.platform_ime_data
        takes = bool(imgui.get_io().want_text_input)
        self._without = 0 if takes or goes_to_input else self._without + 1
        # A shortcut that opens a field takes the focus from one a frame before the other has it.
        # What is composed meanwhile was typed after the shortcut, and goes on in the new field.
        inside = self._without < MOVING and self._focused
        self._exchange.focus(inside)
        if inside and self._daemon is None:
            self._connect(now)
        if takes and inside and data.want_visible:
            self._place(data)

    def _place(self, caret: Any) -> None:
        x, y = round(caret.input_pos.x), round(caret.input_pos.y)
        corner = self._window.position
        height = round(caret.input_line_height * 1.3)  # candidates do not touch the underline
        if corner is None:
            self._exchange.place((x, y, 1, height), "SetCursorLocationRelative")
        else:
            self._exchange.place((corner[0] + x, corner[1] + y, 1, height))

    def _connect(self, now: float) -> None:
        if now < self._retry_at or self._losses >= MOST_LOSSES:
            return
        self._retry_at = now + AGAIN_SECONDS
        # Here, not above: no part of the first frame
        from llm_lite.desktop.app.input_method.daemon import Daemon
        from llm_lite.desktop.app.input_method.keys import Keyboard

        self._keyboard = self._keyboard or Keyboard()
        self._daemon = Daemon(lambda: find_address(os.environ), self._window.wake)

    def close(self) -> None:
        if self._daemon is not None:
            self._daemon.close()


def named_method(environment: Mapping[str, str]) -> str:
    """Return the input method for X11 that the session names, as `ibus` in
    `XMODIFIERS=@im=ibus`."""
    for part in environment.get("XMODIFIERS", "").split("@"):
        if part.startswith("im="):
            return part.removeprefix("im=").strip()
    return ""


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if this program sends keys to IBus itself, rather than by the window system."""
    if sys.platform != "linux" or named_method(environment) not in OURS:
        return False
    return named_method(environment) == "ibus" or find_address(environment) is not None


def find_address(environment: Mapping[str, str]) -> str | None:
    """Return the D-Bus address of the daemon of this display; None where none runs."""
    if given := environment.get("IBUS_ADDRESS"):
        return given
    for path in _files(environment):
        try:
            with path.open("rb") as file:
                text = file.read(LONGEST_FILE).decode("utf-8", "replace")
        except OSError:
            continue
        lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        if (address := lines.get("IBUS_ADDRESS")) and _lives(lines.get("IBUS_DAEMON_PID", "")):
            return address
    return None


def _files(environment: Mapping[str, str]) -> list[Path]:
    if given := environment.get("IBUS_ADDRESS_FILE"):
        return [Path(given)]
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "/")) / ".config")
    folder, machine = Path(home) / "ibus" / "bus", _machine()
    names = []
    if wayland := environment.get("WAYLAND_DISPLAY"):
        names.append(f"{machine}-unix-{wayland}")
    host, _, number = environment.get("DISPLAY", ":0").rpartition(":")
    names.append(f"{machine}-{host or 'unix'}-{number.partition('.')[0]}")
    return [folder / name for name in names]


def _machine() -> str:
    for path in MACHINE_FILES:
        try:
            return path.read_text("utf-8", "replace").strip()[:64]
        except OSError:
            continue
    return "machine-id"


def _lives(process: str) -> bool:
    """Return True if the daemon that wrote the file runs; a file without a process id is
    believed."""
    if not process.strip().isdecimal():
        return True
    return Path("/proc", process.strip()).exists() or not Path("/proc/self").exists()
