"""The program on an offscreen surface: for the tour, for tests and for measurements."""

from __future__ import annotations

from llm_lite.core.gpu.device import Device
from llm_lite.desktop.app.interface import Interface, create_context, destroy_context
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.app.screen import Screen
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.render.offscreen import OffscreenTarget
from llm_lite.desktop.widgets.fonts import load_fonts

SMALL = (1280, 720, 1.0)  # width and height in pixels, scale


class OffscreenApp:
    """The program without the engine, which its user gives to `program` and closes first."""

    def __init__(
        self, state: AppState, settings: Settings, *, size: tuple[int, int, float] = SMALL,
        device: int | None = None,
    ) -> None:  # fmt: skip
        width, height, scale = size
        self.device = Device.open(device)
        self.target = OffscreenTarget(self.device, width, height, ui_scale=scale)
        self._context = create_context()
        faces = load_fonts(scale).faces
        self.screen = Screen.make(self.device, self.target)
        self.program = Program(state, Interface(faces, scale, settings))

    def draw(self, *, following: bool = False) -> float:
        """Draw a frame and the pictures to be saved; return the milliseconds on the processor."""
        self.screen.show(self.program, following=following)
        return 1e3 * self.screen.loop.seconds

    def resize(self, width: int, height: int, scale: float) -> None:
        self.screen.loop.wait()
        self.target.resize(width, height)
        self.program.interface.scale = scale

    def close(self) -> None:
        self.screen.close()
        self.target.close()
        destroy_context(self._context)
        self.device.close()
