"""No character of the languages we promise is a box; text is sharp at the sizes we use."""

import numpy as np
import pytest
from imgui_bundle import imgui

from llm_lite.core.errors import FileError
from llm_lite.desktop.widgets import fonts, icons
from llm_lite.desktop.widgets.fonts import FONT_FOLDER, load_fonts

SAMPLES = {
    "latin": "AaßéŁőž€",
    "greek": "ΩμέγαΣ",
    "cyrillic": "ЖукЁїЩ",
    "korean": "안녕뷁힣가",
    "japanese": "こんにちはカタカナ漢字駅働",
    "simplified": "你好世界简体龙马",
    "traditional": "繁體龍馬學",
    "emoji": "😀🚀👍🎉🤖🫠",
    "symbols": "→∑≤─│■…“”、。",
}
ICONS = {name: value for name, value in vars(icons).items() if name.startswith("ICON_")}
NOT_A_CHARACTER = "\U0010fffe"
FACES = ("ui", "bold", "italic", "bold_italic", "mono")


@pytest.fixture
def canvas(scene):
    """canvas(text, face, size) -> uint8 [80, 80, 4], white on black."""
    one = scene(80, 80)
    loaded = load_fonts()

    def paint(text, face="ui", size=32.0, at=(8.0, 8.0)):
        font = getattr(loaded, face)
        position, white = imgui.ImVec2(*at), 0xFFFFFFFF
        return one.draw(lambda d: d.add_text(font, size, position, white, text))

    paint.fonts = loaded
    return paint


@pytest.mark.parametrize("script", SAMPLES)
def test_every_face_has_and_draws_each_character(canvas, script):
    for face in FACES:
        font, box = getattr(canvas.fonts, face), canvas(NOT_A_CHARACTER, face)
        for char in SAMPLES[script]:
            assert font.is_glyph_in_font(ord(char)), f"{face} lacks {char} U+{ord(char):04X}"
            pixels = canvas(char, face)
            assert (pixels[..., :3] > 100).any(), f"{face} draws nothing for {char}"
            assert (pixels != box).any(), f"{face} draws a box for {char}"


def test_characters_differ_from_each_other(canvas):
    text = "".join(SAMPLES.values())
    pictures = {canvas(char).tobytes() for char in set(text)}
    assert len(pictures) == len(set(text))


def test_emoji_have_colour_and_text_has_none(canvas):
    def colourful(pixels):
        rgb = pixels[..., :3].astype(int)
        return int((rgb.max(axis=-1) - rgb.min(axis=-1) > 60).sum())

    assert colourful(canvas("😀")) > 200
    assert colourful(canvas("漢한A")) == 0


def test_joiners_take_no_room(canvas):
    canvas("❤")
    imgui.push_font(canvas.fonts.ui, 32.0)
    plain, joined = (imgui.calc_text_size(text).x for text in ("❤", "❤\ufe0f"))
    imgui.pop_font()
    assert plain == joined > 0


def test_region_decides_the_shape_of_shared_characters(scene):
    def picture(han):
        one = scene(80, 80)
        font = load_fonts(han=han).ui
        return one.draw(lambda d: d.add_text(font, 32.0, imgui.ImVec2(8, 8), 0xFFFFFFFF, "直骨"))

    assert (picture("sc") != picture("jp")).any()


def test_all_icons_are_there_and_different(canvas):
    assert len(ICONS) >= 40
    assert len(set(ICONS.values())) == len(ICONS)
    for name, char in ICONS.items():
        for face in FACES:
            assert getattr(canvas.fonts, face).is_glyph_in_font(ord(char)), name
    pictures = {canvas(char).tobytes() for char in ICONS.values()}
    assert len(pictures) == len(ICONS)


@pytest.mark.parametrize("size", [13.0, 16.0, 26.0])
@pytest.mark.parametrize("face", FACES)
def test_letters_begin_and_end_on_pixel_rows(canvas, face, size):
    """Vertical hinting: the outer bars of an E are not smeared over two rows."""
    rows = canvas("E", face, size)[..., 0].astype(int).max(axis=1)
    inked = rows[rows > 0]
    assert min(inked[0], inked[-1]) > 150


@pytest.mark.parametrize("size", [11.0, 13.0, 15.0, 18.0])
def test_korean_is_as_dark_as_the_latin_letters_beside_it(canvas, size):
    """What an upright stroke covers, of the same length: in Pretendard's regular weight it would be
    a tenth less."""

    def stroke(text):
        ink = canvas(text, "ui", size)[..., 0].astype(float).sum(axis=1)
        return np.median(ink[ink > 0])

    assert 0.97 < stroke("ㅣ") / stroke("l") < 1.2


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_scale_multiplies_the_size_on_screen(scene, scale):
    one = scene(80, 80)
    load_fonts(scale)
    sizes = []
    one.draw(lambda _d: sizes.append(imgui.get_font_size()))
    assert sizes == [fonts.BASE_SIZE * scale]


def test_missing_file_is_named(scene, monkeypatch, tmp_path):
    scene()
    monkeypatch.setattr(fonts, "FONT_FOLDER", tmp_path)
    with pytest.raises(FileError, match=r"Latin-Regular-Subset\.otf.*missing"):
        load_fonts()


def test_size_and_licences_of_the_assets():
    assets = FONT_FOLDER.parent
    files = [file for file in assets.rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) <= 15 << 20
    table = (assets / "README.md").read_text(encoding="utf-8")
    for file in FONT_FOLDER.iterdir():
        assert file.name in table, f"assets/README.md does not say where {file.name} is from"


def test_strokes_are_antialiased_not_blurred(canvas):
    """At 13 pixels most of the ink of body text is in well covered pixels."""
    ink = canvas("minimum", "ui", 13.0)[..., 0].astype(float)
    assert ink[ink > 128].sum() > 0.6 * ink.sum()
    assert np.count_nonzero(ink) > 40
