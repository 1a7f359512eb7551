"""What the status bar tells of an encoder: how long the last text took, and its tokens."""

from __future__ import annotations

from llm_lite.desktop.features.encoder.model import encoder_of
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import milliseconds


def encoder_measures(state: AppState) -> list[tuple[str, str, str]]:
    """Name, shown text and what it means, from left to right."""
    told, encoder = state.encoding.encoded, encoder_of(state)
    taken = milliseconds(told.seconds) if told and not told.problem else "–"
    most = encoder.most_tokens if encoder else 0
    count = len(told.tokens) if told else 0
    return [
        (
            "encoded",
            tr("Encoded in {time}").format(time=taken),
            tr("How long the last text took, from its characters to the vectors of its tokens."),
        ),
        ("context", f"{count:,} / {most:,}", tr("Tokens of the text, of those that are read.")),
    ]


def read_share(state: AppState) -> float:
    """Tokens of the text, of those that the model reads."""
    told, encoder = state.encoding.encoded, encoder_of(state)
    return len(told.tokens) / encoder.most_tokens if told and encoder else 0.0
