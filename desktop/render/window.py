"""The window: GLFW without a client API, its input given to Dear ImGui, its swapchain."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from imgui_bundle import imgui  # before glfw: it says which library both must share
from msgspec import Struct
from numpy.typing import NDArray

# isort: split
import glfw

from llm_lite.core.assets import ASSETS
from llm_lite.core.errors import DeviceError
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.desktop.render.clipboard import Clipboard, Reading
from llm_lite.desktop.render.png import read_png
from llm_lite.desktop.render.surface import SurfaceFrame
from llm_lite.desktop.render.swapchain import Presenter
from llm_lite.desktop.render.x11_clipboard import PATIENCE
from llm_lite.desktop.render.x11_errors import ErrorHandler

ICON_FILE = ASSETS / "icon" / "llm-lite.png"
MIN_SIZE = (960, 540)  # the conversation keeps a column that can be read
WITHOUT_A_WINDOW = "`llm-lite chat` talks in the terminal."
MODIFIERS = range(glfw.KEY_LEFT_SHIFT, glfw.KEY_RIGHT_SUPER + 1)


class Geometry(Struct, frozen=True):
    """A window's size in design pixels (a screen of scale 2 shows 2 for each) and its position in
    screen coordinates; None lets the system choose."""

    width: int = 1280
    height: int = 800
    position: tuple[int, int] | None = None
    maximized: bool = False


class _Measured(Struct, frozen=True):
    """Answers of the window system about the window."""

    size: tuple[int, int]  # screen coordinates
    pixels: tuple[int, int]
    content_scale: float
    position: tuple[int, int] | None  # None: clients do not know where they are
    iconified: bool
    maximized: bool


class Window:
    """One window. Made first, so that the device can be opened with `extensions`, then
    `attach(device)`; `detach` and another `attach` move it to a new device.

    All methods but `wake` belong to the main thread. `on_drop` receives files dropped on the
    window; `on_refresh` is called when the system wants a picture while it holds the event loop
    (resizing by hand on some systems), `on_problem` what the X server refused. Raises DeviceError
    when there is no display.
    """

    def __init__(self, title: str, geometry: Geometry | None = None) -> None:
        self._errors: list[str] = []
        self._presenter: Presenter | None = None
        self._imgui_connected = False
        self._known: _Measured | None = None
        self._news = True  # of the window, since the last frame
        self._cursor: Any = None  # that Dear ImGui wanted then
        self._frame_at = time.perf_counter()
        self._shown = False
        self.on_drop: Callable[[list[Path]], None] | None = None
        self.on_refresh: Callable[[], None] | None = None
        self.on_problem: Callable[[str], None] | None = None
        self._x_errors: ErrorHandler | None = None
        self._clipboard: Clipboard | None = None
        self._start_glfw()
        try:
            self.handle = self._create(title, geometry or Geometry())
        except BaseException:
            self._end_glfw()
            raise
        self._set_callbacks()
        self._set_icon()

    def _start_glfw(self) -> None:
        def remember(_code: int, description: Any) -> None:  # bytes, whatever the stubs say
            self._errors.append(bytes(description).decode("utf-8", "replace"))

        glfw.set_error_callback(remember)
        if not glfw.init():
            reason = self._last_error()
            raise DeviceError(f"No window can be opened: {reason}. {WITHOUT_A_WINDOW}")
        if _platform_is("PLATFORM_X11"):
            self._x_errors = ErrorHandler(self._report_problem)
        if not glfw.vulkan_supported():
            self._end_glfw()
            raise DeviceError(
                "No window can be opened: the Vulkan loader or a driver for this display is not "
                f"installed. {WITHOUT_A_WINDOW}"
            )

    def _end_glfw(self) -> None:
        """End GLFW. Under X11 it hands its clipboard to the manager of clipboards, if there is one,
        and waits for that without an end; this does not."""
        if self._x_errors is None:
            glfw.terminate()
            return
        ending = threading.Thread(target=glfw.terminate, daemon=True)
        ending.start()
        ending.join(PATIENCE)
        if not ending.is_alive():
            self._x_errors.close()

    def _report_problem(self, text: str) -> None:
        if self.on_problem is not None:
            self.on_problem(text)

    def _last_error(self) -> str:
        return self._errors[-1] if self._errors else "the window system gave no reason"

    def _create(self, title: str, geometry: Geometry) -> Any:
        glfw.window_hint(glfw.CLIENT_API, glfw.NO_API)
        glfw.window_hint(glfw.VISIBLE, glfw.FALSE)  # shown with its first frame
        glfw.window_hint(glfw.SCALE_TO_MONITOR, glfw.TRUE)
        glfw.window_hint(glfw.MAXIMIZED, glfw.TRUE if geometry.maximized else glfw.FALSE)
        handle = glfw.create_window(geometry.width, geometry.height, title, None, None)
        if not handle:
            raise DeviceError(f"No window can be opened: {self._last_error()}.")
        glfw.set_window_size_limits(handle, *MIN_SIZE, glfw.DONT_CARE, glfw.DONT_CARE)
        if geometry.position is not None and _on_a_monitor(geometry.position):
            glfw.set_window_pos(handle, *geometry.position)
        return handle

    def _set_callbacks(self) -> None:
        def refresh(_window: Any) -> None:
            if self.on_refresh is not None:
                self.on_refresh()

        def key(_window: Any, key: int, _scancode: int, action: int, _mods: int) -> None:
            if key in MODIFIERS and action == glfw.RELEASE:
                end_frame_of_input()

        self._receive_drops()
        glfw.set_key_callback(self.handle, key)  # before Dear ImGui's, which calls it first
        glfw.set_window_refresh_callback(self.handle, refresh)
        for changes in (
            glfw.set_window_size_callback,
            glfw.set_framebuffer_size_callback,
            glfw.set_window_content_scale_callback,
            glfw.set_window_pos_callback,
            glfw.set_window_iconify_callback,
            glfw.set_window_maximize_callback,
        ):
            changes(self.handle, self._forget)

    def _receive_drops(self) -> None:
        """Receive dropped files by GLFW's own function: the package's decodes names of files as
        UTF-8, which they need not be."""

        def drop(_window: Any, count: int, names: Any) -> None:
            if self.on_drop is not None:
                self.on_drop([Path(os.fsdecode(names[n])) for n in range(count)])

        package: Any = glfw
        self._drop = package._GLFWdropfun(drop)  # held as long as GLFW may call it
        package._glfw.glfwSetDropCallback(self.handle, self._drop)

    def _forget(self, *_: Any) -> None:
        self._known, self._news = None, True

    @property
    def _measured(self) -> _Measured:
        """Return the window system's answers, asked again after a change only: on X11 each one
        takes the server's time."""
        if self._known is None:
            self._known = self._measure()
        return self._known

    def _measure(self) -> _Measured:
        hidden = _platform_is("PLATFORM_WAYLAND")
        return _Measured(
            size=glfw.get_window_size(self.handle),
            pixels=glfw.get_framebuffer_size(self.handle),
            content_scale=float(glfw.get_window_content_scale(self.handle)[0]),
            position=None if hidden else glfw.get_window_pos(self.handle),
            iconified=bool(glfw.get_window_attrib(self.handle, glfw.ICONIFIED)),
            maximized=bool(glfw.get_window_attrib(self.handle, glfw.MAXIMIZED)),
        )

    def _set_icon(self) -> None:
        if _platform_is("PLATFORM_WAYLAND", "PLATFORM_COCOA"):
            return  # these take the icon from the desktop entry or the bundle
        full = read_png(ICON_FILE)  # 256 pixels; glfw copies texel by texel, so only small ones
        sizes = [_shrunk(full, step) for step in (4, 8, 16)]
        images: list[Any] = [_glfw_image(pixels) for pixels in sizes]
        glfw.set_window_icon(self.handle, len(images), images)

    @property
    def extensions(self) -> tuple[str, ...]:
        """List the instance extensions that the device must be opened with."""
        return tuple(glfw.get_required_instance_extensions())

    def attach(self, device: Device) -> None:
        """Use `device` to present. Raise DeviceError when it cannot show this window."""
        self._presenter = Presenter(device, lambda: self._make_surface(device))
        self.color_format: int = self._presenter.color_format

    def _make_surface(self, device: Device) -> Any:
        surface = vk.ffi.new("VkSurfaceKHR*")
        result = glfw.create_window_surface(device.instance, self.handle, None, surface)
        if result != vk.VK_SUCCESS:
            raise DeviceError(f"The window cannot be drawn to: Vulkan result {result}.")
        return surface[0]

    def detach(self) -> None:
        """Give up the device's objects, before the device is closed."""
        if self._presenter is not None:
            presenter, self._presenter = self._presenter, None
            presenter.close()

    def connect_imgui(self) -> None:
        """Feed keyboard, mouse, clipboard and cursors into the current ImGui context."""
        address = ctypes.cast(self.handle, ctypes.c_void_p).value or 0
        self._imgui_connected = bool(imgui.backends.glfw_init_for_vulkan(address, True))
        x11, wayland = _platform_is("PLATFORM_X11"), _platform_is("PLATFORM_WAYLAND")
        how: Reading = "x11" if x11 else "thread" if wayland else "plain"
        clipboard = self._clipboard = Clipboard(self.handle, self._report_problem, how)
        imgui.get_platform_io().platform_get_clipboard_text_fn = lambda _context: clipboard.text()

    def disconnect_imgui(self) -> None:
        if self._clipboard is not None:
            self._clipboard.close()
            self._clipboard = None
        if self._imgui_connected:
            imgui.backends.glfw_shutdown()
            self._imgui_connected = False

    @property
    def framebuffer_size(self) -> tuple[int, int]:
        return self._measured.pixels

    @property
    def position(self) -> tuple[int, int] | None:
        """Return the content's corner on the screen; None where the system does not report it."""
        return self._measured.position

    @property
    def ui_scale(self) -> float:
        """Return the display pixels of the interface per design pixel: the part of the screen's
        scale that window coordinates do not already hide (all of it on X11 and Windows, none on
        macOS)."""
        known = self._measured
        window, pixels = known.size[0], known.pixels[0]
        hidden = pixels / window if window and pixels else 1.0
        return known.content_scale / hidden if known.content_scale else 1.0

    @property
    def drawable(self) -> bool:
        known = self._measured
        return self._presenter is not None and 0 not in known.pixels and not known.iconified

    @property
    def should_close(self) -> bool:
        return bool(glfw.window_should_close(self.handle))

    @should_close.setter
    def should_close(self, value: bool) -> None:
        glfw.set_window_should_close(self.handle, value)

    @property
    def swapchains(self) -> int:
        """How many swapchains this window has had on its present device."""
        return self._presenter.recreated if self._presenter is not None else 0

    def geometry(self) -> Geometry:
        """Return the place and size to remember for the next start."""
        scale, known = self.ui_scale, self._measured  # GLFW multiplies by it when a window is made
        width, height = (round(side / scale) for side in known.size)
        return Geometry(width, height, known.position, known.maximized)

    def set_title(self, title: str) -> None:
        glfw.set_window_title(self.handle, title)

    def poll_events(self) -> None:
        glfw.poll_events()

    def wait_events(self, timeout_s: float | None = None) -> None:
        """Sleep until there is input, `wake` is called, or the time is over."""
        if timeout_s is None:
            glfw.wait_events()
        else:
            glfw.wait_events_timeout(max(timeout_s, 1e-4))

    def wake(self) -> None:
        """End a `wait_events` early; from any thread."""
        glfw.post_empty_event()

    def new_frame(self) -> None:
        """Tell Dear ImGui of the window and the time. Its own part asks the window system a dozen
        questions, whose answers are the same until something happens."""
        cursor, now = imgui.get_mouse_cursor(), time.perf_counter()
        if self._news or cursor != self._cursor or has_input():
            imgui.backends.glfw_new_frame()
        self._news, self._cursor = False, cursor
        imgui.get_io().delta_time = max(now - self._frame_at, 1e-6)
        self._frame_at = now

    def begin_frame(self) -> SurfaceFrame | None:
        if self._presenter is None:
            return None
        return self._presenter.begin(self.framebuffer_size)

    def end_frame(self, frame: SurfaceFrame, value: int) -> None:
        assert self._presenter is not None
        self._presenter.end(frame, value)
        if not self._shown:
            self._shown = True
            glfw.show_window(self.handle)

    def close(self) -> None:
        """Close the window; `detach` and `disconnect_imgui` included. Idempotent."""
        if self.handle is None:
            return
        try:
            self.detach()
        finally:
            self.disconnect_imgui()
            glfw.destroy_window(self.handle)
            self.handle = None
            self._end_glfw()


