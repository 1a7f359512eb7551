"""Makes messages of the protocol of what tool servers write, and words for a model of results.

The protocol is held by few servers that people write by hand: they print, log and greet on the
standard output, leave out `jsonrpc`, send `error: null` beside a result, write JSON in several
lines. Whatever is not a message is passed over; one bad tool or block never costs the others.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from llm_lite.core.plain_text import lines, shortened
from llm_lite.core.tools.json_values import JsonProblem, read_json, written

MOST_RESULT = 64 << 10  # characters of what a tool answers
MOST_OPEN = 1 << 20  # bytes of a message in several lines
MOST_TRIES = 64  # to find a message in a line, or the end of one
_MOST_OTHER = 2_000  # characters of a block of a kind that is not known
_CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]{0,200}\x07|\xef\xbb\xbf|\xff\xfe")
_HALF = re.compile("[\ud800-\udfff]")  # of a pair: JSON can escape what no encoder takes
_READER = json.JSONDecoder()
_MESSAGE = '{"jsonrpc"'


class MessageReader:
    """Reads messages of the lines that a server writes; `on_stray` is called with what is none."""

    def __init__(self, on_stray: Callable[[str], None]) -> None:
        self._on_stray = on_stray
        self._open: list[str] = []  # lines of a message that has not ended
        self._size = self._ends = 0

    def read(self, line: bytes) -> Iterator[dict[str, Any]]:
        """Yield the messages of a line."""
        text = _CONTROLS.sub(b"", line).decode("utf-8", "replace").rstrip()
        if self._open and not text.startswith(_MESSAGE):
            text = self._continued(text)
        elif self._open:
            self._on_stray("\n".join(self._open))
            self._open = []
        elif text == "{":
            self._open, self._size, self._ends = [text], 1, 0
            return
        if text:
            yield from self._messages(text.lstrip())

    def _continued(self, text: str) -> str:
        """Return the message of several lines that ends here; "" while it goes on."""
        self._open.append(text)
        self._size += len(text) + 1
        self._ends += text == "}"
        is_over = self._size > MOST_OPEN or self._ends > MOST_TRIES
        if text != "}" and not is_over:
            return ""
        whole = "\n".join(self._open)
        if not is_over and _parsed(whole, 0) is None:
            return ""  # the end of an object within it
        self._open = []
        return whole

    def _messages(self, text: str) -> Iterator[dict[str, Any]]:
        at = tries = 0
        while at < len(text):
            found = _parsed(text, at) if tries < MOST_TRIES else None
            if found is None:  # words before a message, as of a print without its line break
                tries += 1
                place = text.find(_MESSAGE, at + 1) if tries < MOST_TRIES else -1
                self._on_stray(text[at : place if place > 0 else len(text)])
                if place < 0:
                    return
                at = place
                continue
            begin, (value, at) = at, found
            batch = value if isinstance(value, list) else [value]
            messages = [one for one in map(_mended, batch) if one is not None]
            yield from messages
            if not messages or len(messages) < len(batch):
                tries += not messages
                self._on_stray(text[begin:at])
            while at < len(text) and text[at].isspace():
                at += 1


def _parsed(text: str, at: int) -> tuple[Any, int] | None:
    if not text.startswith(("{", "["), at):
        return None
    try:
        return _READER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None


def _mended(value: Any) -> dict[str, Any] | None:
    """Return a message in the form of JSON-RPC 2.0; None for what is none."""
    if not isinstance(value, dict) or not ("method" in value or "id" in value):
        return None
    message = {name: one for name, one in value.items() if one is not None or name == "result"}
    if "method" not in message:
        if "error" in message:
            message.pop("result", None)
        elif "result" not in message:
            return None
        error, result = message.get("error"), message.get("result")
        if "error" in message and not isinstance(error, dict):
            message["error"] = {"code": -32603, "message": _shown(error)}
        elif isinstance(error, dict):
            code = error.get("code")
            code = code if type(code) is int else -32603
            sentence = error.get("message", error.get("data", ""))
            message["error"] = {"code": code, "message": _shown(sentence)}
        elif result is None:
            message["result"] = {}
        elif not isinstance(result, dict):
            message["result"] = {"content": result}
    return {**message, "jsonrpc": "2.0"}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else written(value)


def result_of(found: dict[str, Any]) -> tuple[str, bool]:
    """Return what a tool answered, in words cut to what a conversation can hold, and whether it
    failed."""
    content = found.get("content")
    blocks = content if isinstance(content, list) else [content] if content is not None else []
    parts = [part for part in map(block_text, blocks) if part]
    structured = found.get("structuredContent", found.get("toolResult"))
    if structured is not None and not _stands_in(parts, structured):
        parts.append(_indented(structured))
    text = lines(_HALF.sub("\ufffd", "\n".join(parts)))
    if len(text) > MOST_RESULT:
        cut = f"… cut here: {len(text):,} characters, {MOST_RESULT:,} are kept"
        text = f"{text[:MOST_RESULT]}\n{cut}"
    return text, found.get("isError") in (True, "true")


def _stands_in(parts: list[str], structured: Any) -> bool:
    """Return True where a text is the structured result itself, as the protocol recommends, or the
    one value that some libraries wrap in `result`."""
    values = [structured]
    if isinstance(structured, dict) and set(structured) == {"result"}:
        values.append(structured["result"])
    texts = {text for value in values for text in (_shown(value), str(value))}
    for part in parts:
        if part in texts:
            return True
        with suppress(JsonProblem):
            if read_json(part) in values:
                return True
    return False


def _indented(value: Any) -> str:
    return value if isinstance(value, str) else written(value, indent=2)


def block_text(block: Any) -> str:
    """Return what a block of a result tells a model, who reads words only."""
    if not isinstance(block, dict):
        return "" if block is None else _shown(block)
    kind, resource = block.get("type"), block.get("resource")
    if kind == "resource_link" or (kind == "resource" and not isinstance(resource, dict)):
        return _link(block)
    if isinstance(resource, dict):
        return _resource(resource)
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if isinstance(block.get("data"), str):
        size = f"{_size_of(block['data']):,} bytes"
        return _bracketed(kind, block.get("mimeType"), size)
    return shortened(_indented(block), _MOST_OTHER)


def _link(block: dict[str, Any]) -> str:
    names = [block.get(name) for name in ("title", "name", "description")]
    shown = list(dict.fromkeys(one for one in names if isinstance(one, str) and one))
    size = block.get("size")
    size = f"{size:,} bytes" if type(size) is int else None
    return _bracketed("resource", block.get("uri"), *shown, block.get("mimeType"), size)


def _resource(resource: dict[str, Any]) -> str:
    """Return a resource that a result has in it: its text, also where that is packed as bytes."""
    uri, mime, text = (resource.get(name) for name in ("uri", "mimeType", "text"))
    blob = resource.get("blob")
    if not isinstance(text, str) and isinstance(blob, str):
        text = _text_of_bytes(blob, mime)
        if text is None:
            return _bracketed("resource", uri, mime, f"{_size_of(blob):,} bytes")
    if not isinstance(text, str):
        return _bracketed("resource", uri, mime)
    return f"{_bracketed('resource', uri, mime)}\n{text}" if isinstance(uri, str) else text


def _text_of_bytes(blob: str, mime: Any) -> str | None:
    kinds = ("text/", "application/json", "application/xml", "application/yaml")
    if not isinstance(mime, str) or not mime.startswith(kinds):
        return None
    try:
        return base64.b64decode(blob, validate=False).decode()
    except (binascii.Error, ValueError):
        return None


def _size_of(packed: str) -> int:
    """Return how many bytes a text of base 64 holds."""
    return len(packed.rstrip("=")) * 3 // 4


def _bracketed(*parts: Any) -> str:
    return f"[{', '.join(part for part in parts if isinstance(part, str) and part)}]"
