"""Messages between the program and its sandbox: a JSON object, and bytes beside it."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

_HEAD = struct.Struct("<QQ")  # bytes of the JSON, bytes beside it


def write_frame(stream: BinaryIO, message: Mapping[str, Any], data: bytes = b"") -> None:
    text = json.dumps(message).encode()  # ASCII: lone surrogates pass as escapes
    stream.write(_HEAD.pack(len(text), len(data)))
    stream.write(text)
    stream.write(data)
    stream.flush()


def read_frame(stream: BinaryIO, limit: int) -> tuple[dict[str, Any], bytes] | None:
    """Return the next message and its bytes; None at the end, or above `limit` bytes."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    text_bytes, data_bytes = _HEAD.unpack(head)
    if text_bytes + data_bytes > limit:
        return None
    text, data = stream.read(text_bytes), stream.read(data_bytes)
    if len(text) < text_bytes or len(data) < data_bytes:
        return None
    return json.loads(text), data
