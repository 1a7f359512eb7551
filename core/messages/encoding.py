"""Texts through an encoder: tokens, candidates for masked tokens, and how alike texts are."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from llm_lite.core.messages.kinds import Event, StepRequest
from llm_lite.core.records import about

CANDIDATES = 8  # of a masked token
_Count = Annotated[int, Meta(ge=0, lt=1 << 31)]
_Size = Annotated[int, Meta(ge=1, lt=1 << 31)]
_TokenText = Annotated[str, Meta(max_length=1024)]


class EncoderInfo(Struct, frozen=True):
    """What an encoder can do."""

    most_tokens: Annotated[_Size, about("Of a text, that are read.")]
    vector_width: Annotated[_Size, about("Numbers of the vector of a text.")]
    mask_token: Annotated[
        _TokenText, about("As a text has it; empty where it has no masked-token head.")
    ] = ""
    has_pairs: Annotated[bool, about("Its tokenizer puts a separator between two texts.")] = False
    sees_ahead: Annotated[
        bool, about("Its tokens see those behind them, too; those of most decoders do not.")
    ] = True


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
    token: _Count
    text: Annotated[_TokenText, about('As "the", "##ing", "[CLS]".')]
    special: Annotated[bool, about("The tokenizer's own: it stands for no text.")] = False
    segment: Annotated[
        Annotated[int, Meta(ge=0, le=1)], about("Of a pair: 0 the first text, 1 the second.")
    ] = 0
    unknown: Annotated[
        bool, about("It stands for text that the vocabulary cannot spell; `special`, too.")
    ] = False


class Candidate(Struct, frozen=True):
    """A token that could stand in the place of a masked one."""

    token: _Count
    text: Annotated[
        _TokenText, about('Without spaces around it; "##ing" joins the word before it.')
    ]
    probability: Annotated[float, Meta(ge=0, le=1)]


class Mask(Struct, frozen=True):
    position: Annotated[_Count, about("Of the masked token among the text's.")]
    candidates: Annotated[
        Annotated[tuple[Candidate, ...], Meta(max_length=CANDIDATES)], about("The likeliest first.")
    ]


class TextEncoded(Event, frozen=True):
    """The answer to EncodeText."""

    tokens: tuple[EncodedToken, ...]
    left_out: Annotated[_Count, about("Tokens at the end that are more than the model reads.")] = 0
    masks: Annotated[
        tuple[Mask, ...], about("Its masked tokens, where they are to be filled.")
    ] = ()
    seconds: Annotated[
        Annotated[float, Meta(ge=0)], about("From its characters to the vectors of its tokens.")
    ] = 0.0


class TextsCompared(Event, frozen=True):
    """The answer to CompareTexts: the cosine of every two vectors, [texts][texts]."""

    similarities: tuple[tuple[float, ...], ...]
    seconds: float = 0.0
