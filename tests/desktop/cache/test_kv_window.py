"""Which positions of the cache are in sight."""

from imgui_bundle import imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.map import CacheZoom, show_part, window_of
from llm_lite.desktop.features.cache.picture import CacheWindow
from tests.desktop.cache_view import point
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import READY


def test_zoom_goes_from_the_whole_context_to_single_tokens(cache_view):
    one, _ = cache_view()
    zoom = one.ui.local(CacheZoom)
    one.driver.click("kv_cache.context")
    assert window_of(one.state, zoom, 400) == CacheWindow(0.0, 8192.0, 400)
    point(one, 100)
    for _ in range(40):
        one.driver.wheel(1.0)
    window = window_of(one.state, zoom, 400)
    assert window.span == 8.0 and window.first <= 100 < window.first + 8
    one.driver.click("kv_cache.used")
    assert window_of(one.state, zoom, 400).span >= one.state.context_used
    _, y0, x1, y1 = one.driver.rect("kv_cache.map")
    one.driver.click("kv_cache.in")
    first, io = zoom.own[0], imgui.get_io()
    io.add_mouse_pos_event(x1 - 20, (y0 + y1) / 2)
    one.driver.frames(2)
    io.add_mouse_button_event(0, True)
    one.driver.frames()
    for step in range(1, 6):
        io.add_mouse_pos_event(x1 - 20 + step * 10, (y0 + y1) / 2)
        one.driver.frames()
    io.add_mouse_button_event(0, False)
    one.driver.frames(2)
    assert zoom.own[0] < first and one.state.attention.row is None, "a drag is no click"


def test_a_smaller_context_is_in_sight_where_a_larger_one_was_zoomed():
    zoom = CacheZoom("own", (4000.0, 100.0))
    window = window_of(replace(READY, model=replace(MODEL, context=512)), zoom, 100)
    assert (window.first, window.span) == (412.0, 100.0)
    window = window_of(replace(READY, model=replace(MODEL, context=64)), zoom, 100)
    assert (window.first, window.span) == (0.0, 64.0)


def test_zoom_stays_within_the_context():
    zoom = CacheZoom()
    show_part(zoom, CacheWindow(0, 10, 10), 100, -50, 10)
    assert zoom.own == (0, 10)
    show_part(zoom, CacheWindow(0, 10, 10), 100, 99, 1000)
    assert zoom.own == (0, 100)
    show_part(zoom, CacheWindow(0, 10, 10), 100, 99, 0.1)
    assert zoom.own == (92, 8)
