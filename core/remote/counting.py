"""Tokens of texts, counted by servers that can; and those of a prompt, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_lite.core.errors import CancelledError
from llm_lite.core.messages import CountTokens, Generate, PromptToken, TokensCounted
from llm_lite.core.messages.remote import RemoteModel
from llm_lite.core.messages.sampling_options import OPTIONS
from llm_lite.core.records import replace
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.dialects import Dialect
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.json_fields import a_list, an_object, text, whole
from llm_lite.core.remote.request_body import continued_text, template_fields, tool_row, written

MOST_TEXT = 4 << 20  # characters of one text that are sent to be counted
MOST_PROMPT = 1 << 16  # tokens of a prompt that are shown one by one
SECONDS = 10.0
_AROUND = 8  # tokens that a server puts around a text, at most
_NO_LIMIT = int(OPTIONS["max_new_tokens"].high)


def count_tokens(
    command: CountTokens, client: Client, dialect: Dialect, model: str, exchange: Exchange
) -> TokensCounted:
    """Count tokens on the server. RemoteError if it cannot count."""
    if not dialect.counting:
        raise RemoteError(f"{client.address.host} does not tell how many tokens a text has")
    counts, kept = [], []
    for place, words in enumerate(command.texts):
        count = len(_tokens(words[:MOST_TEXT], client, dialect, model, exchange))
        most = command.most[place] if place < len(command.most) else count
        fits = len(words)
        while count > most > 0 and fits:  # by its share of tokens, until it fits
            fits = int(fits * most / count * 0.98)
            count = len(_tokens(words[:fits], client, dialect, model, exchange))
        if most <= 0 and count:
            fits = count = 0
        counts.append(count)
        kept.append(fits)
    return TokensCounted(tuple(counts), tuple(kept))


def within_context(
    command: Generate, client: Client, dialect: Dialect, model: RemoteModel, exchange: Exchange
) -> Generate:
    """Return the command with a limit of new tokens that the context has room for, where the server
    refuses a higher one.

    A limit of the whole context is none: a chat is sent without it. /v1/completions has a default
    of 16 tokens, and vLLM streams no completion whose `max_tokens` is null: what the prompt leaves
    is sent. Its tokens are counted where they may not fit; by a server that cannot count, a token
    is taken for a byte, and a long prompt for at most three quarters of the context.
    """
    limit = command.sampling.max_new_tokens
    if dialect.takes_minus_one or not model.context:
        return command
    if not command.raw:
        most = _NO_LIMIT if limit >= model.context else limit
    else:
        prompt = "".join(continued_text(command))
        certain = model.context - len(prompt.encode("utf-8", "replace")) - _AROUND
        if limit <= certain:
            return command
        count = _count(prompt, client, dialect, model.name, exchange)
        room = model.context - count if count else max(certain, model.context // 4)
        most = max(1, min(limit, room))  # what leaves no room is the server's to refuse
    return replace(command, sampling=replace(command.sampling, max_new_tokens=most))


def _count(prompt: str, client: Client, dialect: Dialect, model: str, exchange: Exchange) -> int:
    """Return the tokens of a completion's prompt with those around it; 0 if they are not told."""
    if dialect.counting != "vllm":
        return 0
    try:
        body = {"model": model, "prompt": prompt}
        return whole(an_object(client.post_json("/tokenize", body, exchange, SECONDS)).get("count"))
    except CancelledError:
        raise
    except RemoteError:
        return 0


def _tokens(
    words: str, client: Client, dialect: Dialect, model: str, exchange: Exchange
) -> list[Any]:
    if dialect.counting == "llama-server":
        body: dict[str, Any] = {"content": words, "add_special": False}
    else:
        body = {"model": model, "prompt": words, "add_special_tokens": False}
    reply = an_object(client.post_json("/tokenize", body, exchange, SECONDS))
    if not isinstance(reply.get("tokens"), list):
        raise RemoteError(f"{client.address.host} answers /tokenize without tokens")
    return a_list(reply["tokens"])


def prompt_of(
    command: Generate, client: Client, dialect: Dialect, model: str, exchange: Exchange
) -> tuple[PromptToken, ...]:
    """Return the prompt's tokens with the messages that contain them; () if not known."""
    if dialect.name not in ("llama-server", "llm-lite") or command.raw:
        return ()
    if dialect.name == "llm-lite" and command.continue_last:
        return ()  # its template is asked without an answer's beginning
    try:
        if dialect.name == "llm-lite":
            return _our_prompt(command, client, dialect, model, exchange)
        return _llama_prompt(command, client, dialect, exchange)
    except CancelledError:
        raise
    except RemoteError:
        return ()


def _llama_prompt(
    command: Generate, client: Client, dialect: Dialect, exchange: Exchange
) -> tuple[PromptToken, ...]:
    asked = {"messages": written(command.messages, dialect)}
    made = an_object(client.post_json("/apply-template", asked, exchange, SECONDS))
    prompt = text(made.get("prompt"), MOST_TEXT)
    if not prompt:
        return ()
    body = {"content": prompt, "add_special": True, "parse_special": True, "with_pieces": True}
    reply = an_object(client.post_json("/tokenize", body, exchange, SECONDS))
    rows = [an_object(row) for row in a_list(reply.get("tokens"))]
    if not rows or len(rows) > MOST_PROMPT:
        return ()
    ids = [row["id"] if isinstance(row.get("id"), int) else 0 for row in rows]
    pieces = [_piece(row.get("piece")) for row in rows]
    return placed(ids, pieces, [message.content for message in command.messages])


def _our_prompt(
    command: Generate, client: Client, dialect: Dialect, model: str, exchange: Exchange
) -> tuple[PromptToken, ...]:
    body: dict[str, Any] = {"model": model, "messages": written(command.messages, dialect)}
    if command.tools:
        body["tools"] = [tool_row(spec) for spec in command.tools]
    body |= template_fields(command, dialect, thinking=command.thinking)
    reply = an_object(
        client.post_json("/tokenize", body | {"with_pieces": True}, exchange, SECONDS)
    )
    ids, pieces = a_list(reply.get("tokens")), a_list(reply.get("pieces"))
    if len(ids) != len(pieces) or len(ids) > MOST_PROMPT:
        return ()
    contents = [message.content for message in command.messages]
    return placed([whole(one) for one in ids], [_piece(one) for one in pieces], contents)


def _piece(reply: Any) -> str:
    """Return a text, or U+FFFD for the bytes of a part of a character."""
    return text(reply) if isinstance(reply, str) else "\ufffd"


def placed(
    ids: Sequence[int], pieces: Sequence[str], contents: Sequence[str]
) -> tuple[PromptToken, ...]:
    """Return the message of each token: messages follow each other in the prompt; what is between
    them is the template's."""
    whole = "".join(pieces)
    spans, at = [], 0
    for number, content in enumerate(contents):
        bare = content.strip()
        start = whole.find(bare, at) if bare else -1
        if start >= 0:
            at = start + len(bare)
            spans.append((start, at, number))
    found, begin, place = [], 0, 0
    for number, piece in zip(ids, pieces, strict=True):
        while place < len(spans) and begin >= spans[place][1]:
            place += 1
        inside = place < len(spans) and begin + len(piece) > spans[place][0]
        owner = spans[place][2] if inside and piece else -1
        found.append(PromptToken(max(number, 0), piece, owner))
        begin += len(piece)
    return tuple(found)
