"""Tokens of texts, counted by a thread of its own: neither an answer nor the window waits."""

from __future__ import annotations

import threading
from collections import deque

from llm_lite.core.errors import LlmLiteError, TooLongError
from llm_lite.core.generation.prompt import ChatFile, check_size, encode, encode_raw, is_open_answer
from llm_lite.core.handles import Handle
from llm_lite.core.messages import CountTokens, TokensCounted
from llm_lite.core.records import replace
from llm_lite.core.text.tokenizer import Tokenizer

AT_ONCE = 1 << 18  # characters that are encoded together; longer texts are cut at ends of lines
_TRIES = 6


class TokenCounter:
    def __init__(self) -> None:
        self._waiting: deque[tuple[Handle, CountTokens, ChatFile, int]] = deque()
        self._lock = threading.Lock()
        self._is_running = False

    def submit(self, handle: Handle, request: CountTokens, file: ChatFile, context: int) -> None:
        """Count a request's tokens on a thread, which finishes the handle. A conversation that is
        certainly longer than `context` tokens is refused."""
        with self._lock:
            self._waiting.append((handle, request, file, context))
            if self._is_running:
                return
            self._is_running = True
        threading.Thread(target=self._work, name="token counts", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_running = False
                    return
                handle, request, file, context = self._waiting.popleft()
            try:
                found = counted(request, file.tokenizer)
                if request.messages:
                    found = _with_conversation(found, request, file, context)
                handle.finish(found)
            except LlmLiteError as error:
                handle.end(str(error))
            except Exception as error:  # a defect costs this request only
                handle.end(f"not counted: {error!r}")


def _with_conversation(
    found: TokensCounted, request: CountTokens, file: ChatFile, context: int
) -> TokensCounted:
    """Add the tokens of the conversation; an estimate where it is far too long to be counted."""
    try:
        ids = conversation_ids(request, file, context)
        return replace(found, conversation=len(ids), ids=ids)
    except TooLongError as error:
        return replace(found, conversation=error.tokens, about=True)


def conversation_ids(request: CountTokens, file: ChatFile, context: int) -> tuple[int, ...]:
    """Return the tokens of a conversation as a `Read` brings it into the cache. LlmLiteError where
    the template refuses it, TooLongError where it is far too long."""
    check_size(file.tokenizer, request.messages, context)
    if request.raw:
        return tuple(encode_raw(file.tokenizer, request.messages).ids)
    continue_last = is_open_answer(request.messages)
    thinking, tools, values = request.thinking, request.tools, request.values
    return tuple(encode(file, request.messages, continue_last, thinking, tools, values).ids)


def counted(request: CountTokens, tokenizer: Tokenizer) -> TokensCounted:
    """Count the tokens of each text and cut it to its limit. LlmLiteError where the tokenizer fails
    at a text."""
    tokens: list[int] = []
    kept: list[int] = []
    for place, text in enumerate(request.texts):
        count, length = count_tokens(tokenizer, text), len(text)
        if place < len(request.most) and count > request.most[place]:
            length, count = fitting(tokenizer, text, count, request.most[place])
        tokens.append(count)
        kept.append(length)
    return TokensCounted(tuple(tokens), tuple(kept))


def count_tokens(tokenizer: Tokenizer, text: str) -> int:
    """Count the tokens of a text as a person's message is encoded, without the template's own.
    Exact up to AT_ONCE characters; in longer texts a word may be cut where a part ends."""
    count, first = 0, 0
    while first < len(text):
        last = min(len(text), first + AT_ONCE)
        if last < len(text):
            last = _line_end(text, first, last)
        count += len(tokenizer.encode(text[first:last], parse_special=False))
        first = last
    return count


def fitting(tokenizer: Tokenizer, text: str, count: int, most: int) -> tuple[int, int]:
    """Return how many of the first characters have at most `most` tokens, and how many tokens they
    have; near the limit, not at it, as the cut is at the end of a line if possible. `count` is that
    of the whole text."""
    length, wanted = len(text), most
    for _ in range(_TRIES):
        if length == 0 or wanted <= 0:
            break
        length = _line_end(text, 0, max(1, length * wanted // max(count, 1)))
        count = count_tokens(tokenizer, text[:length])
        if count <= most:
            return length, count
        wanted = most * 97 // 100  # the beginning is denser than the rest
    return 0, 0


def _line_end(text: str, first: int, last: int) -> int:
    """Return the position behind the last line, or else word, that ends shortly before `last`."""
    near = first + (last - first) * 3 // 4
    for mark in ("\n", " "):
        at = text.rfind(mark, near, last)
        if at > 0:
            return at + 1
    return last
