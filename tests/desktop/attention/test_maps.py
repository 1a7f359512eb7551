"""What the screen shows of attention against the NumPy definition, on a validated device."""

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.inspect.attention import head_maps
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.messages import KV_TYPES
from llm_lite.desktop.attention import colors, maps, work
from llm_lite.desktop.attention.text import MapText
from llm_lite.desktop.widgets.head_maps import ColorScale
from tests.desktop.attention_rig import (
    Rig,
    assert_thumbnails,
    expected,
    pooled,
    thumbnails,
    values_of,
)
from tests.desktop.engine.attention import RandomSource
from tests.runners import BACKENDS, exact, running

pytestmark = pytest.mark.vulkan

DTYPES = {"f32": 2e-5, "f16": 2e-5}  # both read what is stored; sums are float32


@pytest.fixture
def rig(scene, device, monkeypatch):
    made = []

    def make(**options):
        on_device = options.pop("on_device", False)
        source = RandomSource(**options, device=device if on_device else None)
        made.append(Rig(scene, device, source, monkeypatch))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("on_device", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_thumbnails(rig, dtype, on_device):
    one = rig(dtype=dtype, on_device=on_device)
    one.source.grow(50)
    one.until_complete(thumbnails)
    assert_thumbnails(one, DTYPES[dtype])
    assert one.source.holders == 0


@pytest.mark.parametrize(
    "options",
    [
        {"window": 7},
        {"kv_heads": 4},
        {"kv_heads": 1, "heads": 3},
        {"softcap": 0.9, "window": 9},
        {"sinks": 3.0},
        {"sinks": 200.0},
    ],
)
def test_windows_groups_caps_and_sinks(rig, options):
    one = rig(**options)
    one.source.grow(40)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


@pytest.mark.parametrize("on_device", [False, True])
def test_growing_is_the_same_as_from_scratch(rig, on_device):
    """Token by token and in chunks, through three changes of the pooling."""
    one = rig(context=600, on_device=on_device, layers=1)
    for count in (1, 1, 3, 40, 20, 1, 64, 130, 5, 255):
        one.source.grow(count)
        one.frame(thumbnails)
    one.until_complete(thumbnails)
    assert one.maps._store.atlas.cells[0].shift == 4
    assert_thumbnails(one, 2e-5)


def test_growing_by_more_than_a_factor_of_two_halves_again_in_a_frame(rig):
    one = rig(context=1024)
    for count in (20, 700):
        one.source.grow(count)
        one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


@pytest.mark.parametrize("kept", [0, 1, 63, 64, 100])
def test_a_changed_prefix_is_drawn_again(rig, kept):
    one = rig(context=300, layers=1)
    one.source.grow(150)
    one.until_complete(thumbnails)
    one.source.cut(kept)
    one.source.grow(120, tokens=[77] * 120)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)
    one.source.cut(20)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


def test_equal_tokens_computed_anew_are_drawn_again(rig):
    """As after other gains: the conversation is the same, its keys and queries are not."""
    one = rig(context=300, layers=1)
    one.source.grow(150)
    one.until_complete(thumbnails)
    tokens = one.source.tokens()
    one.source.cut(0)
    one.source.epoch += 1
    one.source.grow(150, tokens=tokens)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)


def test_the_ring_wraps_around(rig):
    """Rows that were drawn stay; rows whose queries are gone stay empty."""
    one = rig(context=128, ring=32, layers=1)
    for _ in range(10):
        one.source.grow(6)
        one.until_complete(thumbnails)
    assert one.maps.rows == range(28, 60)
    atlas = one.maps._store.atlas
    rows = values_of(atlas, 0)
    np.testing.assert_allclose(rows[28:60, :60], expected(one.source, 0, 0)[28:], atol=2e-5)
    assert not np.isnan(rows[range(60), range(60)]).any()
    late = rig(context=128, ring=32, layers=1)
    late.source.grow(60)
    late.until_complete(thumbnails)
    rows = values_of(late.maps._store.atlas, 0)
    assert np.isnan(rows[:28]).all()
    np.testing.assert_allclose(rows[28:60, :60], expected(late.source, 0, 0)[28:], atol=2e-5)


