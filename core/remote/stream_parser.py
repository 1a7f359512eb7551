"""Parses the events of an answer, as servers stream them, into pieces: thoughts and words token by
token, calls of functions, how it ended and what it took. Everything is checked before it is used.
"""

from __future__ import annotations

import codecs
import json
import math
import zlib
from collections.abc import Iterator
from typing import Any, Literal

from msgspec import Struct, field

from llm_lite.core.messages import Alternative
from llm_lite.core.messages.remote import UNTOLD_TOKENS
from llm_lite.core.plain_text import quote
from llm_lite.core.remote.failures import RemoteError, error_message
from llm_lite.core.remote.json_fields import a_list, an_object, number, rate, share, text, whole
from llm_lite.core.remote.streamed_calls import MOST_CALLS, StreamedCalls

MOST_TEXT = 1 << 20  # characters in one event
MOST_EARLY = 64  # tokens
MOST_PARTS = 4096  # of a content in one event
LONGEST_PIECE = 100  # characters of one token: longer ones are no tokens, and are split

NOTHING = -9999.0  # OpenAI's logprob of what has none

# Fields of thoughts: DeepSeek's and vLLM's, OpenRouter's and vLLM's later one, Ollama's, and parts.
_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_details")
_SENTENCES = ("message", "detail", "error_message")  # of an error that no `error` holds
_SIGNS_OF_LIFE = ("ping", "keepalive", "keep-alive", "heartbeat")  # kinds of events

Kind = Literal["thought", "visible"]


class Piece(Struct, frozen=True):
    kind: Kind
    text: str
    token: int
    probability: float  # nan: not known
    alternatives: tuple[Alternative, ...] = ()


class Usage(Struct):
    """The token counts of an answer. 0: not known."""

    prompt: int = 0
    cached: int = 0
    new: int = 0
    prompt_rate: float = 0.0  # tokens a second
    new_rate: float = 0.0


