"""The cache's views used through ImGui's input queue, and drawn: a fake engine behind them."""

from dataclasses import replace

import numpy as np
import pytest
from imgui_bundle import imgui

from core.engine import Engine
from core.messages import (
    CacheLayer,
    CacheLayout,
    Generate,
    LoadModel,
    MeasureCache,
    OpenCache,
    Reconfigure,
    SamplingOptions,
    SaveCache,
)
from desktop import actions as a
from desktop.cache_actions import ColorCache, PointAt, SetOverflow
from desktop.cache_state import (
    layer_bytes,
    reserved_bytes,
    reused_positions,
    used_bytes,
    with_turns,
)
from desktop.picture import Picture
from desktop.state import AppState, Message
from desktop.theme import DARK, u32
from desktop.units import size
from desktop.views import highlight
from desktop.views.highlight import character_places
from desktop.views.kv_colors import (
    Scale,
    Window,
    greatest,
    kind_colors,
    kinds,
    pack,
    paint,
    positions_of,
    shade,
)
from desktop.views.kv_tip import ranges, value_at, whose
from desktop.views.kv_totals import alike
from desktop.views.kv_window import Zoom, look, window_of
from desktop.views.overflow import fullness, headroom
from tests.desktop.fake_engine import ANSWER, EXECUTOR, MODEL, ROW, FakeEngine, pieces_of
from tests.desktop.test_interface import headless  # noqa: F401
from tests.desktop.test_token_views import sent
from tests.runners import BACKENDS, exact

QUESTION = "Why is the sky blue?"
RINGS = CacheLayout(
    (
        *(CacheLayer(layer, (), 256, 200, ROW, ROW) for layer in range(3)),
        CacheLayer(3, (4, 5), 1024, 0, ROW, ROW),
    ),
    reserved_bytes=(3 * 256 + 1024) * 2 * ROW,
)
READY = AppState(model=MODEL, executor=EXECUTOR)


@pytest.fixture
def talk(headless):  # noqa: F811
    """A conversation of one answer beside the cache's view; `rings` for sliding windows."""

    def make(rings=False, view=(1400, 1700)):
        one, engine = headless(AppState(), size=view), FakeEngine(0.0)
        if rings:
            engine.model = replace(MODEL, context=1024, layers=6, cache=RINGS)
        one.program.start(engine)
        engine.send(LoadModel(None))
        one.robot.wait("the model", lambda s: s.model is not None, 5)
        engine.source = None  # nobody looks at attention here
        one.robot.click("tab.kv_cache")
        say(one, QUESTION)
        engine.commands.clear()
        return one, engine

    return make


def say(one, text):
    one.program.do(a.Send(text))
    one.robot.wait("the answer", lambda s: s.messages and not s.busy, 10, pace=0)
    one.robot.wait("its status", lambda s: s.cache.status.length == s.context_used, 5)
    one.robot.frames(3)


def point(one, position, row=0, layers=30):
    """At the middle of a position's column in a layer's row."""
    x0, y0, x1, y1 = one.robot.rect("kv_cache.map")
    window = window_of(one.state, one.ui.memory["kv.zoom"], int(x1 - x0))
    x = x0 + window.x(position + 0.5)
    imgui.get_io().add_mouse_pos_event(x, y0 + (row + 0.5) * (y1 - y0) / layers)
    one.robot.frames(3)


def click(one):
    for down in (True, False):
        imgui.get_io().add_mouse_button_event(0, down)
        one.robot.frames()
    one.robot.frames(2)


def test_the_numbers_are_those_of_the_status(talk):
    one, engine = talk()
    state, layout = one.state, MODEL.cache
    assert state.context_used == state.cache.status.length == len(engine.cached)
    assert used_bytes(layout, state.context_used) == len(engine.cached) * 30 * 2 * ROW
    say(one, "And at night?")
    status = one.state.cache.status
    assert one.state.cache.reused == status.reused > 100
    assert status.saved_bytes == status.reused * 30 * 2 * ROW
    assert one.robot.shows("kv_cache.forecast") and one.robot.shows("kv_cache.pool")


