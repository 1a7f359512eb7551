"""A real window on a virtual X display, validated."""

import ctypes
import threading
import time
from pathlib import Path

import pytest
from imgui_bundle import imgui

from llm_lite.core.errors import DeviceError, DeviceLostError
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.desktop.render.frame import FrameLoop
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.render.window import Geometry, Window

# isort: split
import glfw

from tests.children import PATIENCE, answer_of
from tests.desktop import x11

pytestmark = pytest.mark.vulkan

CLEAR = (0.2, 0.4, 0.6, 1.0)
CLEAR_BYTES = (51, 102, 153)


FOREVER = 3600.0  # seconds: the test would end by its own limit


class Program:
    """Window, device, renderer and loop, put together as the application does."""

    def __init__(self, display, geometry):
        self.display = display
        self.window = Window("llm-lite test", geometry)
        self.messages = []
        self.context = imgui.create_context()
        imgui.set_current_context(self.context)
        imgui.get_io().set_ini_filename("")
        self.window.connect_imgui()
        self.open_device()

    def open_device(self):
        extensions = self.window.extensions
        self.device = Device.open(window_extensions=extensions, validation=True)
        self.window.attach(self.device)
        self.renderer = ImguiRenderer(self.device, self.window.color_format)
        self.loop = FrameLoop(self.device, self.window, self.renderer, clear=CLEAR)

    def close_device(self):
        self.loop.close()
        self.renderer.close()
        self.window.detach()
        self.device.close()
        self.messages += self.device.validation_messages

    @property
    def x_window(self):
        return glfw.get_x11_window(self.window.handle)

    def frames(self, count=1, draw=lambda: None):
        shown = 0
        for _ in range(count):
            self.window.poll_events()
            shown += self.loop.run(draw)
        return shown

    def until(self, condition, seconds=PATIENCE):
        """Frames until something has come true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.frames()
            if condition():
                return True
            time.sleep(0.005)
        return False

    def close(self):
        imgui.set_current_context(self.context)
        self.close_device()
        self.window.close()
        imgui.destroy_context(self.context)
        assert self.messages == []


@pytest.fixture
def program(display):
    one = Program(display, Geometry(700, 500, (60, 40)))
    yield one
    one.close()


def test_first_frame_reaches_the_screen(program):
    assert program.frames(3) == 3
    seen = program.until(lambda: x11.pixel(program.display, 400, 300) == CLEAR_BYTES)
    assert seen, x11.pixel(program.display, 400, 300)
    assert program.window.swapchains == 1
    assert program.window.geometry() == Geometry(700, 500, (60, 40), False)


def test_the_device_is_asked_for_its_own_functions(display, monkeypatch):
    """Those of the instance are the loader's: validation layers of 2025 warn of others."""
    asked, ask = [], vk.vkGetDeviceProcAddr
    monkeypatch.setattr(vk, "vkGetDeviceProcAddr", lambda *of: asked.append(of[1]) or ask(*of))
    one = Program(display, Geometry(300, 200))
    one.frames(2)
    one.close()
    first = {name: vk.ffi.typeof(f"PFN_{name}").args[0].cname for name in asked}
    assert first["vkCreateSwapchainKHR"] == "struct VkDevice_T *"
    assert set(first.values()) <= {"struct VkDevice_T *", "struct VkQueue_T *"}, first


def test_imgui_sees_the_window(program):
    program.frames(2)
    io = imgui.get_io()
    assert (io.display_size.x, io.display_size.y) == (700, 500)
    assert io.delta_time > 0
    assert program.window.ui_scale == pytest.approx(1.0, abs=0.05)


def test_frames_without_news_ask_the_window_system_nothing(program, monkeypatch):
    asked, ask = [], imgui.backends.glfw_new_frame
    monkeypatch.setattr(imgui.backends, "glfw_new_frame", lambda: asked.append(1) or ask())
    program.until(lambda: asked and not asked.clear() and program.frames(3) and not asked)
    asked.clear()
    assert program.frames(5) == 5
    assert asked == []
    start = time.perf_counter()
    program.frames()
    ticked = imgui.get_time()
    time.sleep(0.05)
    program.frames()
    assert imgui.get_time() - ticked <= time.perf_counter() - start + 0.01, "no time counts twice"

    x11.move_mouse(program.display, program.x_window, 50, 60)
    assert program.until(lambda: asked)
    asked.clear()
    program.frames(1, lambda: imgui.set_mouse_cursor(imgui.MouseCursor_.hand))
    program.frames(1, lambda: imgui.set_mouse_cursor(imgui.MouseCursor_.hand))
    assert asked, "another cursor is shown"
    program.frames(2)
    asked.clear()
    glfw.set_window_size(program.window.handle, 640, 480)
    assert program.until(lambda: imgui.get_io().display_size.x == 640)
    assert asked


