"""Known scenes against expected pixels, on a validated device."""

import threading
import time

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.gpu.commands import CommandPool
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.memory import Buffer, Image2D
from llm_lite.desktop.render.offscreen import OffscreenTarget
from llm_lite.desktop.widgets.fonts import load_fonts

RED, GREEN = 0xFF0000FF, 0xFF00FF00  # packed ABGR
HALF_WHITE = 0x80FFFFFF
SYLLABLES = [chr(code) for code in range(0xAC00, 0xAC00 + 2400)]


def vec(x, y):
    return imgui.ImVec2(x, y)


def nothing(_draw_list):
    pass


def test_clear_colour(scene):
    pixels = scene(clear=(0.2, 0.4, 0.6, 1.0)).draw(nothing)
    assert pixels.shape == (48, 64, 4)
    assert (pixels == [51, 102, 153, 255]).all()


def test_rectangle_covers_exactly_its_pixels(scene):
    pixels = scene().draw(lambda d: d.add_rect_filled(vec(10, 5), vec(30, 25), RED))
    inside = np.zeros((48, 64), bool)
    inside[5:25, 10:30] = True
    assert (pixels[inside] == [255, 0, 0, 255]).all()
    assert (pixels[~inside] == [0, 0, 0, 255]).all()


def test_clip_rectangle(scene):
    def paint(draw_list):
        draw_list.push_clip_rect(vec(8, 8), vec(16, 12))
        draw_list.add_rect_filled(vec(0, 0), vec(64, 48), GREEN)
        draw_list.pop_clip_rect()

    green = scene().draw(paint)[..., 1] == 255
    expected = np.zeros((48, 64), bool)
    expected[8:12, 8:16] = True
    np.testing.assert_array_equal(green, expected)


def test_clip_rectangle_outside_the_image(scene):
    def paint(draw_list):
        for low, high in (((-50, -50), (-10, -10)), ((60, 40), (900, 900))):
            draw_list.push_clip_rect(vec(*low), vec(*high))
            draw_list.add_rect_filled(vec(-100, -100), vec(1000, 1000), GREEN)
            draw_list.pop_clip_rect()

    green = scene().draw(paint)[..., 1] == 255
    assert green.sum() == 4 * 8 and green[40:, 60:].all()


def test_straight_alpha_blends_stored_values(scene):
    pixels = scene(clear=(0.0, 0.0, 1.0, 1.0)).draw(
        lambda d: d.add_rect_filled(vec(0, 0), vec(64, 48), HALF_WHITE)
    )
    np.testing.assert_allclose(pixels[20, 30], [128, 128, 255, 255], atol=1)


def test_framebuffer_scale(device, scene):
    class Retina(OffscreenTarget):
        def new_frame(self):
            super().new_frame()
            imgui.get_io().display_size = vec(self.width / 2, self.height / 2)
            imgui.get_io().display_framebuffer_scale = vec(2, 2)

    def paint(draw_list):
        draw_list.push_clip_rect(vec(0, 0), vec(20, 9))
        draw_list.add_rect_filled(vec(5, 5), vec(10, 10), RED)
        draw_list.pop_clip_rect()

    surface = Retina(device, 64, 48, delta_s=1 / 60)
    red = scene(surface=surface).draw(paint)[..., 0] == 255
    expected = np.zeros((48, 64), bool)
    expected[10:18, 10:20] = True
    np.testing.assert_array_equal(red, expected)


def test_many_vertices_over_several_lists(scene):
    """More than the first buffers hold and more than 16-bit indices reach, in two lists."""

    def paint(draw_list):
        for i in range(20_000):
            draw_list.add_rect_filled(vec(i % 60, 0), vec(i % 60 + 1, 4), GREEN)
        draw_list.add_rect_filled(vec(0, 10), vec(5, 15), RED)
        imgui.get_foreground_draw_list().add_rect_filled(vec(20, 20), vec(24, 24), RED)

    pixels = scene().draw(paint, frames=3)
    assert (pixels[:4, :60, 1] == 255).all()
    assert (pixels[10:15, :5, 0] == 255).all()
    assert (pixels[20:24, 20:24, 0] == 255).all()
    assert (pixels[..., 0] == 255).sum() == 25 + 16


