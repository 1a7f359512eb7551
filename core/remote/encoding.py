"""Texts that an encoder of another llm-lite reads: their tokens, and how alike they are."""

from __future__ import annotations

import base64
import time
from math import isfinite
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.encoding.pooling import cosines
from llm_lite.core.errors import RequestError
from llm_lite.core.files import json_text
from llm_lite.core.messages import CompareTexts, EncodeText, TextEncoded, TextsCompared
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.plain_text import quote, shortened
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.json_fields import a_list, an_object

F32 = NDArray[np.float32]
SECONDS = 60.0
LONGEST_ID = 128  # characters of a response's name


class _Reply(Struct, frozen=True):
    """The answer of /encode."""

    id: str
    encoded: TextEncoded


def encode(
    command: EncodeText, encoder: EncoderInfo, client: Client, model: str, exchange: Exchange
) -> tuple[str, TextEncoded]:
    """Have a text read there; return its name for questions, and what the encoder makes of it.
    RemoteError if the server cannot, or its answer is none."""
    body = {
        "model": model,
        "text": command.text,
        "pair": command.pair,
        "fills": command.fills,
    }
    found = client.post_json("/encode", body, exchange, SECONDS)
    try:
        return encoded_of(found, encoder)
    except CheckError as error:
        raise _nothing_usable(client, "the text", error) from None


def encoded_of(found: Any, encoder: EncoderInfo) -> tuple[str, TextEncoded]:
    """Return name and text of a parsed answer. CheckError where it is none, or its parts do not
    belong together."""
    reply = convert(found, _Reply)
    if half := json_text.lone_surrogate(found):
        raise CheckError(half[0], f"is not valid Unicode: {json_text.HALF_PAIR}: {quote(half[1])}")
    answer, most, count = reply.encoded, encoder.most_tokens, len(reply.encoded.tokens)
    for field, is_right, expected, shown in (
        ("id", 0 < len(reply.id) <= LONGEST_ID, "the name of a response", quote(reply.id)),
        ("encoded.tokens", 0 < count <= most, f"1 to {most} tokens", count),
        ("encoded.masks", len(answer.masks) <= count, f"at most {count}", len(answer.masks)),
        ("encoded.seconds", isfinite(answer.seconds), "a finite number", answer.seconds),
    ):
        if not is_right:
            raise CheckError(field, f"expected {expected}, found {shown}")
    for number, mask in enumerate(answer.masks):
        if mask.position >= count:
            at = f"encoded.masks[{number}].position"
            raise CheckError(at, f"expected 0 to {count - 1}, found {mask.position}")
    return reply.id, answer


def compare(
    command: CompareTexts, encoder: EncoderInfo, client: Client, model: str, exchange: Exchange
) -> TextsCompared:
    """Compare the vectors that the server makes of texts. RequestError for less than two texts,
    RemoteError if the server cannot, or its vectors are none."""
    if len(command.texts) < 2:
        raise RequestError(f"expected two texts or more, found {len(command.texts)}")
    started = time.perf_counter()
    body = {"model": model, "input": list(command.texts), "encoding_format": "base64"}
    found = client.post_json("/v1/embeddings", body, exchange, SECONDS)
    try:
        similarities = cosines(vectors_of(found, len(command.texts), encoder.vector_width))
    except CheckError as error:
        raise _nothing_usable(client, "vectors", error) from None
    rows = tuple(map(tuple, similarities.tolist()))
    return TextsCompared(rows, time.perf_counter() - started)


def vectors_of(found: Any, count: int, width: int) -> F32:
    """Return the vectors float32 [count, width] of a parsed answer of /v1/embeddings in base64.
    CheckError where it is none."""
    rows = a_list(an_object(found).get("data"))
    if len(rows) != count:
        raise CheckError("data", f"expected {count} vectors, found {len(rows)}")
    vectors = np.empty((count, width), np.float32)
    for number, row in enumerate(map(an_object, rows)):
        at, packed = f"data[{number}].embedding", row.get("embedding")
        if row.get("index") != number:
            other = json_text.found(row.get("index"))
            raise CheckError(f"data[{number}].index", f"expected {number}, found {other}")
        try:
            raw = base64.b64decode(packed if isinstance(packed, str) else "", validate=True)
        except ValueError:
            raise CheckError(at, "expected base64") from None
        if len(raw) != 4 * width:
            raise CheckError(at, f"expected {width} numbers, found {len(raw)} bytes")
        vectors[number] = np.frombuffer(raw, "<f4")
        if not np.isfinite(vectors[number]).all():
            raise CheckError(at, "expected finite numbers")
    return vectors


def _nothing_usable(client: Client, what: str, error: CheckError) -> RemoteError:
    host = client.address.host
    return RemoteError(f"{host} tells nothing usable of {what}: {shortened(str(error), 200)}")