@pytest.mark.parametrize("modifier", ["Shift_L", "Control_R"])
def test_a_chord_within_one_frame_keeps_its_modifier(program, modifier):
    program.frames(3)
    seen = []

    def look():
        if imgui.is_key_pressed(imgui.Key.enter, False):
            io = imgui.get_io()
            seen.append(io.key_shift if modifier == "Shift_L" else io.key_ctrl)

    x11.press_keys(program.display, program.x_window, (modifier, True))
    held = imgui.Key.left_shift if modifier == "Shift_L" else imgui.Key.right_ctrl
    assert program.until(lambda: imgui.is_key_down(held))
    strokes = [("Return", True), (modifier, False), ("Return", False)]
    x11.press_keys(program.display, program.x_window, *strokes, start=10)
    time.sleep(0.2)  # a slow frame: all of it is there before the next one begins
    program.frames(6, look)
    assert seen == [True]
    assert not imgui.get_io().key_shift
    assert not imgui.get_io().key_ctrl


def test_mouse_moves_reach_imgui(program):
    program.frames(3)
    x11.move_mouse(program.display, program.x_window, 123, 77)
    position = imgui.get_io().mouse_pos
    assert program.until(lambda: (position.x, position.y) == (123, 77))


def test_resizing_replaces_the_swapchain_without_idle_waits(program, monkeypatch):
    program.frames(3)

    def refuse():
        raise AssertionError("waited for the device to be idle")

    with monkeypatch.context() as patch:
        patch.setattr(program.device.queue, "wait_idle", refuse)
        for step in range(12):
            size = (720 + 20 * step, 520 + 10 * step)
            glfw.set_window_size(program.window.handle, *size)
            assert program.until(lambda s=size: drawn_size(program) == s)
        program.frames(10)
    assert program.window.swapchains >= 8
    assert len(program.window._presenter._old) == 0


def drawn_size(program):
    swapchain = program.window._presenter._swapchain
    return swapchain.extent if swapchain is not None else None


def test_minimised_window_draws_nothing_and_comes_back(program):
    program.frames(2)
    x11.set_wm_state(program.display, program.x_window, x11.ICONIC)
    assert program.until(lambda: not program.window.drawable)
    drawn = program.loop.frames
    assert program.frames(5) == 0
    assert program.loop.frames == drawn
    x11.set_wm_state(program.display, program.x_window, x11.NORMAL)
    assert program.frames(3) == 3


def test_framebuffer_of_no_size_is_not_drawn(program, monkeypatch):
    program.frames(2)
    monkeypatch.setattr(glfw, "get_framebuffer_size", lambda _window: (0, 0))
    glfw.set_window_pos(program.window.handle, 30, 30)
    assert program.until(lambda: not program.window.drawable)
    assert program.frames(2) == 0


def test_close_button(program):
    program.frames(2)
    assert not program.window.should_close
    x11.ask_to_close(program.display, program.x_window)
    assert program.until(lambda: program.window.should_close)
    program.window.should_close = False
    assert not program.window.should_close


def test_wake_from_another_thread_ends_the_sleep(program):
    program.frames(3)
    program.window.wait_events(0.2)
    timer = threading.Timer(0.1, program.window.wake)
    timer.start()
    program.window.wait_events(FOREVER)
    timer.join()


def test_sleep_ends_by_itself(program):
    program.frames(3)
    program.window.poll_events()
    program.window.wait_events(0.05)


def test_dropped_files_are_handed_on(program):
    dropped = []
    program.window.on_drop = dropped.append
    paths = (ctypes.c_char_p * 3)(b"/m/a.gguf", "/m/b 모델.gguf".encode(), b"/m/caf\xe9.gguf")
    program.window._drop(program.window.handle, 3, paths)
    assert dropped == [[Path("/m/a.gguf"), Path("/m/b 모델.gguf"), Path("/m/caf\udce9.gguf")]]


