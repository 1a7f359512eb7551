"""The frame loop: new frame, draw, record, submit, present; and what a frame costs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from imgui_bundle import imgui

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.device import Device
from llm_lite.desktop.render.imgui_renderer import BLACK, Color, ImguiRenderer
from llm_lite.desktop.render.retired import finish
from llm_lite.desktop.render.surface import Surface, SurfaceFrame


class FrameLoop:
    """Draws one frame a call of `run`. The ImGui context of the renderer must be current.

    `frames` counts frames submitted, `recorded` command buffers recorded for them. `prepare`
    records what must be done before Dear ImGui's pass; `record_later`, what is done for the next
    picture when this one is on its way, and returns True if that is anything. `submitted` is called
    after every submit.
    """

    def __init__(
        self, device: Device, surface: Surface, renderer: ImguiRenderer,
        *, frames_in_flight: int = 2, clear: Color = BLACK,
    ) -> None:  # fmt: skip
        self._device = device
        self._surface = surface
        self._renderer = renderer
        self._pool = CommandPool(device, device.queue)
        self._commands = self._pool.allocate(frames_in_flight)
        self._later = self._pool.allocate(frames_in_flight)
        self._values = [0] * frames_in_flight  # timeline value of each slot's last submit
        self.clear = clear
        self.prepare: Callable[[Any], object] = lambda commands: None
        self.record_later: Callable[[Any], bool] | None = None
        self.submitted: Callable[[], None] = lambda: None
        self.frames = 0
        self.seconds = 0.0  # that the last frame took on the CPU, waits for the device included

    @property
    def recorded(self) -> int:
        return self._pool.recorded

    def run(self, draw: Callable[[], None]) -> bool:
        """Draw one frame; False when there is nothing to draw to or the frame was dropped.

        Raises DeviceLostError when the device is gone; the caller rebuilds.
        """
        if not self._surface.drawable:
            return False
        start = time.perf_counter()
        self._build(draw)
        frame = self._surface.begin_frame()
        if frame is None:
            return False
        value = self._submit(frame)
        self.frames += 1
        self._surface.end_frame(frame, value)
        self.seconds = time.perf_counter() - start
        if self.record_later is not None:
            self._submit_later(self.record_later)
        return True

    def _build(self, draw: Callable[[], None]) -> None:
        self._surface.new_frame()
        imgui.new_frame()
        try:
            draw()
        except BaseException:
            imgui.end_frame()
            raise
        imgui.render()

    def _submit(self, frame: SurfaceFrame) -> int:
        slot = self.frames % len(self._commands)
        if self._values[slot]:
            self._device.queue.wait(self._values[slot])
        commands = self._commands[slot]
        with self._pool.record(commands, once=True):
            self.prepare(commands)
            self._renderer.record(commands, imgui.get_draw_data(), frame, self.clear)
        value = self._device.queue.submit([commands], waits=frame.waits, signals=frame.signals)
        self._values[slot] = value
        self.submitted()
        self._renderer.submitted(value)
        return value

    def _submit_later(self, record: Callable[[Any], bool]) -> None:
        """Submit work in the slot of the frame that is on its way to the screen."""
        slot = (self.frames - 1) % len(self._later)
        commands = self._later[slot]
        with self._pool.record(commands, once=True):
            wanted = record(commands)
        if wanted:
            self._values[slot] = self._device.queue.submit([commands])
        self.submitted()

    def wait(self) -> None:
        """Block until every submitted frame is done."""
        last = max(self._values)
        if last:
            self._device.queue.wait(last)

    def close(self) -> None:
        finish(self.wait)
        self._pool.close()
