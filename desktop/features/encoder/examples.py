"""Texts that an encoder is shown with before a person writes any: in the window's language, or in
English where the model's vocabulary does not have it."""

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


def example_text(english: bool) -> str:
    return TEXT if english else tr(TEXT)


def example_sentences(english: bool) -> tuple[str, ...]:
    return SENTENCES if english else tuple(map(tr, SENTENCES))


def example_filled(mask: str, english: bool) -> str:
    """With the model's own mask token."""
    return (FILLED if english else tr(FILLED)).format(mask=mask)
