"""Pictures of ours that Dear ImGui carries to the screen."""

import numpy as np
from imgui_bundle import imgui

from llm_lite.desktop.widgets.pixel_image import PixelImage


def test_a_picture_is_drawn_to_the_texel_and_again_after_a_change(scene):
    one, picture = scene(64, 48), PixelImage()
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
