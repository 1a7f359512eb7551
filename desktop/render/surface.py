"""The protocol of a place to draw, which a window and an offscreen image share."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct, field


class SurfaceFrame(Struct, frozen=True):
    """An image to draw into. `extent` in pixels; `waits` and `signals` go to the submit."""

    render_pass: Any
    framebuffer: Any
    extent: tuple[int, int]
    image_index: int = 0
    waits: tuple[tuple[Any, int], ...] = field(default=())
    signals: tuple[Any, ...] = field(default=())
    image: Any = None  # where it can be copied to as well; it must be left in `layout`
    layout: int = 0


class Surface(Protocol):
    """A window or an offscreen image.

    `ui_scale`: display pixels of the interface per design pixel; fonts and spacing follow it.
    """

    color_format: int

    @property
    def ui_scale(self) -> float: ...

    @property
    def drawable(self) -> bool:
        """Return False while there is nothing to draw to: minimised, closed."""

    def new_frame(self) -> None:
        """Tell Dear ImGui display size, framebuffer scale, time and input."""

    def begin_frame(self) -> SurfaceFrame | None:
        """Return the next image, or None when this frame must be dropped."""

    def end_frame(self, frame: SurfaceFrame, value: int) -> None:
        """Show the frame whose submit signals timeline value `value`."""
