"""A picture that is drawn to be kept: a draw list of its own, at a size and scale of its own."""

from __future__ import annotations

from imgui_bundle import ImVec2, imgui

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.records import replace
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.theme import make_theme, vec
from llm_lite.desktop.widgets.ui import Face, Ui

TEXT, LARGE_TEXT = 26.0, 36.0  # pixels of body text: legible where a slide shows it small
LARGEST = 8192  # pixels a side: what every device can draw to is half of that or more
MOST_PIXELS = 48 << 20
FAR = 1e6


class Figure:
    """Made and drawn within a frame of Dear ImGui, whose fonts and textures it uses; rendered
    after that frame and before the next. Pixels count from the upper left corner."""

    def __init__(self, ui: Ui, size: float = TEXT) -> None:
        name = ui.theme.name
        self.ui = replace(ui, theme=make_theme(name, size, 1.0), locals={}, rects={})
        self.size = (0, 0)
        base = vec(self.ui.theme.palette.panel)
        self.background: tuple[float, float, float, float] = (base.x, base.y, base.z, 1.0)
        self.list = imgui.ImDrawList(imgui.get_draw_list_shared_data())
        self.list._reset_for_new_frame()
        self.list._set_pixel_density(1.0)  # without, it draws no lines; frames set it for their own
        self.list.push_texture(imgui.get_background_draw_list()._cmd_header.tex_ref)
        self.list.push_clip_rect(ImVec2(-FAR, -FAR), ImVec2(FAR, FAR))

    def text(
        self, x: float, y: float, words: str, color: str = "text", style: str = "body",
        face: Face = "regular",
    ) -> float:  # fmt: skip
        """Add one line of text; return its width."""
        size = self.ui.theme.size(style)
        font = self.ui.fonts[face]
        self.list.add_text(font, size, ImVec2(x, y), self.ui.color(color), words)
        return self.width(words, style, face)

    def width(self, words: str, style: str = "body", face: Face = "regular") -> float:
        with self.ui.font(face, style):
            return float(imgui.calc_text_size(words).x)

    def finish(self, width: float, height: float) -> Figure:
        """Return the figure at this size, in pixels. Raises LlmLiteError where that is more than
        can be drawn."""
        self.size = (int(width), int(height))
        if max(self.size) > LARGEST or self.size[0] * self.size[1] > MOST_PIXELS:
            raise LlmLiteError(
                tr(
                    "the picture would have {width:,} x {height:,} pixels: show fewer heads, or a "
                    "smaller part of the text"
                ).format(width=self.size[0], height=self.size[1])
            )
        return self

    def draw_data(self) -> imgui.ImDrawData:
        """Return the draw data that a renderer takes."""
        data = imgui.ImDrawData()
        data.valid = True
        data.add_draw_list(self.list)
        data.display_pos, data.framebuffer_scale = ImVec2(0, 0), ImVec2(1, 1)
        data.display_size = ImVec2(*self.size)
        return data
