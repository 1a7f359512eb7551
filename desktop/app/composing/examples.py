"""A few prompts to begin with, added where a person asks for them."""

from __future__ import annotations

from llm_lite.desktop.language.translate import mark, tr
from llm_lite.desktop.state.composing.prompts import SavedPrompt

_EXAMPLES = (
    (
        mark("Summarize"),
        mark("Summarize the attached text in {{number}} sentences. Keep names and numbers exact."),
    ),
    (
        mark("Translate"),
        mark("Translate this into {{language}}, and keep its tone:\n\n{{text}}"),
    ),
    (
        mark("Review code"),
        mark(
            "Read the attached code. Name the three most likely mistakes: for each the line, what "
            "goes wrong, and a correction."
        ),
    ),
    (
        mark("Explain to a beginner"),
        mark("Explain {{subject}} to somebody who is new to it. Use one example."),
    ),
)


def examples() -> tuple[SavedPrompt, ...]:
    """In the language in use."""
    return tuple(SavedPrompt(tr(name), tr(text)) for name, text in _EXAMPLES)
