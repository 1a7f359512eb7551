"""Letters keep their size while the atlas grows."""

import random

from imgui_bundle import imgui

from llm_lite.desktop.widgets.fonts import load_fonts
from llm_lite.desktop.widgets.theme import make_theme
from llm_lite.desktop.widgets.ui import Ui

FACES = ("regular", "bold", "italic", "mono")
SIZES = (13.0, 14.0, 15.0, 16.0, 18.0, 27.0)
SYLLABLES = [chr(code) for code in range(0xAC00, 0xAC00 + 11172, 5)]  # all of one width


def serve_textures():
    """As a renderer does."""
    status = imgui.ImTextureStatus
    for texture in [t for t in imgui.get_platform_io().textures if t.status != status.ok]:
        if texture.status == status.want_destroy:
            texture.set_tex_id(0)
            texture.set_status(status.destroyed)
            continue
        if texture.status == status.want_create:
            texture.set_tex_id(texture.unique_id)
        texture.set_status(status.ok)


def widths(frames):
    """Of the syllables, by face and size; some sizes in each frame, as when a person goes from view
    to view (with this seed two are wrong unless sizes are kept). And how often the atlas grew."""
    rng, found, atlases = random.Random(8), {}, set()
    ui = Ui(make_theme("dark", 15.0, 1.0), load_fonts().faces)
    for _ in range(frames):
        imgui.new_frame()
        ui.keep_sizes()
        data = imgui.get_io().fonts.tex_data
        atlases.add((data.width, data.height))
        for face, size in rng.sample([(face, size) for face in FACES for size in SIZES], 4):
            ui.push_font(face, size)
            for syllable in rng.sample(SYLLABLES, 12):
                imgui.text(syllable)
                glyph = ui.fonts[face].get_font_baked(size).find_glyph(ord(syllable))
                found.setdefault((face, size), set()).add(round(glyph.advance_x, 3))
            imgui.pop_font()
        imgui.render()
        serve_textures()
    return found, len(atlases)


def test_letters_of_a_size_are_as_wide_whatever_sizes_went_before():
    context = imgui.create_context()
    try:
        io = imgui.get_io()
        io.set_ini_filename("")
        io.backend_flags |= imgui.BackendFlags_.renderer_has_textures
        io.display_size, io.delta_time = imgui.ImVec2(1280, 720), 1 / 60
        found, atlases = widths(120)
    finally:
        for texture in imgui.get_platform_io().textures:
            texture.set_status(imgui.ImTextureStatus.destroyed)
        imgui.destroy_context(context)
    assert atlases > 2 and len(found) == len(FACES) * len(SIZES)
    assert {pair: len(each) for pair, each in found.items() if len(each) > 1} == {}