def has_input() -> bool:
    """Return True if Dear ImGui has received input since the last frame."""
    return len(imgui.get_current_context().input_events_queue) > 0


def end_frame_of_input() -> None:
    """Let what follows in Dear ImGui's input queue wait for the next frame.

    Dear ImGui knows modifiers as they are at the end of a frame's input: in a slow frame that saw
    Enter go down and then Shift go up, Shift+Enter would be a mere Enter. A key that changes twice
    ends a frame's input, so one that no keyboard here has does.
    """
    if imgui.get_current_context() is None:
        return
    if has_input():
        imgui.get_io().add_key_event(imgui.Key.f24, True)
        imgui.get_io().add_key_event(imgui.Key.f24, False)


def _platform_is(*names: str) -> bool:
    """Return True if GLFW runs on one of these platforms (constants of GLFW 3.4 and later)."""
    get = getattr(glfw, "get_platform", None)
    return get is not None and get() in {getattr(glfw, name, None) for name in names}


def _on_a_monitor(position: tuple[int, int]) -> bool:
    """Return True if the title bar would be reachable."""
    for monitor in glfw.get_monitors():
        x, y, width, height = glfw.get_monitor_workarea(monitor)
        if x <= position[0] + 40 < x + width and y <= position[1] + 10 < y + height:
            return True
    return False


def _shrunk(pixels: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
    """Return the means of step x step blocks, uint8 [h / step, w / step, 4]."""
    height, width = pixels.shape[0] // step, pixels.shape[1] // step
    blocks = pixels[: height * step, : width * step].reshape(height, step, width, step, 4)
    mean: NDArray[np.float64] = blocks.mean(axis=(1, 3))
    return mean.round().astype(np.uint8)


def _glfw_image(pixels: NDArray[np.uint8]) -> tuple[int, int, list[list[tuple[int, ...]]]]:
    height, width, _ = pixels.shape
    return width, height, [[tuple(texel) for texel in row] for row in pixels.tolist()]