def checkerboard(device, texels):
    """An Image2D of uint8 [h, w, 4], ready to be sampled."""
    height, width, _ = texels.shape
    usage = vk.VK_IMAGE_USAGE_SAMPLED_BIT | vk.VK_IMAGE_USAGE_TRANSFER_DST_BIT
    image = Image2D(device, width, height, vk.VK_FORMAT_R8G8B8A8_UNORM, usage)
    staging = Buffer(device, texels.nbytes, 0, host=True)
    staging.upload(texels)
    pool = CommandPool(device, device.queue)
    (commands,) = pool.allocate()
    with pool.record(commands, once=True):
        target = vk.VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL
        _move(commands, image, vk.VK_IMAGE_LAYOUT_UNDEFINED, target)
        layers = vk.VkImageSubresourceLayers(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1)
        extent = vk.VkExtent3D(width, height, 1)
        region = vk.VkBufferImageCopy(imageSubresource=layers, imageExtent=extent)
        vk.vkCmdCopyBufferToImage(commands, staging.handle, image.handle, target, 1, [region])
        _move(commands, image, target, vk.VK_IMAGE_LAYOUT_SHADER_READ_ONLY_OPTIMAL)
    device.queue.wait(device.queue.submit([commands]))
    pool.close()
    staging.close()
    return image


def _move(commands, image, before, after):
    everything = vk.VK_PIPELINE_STAGE_ALL_COMMANDS_BIT
    barrier = vk.VkImageMemoryBarrier(
        srcAccessMask=vk.VK_ACCESS_MEMORY_WRITE_BIT,
        dstAccessMask=vk.VK_ACCESS_MEMORY_READ_BIT | vk.VK_ACCESS_MEMORY_WRITE_BIT,
        oldLayout=before,
        newLayout=after,
        srcQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        dstQueueFamilyIndex=vk.VK_QUEUE_FAMILY_IGNORED,
        image=image.handle,
        subresourceRange=vk.VkImageSubresourceRange(vk.VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1),
    )
    vk.vkCmdPipelineBarrier(commands, everything, everything, 0, 0, None, 0, None, 1, [barrier])


@pytest.fixture
def four_texels(device):
    texels = np.array(
        [[[255, 0, 0, 255], [0, 255, 0, 255]], [[0, 0, 255, 255], [255, 255, 0, 255]]], np.uint8
    )
    image = checkerboard(device, texels)
    yield texels, image
    image.close()


def test_registered_image_drawn_nearest(scene, four_texels):
    texels, image = four_texels
    one = scene()
    number = one.renderer.register_image(image.view, nearest=True)
    texture = imgui.ImTextureRef(number)
    pixels = one.draw(lambda d: d.add_image(texture, vec(8, 8), vec(28, 28)))
    expected = texels.repeat(10, axis=0).repeat(10, axis=1)
    np.testing.assert_array_equal(pixels[8:28, 8:28], expected)
    one.loop.wait()


def test_linear_sampling_blends_texels(scene, four_texels):
    _, image = four_texels
    one = scene()
    texture = imgui.ImTextureRef(one.renderer.register_image(image.view))
    pixels = one.draw(lambda d: d.add_image(texture, vec(8, 8), vec(28, 28)))
    assert 60 < pixels[18, 18, 0] < 200
    one.loop.wait()


def test_numbers_of_images_are_never_reused(scene, four_texels):
    _, image = four_texels
    one = scene()
    numbers = []
    for _ in range(150):  # more than one descriptor pool, freed descriptors come back
        number = one.renderer.register_image(image.view, nearest=True)
        texture = imgui.ImTextureRef(number)
        numbers.append(number)
        pixels = one.draw(lambda d, t=texture: d.add_image(t, vec(0, 0), vec(2, 2)))
        assert pixels[0, 0].tolist() == [255, 0, 0, 255]
        one.renderer.unregister_image(number)
    assert len(set(numbers)) == 150
    one.loop.wait()