def test_pointing_names_the_token_and_lights_it_up_in_the_chat(talk):
    one, _ = talk()
    start = 2 + len(pieces_of(QUESTION)) + 2
    point(one, start + 3)
    assert one.state.cache.pointed == start + 3
    one.robot.frames(2)
    x0, y0, x1, y1 = one.robot.rect("chat.pointed")
    message = one.robot.rect("message.1")
    assert message[0] - 8 <= x0 < x1 and message[1] <= y0 < y1 <= message[3]
    point(one, 3)
    assert one.state.cache.pointed == 3
    assert one.robot.rect("chat.pointed")[3] <= one.robot.rect("message.0")[3]
    one.robot.leave()
    assert one.state.cache.pointed is None and not one.robot.shows("chat.pointed")


@pytest.mark.parametrize("size", [(1400, 1700), (700, 1700), (3000, 1700)])
def test_every_token_of_a_message_is_found_in_its_text(talk, size, monkeypatch):
    one, _ = talk(view=size)
    shown = []
    calls = highlight._within

    def within(ui, page, places, span):
        runs = [run for _, laid in page.blocks for run in laid.runs]
        parts = zip(runs, places, strict=True)
        shown.append(
            "".join(
                c
                for r, p in parts
                for c, at in zip(r.text, p, strict=True)
                if span[0] <= at < span[1]
            )
        )
        return calls(ui, page, places, span)

    monkeypatch.setattr(highlight, "_within", within)
    start, unseen = 2 + len(pieces_of(QUESTION)) + 2, ""
    for n, piece in enumerate(pieces_of(ANSWER)):
        shown.clear()
        one.program.do(PointAt(start + n))
        imgui.new_frame()
        one.program.interface.frame(one.state, 0.0)
        imgui.render()
        if shown:
            bare = "".join(c for c in piece if c.isalnum())
            marks = "".join(c for c in shown[0] if c.isalnum())
            assert marks in bare, (n, piece, shown)
            unseen += bare.replace(marks, "", 1)
    assert unseen.rstrip("12") in ("", "python"), "only what is no text: a language, numbers"


def test_what_is_shown_is_found_in_what_was_written():
    text = "A *few* [words](http://a.b/words) and `more`."
    (first, second) = character_places(text, ["A few words", " and more."])
    shown = zip("A few words and more.", [text[at] for at in first + second], strict=True)
    assert all(a == b for a, b in shown if a != " ")


def test_a_click_holds_the_token_and_a_second_lets_go(talk):
    one, _ = talk()
    point(one, 40)
    click(one)
    assert one.state.attention.row == 40
    click(one)
    assert one.state.attention.row is None


def test_zoom_goes_from_the_whole_context_to_single_tokens(talk):
    one, _ = talk()
    zoom = one.ui.memory["kv.zoom"]
    one.robot.click("kv_cache.context")
    assert window_of(one.state, zoom, 400) == Window(0.0, 8192.0, 400)
    point(one, 100)
    for _ in range(40):
        one.robot.wheel(1.0)
    window = window_of(one.state, zoom, 400)
    assert window.span == 8.0 and window.first <= 100 < window.first + 8
    one.robot.click("kv_cache.used")
    assert window_of(one.state, zoom, 400).span >= one.state.context_used
    _, y0, x1, y1 = one.robot.rect("kv_cache.map")
    one.robot.click("kv_cache.in")
    first, io = zoom.own[0], imgui.get_io()
    io.add_mouse_pos_event(x1 - 20, (y0 + y1) / 2)
    one.robot.frames(2)
    io.add_mouse_button_event(0, True)
    one.robot.frames()
    for step in range(1, 6):
        io.add_mouse_pos_event(x1 - 20 + step * 10, (y0 + y1) / 2)
        one.robot.frames()
    io.add_mouse_button_event(0, False)
    one.robot.frames(2)
    assert zoom.own[0] < first and one.state.attention.row is None, "a drag is no click"