class StreamParser(Struct):
    """The parser of one answer. `feed` takes the data of an event and yields the pieces in it."""

    host: str
    usage: Usage = field(default_factory=Usage)
    finish: str = ""  # the protocol's reason
    stop_text: str = ""  # the string that ended it, if the server says it
    response: str = ""  # the server's name of the answer
    is_counted: bool = False  # an event without a choice has told the tokens, as behind the last
    _early: list[dict[str, Any]] = field(default_factory=list)  # tokens without a text yet
    _calls: StreamedCalls = field(default_factory=StreamedCalls)
    _has_text: bool = False  # some text has come
    _decoder: Any = field(default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"))

    def feed(self, data: str, kind: str = "") -> Iterator[Piece]:
        """Yield the pieces of an event of a kind, which most servers do not name. RemoteError for
        an error in the middle of an answer, and for what is no JSON."""
        if kind in _SIGNS_OF_LIFE or data.strip() in ("", "null") or data.startswith(":"):
            return
        event = self._parsed(data, kind)
        self._raise_if_failed(event, kind)
        self.response = self.response or text(event.get("id"))
        choices = a_list(event.get("choices"))
        choice = an_object(choices[0]) if choices else {}
        self._count(event, choice)
        if not choices:
            self.is_counted = self.is_counted or bool(self.usage.new)
            return
        found = text(choice.get("finish_reason"), 40)
        ended = found not in ("", "null")
        if ended:
            self.finish = found
            self.stop_text = text(choice.get("stop_reason"))
        for piece in self._pieces(choice, ended):
            self._has_text = True
            yield piece

    def _raise_if_failed(self, event: dict[str, Any], kind: str) -> None:
        """Raise RemoteError for an event that says an error, as servers do in several forms."""
        problem = event.get("error")
        bare = "choices" not in event and "usage" not in event
        if not problem and (kind == "error" or (bare and _says_error(event))):
            problem = event
        if problem:
            sentence = error_message(problem) or "an error that it does not name"
            raise RemoteError(f"{self.host} broke off: {sentence}")

    def _pieces(self, choice: dict[str, Any], ended: bool) -> Iterator[Piece]:
        if "delta" not in choice and "message" not in choice:  # of /v1/completions
            logs = _completion_rows(an_object(choice.get("logprobs")))
            yield from self._spelled("visible", text(choice.get("text"), MOST_TEXT), logs, ended)
            return
        delta = an_object(choice.get("delta"))
        if not (delta or self._has_text or self._calls.begun):  # else it says all once more
            delta = an_object(choice.get("message"))
        parted, visible = _words(delta.get("content"))
        thoughts = (_words(delta.get(name))[1] for name in _THOUGHTS)
        thought = parted or next(filter(None, thoughts), "")
        visible = visible or text(delta.get("refusal"), MOST_TEXT)
        logs = [an_object(row) for row in a_list(an_object(choice.get("logprobs")).get("content"))]
        logs = [*self._early, *logs]
        self._early = []
        if logs and not (thought or visible or ended):  # what they spell, the next event says
            self._early = logs[-MOST_EARLY:]
            logs = []
        if thought:
            yield from self._spelled("thought", thought, [] if visible else logs, ended)
            logs = logs if visible and not thought else []
        yield from self._spelled("visible", visible, logs, ended)
        rows = a_list(delta.get("tool_calls"))[:MOST_CALLS] or [delta.get("function_call")]
        for row in filter(None, map(an_object, rows)):
            self._calls.feed(row)

    def _spelled(
        self, kind: Kind, words: str, logs: list[dict[str, Any]], ended: bool
    ) -> Iterator[Piece]:
        """Divide words among the tokens that come with them. Tokens that are parts of characters
        have no text until the last of them."""
        if not logs:
            for at in range(0, len(words), LONGEST_PIECE):
                part = words[at : at + LONGEST_PIECE]
                yield Piece(kind, part, _number({}, part), math.nan)
            return
        if not words and ended:  # the end token, which says nothing
            return
        rest = words
        for place, row in enumerate(logs):
            part = self._decoder.decode(_bytes_of(row))
            if place == len(logs) - 1:
                part = rest
            elif not rest.startswith(part):
                part = ""
            rest = rest[len(part) :]
            if len(part) > LONGEST_PIECE:
                yield from self._spelled(kind, part, [], ended)
                continue
            spelled = text(row.get("token")) or part
            chance = share(row.get("logprob"))
            if number(row.get("logprob")) <= NOTHING:
                chance = math.nan
            yield Piece(kind, part, _number(row, spelled), chance, _alternatives(row))

    def calls(self) -> list[str]:
        """Return the calls, marked as the window reads calls of models here ("tags")."""
        return self._calls.written()

    def _parsed(self, data: str, kind: str) -> dict[str, Any]:
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            if kind == "error":
                raise RemoteError(f"{self.host} broke off: {quote(data)}") from None
            raise RemoteError(
                f"{self.host} sends what is not JSON in the middle of an answer: {quote(data)}"
            ) from None
        if not isinstance(event, dict):
            raise RemoteError(f"{self.host} sends {quote(data)}, expected an event of an answer")
        return event

    def _count(self, event: dict[str, Any], choice: dict[str, Any]) -> None:
        counts = an_object(event.get("usage")) or an_object(choice.get("usage"))
        counts = counts or an_object(an_object(event.get("x_groq")).get("usage"))
        use = self.usage
        use.prompt = whole(counts.get("prompt_tokens")) or use.prompt
        use.new = whole(counts.get("completion_tokens")) or use.new
        details = an_object(counts.get("prompt_tokens_details"))
        use.cached = whole(details.get("cached_tokens")) or use.cached
        times = an_object(event.get("timings"))
        if times:
            use.cached = whole(times.get("cache_n")) or use.cached
            use.prompt = use.prompt or whole(times.get("prompt_n")) + use.cached
            use.new = whole(times.get("predicted_n")) or use.new
            use.prompt_rate = rate(times.get("prompt_per_second")) or use.prompt_rate
            use.new_rate = rate(times.get("predicted_per_second")) or use.new_rate


def _words(content: Any, is_inner: bool = False) -> tuple[str, str]:
    """Return the thought and the visible text of a content: a text or, as Mistral's, parts."""
    if not isinstance(content, list):
        return "", text(content, MOST_TEXT)
    thought, visible = "", ""
    for part in content[:MOST_PARTS]:
        row = an_object(part) or {"text": part}
        thought += "" if is_inner else _words(row.get("thinking"), True)[1]
        visible += text(row.get("text"), MOST_TEXT)
    return thought[:MOST_TEXT], visible[:MOST_TEXT]


def _says_error(event: dict[str, Any]) -> bool:
    """Return True for an event without a choice that is an error of vLLM's, FastAPI's or another
    form."""
    named = "error" in (event.get("object"), event.get("type"))
    return named or any(isinstance(event.get(name), str) for name in _SENTENCES)


def progress(data: str) -> tuple[int, int] | None:
    """Return how many tokens of the prompt a llama-server has read, and how many there are."""
    if '"prompt_progress"' not in data[:2000]:
        return None
    try:
        raw = an_object(an_object(json.loads(data)).get("prompt_progress"))
    except (ValueError, RecursionError):
        return None
    total = whole(raw.get("total"))
    return (min(whole(raw.get("processed")), total), total) if total else None


def _completion_rows(logs: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the logprobs of /v1/completions, in the form of those of the chat."""
    rows: list[dict[str, Any]] = []
    tops = a_list(logs.get("top_logprobs"))
    pairs = zip(a_list(logs.get("tokens")), a_list(logs.get("token_logprobs")), strict=False)
    for place, (token, log) in enumerate(pairs):
        top = an_object(tops[place]) if place < len(tops) else {}
        others = [{"token": word, "logprob": value} for word, value in list(top.items())[:20]]
        rows.append({"token": token, "logprob": log, "top_logprobs": others})
    return rows


def _bytes_of(row: dict[str, Any]) -> bytes:
    """Return the bytes of a token, which may be a part of a character."""
    raw = row.get("bytes")
    if isinstance(raw, list) and len(raw) <= 1024:
        try:
            return bytes(raw)
        except (ValueError, TypeError):
            pass
    return text(row.get("token")).encode("utf-8", "replace")


def _number(row: dict[str, Any], spelled: str) -> int:
    """Return a token's id; if it is not known, one that is the same for the same text."""
    raw = row.get("id")
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < UNTOLD_TOKENS:
        return raw
    return UNTOLD_TOKENS | (zlib.crc32(spelled.encode("utf-8", "replace")) & (UNTOLD_TOKENS - 1))


def _alternatives(row: dict[str, Any]) -> tuple[Alternative, ...]:
    found = []
    for other in map(an_object, a_list(row.get("top_logprobs"))[:20]):
        word, chance = text(other.get("token")), share(other.get("logprob"))
        if chance == chance:
            shown = _bytes_of(other).decode("utf-8", "replace")
            found.append(Alternative(_number(other, word), shown, chance))
    return tuple(sorted(found, key=lambda one: -one.probability)[:5])
