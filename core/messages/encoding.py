"""Texts through an encoder: tokens, candidates for masked tokens, and how alike texts are."""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages.kinds import Event, StepRequest

CANDIDATES = 8  # of a masked token


class EncoderInfo(Struct, frozen=True):
    """What an encoder can do."""

    most_tokens: int  # of a text, that are read
    vector_width: int
    mask_token: str = ""  # as a text has it, "[MASK]"; "": it has no masked-token head
    has_pairs: bool = False  # its tokenizer puts a separator between two texts


class EncodeText(StepRequest, frozen=True):
    """Ask for TextEncoded: run the encoder over a text, or with `pair` over "[CLS] text [SEP] pair
    [SEP]"; attention maps are of it from then on. With `fills`, mask tokens in the text count as
    such; else what is typed is text. Of requests that wait, only the last one is answered."""

    text: str
    pair: str = ""  # the second text; "": there is one
    fills: bool = False


class CompareTexts(StepRequest, frozen=True):
    """Ask for TextsCompared, of two texts or more. Of requests that wait, only the last one is
    answered."""

    texts: tuple[str, ...]


class EncodedToken(Struct, frozen=True):
    token: int
    text: str  # "the", "##ing", "[CLS]"
    special: bool = False  # the tokenizer's own: it stands for no text
    segment: int = 0  # of a pair: 0 the first text, 1 the second
    unknown: bool = False  # stands for text that the vocabulary cannot spell; `special`, too


class Candidate(Struct, frozen=True):
    """A token that could stand in the place of a masked one."""

    token: int
    text: str  # without spaces around it; "##ing" joins the word before it
    probability: float


class Mask(Struct, frozen=True):
    position: int  # of the masked token among the text's
    candidates: tuple[Candidate, ...]  # the likeliest first


class TextEncoded(Event, frozen=True):
    """The answer to EncodeText."""

    tokens: tuple[EncodedToken, ...]
    left_out: int = 0  # tokens at the end that are more than the model reads
    masks: tuple[Mask, ...] = ()
    seconds: float = 0.0


class TextsCompared(Event, frozen=True):
    """The answer to CompareTexts: the cosine of every two vectors, [texts][texts]."""

    similarities: tuple[tuple[float, ...], ...]
    seconds: float = 0.0
