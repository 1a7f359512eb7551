"""Scripts of writing that the program's fonts lack, and how they are named.

Arabic, Hebrew and the scripts of India and Indochina also need shaping: letters that change with
their neighbours, and lines from right to left. Dear ImGui draws letter by letter from left to
right. Such a text is kept, sent, copied and exported whole; the window says that it cannot draw it.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.widgets.ui import Ui

# Letters beyond those of Latin, Greek, Cyrillic, Hangul, Kana and Han, but no symbols or emoji.
BEYOND = re.compile(
    "[\u0530-\u10ff\u1200-\u1cff\u2c00-\u2dff\ua4d0-\ua95f\ua980-\uabff\ufb13-\ufdff\ufe70-\ufefc"
    "\U00010000-\U0001cfff]"
)
MOST = 3  # scripts that are named
NAMES = {  # by the first word of a letter's name in Unicode
    "ARABIC": mark("Arabic"),
    "ARMENIAN": mark("Armenian"),
    "BENGALI": mark("Bengali"),
    "DEVANAGARI": mark("Devanagari (Hindi)"),
    "ETHIOPIC": mark("Ethiopic"),
    "GEORGIAN": mark("Georgian"),
    "GUJARATI": mark("Gujarati"),
    "GURMUKHI": mark("Gurmukhi (Punjabi)"),
    "HEBREW": mark("Hebrew"),
    "KANNADA": mark("Kannada"),
    "KHMER": mark("Khmer"),
    "LAO": mark("Lao"),
    "MALAYALAM": mark("Malayalam"),
    "MYANMAR": mark("Burmese"),
    "SINHALA": mark("Sinhala"),
    "TAMIL": mark("Tamil"),
    "TELUGU": mark("Telugu"),
    "THAI": mark("Thai"),
    "TIBETAN": mark("Tibetan"),
}


def cannot_draw(ui: Ui, text: str) -> str:
    """Return a sentence that names the scripts of `text` without glyphs here; "" where all have
    some."""
    if text.isascii():
        return ""
    scripts = _scripts(text)
    lacking = [script for script, letter in scripts if not _has_glyph(ui, letter)]
    if not lacking:
        return ""
    names = ", ".join(tr(NAMES.get(script, script.capitalize())) for script in lacking[:MOST])
    words = tr("This window cannot draw {scripts}. The text is kept whole: copy or export it.")
    return words.format(scripts=names)


@lru_cache(maxsize=256)
def _scripts(text: str) -> tuple[tuple[str, str], ...]:
    """Return scripts beyond those of our fonts, and a letter of each, in the order of the text."""
    found: dict[str, str] = {}
    for letter in BEYOND.findall(text):
        name = unicodedata.name(letter, "")
        if unicodedata.category(letter)[0] in "LM" and name:
            found.setdefault(name.partition(" ")[0], letter)
    return tuple(found.items())


def _has_glyph(ui: Ui, letter: str) -> bool:
    return bool(ui.fonts["regular"].is_glyph_in_font(ord(letter)))
