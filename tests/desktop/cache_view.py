"""The cache's view beside a conversation: what tests do with it."""

from imgui_bundle import imgui

from llm_lite.core.messages import CacheLayerInfo, CacheLayout
from llm_lite.desktop.features.cache.map import CacheZoom, window_of
from llm_lite.desktop.features.chat.model import Send
from tests.desktop.engine.model import ROW

QUESTION = "Why is the sky blue?"
RINGS = CacheLayout(
    (
        *(CacheLayerInfo(layer, (), 256, 200, ROW, ROW) for layer in range(3)),
        CacheLayerInfo(3, (4, 5), 1024, 0, ROW, ROW),
    ),
    reserved_bytes=(3 * 256 + 1024) * 2 * ROW,
)


def say(one, text):
    one.program.do(Send(text))
    one.driver.wait("the answer", lambda s: s.messages and not s.busy, pace=0)
    one.driver.wait("its status", lambda s: s.cache.status.length == s.context_used)
    one.driver.frames(3)


def point(one, position, row=0, layers=30):
    """At the middle of a position's column in a layer's row."""
    x0, y0, x1, y1 = one.driver.rect("kv_cache.map")
    window = window_of(one.state, one.ui.local(CacheZoom), int(x1 - x0))
    x = x0 + window.x(position + 0.5)
    imgui.get_io().add_mouse_pos_event(x, y0 + (row + 0.5) * (y1 - y0) / layers)
    one.driver.frames(3)


def click(one):
    for down in (True, False):
        imgui.get_io().add_mouse_button_event(0, down)
        one.driver.frames()
    one.driver.frames(2)
