"""Texts that an encoder is shown with before a person writes any."""

from __future__ import annotations

from llm_lite.desktop.language.translate import mark, tr

TEXT = mark("The animal didn't cross the street because it was too tired.")
SENTENCES = (
    mark("The weather is lovely today."),
    mark("It's so sunny outside!"),
    mark("He drove to the stadium."),
)
MASK = "{mask}"
FILLED = mark("Paris is the {mask} of France.")


def example_text() -> str:
    return tr(TEXT)


def example_sentences() -> tuple[str, ...]:
    return tuple(map(tr, SENTENCES))


def example_filled(mask: str) -> str:
    """With the model's own mask token."""
    return tr(FILLED).format(mask=mask)
