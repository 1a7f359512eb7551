"""What colours parts of a text: a hue for each word, lighter and stronger from token to token."""

from __future__ import annotations

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.desktop.features.tokenizer.chips import Look
from llm_lite.desktop.widgets.theme import u32
from llm_lite.desktop.widgets.ui import Ui

_HUES = (0, 1, 2, 3, 4, 5)
_STRENGTHS = (0.20, 0.34)  # of neighbours in a word


def of_word(ui: Ui, word: int, part: int = 0, *, edge: bool = False) -> Look:
    series = ui.theme.palette.series
    hue = series[_HUES[word % len(_HUES)]]
    line = ui.color("accent") if edge else 0
    return Look(u32(hue, _STRENGTHS[part % 2]), ui.color("text"), ui.color("muted"), line)


def of_control(ui: Ui) -> Look:
    """A token that steers the model."""
    accent = ui.color("link")
    return Look(ui.color("accent_soft"), accent, accent, ui.color("accent", 0.6))


def of_template(ui: Ui, part: int) -> Look:
    """What the chat template writes."""
    fill = ui.color("hover", 0.55 if part % 2 else 1.0)
    return Look(fill, ui.color("muted"), ui.color("faint"))


def is_typed(told: TokenizedText, start: int) -> bool:
    """Whether a message says the character, and not the template; in a plain text all is typed."""
    return not told.typed or any(low <= start < high for low, high in told.typed)
