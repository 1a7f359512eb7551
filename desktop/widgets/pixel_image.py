"""An image of ours that Dear ImGui carries to the device with its own: pixels in, quads out."""

from __future__ import annotations

from typing import Any

import numpy as np
from imgui_bundle import ImVec2, imgui
from numpy.typing import NDArray

STEP = 256  # texels that sizes are rounded up to, so that a resize seldom needs a new texture


class PixelImage:
    """Rows of pixels, drawn one at a time at any height; for one ImGui context.

    The texture has two halves that are written in turn: quads then differ from those of the frame
    before, and a renderer that draws only what differs sees the change.
    """

    def __init__(self) -> None:
        self._texture: Any = None  # imgui.ImTextureData
        self._top = 0  # first row of the half that is shown
        self._leaving: list[Any] = []

    def write(self, pixels: NDArray[np.uint32]) -> None:
        """Write `pixels` [rows, columns], packed as Dear ImGui packs colours."""
        height, width = pixels.shape
        texture = self._texture
        if texture is None or texture.width < width or texture.height < 2 * height:
            texture = self._make(width, height)
        self._top = 0 if self._top else texture.height // 2
        self._texels()[self._top : self._top + height, :width] = pixels
        if texture.status in (imgui.ImTextureStatus.ok, imgui.ImTextureStatus.want_updates):
            imgui.internal.im_texture_data_queue_upload(texture, 0, self._top, width, height)

    def draw(self, draw: Any, low: ImVec2, high: ImVec2, row: int) -> None:
        """Draw one row between two corners; a texel a pixel, where they are whole pixels."""
        texture = self._texture
        v = (self._top + row + 0.5) / texture.height
        right = (high.x - low.x) / texture.width
        draw.add_image(texture.get_tex_ref(), low, high, ImVec2(0.0, v), ImVec2(right, v))

    def whole(
        self, width: int, height: int
    ) -> tuple[Any, tuple[float, float], tuple[float, float]]:
        """Return what was written last, of this size: a texture, and its corners in it."""
        texture = self._texture
        low = (0.0, self._top / texture.height)
        high = (width / texture.width, (self._top + height) / texture.height)
        return texture.get_tex_ref(), low, high

    def begin(self) -> None:
        """Begin a frame, before its first call: after a lost device the texture is made again."""
        status = imgui.ImTextureStatus
        if self._texture is not None and self._texture.status == status.destroyed:
            self._texture.set_status(status.want_create)
        for texture in [t for t in self._leaving if t.status == status.destroyed]:
            imgui.internal.unregister_user_texture(texture)
            self._leaving.remove(texture)

    def _make(self, width: int, height: int) -> Any:
        if self._texture is not None:
            self._texture.set_status(imgui.ImTextureStatus.want_destroy)
            self._leaving.append(self._texture)
        texture: Any = imgui.ImTextureData()
        size = -(-width // STEP) * STEP, -(-height // 8) * 8 * 2
        texture.create(imgui.ImTextureFormat.rgba32, *size)
        imgui.internal.register_user_texture(texture)
        texture.set_status(imgui.ImTextureStatus.want_create)
        self._texture = texture
        return texture

    def _texels(self) -> NDArray[np.uint32]:
        texture = self._texture
        flat: NDArray[np.uint32] = texture.get_pixels_array().view(np.uint32)
        return flat.reshape(texture.height, texture.width)
