"""What is shown of a model of Gemma 3n E4B's build: 280 heads over 20 caches, 16 of them rings."""

import numpy as np
import pytest

from llm_lite.core.engine.engine import Engine
from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.messages import LoadModel, SamplingOptions
from llm_lite.core.records import replace
from llm_lite.desktop.attention import work
from llm_lite.desktop.attention.maps import AttentionMaps
from llm_lite.desktop.features.cache.map import group_label, label, strips
from llm_lite.desktop.features.cache.picture import CachePicture
from llm_lite.desktop.features.cache.state import held, used_bytes
from llm_lite.desktop.features.cache.view import alike
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.program.state import AppState
from tests.desktop.attention.test_maps import pooled, values_of
from tests.make_huggingface import write_tall_gemma3n
from tests.runners import exact, running

FULL = {4, 9, 14, 19}
TOKENS = 700  # past the window of 512 and the ring of 512 + 128
CONTEXT = 1024


@pytest.fixture(scope="module")
def tall(tmp_path_factory):
    return write_tall_gemma3n(tmp_path_factory.mktemp("tall"))


def test_the_cache_view_has_a_row_for_each_owner(headless, tall):
    """Rows, rings, sharing and bytes are those of the caches that the session fills."""
    one = headless(AppState(sampling=SamplingOptions(seed=1, max_new_tokens=8)), size=(1400, 2600))
    one.program.start(Engine(None))
    one.program.engine.submit(LoadModel(str(tall), exact("cpu", context=CONTEXT)))
    one.driver.wait("the model", lambda s: s.model is not None)
    one.driver.click("tab.kv_cache")
    one.program.do(Send("One two three four five six seven. " * 25))
    one.driver.wait("the answer", lambda s: s.messages and not s.busy)
    one.driver.wait("its status", lambda s: s.cache.status.length == s.context_used)
    one.driver.frames(3)
    layers, length = one.state.model.cache.layers, one.state.context_used
    assert length > 640
    assert [layer.layer for layer in layers] == list(range(20))
    assert {layer.layer for layer in layers if not layer.window} == FULL
    assert {layer.window for layer in layers if layer.layer not in FULL} == {512}
    assert {layer.rows for layer in layers} == {CONTEXT, 512 + 128}
    assert layers[18].shared_with == tuple(i for i in range(20, 35) if (i + 1) % 5)
    assert layers[19].shared_with == (24, 29, 34)
    assert [label(layer) for layer in layers[16:]] == ["16", "17", "18 +12", "19 +3"]
    assert sorted(len(group) for group in alike(layers)) == [4, 16]
    row = 2 * 2 * 12 * 4  # keys and values of 2 groups of 12 float32
    assert used_bytes(one.state.model.cache, length) == (4 * length + 16 * 640) * row
    assert {held(layer, length) for layer in layers} == {length, 640}
    groups = strips(one.state)
    assert sorted(map(len, groups)) == [4, 16], "a strip for rings, one for whole caches"
    assert [group_label(layers, group) for group in groups] == ["16 of 20 +12", "4 of 20 +3"]
    _, y0, _, y1 = one.driver.rect("kv_cache.map")
    rows = one.ui.local(CachePicture).row_of
    assert len(rows) == 20 and (y1 - y0) % 2 == 0
    measured = replace(one.state, cache=replace(one.state.cache, by="key-norm"))
    assert len(strips(measured)) == 20, "of what differs from layer to layer each has a row"
    assert {rows[i] for i in FULL}.isdisjoint(rows[i] for i in range(20) if i not in FULL)


@pytest.mark.vulkan
def test_the_grid_has_a_map_for_each_head(tall, scene, device, monkeypatch):
    """Of all 280; layers that share keys are drawn over those of the layer that owns them. Of a
    ring's rows those are there whose keys are."""
    monkeypatch.setattr(work, "SOFTWARE_IDLE_MS", 200.0)
    stage = scene(256, 256)
    maps = AttentionMaps(device, stage.renderer)
    stage.loop.prepare, stage.loop.submitted = maps.record, maps.submitted
    tokens = np.random.default_rng(3).integers(0, 290, TOKENS).tolist()
    with (
        running(tall, exact("cpu", context=CONTEXT)) as runner,
        running(tall, exact("cpu", context=CONTEXT, whole_caches=True)) as whole,
    ):
        for one in (runner, whole):
            one.session.prefill(tokens)
        source = runner.attention
        heads = [(layer, h) for layer, one in enumerate(source.layers) for h in range(one.heads)]
        assert len(heads) == 280 and source.rows == range(TOKENS)
        lost = 60 + runner.executor.program.most_drafted  # of a ring, whose last are for drafts

        def paint(draw):
            maps.begin(source, False)
            for head in heads:
                maps.thumbnail(*head)

        stage.draw(paint)
        for _ in range(400):
            if not maps.pending:
                break
            stage.draw(paint)
        assert not maps.pending and maps._store.heads == heads
        for layer in (0, 4, 18, 19, 20, 23, 24, 34):
            full = (layer + 1) % 5 == 0
            assert source.layers[layer].window == (0 if full else 512)
            assert source.rows_of(layer) == range(0 if full else lost + 511, TOKENS)
            assert_shown(source, source.rows_of(layer), maps._store.atlas, layer)
        for layer in (0, 3):  # sums of another order grow apart from layer to layer
            assert_exact(source, whole.attention, layer)
        stage.loop.wait()
        maps.close()


def maps_of(source, layer):
    found = np.zeros((8, TOKENS, TOKENS), np.float32)
    head_maps(source, layer, range(8), found)
    return found


def assert_exact(source, whole, layer):
    """Rows whose keys the ring has lost are marked, others are as if none were lost."""
    found, rows = maps_of(source, layer), source.rows_of(layer)
    assert np.isnan(found[:, : rows.start]).all()
    np.testing.assert_allclose(found[:, rows], maps_of(whole, layer)[:, rows], atol=1e-4)


def assert_shown(source, rows, atlas, layer):
    """Every pixel is the largest probability of its block, of the rows that can be told."""
    at, window = np.arange(TOKENS), source.layers[layer].window
    seen = (at[None] <= at[:, None]) & (at[:, None] >= rows.start)
    if window:
        seen &= at[None] > at[:, None] - window
    for head, found in enumerate(maps_of(source, layer)):
        number = layer * 8 + head
        want = pooled(np.where(seen, found, np.nan), 1 << atlas.cells[number].shift)
        size = len(want)
        got = values_of(atlas, number)[:size, :size]
        np.testing.assert_allclose(got, want, atol=5e-5, err_msg=f"layer {layer}, head {head}")