def test_image_retired_while_its_last_frame_is_built(scene, device):
    one = scene()
    image = checkerboard(device, np.full((2, 2, 4), 255, np.uint8))
    number = one.renderer.register_image(image.view)

    def last_time(draw_list):
        draw_list.add_image(imgui.ImTextureRef(number), vec(0, 0), vec(64, 48))
        if image.handle is not None:
            one.renderer.unregister_image(number)
            one.renderer.retire(image.close)

    assert (one.draw(last_time) == 255).all()
    assert image.handle is not None
    one.draw(nothing, frames=2)
    assert image.handle is None


def paint_text(text, size=20.0):
    def paint(draw_list):
        font = imgui.get_font()
        draw_list.add_text(font, size, vec(4, 4), 0xFFFFFFFF, text)

    return paint


def test_atlas_grows_while_frames_are_in_flight(scene, monkeypatch, device):
    def refuse():
        raise AssertionError("the renderer waited for the queue to be idle")

    one = scene(400, 60)
    load_fonts()
    monkeypatch.setattr(device.queue, "wait_idle", refuse)
    one.draw(paint_text("first"))
    first = largest_atlas()
    for start in range(0, len(SYLLABLES), 200):
        text = "".join(SYLLABLES[start : start + 200])
        for size in (18.0, 30.0):
            one.loop.run(lambda t=text, s=size: paint_text(t, s)(imgui.get_background_draw_list()))
    grown = one.draw(paint_text("가나다 글자 Aa"))
    assert largest_atlas() > 4 * first
    other = scene(400, 60)
    load_fonts()
    fresh = other.draw(paint_text("가나다 글자 Aa"))
    assert (fresh[..., 0] > 128).sum() > 200
    np.testing.assert_allclose(grown.astype(int), fresh.astype(int), atol=3)


def largest_atlas():
    return max(t.width * t.height for t in imgui.get_platform_io().textures)


def test_replaced_atlases_are_destroyed(scene):
    one = scene(400, 60)
    load_fonts()
    for start in range(0, len(SYLLABLES), 200):
        one.draw(paint_text("".join(SYLLABLES[start : start + 200]), 40.0))
    one.draw(nothing, frames=6)
    assert len(one.renderer.retired) == 0
    assert len(one.renderer._textures._atlases) == 1


def test_frames_while_another_thread_uses_the_device(scene, device):
    """The model's thread copies and submits while the interface draws and uploads glyphs."""
    one = scene(400, 60)
    load_fonts()
    stop, rounds, failures = threading.Event(), [], []

    def compute():
        buffer = Buffer(device, 1 << 16, vk.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT, host=False)
        try:
            while not stop.is_set() or not rounds:
                data = np.full(1 << 16, len(rounds) % 251, np.uint8)
                buffer.upload(data)
                rounds.append(bool((buffer.download() == data).all()))
        except Exception as error:
            failures.append(error)
        buffer.close()

    worker = threading.Thread(target=compute)
    worker.start()
    for start in range(0, 600, 20):
        pixels = one.draw(paint_text("".join(SYLLABLES[start : start + 20])))
        assert (pixels[..., 0] > 128).sum() > 200
    stop.set()
    worker.join()
    assert failures == [] and rounds and all(rounds)


def test_frame_loop_counts_and_times(scene):
    one = scene()
    begun = time.perf_counter()
    one.draw(nothing, frames=5)
    assert one.loop.frames == one.loop.recorded == 5
    assert 0 < one.loop.seconds < time.perf_counter() - begun


def test_an_error_while_drawing_leaves_the_loop_usable(scene):
    one = scene()

    def fail(_draw_list):
        raise RuntimeError("view failed")

    with pytest.raises(RuntimeError, match="view failed"):
        one.draw(fail)
    pixels = one.draw(lambda d: d.add_rect_filled(vec(0, 0), vec(64, 48), RED))
    assert (pixels[..., 0] == 255).all()