def test_colours_ask_the_engine_once(talk):
    one, engine = talk()
    for by in ("key-norm", "value-norm", "received"):
        one.program.do(ColorCache(by, False))
        one.robot.frames(2)
        one.robot.wait("the numbers", lambda s: s.cache.measured is not None, 5)
        one.robot.frames(5)
        assert [m.what for m in sent(engine, MeasureCache)] == [by]
        assert value_at(one.state, 3, 40).endswith(("3.04", "304.00%"))
        engine.commands.clear()
    one.program.do(ColorCache("age", False))
    one.robot.frames(3)
    fresh = replace(one.state, owners=(), positions=(), context_used=0)
    one.program.state, before = fresh, one.state
    one.robot.frames(3)
    one.program.state = before
    one.robot.frames(3)
    assert sent(engine, MeasureCache) == []
    assert value_at(one.state, 3, one.state.context_used - 1) == "the newest"


def test_a_ring_shows_the_last_positions_and_where_it_writes(talk):
    one, _ = talk(rings=True)
    say(one, "And at night?")
    length = one.state.context_used
    assert length > 256
    point(one, 5, row=0, layers=4)
    assert one.state.cache.pointed is None, "overwritten there"
    point(one, 5, row=3, layers=4)
    assert one.state.cache.pointed == 5
    one.robot.click("kv_cache.slots")
    assert one.state.cache.slots
    point(one, 5, row=0, layers=4)
    assert one.state.cache.pointed == 256 + 5


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 31])
def test_places_of_a_ring_are_those_where_positions_were_written(length):
    ring, memory = CacheLayer(0, (), 8, 0, 1, 1), [-1] * 8
    for position in range(length):
        memory[position % 8] = position
    assert positions_of(ring, length, 12, True).tolist() == [*memory, -2, -2, -2, -2]
    seen = positions_of(ring, length, 40, False)
    assert [p for p in seen.tolist() if p >= 0] == sorted(p for p in memory if p >= 0)
    assert (seen[length:] == -1).all() and (seen[: max(length - 8, 0)] == -2).all()


def test_overflow_is_seen_coming_and_marked(talk):
    one, _ = talk(rings=True)
    one.robot.click("rail.sampler")
    one.robot.click("sampler.overflow.forget-middle")
    assert one.did(SetOverflow) and one.state.overflow == "forget-middle"
    one.robot.press(imgui.Key.escape)
    for n in range(5):
        say(one, f"Number {n}?")
    assert one.state.cache.forgotten and one.state.context_used <= 1024
    assert len(one.state.messages) == 12, "the window keeps all"
    marks, io = set(), imgui.get_io()
    x0, y0, x1, y1 = one.robot.rect("view.chat")
    io.add_mouse_pos_event((x0 + x1) / 2, (y0 + y1) / 2)
    for _ in range(120):
        one.robot.wheel(1.0)
        marks |= {name for name in one.ui.rects if name.endswith(("unseen", "seen"))}
    assert any(name.endswith(".unseen") for name in marks)
    assert any(name.endswith(".seen") for name in marks)


def test_the_meter_warns_at_80_and_95_percent():
    assert [fullness(x) for x in (0.5, 0.79, 0.8, 0.94, 0.95, 1.0)] == [
        "accent", "accent", "warning", "warning", "error", "error",
    ]  # fmt: skip
    said = (Message("user", "x"), Message("assistant", "y"))
    state = with_turns(replace(READY, messages=said, owners=(0,) * 100 + (1,) * 900))
    assert headroom(replace(state, context_used=1000)) == ("room for about 7 more turns", "muted")
    assert headroom(replace(state, context_used=7000)) == ("room for about 1 more turn", "warning")
    assert headroom(replace(state, context_used=8000)) == ("the next turn may not fit", "error")


def test_memory_is_chosen_with_its_cost(talk):
    one, engine = talk(view=(1400, 900))
    one.robot.click("rail.memory")
    assert one.state.memory_available > 0
    one.robot.click("memory.keys.int8")
    assert one.state.options.keys == "fp16", "not before it is applied"
    one.robot.click("memory.revert")
    one.robot.click("memory.apply")
    assert sent(engine, Reconfigure) == []
    one.robot.click("memory.values.int8")
    one.robot.click("memory.apply")
    (command,) = sent(engine, Reconfigure)
    assert (command.options.keys, command.options.values) == ("fp16", "int8")


