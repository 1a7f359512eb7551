"""State of the tokenizer view: the text that is typed, and the stage that is shown."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.desktop.features.tokenizer.examples import EXAMPLES

Stage = Literal["tokens", "text", "steps", "compare"]
Form = Literal["plain", "chat"]
MODEL, OTHER = 0, 1  # slots: the tokenizer of the model in use, and the one beside it
LONGEST = 100_000  # characters that can be typed or pasted


class TokenizerChoice(Struct, frozen=True):
    """The choices of a person in the view."""

    text: str = EXAMPLES[0][3]
    stage: Stage = "tokens"
    form: Form = "plain"
    control: bool = False  # names of control tokens in the text count as these
    other: str = ""  # the tokenizer beside the model's: a path or name; "": none
    slot: int = MODEL  # whose stages are shown
    word: int | None = None  # index of the word whose steps are shown; None: the first of interest
    step: int | None = None  # how many of its steps were done; None: all
    playing: bool = False


def steps_in(tokenized: TokenizedText, word: int) -> int:
    """Return how many steps a word takes to become tokens."""
    steps = tokenized.words[word].steps
    return 0 if steps is None else steps.count


def most_cut_word(tokenized: TokenizedText) -> int | None:
    """Return the word, among the first 60, with most steps and tokens; None if there is none."""

    def weight(word: int) -> int:
        return steps_in(tokenized, word) + len(tokenized.words[word].pieces)

    return max(range(min(len(tokenized.words), 60)), key=weight, default=None)


@lru_cache(maxsize=16)
def word_count(text: str) -> int:
    """Count the words of a text, which spaces part."""
    return len(text.split())


def tokens_per_word(tokenized: TokenizedText) -> float:
    """Return the tokens of a word in the mean, without those around the text.

    Return 0 if there are no words, or if the tokens are not those of this text alone.
    """
    words = word_count(tokenized.text)
    if not words or tokenized.typed or tokenized.characters > len(tokenized.text):
        return 0.0
    return (tokenized.tokens - len(tokenized.before) - len(tokenized.after)) / words
