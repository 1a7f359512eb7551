"""The window against the real server of another llm-lite: its maps, lens and cache open here."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from llm_lite.core.messages import ExportMaps, FollowToken, MeasureCache
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.rows import ROWS
from llm_lite.desktop.features.cache.model import MEASURE, ColorCache, measured, problem
from llm_lite.desktop.features.chat.model import NewChat, Send
from llm_lite.desktop.features.lesson.model import FollowPosition, GoToStep, ShowLesson, lesson_page
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.host import RemoteHost
from llm_lite.desktop.features.remote.host_maps import (
    THUMBNAIL,
    RemoteMaps,
    atlas_shape,
    resize_map,
    resize_rows,
    without_first,
)
from llm_lite.desktop.features.remote.model import Disconnect, FindServer
from llm_lite.desktop.features.tokens.lens import LENS
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.widgets.head_maps import ColorScale
from tests.asking import served_maps
from tests.desktop.engine.engine import ScriptedEngine
from tests.desktop.engine.model import MODEL
from tests.desktop.headless import Headless, sent
from tests.server.conftest import Served, serve

__all__ = ["serve"]  # the fixture


@pytest.fixture
def window(headless: Callable[..., Headless], serve: Callable[..., Served]) -> Iterator[Headless]:
    """Connected, with an answer."""
    one = headless(AppState(model=MODEL))
    one.program.use("remote", RemoteHost(lambda: None))
    one.engine = ScriptedEngine(delay=0.0)
    one.program.start(one.engine)
    one.served = serve()
    one.program.do(FindServer(one.served.url))
    one.driver.wait("the server", lambda s: s.elsewhere)
    one.program.do(Send("Why is the sky blue?"))
    one.driver.wait("the answer", lambda s: not s.busy and s.remote.cache is not None)
    one.driver.frames(2)
    yield one
    one.program.remote.close()


def maps_of(window: Headless) -> RemoteMaps:
    found = window.ui.maps
    assert isinstance(found, RemoteMaps)
    return found


def complete(window: Headless) -> None:
    window.driver.frames(3)
    window.driver.wait("maps", lambda s: not maps_of(window).pending)
    window.driver.frames(3)


def test_maps_are_those_of_the_server(window: Headless) -> None:
    maps, driver = maps_of(window), window.driver
    driver.click("tab.attention")
    complete(window)
    assert not maps.problem and len(maps.layers) == 4
    assert driver.shows("attention.0.0") and driver.shows("attention.0.2")
    assert maps.length == len(window.state.positions) == len(window.state.owners)
    driver.click("tab.head")
    driver.click("attention.0.1")
    complete(window)
    assert window.state.attention.locked == ((0, 1),)
    held = window.program.remote.engine.held
    truth = served_maps(window.served.service, held.response, 0, [1], 0, maps.length)[0]
    assert maps.value("head.0.1", 9, 4) == pytest.approx(truth[9, 4], abs=1e-5)
    assert maps.value("head.0.1", 4, 9) is None
    scores = maps.scores(of_all=True)
    complete(window)
    scores = maps.scores()
    assert scores is not None and not np.isnan(scores["entropy"]).any()
    assert maps.scored_rows == 12 * maps.length
    choice = replace(window.state.attention, exclude_first=True, order="entropy")
    window.program.do(SetAttention(choice))
    complete(window)
    assert maps.value("head.0.1", 9, 0) == 0


def test_a_token_shows_where_it_looks(window: Headless) -> None:
    xray = replace(window.state.xray, shown=True, by="layer", layer=1)
    window.program.do(SetXRay(xray))
    window.driver.frames(3)
    window.driver.point("token.1.3")
    window.driver.wait("rows", lambda s: ROWS.answer(s) is not None, 20)
    rows = ROWS.answer(window.state)
    assert not rows.note and sum(rows.weights) == pytest.approx(1, abs=1e-3)
    assert len(rows.weights) == len(window.state.positions)


def test_the_lens_and_the_cache(window: Headless) -> None:
    driver = window.driver
    driver.click("tab.lens")
    driver.wait("the lens", lambda s: LENS.answer(s) is not None)
    assert not LENS.problem(window.state) and len(LENS.answer(window.state).rows) == 4
    driver.click("tab.kv_cache")
    driver.frames(3)
    assert driver.shows("remote.cache")
    cache = window.state.remote.cache
    assert cache.tokens == len(window.state.positions) and cache.pages > 0
    window.program.do(ColorCache("key-norm", False))
    driver.wait("the norms", lambda s: measured(s) is not None)
    held = window.program.remote.engine.held
    norms = window.served.service.ask(held.response, MeasureCache("key-norm")).values
    assert np.allclose(measured(window.state).values, norms)
    driver.frames(3)
    window.program.do(NewChat())
    driver.frames(3)
    assert measured(window.state) is None, "it is of the conversation that was left"


def test_a_cache_there_is_measured_once_the_answer_ends(window: Headless) -> None:
    driver, program = window.driver, window.program
    driver.click("tab.kv_cache")
    window.served.service.hold.clear()
    program.do(Send("And at night?"))
    driver.wait("its prompt", lambda s: s.running is not None)
    state = window.state
    program.state = replace(state, running=replace(state.running, phase="decode"))
    program.do(ColorCache("key-norm", False))
    driver.frames(3)
    assert window.state.running and not MEASURE.waiting(window.state)
    assert not problem(window.state) and measured(window.state) is None
    window.served.service.hold.set()
    driver.wait("the norms", lambda s: not s.busy and measured(s) is not None)
    assert measured(window.state).values.shape[1] == window.state.context_used


def test_the_lesson_follows_a_token_there(window: Headless) -> None:
    window.program.do(FollowPosition(9))
    window.program.do(ShowLesson(True))
    window.driver.wait("the trace", lambda s: lesson_page(s).trace is not None)
    assert not lesson_page(window.state).problem
    held, trace = window.program.remote.engine.held, lesson_page(window.state).trace
    asked = FollowToken(trace.position, trace.layer, trace.head, trace.tokens[0][0])
    truth = window.served.service.ask(held.response, asked).trace
    assert trace == replace(truth, texts=trace.texts)
    for step in range(len(lesson_page(window.state).steps)):
        window.program.do(GoToStep(step))
        window.driver.frames(2)
    window.program.do(NewChat())
    window.driver.frames(3)
    assert lesson_page(window.state).trace is None, "it is of the conversation that was left"


def test_nothing_of_the_model_here_is_saved_as_its(window: Headless) -> None:
    from llm_lite.desktop.features.program.model import ExportAttention

    window.program.do(SetAttention(replace(window.state.attention, locked=((0, 0),))))
    window.program.do(ExportAttention("heads", "npz", "/nowhere/x.npz"))
    window.driver.wait("a notice", lambda s: any("elsewhere" in n.text for n in s.notices))
    assert not sent(window.engine, ExportMaps)


def test_maps_go_with_the_connection(window: Headless) -> None:
    complete(window)
    window.program.do(NewChat())
    window.driver.frames(2)
    window.program.do(Disconnect())
    window.driver.frames(3)
    assert not isinstance(window.ui.maps, RemoteMaps)


def test_an_answer_that_is_no_longer_kept_is_said(window: Headless) -> None:
    window.served.service._kept.clear()
    window.driver.click("tab.attention")
    window.driver.frames(2)
    window.driver.wait("a sentence", lambda s: bool(maps_of(window).problem))
    window.driver.frames(3)


def test_pixels_are_the_largest_of_their_pairs() -> None:
    rows = np.random.default_rng(1).random((70, 100)).astype(np.float32)
    small = resize_map(rows, 30, 64)
    assert small.shape == (64, 64) and small.max() == rows.max()
    assert (small[: 30 * 64 // 100 - 1] == 0).all()
    large = resize_rows(rows[:5, :5], 0, 5, 12)
    assert large.shape == (12, 12) and large[0, 0] == rows[0, 0] and large[11, 11] == rows[4, 4]
    rest = without_first(rows / rows.sum(axis=1, keepdims=True))
    assert np.allclose(rest.sum(axis=1), 1, atol=1e-4) and (rest[:, 0] == 0).all()


def test_colours_follow_the_scale() -> None:
    maps = RemoteMaps(lambda: None)
    values = np.array([[0.0, 1e-5, 0.01, 1.0]], np.float32)
    dark = maps._painted(values)
    maps.use(ColorScale(logarithmic=True, light=True))
    light = maps._painted(values)
    assert dark[0, 0] == 0 == light[0, 0] and (dark[0, 3] >> 24) == 255
    assert not (dark == light).all()


def test_a_long_map_is_never_whole_in_memory() -> None:
    rows = np.zeros((16, 20_000), np.float32)
    rows[3, 19_000] = 0.5
    tracemalloc.start()
    small = resize_map(rows, 10_000, THUMBNAIL)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20 << 20  # it would be 1.6 GB
    assert small[10_003 * THUMBNAIL // 20_000, 19_000 * THUMBNAIL // 20_000] == 0.5
    assert np.count_nonzero(small) == 1


@pytest.mark.parametrize("count", [1, 270, 2560, 5120, 16384])
def test_thumbnails_of_large_models_fit_a_texture(count: int) -> None:
    rows, across = atlas_shape(count)
    assert rows * across >= count
    assert 2 * rows * THUMBNAIL <= 16384 and across * THUMBNAIL <= 16384
    if count <= 1024:
        assert 2 * rows * THUMBNAIL <= 4096
