"""A device, its renderer and its frame loop on one surface; made anew when the device is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from core.gpu.device import Device
from desktop.attention_maps import AttentionMaps
from desktop.frame import FrameLoop
from desktop.imgui_renderer import ImguiRenderer
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
        renderer = ImguiRenderer(device, surface.color_format)
        loop, maps = FrameLoop(device, surface, renderer), AttentionMaps(device, renderer)
        loop.prepare, loop.submitted = maps.record, maps.submitted
        return cls(device, surface, renderer, loop, maps)

    def draw(self, paint: Callable[[], object], palette: Palette) -> bool:
        """One frame on the colour that lies behind everything; False where it was dropped."""
        base = palette.sunken
        self.loop.clear = ((base >> 16) / 255, (base >> 8 & 255) / 255, (base & 255) / 255, 1.0)

        def draw() -> None:
            paint()

        return self.loop.run(draw)

    def close(self) -> None:
        """Everything but the surface and the device."""
        self.loop.close()
        self.maps.close()
        self.renderer.close()
