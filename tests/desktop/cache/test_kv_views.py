"""The cache's view used through ImGui's input queue: a scripted engine, then real models."""

import numpy as np
import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.messages import (
    Generate,
    KeepConversation,
    LoadModel,
    MeasureCache,
    PooledPrefix,
    SamplingOptions,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.map import CacheZoom, ranges, value_at, window_of
from llm_lite.desktop.features.cache.model import ColorCache, measured, problem
from llm_lite.desktop.features.cache.picture import CachePicture, kind_colors, kinds, pack
from llm_lite.desktop.features.cache.state import (
    layer_bytes,
    reserved_bytes,
    used_bytes,
)
from llm_lite.desktop.features.cache.view import alike
from llm_lite.desktop.features.chat.model import EditMessage, Send
from llm_lite.desktop.features.history.model import OpenConversation
from llm_lite.desktop.features.history.state import ConversationRow
from llm_lite.desktop.features.program.cached_text import CachedText, reused_positions
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.resume.model import kept_path
from llm_lite.desktop.features.resume.state import KeptCache
from llm_lite.desktop.language.units import size
from llm_lite.desktop.widgets.theme import DARK, u32
from tests.desktop.cache_view import RINGS, click, point, say
from tests.desktop.engine.answers import ANSWER, pieces_of
from tests.desktop.engine.model import MODEL, ROW
from tests.desktop.headless import sent
from tests.runners import BACKENDS, exact


def test_the_numbers_are_those_of_the_status(cache_view):
    one, engine = cache_view()
    state, layout = one.state, MODEL.cache
    assert state.context_used == state.cache.status.length == len(engine.cache)
    assert used_bytes(layout, state.context_used) == len(engine.cache) * 30 * 2 * ROW
    say(one, "And at night?")
    status = one.state.cache.status
    assert one.state.in_front.reused == status.reused > 100
    assert status.saved_bytes == status.reused * 30 * 2 * ROW
    assert one.driver.shows("kv_cache.forecast") and one.driver.shows("kv_cache.pool")


def test_a_click_holds_the_token_and_a_second_lets_go(cache_view):
    one, _ = cache_view()
    point(one, 40)
    click(one)
    assert one.state.attention.row == 40
    click(one)
    assert one.state.attention.row is None


def test_colours_ask_the_engine_once(cache_view):
    one, engine = cache_view()
    for by in ("key-norm", "value-norm", "received"):
        one.program.do(ColorCache(by, False))
        one.driver.frames(2)
        one.driver.wait("the numbers", lambda s: measured(s) is not None)
        one.driver.frames(5)
        assert [m.what for m in sent(engine, MeasureCache)] == [by]
        assert value_at(one.state, 3, 40).endswith(("3.04", "304.00%"))
        engine.commands.clear()
    one.program.do(ColorCache("age", False))
    one.driver.frames(3)
    fresh = replace(one.state, cached=CachedText())
    one.program.state, before = fresh, one.state
    one.driver.frames(3)
    one.program.state = before
    one.driver.frames(3)
    assert sent(engine, MeasureCache) == []
    assert value_at(one.state, 3, one.state.context_used - 1) == "the newest"


def test_a_ring_shows_the_last_positions_and_where_it_writes(cache_view):
    one, _ = cache_view(rings=True)
    say(one, "And at night?")
    length = one.state.context_used
    assert length > 256
    point(one, 5, row=0, layers=4)
    assert one.state.cache.pointed is None, "overwritten there"
    point(one, 5, row=3, layers=4)
    assert one.state.cache.pointed == 5
    one.driver.click("kv_cache.slots")
    assert one.state.cache.slots
    point(one, 5, row=0, layers=4)
    assert one.state.cache.pointed == 256 + 5


def test_keeping_on_disk_and_the_list_of_what_is_kept(cache_view):
    one, engine = cache_view(view=(1400, 2600))
    kept = (KeptCache(8, "A haiku about rain", 9 << 20, 86400.0), KeptCache(9, "Bread", 1, 9.0))
    resume = replace(one.state.resume, folder="/caches", kept=kept)
    history = replace(one.state.history, open=7)
    one.program.state = replace(one.state, resume=resume, history=history)
    one.driver.frames(2)
    one.driver.click("kv_cache.keep")
    (command,) = sent(engine, KeepConversation)
    assert command == KeepConversation(7, kept_path("/caches", 7), resume.budget)
    one.driver.click("kv_cache.kept.1")
    assert [action.id for action in one.did(OpenConversation)] == [9]


def test_what_is_in_memory_is_named_by_its_conversation_and_opens_it(cache_view):
    one, _ = cache_view(view=(1400, 2600))
    prefixes = tuple(PooledPrefix("Why?", 100 + n, 1 << 20, n) for n in (0, 7, 8))
    status = replace(one.state.cache.status, prefixes=prefixes)
    rows = (ConversationRow(7, "Rain", 0.0), ConversationRow(8, "Bread", 0.0))
    history = replace(one.state.history, open=7, rows=rows)
    cache = replace(one.state.cache, status=status)
    one.program.state = replace(one.state, cache=cache, history=history)
    one.driver.frames(2)
    for number in (0, 1, 2):
        one.driver.click(f"kv_cache.prefix.{number}")
    assert [action.id for action in one.did(OpenConversation)] == [8], "not itself, nor nobody's"


def test_an_edit_says_how_much_was_reused(cache_view):
    one, engine = cache_view()
    say(one, "And at night?")
    one.program.do(EditMessage(2))
    say(one, "And on Mars?")
    (_, command) = sent(engine, Generate)
    assert command.overflow == "stop"
    stats = one.state.messages[-1].stats
    assert 0.9 < stats.reused_tokens / stats.prompt_tokens < 1
    assert one.driver.shows("message.3.stats")


def test_layers_that_are_alike_are_told_once():
    groups = alike(RINGS.layers)
    assert [[one.layer for one in group] for group in groups] == [[0, 1, 2], [3]]
    assert ranges((3, 1, 2, 7)) == "1–3, 7"
    assert size(used_bytes(RINGS, 2048)) == size(RINGS.reserved_bytes)


def test_colours_of_owners_are_on_the_picture(cache_view, scene):
    """What is drawn for a position is the colour that the legend gives its owner."""
    one, _ = cache_view()
    rows = one.ui.local(CachePicture)
    texels, top = rows.picture._texels(), rows.picture._top
    x0, _, x1, _ = one.driver.rect("kv_cache.map")
    window = window_of(one.state, one.ui.local(CacheZoom), int(x1 - x0))
    row = texels[top + rows.row_of[0], : int(x1 - x0)]
    packed = pack(kind_colors(one.ui.theme.palette), np.ones(5, np.float32))
    found = kinds(one.state)
    for position in (0, 4, len(found) - 2):
        x = int(window.x(position + 0.5))
        assert row[x] == packed[found[position]], position
    assert len(set(rows.row_of)) == 1, "layers that look alike are drawn once"
    assert u32(DARK.hover) & 0xFFFFFF == packed[0] & 0xFFFFFF
    assert ANSWER.startswith(pieces_of(ANSWER)[0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_of_a_real_model(headless, tiny_llama, backend, request):
    """What the view counts is what the session reports."""
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    sampling = SamplingOptions(seed=3, max_new_tokens=12)
    one = headless(AppState(sampling=sampling), size=(1400, 2600))
    engine = Engine(device)
    one.program.start(engine)
    engine.submit(LoadModel(str(tiny_llama), exact(backend)))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.kv_cache")
    for text in ("One two three.", "Four five six."):
        one.program.do(Send(text))
        one.driver.wait("the answer", lambda s: not s.busy)
        one.driver.wait("its status", lambda s: s.cache.status.length == s.context_used)
    state, layers = one.state, one.state.model.cache.layers
    status, each = state.cache.status, sum(map(layer_bytes, layers))
    assert status.reused == reused_positions(state.in_front) > 12
    assert status.saved_bytes == status.reused * each
    assert used_bytes(state.model.cache, state.context_used) == status.length * each
    assert state.model.cache.reserved_bytes == state.model.kv_bytes == reserved_bytes(layers)
    for by in ("key-norm", "received"):
        one.program.do(ColorCache(by, False))
        one.driver.wait("the numbers", lambda s: measured(s) or problem(s))
        assert problem(one.state) == ""
        values = measured(one.state).values
        assert values.shape == (len(layers), status.length) and (values[:, :-1] > 0).all()
