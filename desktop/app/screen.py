"""A device, its renderer and its frame loop on one surface; made again when the device is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.device import Device
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.attention.maps import AttentionMaps
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.render.frame import FrameLoop
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.render.offscreen import OffscreenTarget
from llm_lite.desktop.widgets.figure import Figure


class Screen(Struct):
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
            loop.prepare, loop.record_later = maps.prepare, maps.record
        else:
            loop.prepare = maps.record
        return cls(device, surface, renderer, loop, maps)

    def show(self, program: Program, *, following: bool = False) -> list[Action]:
        """Draw a frame, unless the surface drops it, and the pictures to be saved; return what the
        person did. `following`: not everything need be drawn."""
        interface, acted = program.interface, list[Action]()
        interface.use_maps(self.maps)
        base = interface.ui.theme.palette.sunken  # the colour that lies behind everything
        self.loop.clear = ((base >> 16) / 255, (base >> 8 & 255) / 255, (base & 255) / 255, 1.0)
        if self.loop.run(lambda: acted.extend(program.paint(following=following))):
            program.drawn(self.render)
            interface.frames.add(self.loop.seconds)
        return acted

    def render(self, figure: Figure) -> NDArray[np.uint8]:
        """Render a figure of the frame that was drawn last, uint8 [height, width, 4]; waits for the
        device."""
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
        """Close everything but the surface and the device."""
        self.loop.close()
        self.maps.close()
        self.renderer.close()
