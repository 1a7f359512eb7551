"""Maps on the screen of attention that is not causal, of a source, or biased by distance."""

import numpy as np
import pytest

from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.desktop.attention import maps
from llm_lite.desktop.widgets.head_maps import ColorScale
from tests.core.inspect.tiny_stack import DECODER, ENCODER, HEADS, TinyStack
from tests.desktop.attention.test_maps import rig  # noqa: F401
from tests.desktop.attention_rig import Rig, assert_thumbnails, expected, thumbnails, values_of

pytestmark = pytest.mark.vulkan

KINDS = {
    "encoder": {"bidirectional": True},
    "encoder with a bias": {"bidirectional": True, "bias": (31, 15), "softcap": 2.0},
    "decoder with a bias": {"bias": (8, 7), "sinks": 2.0},
    "decoder with slopes": {"bias": (128, 127), "kv_heads": 4},
}


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_thumbnails_as_the_text_grows(rig, kind, on_device):  # noqa: F811
    """An encoder's rows change with every token behind them."""
    one = rig(**KINDS[kind], on_device=on_device)
    for count in (13, 1, 60):
        one.source.grow(count)
        one.until_complete(thumbnails)
        assert_thumbnails(one, 2e-5)


def test_a_token_that_changes_changes_all_rows_of_an_encoder(rig):  # noqa: F811
    one = rig(bidirectional=True, layers=1)
    one.source.grow(30)
    one.until_complete(thumbnails)
    one.source.cut(29)
    one.source.grow(1, tokens=[77])
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


@pytest.mark.parametrize("on_device", [False, True])
def test_cross_attention_has_the_source_as_columns(rig, on_device):  # noqa: F811
    """Sources shorter and longer than the text, and than a thumbnail has pixels."""
    one = rig(cross=(1,), bias=(8, 7), on_device=on_device)
    for source, text in ((5, 30), (100, 3), (100, 70), (13, 2)):
        one.source.encode(source)
        one.source.grow(text)
        one.until_complete(thumbnails)
        assert_thumbnails(one, 2e-5)
        assert one.maps.columns(0) == text and one.maps.columns(1) == source
        assert one.maps.column_tokens(1) == one.source.source_tokens()
    one.source.grow(20)  # the source stays
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


def test_another_source_is_drawn_again(rig):  # noqa: F811
    """Of the same length, for a text that says the same."""
    one = rig(cross=(0, 1))
    for _ in range(2):
        one.source.encode(40)
        one.source.grow(20, tokens=[7] * 20)
        one.until_complete(thumbnails)
        assert_thumbnails(one, 2e-5)


def test_a_thumbnail_shows_as_many_columns_as_the_source_has(rig):  # noqa: F811
    one, pictures = rig(cross=(1,), layers=2), {}
    one.source.encode(100)
    one.source.grow(10)

    def paint(maps, draw_list):
        for layer in (0, 1):
            pictures[layer] = maps.thumbnail(layer, 0)

    one.until_complete(paint)
    sizes = {}
    image = one.maps._store.atlas.image
    for layer, picture in pictures.items():
        wide, high = (np.array(picture.high) - picture.low) * (image.width, image.height)
        sizes[layer] = wide * picture.pool, high * picture.pool
    assert sizes == {0: pytest.approx((10, 10)), 1: pytest.approx((100, 10))}


@pytest.mark.parametrize("exclude", [False, True])
@pytest.mark.parametrize(("layer", "columns"), [(0, range(20, 90)), (1, range(30, 70))])
def test_a_large_map(rig, layer, columns, exclude):  # noqa: F811
    one = rig(cross=(1,), bidirectional=True, bias=(41, 20))
    one.source.encode(70)
    one.source.grow(90)
    rows = range(15, 80)

    def paint(maps, draw_list):
        maps.use(ColorScale(exclude_first=exclude))
        maps.picture("large", layer, 2, rows, columns, 128)
        maps.value("large", 40, 45)

    one.until_complete(paint)
    for _ in range(4):
        one.frame(paint)
    want = expected(one.source, layer, 2, exclude=exclude)
    shown = want[rows.start : rows.stop, columns.start : columns.stop]
    got = values_of(one.maps._requests.pictures["large"], 0)
    np.testing.assert_allclose(got[: len(rows), : len(columns)], shown, atol=2e-5)
    assert one.maps.value("large", 40, 45) == pytest.approx(want[40, 45], abs=2e-5)


@pytest.mark.parametrize("kinds", [ENCODER, DECODER])
def test_what_an_executor_keeps(scene, device, monkeypatch, kinds):
    """Maps and scores of a real plan; of cross-attention there is only the entropy."""
    monkeypatch.setattr(maps, "SCORE_PERIOD", 0.0)
    stack = TinyStack(kinds)
    tokens = np.random.default_rng(5).integers(0, 12, 25).tolist()
    stack.attend(tokens)
    one = Rig(scene, device, stack.source, monkeypatch)

    def paint(maps, draw_list):
        thumbnails(maps, draw_list)
        paint.found = maps.scores() or paint.found

    paint.found = None
    try:
        one.until_complete(paint)
        for _ in range(6):
            one.frame(paint)
        for number, (layer, head) in enumerate(one.maps._store.heads):
            shown = values_of(one.maps._store.atlas, number)
            source = stack.source
            want = np.empty((1, len(tokens), source.columns(layer)), np.float32)
            head_maps(source, layer, [head], want)
            shown = np.nan_to_num(shown[: want.shape[1], : want.shape[2]])
            np.testing.assert_allclose(shown, want[0], atol=2e-6)
            for name, score in SCORES.items():
                found = paint.found[name][layer * HEADS + head]
                if source.layers[layer].cross and name != "entropy":
                    assert np.isnan(found)
                else:
                    mean = score(want, range(len(tokens)), tokens)[0]
                    np.testing.assert_allclose(found, mean, atol=2e-3)
    finally:
        one.scene.loop.wait()
        one.maps.close()
        stack.close()
