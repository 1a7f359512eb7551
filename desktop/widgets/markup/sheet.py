"""Pictures of formulas on a texture that Dear ImGui carries to the device with its own.

A picture is white, as strong as a pixel is covered; the colour comes when it is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from imgui_bundle import ImVec2, imgui
from msgspec import Struct
from numpy.typing import NDArray

SIDE = 1024  # texels of a sheet; one with a larger picture is larger
MOST_SHEETS = 4
APART = 1  # texels between pictures: filtered edges must not mix
WHITE = 0x00FFFFFF


class Letter(Struct, frozen=True):
    """One that the text's own font draws in a formula; pixels, from its baseline's left end."""

    letter: str
    x: float
    y: float
    size: float  # of the text


class Picture(Struct, frozen=True, eq=False):
    """Pixels, from the left end of the baseline."""

    sheet: Sheet
    corner: tuple[int, int]  # on the sheet
    size: tuple[int, int]
    width: float  # that the text leaves for it
    ascent: float
    descent: float
    offset: tuple[int, int]  # of the texels' upper left corner
    letters: tuple[Letter, ...] = ()

    def draw(self, draw: Any, x: float, baseline: float, color: int) -> None:
        low = ImVec2(round(x) + self.offset[0], round(baseline) + self.offset[1])
        high = ImVec2(low.x + self.size[0], low.y + self.size[1])
        self.sheet.draw(draw, low, high, self.corner, self.size, color)
        if not self.letters:
            return
        font = imgui.get_font()
        for letter in self.letters:
            top = baseline + letter.y - font.get_font_baked(letter.size).ascent
            spot = ImVec2(round(x + letter.x), round(top))
            draw.add_text(font, letter.size, spot, color, letter.letter)


class Sheet:
    """One texture, filled in rows from the top; for one ImGui context."""

    def __init__(self, width: int, height: int) -> None:
        self._at, self._row, self._left = (0, 0), 0, False
        self._texture: Any = imgui.ImTextureData()
        self._texture.create(imgui.ImTextureFormat.rgba32, width, height)
        imgui.internal.register_user_texture(self._texture)
        self._texels()[:] = WHITE
        self._texture.set_status(imgui.ImTextureStatus.want_create)

    def place(self, pixels: NDArray[np.uint8]) -> tuple[int, int] | None:
        """Return where coverage [height, width] lies from now on; None where there is no room."""
        height, width = pixels.shape
        x, y = self._at
        if x + width > self._texture.width:
            x, y = 0, y + self._row
            self._row = 0
        if x + width > self._texture.width or y + height > self._texture.height:
            return None
        self._at, self._row = (x + width + APART, y), max(self._row, height + APART)
        self._texels()[y : y + height, x : x + width] = pixels.astype(np.uint32) << 24 | WHITE
        if self._texture.status in (imgui.ImTextureStatus.ok, imgui.ImTextureStatus.want_updates):
            imgui.internal.im_texture_data_queue_upload(self._texture, x, y, width, height)
        return x, y

    def draw(
        self, draw: Any, low: ImVec2, high: ImVec2, corner: tuple[int, int],
        size: tuple[int, int], color: int,
    ) -> None:  # fmt: skip
        """Draw the texels from `corner` on between two corners of the screen."""
        wide, tall = self._texture.width, self._texture.height
        first = ImVec2(corner[0] / wide, corner[1] / tall)
        last = ImVec2((corner[0] + size[0]) / wide, (corner[1] + size[1]) / tall)
        draw.add_image(self._texture.get_tex_ref(), low, high, first, last, color)

    def revive(self) -> None:
        """Make the texture again after a lost device."""
        if self._texture.status == imgui.ImTextureStatus.destroyed:
            self._texture.set_status(imgui.ImTextureStatus.want_create)

    def leave(self) -> None:
        """The device may let go of it."""
        if not self._left:
            self._left = True
            self._texture.set_status(imgui.ImTextureStatus.want_destroy)

    @property
    def gone(self) -> bool:
        """Forget the texture, once the device has let go of it and Dear ImGui wants it made again;
        return whether that is so."""
        if not self._left or self._texture.status == imgui.ImTextureStatus.want_destroy:
            return False
        imgui.internal.unregister_user_texture(self._texture)
        return True

    def _texels(self) -> NDArray[np.uint32]:
        texture = self._texture
        flat: NDArray[np.uint32] = texture.get_pixels_array().view(np.uint32)
        return flat.reshape(texture.height, texture.width)


class Sheets:
    """Sheets, as many as are needed up to a limit; then the oldest goes, with all that is on it."""

    def __init__(self) -> None:
        self.epoch = 0  # one more with each sheet that went
        self._sheets: list[Sheet] = []
        self._leaving: list[Sheet] = []

    def begin(self) -> None:
        """Begin a frame, before its first call. A sheet that goes was drawn in the last frame for
        the last time: who asks again gets pictures on other sheets."""
        for sheet in self._sheets:
            sheet.revive()
        self._leaving = [sheet for sheet in self._leaving if not sheet.gone]
        for sheet in self._leaving:
            sheet.leave()

    def place(self, pixels: NDArray[np.uint8]) -> tuple[Sheet, tuple[int, int]]:
        corner = self._sheets[-1].place(pixels) if self._sheets else None
        if corner is None:
            height, width = pixels.shape
            if len(self._sheets) == MOST_SHEETS:
                self._leaving.append(self._sheets.pop(0))
                self.epoch += 1
            self._sheets.append(Sheet(max(SIDE, width), max(SIDE, height)))
            corner = self._sheets[-1].place(pixels)
        assert corner is not None
        return self._sheets[-1], corner
