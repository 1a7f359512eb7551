"""The page of an encoder: a text, sentences to compare, or a text with masked tokens.

Before a person writes any, it shows examples: in the window's language, or in English where the
model's vocabulary does not spell that.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import EncodeText, TextEncoded
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.records import replace
from llm_lite.desktop.language.translate import mark, tr

EncodingMode = Literal["text", "pairs", "fill"]
LONGEST = 20_000  # characters of a text
LONGEST_SENTENCE = 1_000
MOST_SENTENCES = 12
TEXT = mark("The animal didn't cross the street because it was too tired.")
SENTENCES = (
    mark("The weather is lovely today."),
    mark("It's so sunny outside!"),
    mark("He drove to the stadium."),
)
MASK = "{mask}"
FILLED = mark("Paris is the {mask} of France.")
Spelling = Literal["words", "parts", "unknown"]
MOST_UNKNOWN = 0.5  # of a text's tokens
MOST_TOKENS = 1.2  # for a character: a vocabulary that has a script takes one at most
LEAST = 4  # characters: a shorter text counts as spelled


class EncodingChoice(Struct, frozen=True):
    """The mode and the texts of the page; None: the example of the window's language."""

    mode: EncodingMode = "text"
    text: str | None = None
    filled: str | None = None  # the text with masked tokens
    sentences: tuple[str, ...] | None = None
    pair: tuple[int, int] = (0, 1)  # places of the two sentences that maps are shown of
    before: tuple[str, ...] = ()  # texts with masks that words were put into, the latest last
    typing: bool = False  # what is typed waits for a pause, or for Enter
    english: bool = False  # of examples: the vocabulary does not spell the window's language

    def of_next_conversation(self) -> EncodingChoice:
        return self

    def of_next_model(self) -> EncodingChoice:
        return replace(self, english=False)

    @property
    def shown_text(self) -> str:
        return example_text(self.english) if self.text is None else self.text

    @property
    def shown_sentences(self) -> tuple[str, ...]:
        return example_sentences(self.english) if self.sentences is None else self.sentences

    def shown_filled(self, mask: str) -> str:
        return example_filled(mask, self.english) if self.filled is None else self.filled

    @property
    def is_example(self) -> bool:
        """Return whether the page shows what no person has written."""
        written = {"text": self.text, "pairs": self.sentences, "fill": self.filled}
        return written[self.mode] is None

    @property
    def compared(self) -> tuple[int, ...]:
        """Return the places of the sentences that are not blank."""
        return tuple(i for i, one in enumerate(self.shown_sentences) if one.strip())

    def without(self, place: int) -> EncodingChoice:
        """Remove one sentence; the pair stays the same two, where both are left."""
        sentences = self.shown_sentences
        left = (*sentences[:place], *sentences[place + 1 :])
        last = max(len(left) - 1, 0)
        one, other = (min(p - (p > place), last) for p in self.pair)
        return replace(self, sentences=left, pair=(one, other))


def wanted_text(choice: EncodingChoice, encoder: EncoderInfo) -> EncodeText | None:
    """Return what the encoder is to read for the page that is shown; None: nothing."""
    if choice.mode == "text":
        return EncodeText(choice.shown_text)
    if choice.mode == "fill":
        if not encoder.mask_token:
            return None
        return EncodeText(choice.shown_filled(encoder.mask_token), fills=True)
    sentences = choice.shown_sentences
    one, other = choice.pair
    if not (one < len(sentences) and other < len(sentences)):
        return None
    is_pair = one != other and encoder.has_pairs
    return EncodeText(sentences[one], sentences[other].strip() if is_pair else "")


def wanted_texts(choice: EncodingChoice) -> tuple[str, ...]:
    """Return the sentences to compare; () where there are not two."""
    if choice.mode != "pairs" or len(choice.compared) < 2:
        return ()
    return tuple(choice.shown_sentences[i] for i in choice.compared)


def example_text(english: bool) -> str:
    return TEXT if english else tr(TEXT)


def example_sentences(english: bool) -> tuple[str, ...]:
    return SENTENCES if english else tuple(map(tr, SENTENCES))


def example_filled(mask: str, english: bool) -> str:
    """Return the example with the model's own mask token."""
    return (FILLED if english else tr(FILLED)).format(mask=mask)


def spelled(command: EncodeText, answer: TextEncoded) -> Spelling:
    """Return how well the vocabulary spells a text. "unknown": most tokens stand for text that it
    lacks. "parts": characters are cut into their parts, as an English vocabulary does with Korean
    ones."""
    tokens = [token for token in answer.tokens if token.unknown or not token.special]
    if sum(token.unknown for token in tokens) > MOST_UNKNOWN * len(tokens):
        return "unknown"
    characters = sum(not c.isspace() for c in command.text + command.pair)
    many = len(tokens) + answer.left_out > MOST_TOKENS * characters
    return "parts" if many and characters >= LEAST else "words"