def test_what_does_not_fit_is_said(headless, monkeypatch):  # noqa: F811
    import desktop.program

    monkeypatch.setattr(desktop.program, "available_bytes", lambda: 1 << 20)
    one = headless(replace(READY, model=replace(MODEL, trained_context=1 << 20)), size=(1400, 900))
    said = []
    monkeypatch.setattr("desktop.views.memory.wrapped", lambda ui, words, *_: said.append(words))
    one.program.do(a.SetOptions(replace(one.state.options, context=1 << 19)))
    one.program.state = replace(one.state, load=None)
    one.robot.click("rail.memory")
    one.robot.frames(3)
    assert any(words.startswith("That does not fit: 181 MiB are free") for words in said)


def test_keeping_on_disk_and_taking_up(talk, monkeypatch, tmp_path):
    monkeypatch.setattr("desktop.views.kv_totals.kept_file", lambda: tmp_path / "x.kv")
    one, engine = talk(view=(1400, 2600))
    one.robot.click("kv_cache.keep")
    one.robot.click("kv_cache.take_up")
    assert sent(engine, SaveCache) == [SaveCache(str(tmp_path / "x.kv"))]
    assert sent(engine, OpenCache) == [OpenCache(str(tmp_path / "x.kv"))]


def test_an_edit_says_how_much_was_reused(talk):
    one, engine = talk()
    say(one, "And at night?")
    one.program.do(a.EditMessage(2))
    say(one, "And on Mars?")
    (_, command) = sent(engine, Generate)
    assert command.overflow == "stop"
    stats = one.state.messages[-1].stats
    assert 0.9 < stats.reused_tokens / stats.prompt_tokens < 1
    assert one.robot.shows("message.3.stats")


def test_kinds_follow_owners():
    said = (Message("user", "x"), Message("assistant", "y"))
    state = replace(READY, messages=said, owners=(-1, -2, 0, 0, 1), context_used=5)
    assert kinds(state).tolist() == [1, 2, 3, 3, 4]
    assert [whose(state, p) for p in (0, 1, 2, 4)] == [
        "the chat template's own", "system prompt", "you, message 1", "answer, message 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "span", "pixels"), [(0, 8192, 300), (100.5, 77.3, 301), (3, 8, 333)]
)
def test_pixels_and_columns_belong_together(first, span, pixels):
    window = Window(first, span, pixels)
    columns = window.columns()
    assert columns[0] == int(first) and abs(columns[-1] - (first + span)) < 1
    for x in range(0, pixels, 7):
        assert window.at(x + 1e-6) == columns[x]
    colors = np.zeros((8200, 3), np.float32)
    colors[:, 0] = 200
    painted = paint(colors, np.ones(8200, np.float32), window)
    assert set((painted & 0xFF).tolist()) == {200} and len(painted) == pixels
    values = np.arange(8200, dtype=np.float32)
    found = greatest(values, window)
    inside = ~np.isnan(found)
    assert (found[inside] >= columns[:-1][inside]).all()
    assert (found[inside] < np.maximum(columns[1:], columns[:-1] + 1)[inside]).all()


def test_columns_of_a_pixel_are_mixed():
    colors = np.zeros((4, 3), np.float32)
    colors[:, 0] = [100, 200, 0, 40]
    painted = paint(colors, np.array([1, 1, 0, 1], np.float32), Window(0, 4, 2))
    assert (painted & 0xFF).tolist() == [150, 40]
    assert (painted >> 24).tolist() == [255, 128]


def test_a_scale_meets_its_ends():
    logs = Scale(1e-4, 1.0, True)
    shares = logs.share(np.array([0, 1e-4, 1e-2, 1, 2], np.float32))
    assert shares == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-5)
    rgb, alpha = shade(np.array([np.nan, 1.0], np.float32), Scale(0, 1), "viridis")
    assert alpha.tolist() == [0, 1] and rgb[1].tolist() == [253, 231, 37]


def test_zoom_stays_within_the_context():
    zoom = Zoom()
    look(zoom, Window(0, 10, 10), 100, -50, 10)
    assert zoom.own == (0, 10)
    look(zoom, Window(0, 10, 10), 100, 99, 1000)
    assert zoom.own == (0, 100)
    look(zoom, Window(0, 10, 10), 100, 99, 0.1)
    assert zoom.own == (92, 8)


def test_layers_that_are_alike_are_told_once():
    groups = alike(RINGS.layers)
    assert [[one.layer for one in group] for group in groups] == [[0, 1, 2], [3]]
    assert ranges((3, 1, 2, 7)) == "1–3, 7"
    assert size(used_bytes(RINGS, 2048)) == size(RINGS.reserved_bytes)