def test_moving_to_another_device_keeps_window_and_interface(program):
    """After a lost device the program opens one again."""

    def text():
        imgui.get_background_draw_list().add_text(imgui.ImVec2(20, 20), 0xFFFFFFFF, "text " * 20)

    program.frames(3, text)
    program.close_device()
    assert not program.window.drawable
    program.open_device()
    assert program.frames(3, text) == 3
    assert len(program.renderer._textures._atlases) == 1
    assert program.until(lambda: x11.pixel(program.display, 400, 300) == CLEAR_BYTES)


def test_lost_device_is_reported(program, monkeypatch):
    program.frames(2)

    def lost(*_arguments, **_options):
        raise DeviceLostError("The device was lost during vkQueueSubmit.")

    with monkeypatch.context() as patch:
        patch.setattr(program.device.queue, "submit", lost)
        with pytest.raises(DeviceLostError):
            program.frames()
        patch.setattr(program.device.queue, "wait", lost)  # closing must not need it
        program.loop.close()
        program.renderer.close()
    program.window.detach()
    program.device.close()
    program.open_device()
    assert program.frames(2) == 2


def test_out_of_date_on_present_is_answered_by_a_new_swapchain(program, monkeypatch):
    program.frames(2)
    before = program.window.swapchains
    present = program.device.queue.present

    def out_of_date(*arguments):
        present(*arguments)
        raise vk.VkErrorOutOfDateKhr

    with monkeypatch.context() as patch:
        patch.setattr(program.device.queue, "present", out_of_date)
        assert program.frames() == 1
    assert program.frames(2) == 2
    assert program.window.swapchains == before + 1


def test_lost_surface_is_made_again(program, monkeypatch):
    program.frames(2)
    present = program.device.queue.present

    def surface_lost(*arguments):
        present(*arguments)
        raise vk.VkErrorSurfaceLostKhr

    with monkeypatch.context() as patch:
        patch.setattr(program.device.queue, "present", surface_lost)
        program.frames()
    assert program.frames(3) == 3


def test_position_off_every_monitor_is_ignored(display):
    one = Program(display, Geometry(640, 480, (90_000, 90_000)))
    one.frames(2)
    x, y = one.window.geometry().position
    one.close()
    assert 0 <= x < 1600 and 0 <= y < 1000


def test_high_density_screen(display):
    x11.set_resources(display, "Xft.dpi:\t192\n")
    try:
        one = Program(display, Geometry(500, 300))
    finally:
        x11.set_resources(display, "")
    one.frames(2)
    assert one.window.ui_scale == 2.0
    assert one.window.framebuffer_size == (1000, 600)
    remembered = one.window.geometry()
    one.close()
    assert (remembered.width, remembered.height) == (500, 300)


def test_no_display_is_a_clear_error(monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(DeviceError, match=r"No window can be opened: .*DISPLAY.*llm-lite chat"):
        Window("llm-lite test")


def test_no_vulkan_loader_is_a_clear_error(display, monkeypatch):
    monkeypatch.setattr(glfw, "vulkan_supported", lambda: False)
    with pytest.raises(DeviceError, match="No window can be opened: the Vulkan loader"):
        Window("llm-lite test")


def test_unreachable_display_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":65000")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(DeviceError, match="No window can be opened"):
        Window("llm-lite test")


def test_a_file_manager_may_end_in_a_drag(display):
    """The window's answer finds no window, and the server says so."""
    assert answer_of("tests.desktop.render.lost_window_child", display) == 100


def test_a_request_that_the_x_server_refuses_costs_a_sentence(program):
    """As of a driver that frees what the server has not taken yet."""
    told, lib = [], x11._library()
    program.window.on_problem = told.append
    own = glfw._glfw.glfwGetX11Display
    own.restype = ctypes.c_void_p
    no_pixmap = ctypes.c_ulong(0x1FFFFFFF)
    lib.XFreePixmap(ctypes.c_void_p(own()), no_pixmap)
    assert program.until(lambda: told)
    assert told == ["The X server refused request 54.0 of this program: error 4."]
