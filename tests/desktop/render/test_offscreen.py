import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.desktop.render.offscreen import OffscreenTarget


def window(_draw_list):
    imgui.set_next_window_pos(imgui.ImVec2(5, 5))
    imgui.set_next_window_size(imgui.ImVec2(200, 120))
    imgui.begin("Panel")
    imgui.text("same every time")
    imgui.button("button")
    imgui.end()


def test_nothing_to_read_before_the_first_frame(device):
    target = OffscreenTarget(device, 16, 16)
    with pytest.raises(ValueError, match="nothing has been drawn"):
        target.read_rgba()
    target.close()


def test_resize(scene):
    one = scene(100, 80)
    assert one.draw(window).shape == (80, 100, 4)
    one.surface.resize(300, 200)
    assert one.draw(window).shape == (200, 300, 4)


def test_the_same_frames_give_the_same_picture(scene):
    first, second = (scene(240, 160).draw(window, frames=4) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first.reshape(-1, 4), axis=0)) > 10


def test_clock_advances_by_the_given_step(scene):
    one = scene()
    one.draw(window, frames=3)
    assert imgui.get_io().delta_time == pytest.approx(1 / 60)
    assert imgui.get_time() == pytest.approx(3 / 60, rel=1e-3)
