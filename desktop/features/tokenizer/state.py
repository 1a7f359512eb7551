"""A text on its way to tokens: what is typed, which stage is shown, and what was answered.

Pure, like everything in the state.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from msgspec import Struct, field

from llm_lite.core.messages.inspecting.tokenizing import TokenizedText
from llm_lite.desktop.features.tokenizer.examples import EXAMPLES

Stage = Literal["tokens", "text", "steps", "compare"]
Form = Literal["plain", "chat"]
MODEL, OTHER = 0, 1  # slots: the tokenizer of the model in use, and the one beside it
LONGEST = 100_000  # characters that can be typed or pasted


class TokenizerChoice(Struct, frozen=True):
    """What a person chose to see."""

    text: str = EXAMPLES[0][3]
    stage: Stage = "tokens"
    form: Form = "plain"
    control: bool = False  # names of control tokens in the text count as these
    other: str = ""  # the tokenizer beside the model's: a path or name; "": none
    slot: int = MODEL  # whose stages are shown
    word: int | None = None  # index of the word whose steps are shown; None: the first of interest
    step: int | None = None  # how many of its steps were done; None: all
    playing: bool = False


class Answer(Struct, frozen=True):
    """Of one tokenizer: what was asked last, and what it said last."""

    key: tuple[object, ...] = ()  # of what was asked
    request: int = 0  # not answered yet; 0: none
    result: TokenizedText | None = None
    samples: tuple[int, ...] = ()  # tokens of the sentences in LANGUAGES
    message: str = ""  # a sentence where it could not be told


class TokenizerState(Struct, frozen=True):
    choice: TokenizerChoice = field(default_factory=TokenizerChoice)
    answers: tuple[Answer, Answer] = (Answer(), Answer())

    def with_answer(self, slot: int, answer: Answer) -> tuple[Answer, Answer]:
        first, second = self.answers
        return (answer, second) if slot == MODEL else (first, answer)


def steps_in(told: TokenizedText, word: int) -> int:
    """How many steps the way of a word to its tokens has."""
    steps = told.words[word].steps
    return 0 if steps is None else steps.count


def interesting(told: TokenizedText) -> int | None:
    """The word among the first that takes most steps and tokens; None: there is no word."""

    def weight(word: int) -> int:
        return steps_in(told, word) + len(told.words[word].pieces)

    return max(range(min(len(told.words), 60)), key=weight, default=None)


@lru_cache(maxsize=16)
def words_of(text: str) -> int:
    """What stands between spaces."""
    return len(text.split())


def a_word(told: TokenizedText) -> float:
    """Tokens of a word, without those around the text; 0 where that says nothing."""
    words = words_of(told.text)
    if not words or told.typed or told.characters > len(told.text):
        return 0.0
    return (told.tokens - len(told.before) - len(told.after)) / words