def test_without_the_first_token(rig):
    one = rig(sharpness=6.0)
    one.source.key_rows[:, 0] = 0
    one.source.grow(50)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)
    one.maps.use(ColorScale(exclude_first=True))
    one.until_complete(thumbnails)
    assert_thumbnails(one, 5e-5, exclude=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("window", "side"),
    [(range(500), 128), (range(500), 400), (range(100, 116), 300), (range(37, 260), 100)],
)
def test_pictures_of_any_part(rig, dtype, window, side):
    one = rig(context=512, layers=1, dtype=dtype)
    one.source.grow(500)

    def paint(maps, draw_list):
        maps.picture("one", 0, 3, window, window, side)

    one.until_complete(paint)
    surface = one.maps._requests.pictures["one"]
    pool = 1 << surface.cells[0].shift
    assert pool == 2 ** max(0, int(np.ceil(np.log2(len(window) / surface.size[0]))))
    part = expected(one.source, 0, 3)[window.start :, window.start :]
    got = values_of(surface, 0)
    size = min(surface.size[0], len(window) // pool)
    want = pooled(part, pool)[:size, :size]
    np.testing.assert_allclose(got[:size, :size], want, atol=DTYPES[dtype])


def test_maps_of_a_view_that_rests_go_on(rig, monkeypatch):
    """What it asked for counts until it is drawn again, and no longer."""
    one = rig(context=512, layers=1)
    one.source.grow(400)
    monkeypatch.setattr(work, "SOFTWARE_IDLE_MS", 0.2)  # not all in one frame

    def drawn(maps, draw_list):
        maps.asks("head")
        maps.picture("one", 0, 3, range(400), range(400), 128)
        maps.asks("attention")

    def resting(maps, draw_list):
        pass

    one.frame(drawn)
    assert one.maps.pending
    one.until_complete(resting)
    surface = one.maps._requests.pictures["one"]
    want = pooled(expected(one.source, 0, 3), 1 << surface.cells[0].shift)[:128, :128]
    np.testing.assert_allclose(values_of(surface, 0)[: len(want), : len(want)], want, atol=2e-5)

    one.frame(lambda maps, draw_list: maps.asks("head"))
    assert not one.maps._requests.cells()


def test_maps_computed_behind_the_picture(rig):
    one = rig(context=256, layers=2)
    loop = one.scene.loop
    loop.prepare, loop.record_later = one.maps.prepare, one.maps.record
    one.source.grow(100)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)
    recorded = loop.recorded
    one.frame(lambda maps, draw_list: None)
    assert loop.recorded == recorded + 2, "the frame, and what would have followed"


def test_maps_that_go_are_counted(rig):
    one = rig(context=512, layers=1)
    one.source.grow(100)
    paint = lambda maps, draw_list: maps.picture("one", 0, 3, range(100), range(100), 128)  # noqa: E731
    one.until_complete(paint)
    before = one.maps.vanished
    one.frame(lambda maps, draw_list: maps.drop("one"))
    assert one.maps.vanished == before + 1
    assert not one.maps._requests.cells()


def test_what_the_screen_shows(rig):
    """The pixels of the frame are the colours of the numbers, linear and logarithmic, over black
    paper; near nothing they are the paper's own."""
    one = rig(sharpness=2.0)
    one.source.grow(48)
    for look in (
        ColorScale(high=0.5),
        ColorScale("magma", logarithmic=True),
        ColorScale("blues", light=True),
    ):

        def paint(maps, draw_list, look=look):
            maps.use(look)
            picture = maps.picture("one", 1, 2, range(48), range(48), 96)
            low, high = imgui.ImVec2(8, 8), imgui.ImVec2(8 + 480, 8 + 480)
            texture = imgui.ImTextureRef(picture.texture)
            uv = imgui.ImVec2(*picture.low), imgui.ImVec2(*picture.high)
            draw_list.add_image(texture, low, high, *uv)

        pixels = one.until_complete(paint)[13:488:10, 13:488:10]
        p = expected(one.source, 1, 2)
        table = colors.faded(look.colors, look.light).astype(float)
        table = table[:, :3] * table[:, 3:] / 255
        low = look.low if look.logarithmic else 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (p - low) / (look.high - low)
            if look.logarithmic:
                share = np.log(np.maximum(p, low) / low) / np.log(look.high / low)
        drawn = ~np.isnan(p)
        index = np.rint(np.clip(share[drawn], 0, 1) * 255).astype(int)
        np.testing.assert_allclose(pixels[drawn][:, :3], table[index], atol=3)
        assert (pixels[~drawn][:, :3] == 0).all()


def test_value_under_the_pointer(rig):
    one = rig()
    one.source.grow(40)
    seen = []

    def paint(maps, draw_list):
        maps.picture("one", 0, 1, range(40), range(40), 128)
        seen.append((maps.value("one", 30, 12), maps.value("one", 5, 20)))

    one.until_complete(paint)
    assert seen[0] == (None, None)

    def only(maps, draw_list):
        maps.picture("one", 0, 1, range(40), range(40), 128)
        seen.append(maps.value("one", 30, 12))

    for _ in range(4):
        one.frame(only)
    assert seen[-1] == pytest.approx(expected(one.source, 0, 1)[30, 12], abs=2e-5)
    assert one.maps.read_back["maps"] == 0
    assert 0 < one.maps.read_back["pointer"] <= 4 * len(seen)


