"""The faces of the program: a Latin and Korean base with emoji, icons, Chinese and Japanese merged.

Dear ImGui rasterises glyphs on demand at any size, so a font is loaded once and used at every
size: `imgui.push_font(fonts.ui, size)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import Literal

from imgui_bundle import imgui

from core.errors import FileError

FONT_FOLDER = Path(__file__).resolve().parent.parent / "assets" / "fonts"
BASE_SIZE = 16.0  # display pixels of body text at scale 1

Han = Literal["sc", "jp"]


class FreeTypeFlags(IntFlag):
    """ImGuiFreeTypeLoaderFlags of misc/freetype/imgui_freetype.h."""

    LIGHT_HINTING = 1 << 3  # snaps to the vertical grid only: crisp lines, true widths
    LOAD_COLOR = 1 << 8


@dataclass(frozen=True)
class Fonts:
    """Faces to push; `size` is the body size in display pixels."""

    ui: imgui.ImFont
    bold: imgui.ImFont
    mono: imgui.ImFont
    size: float

    def __iter__(self) -> Iterator[imgui.ImFont]:
        return iter((self.ui, self.bold, self.mono))


@dataclass(frozen=True)
class _Merged:
    file: str
    flags: FreeTypeFlags
    scale: float = 1.0  # relative to the base face
    shift: float = 0.0  # downwards, fraction of the size


_ICONS = _Merged("Lucide-Subset.ttf", FreeTypeFlags(0), scale=1.0, shift=0.14)
_EMOJI = _Merged("Twemoji-Subset.ttf", FreeTypeFlags.LOAD_COLOR)
_HAN: dict[Han, _Merged] = {
    "sc": _Merged("NotoSansSC-Subset.otf", FreeTypeFlags.LIGHT_HINTING),
    "jp": _Merged("NotoSansJP-Subset.otf", FreeTypeFlags.LIGHT_HINTING),
}
_KOREAN = _Merged("Pretendard-Regular.otf", FreeTypeFlags.LIGHT_HINTING)


def load_fonts(scale: float = 1.0, *, han: Han = "sc") -> Fonts:
    """Fill the current context's atlas; the first face becomes the default font.

    `scale`: display pixels of the interface per design pixel (a HiDPI screen whose window
    coordinates are pixels has 2). `han` says whose shapes shared characters take first, Chinese
    or Japanese; what one face lacks comes from the other. Raises FileError when a file is missing.
    """
    style = imgui.get_style()
    style.font_size_base = BASE_SIZE
    style.font_scale_dpi = scale
    order: tuple[Han, Han] = ("sc", "jp") if han == "sc" else ("jp", "sc")
    fallbacks = (_EMOJI, *(_HAN[name] for name in order))
    ui = _load("Pretendard-Regular.otf", (_ICONS, *fallbacks))
    bold = _load("Pretendard-SemiBold.otf", (_ICONS, *fallbacks))
    mono = _load("JetBrainsMono-Regular.ttf", (_ICONS, _KOREAN, *fallbacks))
    return Fonts(ui, bold, mono, BASE_SIZE)


def _load(base: str, fallbacks: tuple[_Merged, ...]) -> imgui.ImFont:
    font = _add(_Merged(base, FreeTypeFlags.LIGHT_HINTING), merge=False)
    for fallback in fallbacks:
        _add(fallback, merge=True)
    return font


def _add(source: _Merged, *, merge: bool) -> imgui.ImFont:
    path = FONT_FOLDER / source.file
    if not path.is_file():
        raise FileError(path, "this font is missing; the installation is incomplete")
    config = imgui.ImFontConfig()
    config.merge_mode = merge
    config.font_loader_flags = int(source.flags)
    config.extra_size_scale = source.scale
    config.glyph_offset = (0.0, source.shift * BASE_SIZE)
    return imgui.get_io().fonts.add_font_from_file_ttf(str(path), BASE_SIZE, config)
