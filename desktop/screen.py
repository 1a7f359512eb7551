"""A device, its renderer and its frame loop on one surface; made anew when the device is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.gpu.commands import CommandPool
from core.gpu.device import Device
from desktop.attention_maps import AttentionMaps
from desktop.figure import Figure
from desktop.frame import FrameLoop
from desktop.imgui_renderer import ImguiRenderer
from desktop.offscreen import OffscreenTarget
from desktop.theme import Palette


@dataclass(slots=True)
class Screen:
    """`surface` is a window or an offscreen target, already attached to `device`."""

    device: Device
    surface: Any
    renderer: ImguiRenderer
    loop: FrameLoop
    maps: AttentionMaps

    @classmethod
    def make(cls, device: Device, surface: Any) -> Screen:
        slow = device.info.kind == "software"
        renderer = ImguiRenderer(device, surface.color_format, partial=slow)
        loop, maps = FrameLoop(device, surface, renderer), AttentionMaps(device, renderer)
        loop.submitted = maps.submitted
        if slow:  # the picture does not wait for what the processor computes too
            loop.prepare, loop.follow = maps.prepare, maps.record
        else:
            loop.prepare = maps.record
        return cls(device, surface, renderer, loop, maps)

    def draw(self, paint: Callable[[], object], palette: Palette) -> bool:
        """One frame on the colour that lies behind everything; False where it was dropped."""
        base = palette.sunken
        self.loop.clear = ((base >> 16) / 255, (base >> 8 & 255) / 255, (base & 255) / 255, 1.0)

        def draw() -> None:
            paint()

        return self.loop.run(draw)

    def render(self, figure: Figure) -> NDArray[np.uint8]:
        """The pixels of a figure of the frame that was drawn last, uint8 [height, width, 4];
        waits for the device."""
        self.loop.wait()
        target = OffscreenTarget(self.device, *figure.size, color_format=self.surface.color_format)
        pool = CommandPool(self.device, self.device.queue)
        try:
            frame = target.begin_frame()
            assert frame is not None
            (commands,) = pool.allocate()
            with pool.record(commands, once=True):
                self.renderer.record(
                    commands, figure.draw_data(), frame, figure.background, aside=True
                )
            value = self.device.queue.submit([commands])
            self.renderer.submitted(value)
            target.end_frame(frame, value)
            return target.read_rgba()
        finally:
            target.close()
            pool.close()

    def close(self) -> None:
        """Everything but the surface and the device."""
        self.loop.close()
        self.maps.close()
        self.renderer.close()
