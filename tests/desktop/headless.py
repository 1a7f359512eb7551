"""The real interface without a device."""

from imgui_bundle import imgui

from llm_lite.desktop.app.interface import Interface, create_context, destroy_context
from llm_lite.desktop.app.program import Program
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.widgets.fonts import load_fonts
from tests.desktop.engine.model import EXECUTOR, MODEL
from tools.tour.input_driver import InputDriver

READY = AppState(model=MODEL, executor=EXECUTOR)


class Headless:
    """Everything but the renderer."""

    def __init__(self, state=READY, size=(1280, 720), scale=1.0, settings=None):
        self.context = create_context()
        io = imgui.get_io()
        io.backend_flags |= imgui.BackendFlags_.renderer_has_textures
        io.display_size = imgui.ImVec2(*size)
        io.delta_time = 1 / 60
        self.program = Program(
            state, Interface(load_fonts(scale).faces, scale, settings or Settings())
        )
        self.done = []
        self.driver = InputDriver(self.program, self.draw)
        self.driver.frames(3)

    @property
    def state(self):
        return self.program.state

    @property
    def ui(self):
        return self.program.interface.ui

    def draw(self):
        imgui.new_frame()
        self.done += self.program.paint()
        imgui.render()

    def did(self, kind):
        return [action for action in self.done if isinstance(action, kind)]

    def close(self):
        if self.program.engine:
            self.program.engine.close()
        destroy_context(self.context)


def sent(engine, kind):
    """Commands of a kind that an engine was sent, first to last."""
    return [command for command in engine.commands if isinstance(command, kind)]
