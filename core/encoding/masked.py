"""Candidates for the masked tokens of a text, by the masked-token head (Devlin et al. 2019)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from llm_lite.core.encoding.mask_texts import with_word
from llm_lite.core.encoding.session import EncoderSession
from llm_lite.core.encoding.texts import encode_text, pair_parts, shortened
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.reference import softmax
from llm_lite.core.messages.encoding import (
    CANDIDATES,
    Candidate,
    EncodedToken,
    EncodeText,
    Mask,
    TextEncoded,
)
from llm_lite.core.text.tokenizer import Tokenizer

EVERY_TOKEN = 1 << 30


def mask_token(tokenizer: Tokenizer) -> str:
    """Return the mask token as texts have it: "[MASK]" or "<mask>". RequestError if the model has
    none."""
    if tokenizer.mask_id is None:
        raise RequestError("the model's tokenizer has no mask token, so nothing can be filled in")
    return tokenizer.token_text(tokenizer.mask_id)


def fill(
    session: EncoderSession, tokenizer: Tokenizer, text: str, count: int
) -> tuple[tuple[int, ...], tuple[Mask, ...]]:
    """Return the ids of a text, and for each of its masks the `count` likeliest tokens.

    RequestError where the text has no mask, or is longer than the model can take.
    """
    name = mask_token(tokenizer)
    if name not in text:
        raise RequestError(f"the text has no {name}: expected one where a token is to be filled in")
    tokens = encode_masked(tokenizer, text)
    return tuple(tokens), fill_tokens(session, tokenizer, tokens, count)


def encode_masked(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return [CLS] text [SEP], in which the names of mask tokens count as these. RequestError if
    the model has none."""
    name = mask_token(tokenizer)
    pieces = text.split(name)
    segments: list[tuple[str, bool]] = [(pieces[0], False)]
    for piece in pieces[1:]:
        segments += [(name, True), (piece, False)]
    return tokenizer.encode_segments(segments, add_special=True)


def fill_tokens(
    session: EncoderSession, tokenizer: Tokenizer, tokens: Sequence[int], count: int
) -> tuple[Mask, ...]:
    """Return the `count` likeliest tokens for each mask among the ids; () where none is a mask."""
    places = [i for i, token in enumerate(tokens) if token == tokenizer.mask_id]
    if not places:
        return ()
    logits = session.logits(tokens, places[0], places[-1] - places[0] + 1)
    return tuple(
        Mask(place, candidates(logits[place - places[0]], tokenizer, count)) for place in places
    )


def candidates(logits: np.ndarray, tokenizer: Tokenizer, count: int) -> tuple[Candidate, ...]:
    """Return the likeliest tokens of one row of logits."""
    probabilities = softmax(logits.astype(np.float64))
    best = np.argsort(-probabilities, kind="stable")[:count]
    return tuple(
        Candidate(int(i), text_of(tokenizer, int(i)), float(probabilities[i])) for i in best
    )


def text_of(tokenizer: Tokenizer, token: int) -> str:
    """Return a token's text without spaces around it; later pieces as the file spells them."""
    spelled = tokenizer.token_text(token)
    if spelled.startswith("##"):
        return spelled
    return tokenizer.token_bytes(token).decode(errors="replace").strip() or spelled


def filled(tokenizer: Tokenizer, text: str, chosen: Sequence[str]) -> str:
    """Return the text with a word in place of each mask; a later piece joins the word before it."""
    mask = mask_token(tokenizer)
    for number, word in reversed([*enumerate(chosen)]):
        text = with_word(text, mask, number, word)
    return text


def encode_for_display(
    session: EncoderSession,
    tokenizer: Tokenizer,
    asked: EncodeText,
    most: int,
    turn: AbstractContextManager[object] | None = None,
) -> TextEncoded:
    """Run the encoder over the first `most` tokens of the request; its maps stay. Steps run within
    `turn`, which others who use the session wait for, too: a long text is cut into tokens before.
    RequestError where the model has no pairs or no mask token, CancelledError, NotFiniteError."""
    started = time.perf_counter()
    if asked.pair:
        first, second, left_out = pair_parts(tokenizer, asked.text, asked.pair, most)
    else:
        whole = _ids(tokenizer, asked)
        first, second = shortened(tokenizer, whole, most), []
        left_out = len(whole) - len(first)
    ids = [*first, *second]
    seconds = time.perf_counter() - started
    masks: tuple[Mask, ...] = ()
    with turn or nullcontext():
        started = time.perf_counter()
        if asked.fills and session.has_head:
            masks = fill_tokens(session, tokenizer, ids, CANDIDATES)
        if not masks:
            session.hidden(ids)
        seconds += time.perf_counter() - started
    tokens = (*_encoded_tokens(tokenizer, first, 0), *_encoded_tokens(tokenizer, second, 1))
    return TextEncoded(tokens, left_out, masks, seconds)


def _ids(tokenizer: Tokenizer, asked: EncodeText) -> list[int]:
    if asked.fills:
        return encode_masked(tokenizer, asked.text)
    return encode_text(tokenizer, asked.text, EVERY_TOKEN)


def _encoded_tokens(
    tokenizer: Tokenizer, ids: Sequence[int], segment: int
) -> Iterator[EncodedToken]:
    for token in ids:
        special = tokenizer.is_special(token)
        unknown = tokenizer.is_unknown(token)
        yield EncodedToken(token, token_label(tokenizer, token), special, segment, unknown)


def token_label(tokenizer: Tokenizer, token: int) -> str:
    """Return a token's label: "the", and a later piece of a word as the file spells it, "##ing"."""
    spelled = tokenizer.token_text(token)
    text = tokenizer.token_bytes(token).decode(errors="replace")
    later = spelled.startswith("##")  # a piece in WordPiece, whose first pieces bear no mark
    return spelled if later or text == f" {spelled}" else text
