"""Targets that an encoder-decoder writes about a source, a token at a time."""

from __future__ import annotations

from msgspec import Struct, field

from llm_lite.core.messages.answers import Alternative, StopReason
from llm_lite.core.messages.kinds import Command, Event

MOST_BEAMS = 16  # hypotheses at a time


class TranslatorInfo(Struct, frozen=True):
    """The use of an encoder-decoder by its file."""

    beams: int = 1  # hypotheses at a time; 1: greedy
    prefixes: tuple[str, ...] = ()  # of tasks, before a source: "translate English to German: "
    encoder_layers: int = 0


class Translate(Command, frozen=True):
    """Ask an encoder-decoder for a target about `source`: SourceRead, a TargetGrown after each
    token, and TargetFinished. What was written before it was cancelled stays.

    beams: hypotheses at a time, 1 for greedy decoding, up to MOST_BEAMS; left out (0), as many as
    the model's file says. most_tokens: of the target; left out, as many as a target of such a
    source may have (`longest_target`). Maps are of this source and target from then on.
    """

    source: str
    beams: int = 0
    most_tokens: int = 0


class ReadTarget(Command, frozen=True):
    """Ask that the decoder hold another target about the source that was read, with the token that
    ends it: maps, cache and lens are of that one then. CacheStatus follows."""

    tokens: tuple[int, ...]


class SourceToken(Struct, frozen=True):
    token: int
    text: str  # what it stands for, by itself; U+FFFD for a part of a character
    special: bool = False  # the tokenizer's own: it stands for no text


class SourceRead(Event, frozen=True):
    """The encoder has read the source."""

    tokens: tuple[SourceToken, ...]
    start: str  # the text of the token that the decoder begins with


class TargetGrown(Event, frozen=True):
    """The best target so far; of a beam it may differ from the one before in any token."""

    tokens: tuple[int, ...]
    texts: tuple[str, ...]  # what each adds: a character of several tokens stands at its last one


class TargetToken(Struct, frozen=True):
    token: int
    text: str
    probability: float  # that the model gave it there
    alternatives: tuple[Alternative, ...] = ()  # the likeliest in its place, the likeliest first
    special: bool = False  # it stands for no text, such as the token that ends a target


class OtherTarget(Struct, frozen=True):
    """Another hypothesis of the beam; its tokens as of `TargetFinished`."""

    text: str
    score: float
    tokens: tuple[TargetToken, ...] = ()


class TranslationStats(Struct, frozen=True):
    source_tokens: int = 0
    new_tokens: int = 0
    beams: int = 1
    most_tokens: int = 0  # that the target could have
    encode_ms: float = 0.0
    decode_ms: float = 0.0  # of all steps of the decoder
    tokens_per_s: float = 0.0


class TargetFinished(Event, frozen=True):
    """The end of a Translate. Scores are sums of log probabilities, divided as the model's length
    penalty has it: by the length where that is 1."""

    tokens: tuple[TargetToken, ...] = ()
    text: str = ""  # without special tokens
    score: float = 0.0
    others: tuple[OtherTarget, ...] = ()  # the best first
    stats: TranslationStats = field(default_factory=TranslationStats)
    stop_reason: StopReason = "end"
