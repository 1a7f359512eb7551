"""Scenes drawn offscreen, the interface without a device, a virtual X display for windows."""

import gettext
import os
import shutil
import subprocess

import pytest
from imgui_bundle import imgui

from llm_lite.core.messages import LoadModel
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import use
from llm_lite.desktop.render.frame import FrameLoop
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.render.offscreen import OffscreenTarget
from tests.desktop.cache_view import QUESTION, RINGS, say
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import Headless


class Scene:
    """An ImGui context of its own, drawn to an offscreen image."""

    def __init__(self, device, width, height, surface=None, clear=(0.0, 0.0, 0.0, 1.0)):
        self.context = imgui.create_context()
        imgui.set_current_context(self.context)
        imgui.get_io().set_ini_filename("")
        self.surface = surface or OffscreenTarget(device, width, height, delta_s=1 / 60)
        self.renderer = ImguiRenderer(device, self.surface.color_format)
        self.loop = FrameLoop(device, self.surface, self.renderer, clear=clear)

    def draw(self, paint, frames=1):
        """Call `paint(draw_list)` with the background's draw list; returns the pixels."""
        imgui.set_current_context(self.context)
        for _ in range(frames):
            assert self.loop.run(lambda: paint(imgui.get_background_draw_list()))
        return self.surface.read_rgba()

    def close(self):
        imgui.set_current_context(self.context)
        self.loop.close()
        self.renderer.close()
        self.surface.close()
        imgui.destroy_context(self.context)


@pytest.fixture
def scene(device):
    """scene(width, height, ...) -> Scene; all are closed when the test ends."""
    made = []

    def make(width=64, height=48, **options):
        made.append(Scene(device, width, height, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def headless(capfd):
    """Headless(...), closed at the end; Dear ImGui must have found nothing wrong with our calls."""
    made = []

    def make(*state, **options):
        made.append(Headless(*state, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()
    use(gettext.NullTranslations())  # English again, whatever was chosen
    assert "imgui-error" not in capfd.readouterr().out


@pytest.fixture
def cache_view(headless):
    """A conversation of one answer beside the cache's view; `rings` for sliding windows."""

    def make(rings=False, view=(1400, 1700)):
        one, engine = headless(AppState(), size=view), ScriptedEngine(0.0)
        if rings:
            engine.model = replace(MODEL, context=1024, layers=6, cache=RINGS)
        one.program.start(engine)
        engine.submit(LoadModel(None))
        one.driver.wait("the model", lambda s: s.model is not None)
        engine.source = None  # nobody looks at attention here
        one.driver.click("tab.kv_cache")
        say(one, QUESTION)
        engine.commands.clear()
        return one, engine

    return make


@pytest.fixture(scope="session")
def _x_server():
    if shutil.which("Xvfb") is None:
        pytest.skip("Xvfb is not installed")
    reading, writing = os.pipe()
    options = ["-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-noreset"]
    # It takes a number that is free, and says which when it listens.
    command = ["Xvfb", "-displayfd", str(writing), *options]
    server = subprocess.Popen(command, pass_fds=(writing,), stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as told:
        number = told.readline().strip()
    if not number:
        pytest.fail("Xvfb found no free display")
    yield f":{number}"
    server.terminate()
    server.wait()


@pytest.fixture
def display(_x_server, monkeypatch):
    monkeypatch.setenv("DISPLAY", _x_server)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return _x_server
