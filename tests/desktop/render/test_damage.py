"""Frames that draw only what differs show, to the last bit, what a whole frame would."""

from types import SimpleNamespace

import numpy as np
import pytest
from imgui_bundle import ImVec2, imgui

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.messages import EngineOptions, LoadModel, SamplingOptions
from llm_lite.desktop.features.attention.model import SetAttention
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.chat.model import Send
from llm_lite.desktop.features.program.model import SetTheme
from llm_lite.desktop.render import damage
from llm_lite.desktop.render.damage import MOST, joined
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.render.offscreen import OffscreenTarget
from tests.desktop.engine.engine import ScriptedEngine
from tools.tour.stage import Stage

pytestmark = pytest.mark.vulkan


def area(boxes):
    return sum((x1 - x0) * (y1 - y0) for x0, y0, x1, y1 in boxes)


@pytest.mark.parametrize("spare", [0, 200, 5000])
@pytest.mark.parametrize("seed", range(20))
def test_joined_boxes_cover_all_and_are_few(seed, spare, monkeypatch):
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 90, (40, 2))
    boxes = [
        (x, y, x + w, y + h)
        for (x, y), (w, h) in zip(low, rng.integers(1, 30, (40, 2)), strict=True)
    ]
    boxes = [tuple(map(int, box)) for box in boxes]
    monkeypatch.setattr(damage, "PASS", spare)
    found = joined(boxes)
    assert 0 < len(found) <= MOST
    covered = np.zeros((130, 130), bool)
    for x0, y0, x1, y1 in found:
        covered[y0:y1, x0:x1] = True
    for x0, y0, x1, y1 in boxes:
        assert covered[y0:y1, x0:x1].all()


def test_far_corners_stay_apart():
    assert len(joined([(0, 0, 4, 4), (900, 900, 990, 990), (2, 0, 6, 4)])) == 2
    assert joined([(0, 0, 90, 90), (90, 90, 99, 99)]) == [(0, 0, 99, 99)], "not worth a pass"
    assert joined([]) == []


def whole_frame(device, renderer, target, clear):
    """The draw data of the frame that was drawn last, drawn from nothing."""
    other = OffscreenTarget(device, target.width, target.height)
    pool = CommandPool(device, device.queue)
    (commands,) = pool.allocate()
    with pool.record(commands, once=True):
        renderer.record(commands, imgui.get_draw_data(), other.begin_frame(), clear, aside=True)
    value = device.queue.submit([commands])
    renderer.submitted(value)
    other.end_frame(None, value)
    pixels = other.read_rgba()
    other.close()
    pool.close()
    return pixels


def spy(renderer):
    """What each frame drew anew; None for a whole one."""
    seen, of = [], renderer._damage.of

    def noted(*arguments):
        seen.append(of(*arguments))
        return seen[-1]

    renderer._damage = SimpleNamespace(of=noted, forget=renderer._damage.forget)
    return seen


def test_random_pictures(scene, device, monkeypatch):
    """Things come, go, move, change colour and order."""
    monkeypatch.setattr(
        "tests.desktop.conftest.ImguiRenderer", lambda d, f: ImguiRenderer(d, f, partial=True)
    )
    monkeypatch.setattr(damage, "PASS", 0)  # as parts of a large picture
    one = scene(160, 120)
    seen, rng = spy(one.renderer), np.random.default_rng(3)
    things = []

    def paint(draw):
        for x, y, kind, color in things:
            at, end = ImVec2(x, y), ImVec2(x + 25, y + 12)
            if kind == 0:
                draw.add_rect_filled(at, end, color, 3.0)
            elif kind == 1:
                draw.add_text(at, color, f"{color:x}"[:4])
            else:
                draw.push_clip_rect(at, ImVec2(x + 9, y + 9), True)
                draw.add_rect_filled_multi_color(at, end, color, 0xFF00FF00, color, 0xFFFF0000)
                draw.pop_clip_rect()

    for frame in range(80):
        for _ in range(int(rng.integers(0, 3))):
            thing = (*rng.integers(-9, 150, 2).tolist(), int(rng.integers(3)))
            thing = (*thing, int(rng.integers(1 << 24)) | int(rng.integers(90, 256)) << 24)
            at = int(rng.integers(len(things) + 1))
            things[at : at + int(rng.integers(2))] = [thing] if rng.random() < 0.7 else []
        if frame == 40:
            one.surface.resize(150, 130)
        got = one.draw(paint)
        want = whole_frame(device, one.renderer, one.surface, (0.0, 0.0, 0.0, 1.0))
        np.testing.assert_array_equal(got, want)
    assert sum(boxes is None for boxes in seen) == 2, "the first frame, and the new size"
    assert any(boxes == [] for boxes in seen)


@pytest.fixture
def stage(monkeypatch):
    monkeypatch.setenv("LLM_LITE_VALIDATION", "1")
    one = Stage(EngineOptions(), SamplingOptions(max_new_tokens=40), 0.0)
    yield one
    messages = list(one.device.validation_messages)
    one.close()
    assert messages == []


def test_the_program_while_it_is_used(stage):
    """Loading, an answer, live maps, popovers, another theme: every frame is compared."""
    if stage.device.info.kind != "software":
        pytest.skip("whole frames are drawn where that costs nothing")
    screen, shares = stage._screen, []
    screen.loop.prepare = screen.maps.record
    screen.loop.record_later = None  # nothing after the picture
    seen = spy(screen.renderer)

    def check():
        got = stage._backstage.target.read_rgba()
        want = whole_frame(
            stage.device, screen.renderer, stage._backstage.target, screen.loop.clear
        )
        np.testing.assert_array_equal(got, want)
        boxes = seen[-1]
        shares.append(1.0 if boxes is None else area(boxes) / got[..., 0].size)

    draw = stage._draw

    def checked():
        draw()
        check()

    stage.driver._draw = checked
    stage._engine = ScriptedEngine(steps_per_poll=1)  # so that each token has a frame of its own
    stage.program.start(stage._engine)
    stage._engine.submit(LoadModel(None))
    stage.driver.wait("the model", lambda s: s.model is not None)
    stage.program.do(Send("Why is the sky blue?"))
    stage.driver.wait("some words", lambda s: s.messages and len(s.messages[-1].tokens) > 2)
    shares.clear()
    stage.driver.wait("the answer", lambda s: not s.busy)
    assert len(shares) > 20
    assert np.median(shares) < 0.5, "most of the window is left as it is"
    stage.program.do(SetAttention(AttentionChoice(locked=((0, 1),), row=3)))
    for name in ("tab.head", "chat.xray", "rail.settings", "settings.close", "attention.look.open"):
        stage.driver.click(name)
    stage.program.do(SetTheme("light"))
    stage.driver.frames(3)
    stage.driver.leave()
