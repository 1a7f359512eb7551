"""Runs a text through an encoder for the window: its tokens, and candidates for masked ones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from llm_lite.core.encoding.masked import encode_masked, fill_tokens
from llm_lite.core.encoding.session import EncoderSession
from llm_lite.core.encoding.texts import encode_text, pair_parts, shortened
from llm_lite.core.messages.encoding import (
    CANDIDATES,
    EncodedToken,
    EncodeText,
    Mask,
    TextEncoded,
)
from llm_lite.core.text.tokenizer import Tokenizer

EVERY_TOKEN = 1 << 30


def encode_for_display(
    session: EncoderSession, tokenizer: Tokenizer, asked: EncodeText, most: int
) -> TextEncoded:
    """Run the encoder over the first `most` tokens of the request; its maps stay.
    RequestError where the model has no pairs or no mask token, CancelledError, NotFiniteError."""
    started = time.perf_counter()
    if asked.pair:
        first, second, left_out = pair_parts(tokenizer, asked.text, asked.pair, most)
    else:
        whole = _ids(tokenizer, asked)
        first, second = shortened(tokenizer, whole, most), []
        left_out = len(whole) - len(first)
    ids = [*first, *second]
    masks: tuple[Mask, ...] = ()
    if asked.fills and session.has_head:
        masks = fill_tokens(session, tokenizer, ids, CANDIDATES)
    if not masks:
        session.hidden(ids)
    seconds = time.perf_counter() - started
    tokens = (*_encoded_tokens(tokenizer, first, 0), *_encoded_tokens(tokenizer, second, 1))
    return TextEncoded(asked.request, tokens, left_out, masks, seconds)


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