@pytest.mark.parametrize(
    "options", [{}, {"window": 9}, {"ring": 24}, {"softcap": 2.0}, {"sinks": 2.0}], ids=str
)
def test_scores_are_those_of_their_definition(rig, monkeypatch, options):
    monkeypatch.setattr(maps, "SCORE_PERIOD", 0.0)
    one = rig(sharpness=4.0, **options)
    one.source.grow(40, tokens=[*range(20), *range(7, 20), *[3] * 7])

    def paint(maps, draw_list):
        thumbnails(maps, draw_list)
        maps.scores()

    one.until_complete(paint)
    for _ in range(4):
        one.frame(paint)
    source, found = one.source, one.maps.scores()
    assert list(found) == list(SCORES)
    assert one.maps.scored_rows == len(source.rows) * len(one.maps._store.heads)
    for number, (layer, head) in enumerate(one.maps._store.heads):
        p = np.nan_to_num(expected(source, layer, head))[None, source.rows.start :]
        for name, score in SCORES.items():
            want = score(p.astype(np.float32), source.rows, source.tokens())
            np.testing.assert_allclose(found[name][number], want[0], rtol=2e-3, atol=1e-3)


def test_scores_that_cannot_be_told(rig, monkeypatch):
    monkeypatch.setattr(maps, "SCORE_PERIOD", 0.0)
    one = rig()
    one.source.grow(12, tokens=range(12))

    def paint(maps, draw_list):
        thumbnails(maps, draw_list)
        maps.scores()

    one.until_complete(paint)
    for _ in range(4):
        one.frame(paint)
    found = one.maps.scores()
    assert np.isnan(found["induction"]).all() and np.isnan(found["duplicate"]).all()
    assert (found["first"] > 0).all()


def test_sentences_where_there_is_nothing_to_draw(rig):
    one = rig(ring=32)
    assert "Load a model" in one.maps.problem
    one.frame(lambda maps, d: None)
    assert "second token" in one.maps.problem
    one.source.grow(1)
    one.frame(lambda maps, d: None)
    assert "second token" in one.maps.problem
    one.source.grow(1)
    one.frame(lambda maps, d: None)
    assert one.maps.problem == ""
    one.source.note = "The budget for queries is too small."
    assert one.maps.problem == one.source.note


def test_maps_are_of_the_tokens_in_front_alone():
    """The engine may have another text by now, or more than is in front."""
    source, text = RandomSource(), MapText()
    source.grow(5, [1, 2, 3, 4, 5])
    text.update(source, (1, 2, 3))
    assert text.tokens == (1, 2, 3) and text.rows == range(3)
    assert text.is_current(source, (1, 2, 3)) and not text.is_current(source, (1, 2))
    assert text.update(source, (1, 7, 3, 4)) == 1, "the first has the row that it had"
    assert text.tokens == (1,)
    text.update(source)
    assert text.tokens == (1, 2, 3, 4, 5)


def test_another_source_and_a_closed_one(rig):
    one = rig()
    one.source.grow(30)
    one.until_complete(thumbnails)
    first = one.source
    one.source = RandomSource(layers=3, heads=2, seed=5)
    one.source.grow(35)
    one.until_complete(thumbnails)
    assert_thumbnails(one, 2e-5)
    one.source.grow(5)
    one.source.alive = False
    one.frame(thumbnails)
    assert one.source.holders == first.holders == 0


@pytest.mark.parametrize("kv", KV_TYPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_maps_of_a_running_model(scene, device, tiny_llama, backend, kv, monkeypatch):
    """A small llama on every executor, before and after it has written on."""
    used = device if backend == "vulkan" else None
    with running(tiny_llama, exact(backend, keys=kv, values=kv), device=used) as runner:
        source = runner.attention
        one = Rig(scene, device, source, monkeypatch)
        runner.session.prefill(list(range(40, 70)))
        for token in (9, 11, 40, 41):
            runner.session.decode(token)
            one.until_complete(thumbnails)
            n = source.length
            for number, (layer, head) in enumerate(one.maps._store.heads):
                want = np.empty((1, n, n), np.float32)
                head_maps(source, layer, [head], want)
                got = values_of(one.maps._store.atlas, number)[:n, :n]
                assert (np.isnan(got) == ~np.tri(n, dtype=bool)).all()
                np.testing.assert_allclose(np.nan_to_num(got), want[0], atol=2e-5)
        one.scene.loop.wait()
        one.maps.close()
