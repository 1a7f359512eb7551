"""The faces of the program: a Latin and Korean base with emoji, icons, Chinese and Japanese merged.

Dear ImGui rasterises glyphs on demand at any size, so a font is loaded once and used at every
size: `imgui.push_font(fonts.ui, size)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntFlag
from typing import Literal

from imgui_bundle import imgui
from msgspec import Struct

from llm_lite.core.assets import ASSETS
from llm_lite.core.errors import FileError
from llm_lite.desktop.widgets.ui import Face

FONT_FOLDER = ASSETS / "fonts"
MISSING = 0x25A1  # a box, as is usual for a letter without a glyph; "?" would be a sign of its own
BASE_SIZE = 16.0  # display pixels of body text at scale 1

Han = Literal["sc", "jp"]


class FreeType(IntFlag):
    """ImGuiFreeTypeLoaderFlags of misc/freetype/imgui_freetype.h."""

    FORCE_AUTO_HINT = 1 << 2  # the faces' own hints (CFF) do not align letters to pixel rows
    LIGHT_HINTING = 1 << 3  # snaps to the vertical grid only: crisp lines, true widths
    LOAD_COLOR = 1 << 8


_TEXT = FreeType.FORCE_AUTO_HINT | FreeType.LIGHT_HINTING


class Fonts(Struct, frozen=True):
    """Faces to push; `size` is the body size in display pixels."""

    ui: imgui.ImFont
    bold: imgui.ImFont
    italic: imgui.ImFont
    bold_italic: imgui.ImFont
    mono: imgui.ImFont
    size: float

    @property
    def faces(self) -> dict[Face, imgui.ImFont]:
        """Return the fonts by the names that views push them with."""
        return {
            "regular": self.ui,
            "bold": self.bold,
            "italic": self.italic,
            "bold_italic": self.bold_italic,
            "mono": self.mono,
        }

    def __iter__(self) -> Iterator[imgui.ImFont]:
        return iter((self.ui, self.bold, self.italic, self.bold_italic, self.mono))


class _Merged(Struct, frozen=True):
    file: str
    flags: FreeType
    scale: float = 1.0  # relative to the base face
    shift: float = 0.0  # downwards, fraction of the size


# Dear ImGui sizes a face by ascent + descent: Pretendard's em is 0.84 of that, Noto's 0.69.
_HAN_SCALE = 1.21
_ICONS = _Merged("Lucide-Subset.ttf", FreeType(0), scale=0.94, shift=0.18)
_EMOJI = _Merged("Twemoji-Subset.ttf", FreeType.LOAD_COLOR, scale=0.96)
_HAN: dict[Han, _Merged] = {
    "sc": _Merged("NotoSansSC-Subset.otf", _TEXT, _HAN_SCALE),
    "jp": _Merged("NotoSansJP-Subset.otf", _TEXT, _HAN_SCALE),
}
_KOREAN = _Merged("Hangul-Medium-Subset.otf", _TEXT)
_KOREAN_BOLD = _Merged("Pretendard-SemiBold.otf", _TEXT)


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
    ui = _load("Latin-Regular-Subset.otf", (_ICONS, _KOREAN, *fallbacks))
    bold = _load("Pretendard-SemiBold.otf", (_ICONS, *fallbacks))
    italic = _load("Inter-Italic-Subset.ttf", (_ICONS, _KOREAN, *fallbacks))
    bold_italic = _load("Inter-SemiBoldItalic-Subset.ttf", (_ICONS, _KOREAN_BOLD, *fallbacks))
    mono = _load("JetBrainsMono-Regular.ttf", (_ICONS, _KOREAN, *fallbacks))
    return Fonts(ui, bold, italic, bold_italic, mono, BASE_SIZE)


def _load(base: str, fallbacks: tuple[_Merged, ...]) -> imgui.ImFont:
    font = _add(_Merged(base, _TEXT), merge=False)
    for fallback in fallbacks:
        _add(fallback, merge=True)
    font.fallback_char = MISSING
    return font


def _add(source: _Merged, *, merge: bool) -> imgui.ImFont:
    path = FONT_FOLDER / source.file
    if not path.is_file():
        raise FileError(path, "this font is missing; the installation is incomplete")
    config = imgui.ImFontConfig()
    config.merge_mode = merge
    config.font_loader_flags = int(source.flags)
    config.extra_size_scale = source.scale
    config.glyph_offset = imgui.ImVec2(0.0, source.shift * BASE_SIZE)
    return imgui.get_io().fonts.add_font_from_file_ttf(str(path), BASE_SIZE, config)