def test_a_picture_is_drawn_to_the_texel_and_again_after_a_change(scene):
    one, picture = scene(64, 48), Picture()
    pixels = np.zeros((2, 16), np.uint32)
    pixels[0, ::2], pixels[1] = 0xFF0000FF, 0xFF00FF00

    def paint_it(draw):
        picture.begin()
        for row in range(2):
            low, high = imgui.ImVec2(4, 4 + 8 * row), imgui.ImVec2(20, 12 + 8 * row)
            picture.draw(draw, low, high, row)

    imgui.set_current_context(one.context)
    picture.write(pixels)
    seen = one.draw(paint_it, 2)
    assert (seen[4:12, 4:20, 0] == np.tile([255, 0], 8)).all()
    assert (seen[12:20, 4:20, 1] == 255).all() and not seen[12:20, 4:20, 0].any()
    pixels[1] = 0xFFFF0000
    picture.write(pixels)
    picture.write(pixels[::-1].copy())
    seen = one.draw(paint_it, 2)
    assert (seen[4:12, 4:20, 2] == 255).all()
    assert (seen[12:20, 4:20, 0] == np.tile([255, 0], 8)).all()
    wide = np.full((20, 600), 0xFF00FF00, np.uint32)
    picture.write(wide)
    seen = one.draw(paint_it, 3)
    assert (seen[4:20, 4:20, 1] == 255).all(), "a larger one takes another texture"


def test_colours_of_owners_are_on_the_picture(talk, scene):
    """What is drawn for a position is the colour that the legend gives its owner."""
    one, _ = talk()
    rows = one.ui.memory["kv.rows"]
    texels, top = rows.picture._texels(), rows.picture._top
    x0, _, x1, _ = one.robot.rect("kv_cache.map")
    window = window_of(one.state, one.ui.memory["kv.zoom"], int(x1 - x0))
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
def test_numbers_of_a_real_model(headless, tiny_llama, backend, tmp_path, monkeypatch, request):  # noqa: F811
    """What the view counts is what the session reports; a kept cache comes back."""
    path = tmp_path / "x.kv"
    monkeypatch.setattr("desktop.views.kv_totals.kept_file", lambda: path)
    device = request.getfixturevalue("device") if backend == "vulkan" else None
    sampling = SamplingOptions(seed=3, max_new_tokens=12)
    one = headless(AppState(sampling=sampling), size=(1400, 2600))
    engine = Engine(device)
    one.program.start(engine)
    engine.send(LoadModel(str(tiny_llama), exact(backend)))
    one.robot.wait("the model", lambda s: s.model is not None, 60)
    one.robot.click("tab.kv_cache")
    for text in ("One two three.", "Four five six."):
        one.program.do(a.Send(text))
        one.robot.wait("the answer", lambda s: not s.busy, 60)
        one.robot.wait("its status", lambda s: s.cache.status.length == s.context_used, 5)
    state, layers = one.state, one.state.model.cache.layers
    status, each = state.cache.status, sum(map(layer_bytes, layers))
    assert status.reused == reused_positions(state.cache) > 12
    assert status.saved_bytes == status.reused * each
    assert used_bytes(state.model.cache, state.context_used) == status.length * each
    assert state.model.cache.reserved_bytes == state.model.kv_bytes == reserved_bytes(layers)
    for by in ("key-norm", "received"):
        one.program.do(ColorCache(by, False))
        one.robot.wait("the numbers", lambda s: s.cache.measured or s.cache.problem, 20)
        assert one.state.cache.problem == ""
        values = one.state.cache.measured.values
        assert values.shape == (len(layers), status.length) and (values[:, :-1] > 0).all()
    one.robot.click("kv_cache.keep")
    one.robot.wait("the file", lambda s: path.is_file() and "saved" in s.log[-1].text, 10)
    assert path.stat().st_size > status.length * each
    one.robot.click("kv_cache.take_up")
    one.robot.wait("the cache", lambda s: "came back" in s.log[-1].text, 10)
    one.robot.frames(3)
    assert one.state.cache.status.length == one.state.context_used == status.length
