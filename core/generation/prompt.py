"""Encodes a conversation, so that what a person types can never act as a control token.

A conversation becomes a prompt by the model's chat template, or by joining its texts where the
model continues them; functions, calls and their results become what chat templates take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from llm_lite.core.errors import (
    FileError,
    LlmLiteError,
    RequestError,
    TooLongError,
    UnsupportedError,
)
from llm_lite.core.generation.message_texts import MessageTexts
from llm_lite.core.generation.role_ends import RoleEnds, role_ends
from llm_lite.core.generation.token_estimate import estimated_tokens, utf8_bytes
from llm_lite.core.generation.turn_marks import turn_ends
from llm_lite.core.generation.turns import TemplateTurns, Turn, turns_for
from llm_lite.core.messages import (
    ChatMessage,
    Overflow,
    SpellTokens,
    Thinking,
    TokensSpelled,
    ToolSpec,
)
from llm_lite.core.plain_text import estimate
from llm_lite.core.records import replace
from llm_lite.core.text.chat_template import ChatTemplate, Message, Segment
from llm_lite.core.text.continued import is_text, pieces
from llm_lite.core.text.thinking import begun_by, written_out
from llm_lite.core.text.tokenizer import StreamDecoder, Tokenizer
from llm_lite.core.tools.declared import offered, schema_of

_MARK = "\uf8ff"  # a private-use character
_SPACES = re.compile(rb"\s*")
_FORGETTABLE = 4  # contexts that a text may have where the beginning may be forgotten
_ALWAYS_FORGETTABLE = 1 << 20  # bytes


class ChatFile(Protocol):
    """The interface of a model file to a conversation with it."""

    @property
    def path(self) -> Path: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def template(self) -> ChatTemplate: ...


class Encoded(Struct):
    """Token ids, and for each the index of the message that contains it; -1: the template does.
    `thinking` is how the answer marks its thoughts, `roles` what ends it where it goes on as
    somebody else, `request` a person's last message."""

    ids: list[int]
    owners: list[int]
    thinking: Thinking | None = None
    roles: RoleEnds | None = None
    request: str = ""

    @property
    def message_tokens(self) -> list[int]:
        """Return the tokens from the first message on: [] while none has any."""
        first = next((i for i, owner in enumerate(self.owners) if owner >= 0), len(self.ids))
        return self.ids[first:]

    def add(self, ids: Sequence[int], owner: int) -> None:
        self.ids += ids
        self.owners += [owner] * len(ids)

    def tokens_of(self, message: int) -> list[int]:
        """Return the tokens that the message of this index has."""
        return [t for t, owner in zip(self.ids, self.owners, strict=True) if owner == message]

    @classmethod
    def of_ids(cls, ids: Sequence[int]) -> Encoded:
        """Return a prompt of tokens that are of no message."""
        return cls(list(ids), [-1] * len(ids))


def check_size(
    tokenizer: Tokenizer,
    messages: Sequence[ChatMessage],
    context: int,
    overflow: Overflow = "stop",
) -> None:
    """Raise TooLongError for texts that are certainly too long. Checked by bytes, because
    tokenizing tens of megabytes takes minutes and gigabytes; the tokens are estimated.

    `context` is in tokens. Where something may be forgotten, more is let through.
    """
    most = context * tokenizer.longest_token_bytes
    if overflow != "stop":
        most = max(_FORGETTABLE * most, _ALWAYS_FORGETTABLE)
    texts = [m.content + m.thought for m in messages if not m.tokens or m.thought]
    texts += [m.name for m in messages]
    texts += [call.name + call.arguments for m in messages for call in m.calls]
    found = sum(map(utf8_bytes, texts))
    if found <= most:
        return
    of_answers = sum(len(m.tokens) for m in messages if m.tokens and not m.thought)
    tokens = estimated_tokens(tokenizer, texts) + of_answers
    ends = "shorten it or load the model with a larger context"
    if overflow == "stop":
        sentence = (
            f"the prompt has {estimate(tokens)} tokens, but the context holds {context}; {ends}"
        )
    else:
        sentence = (
            f"the prompt has {estimate(tokens)} tokens, too many to be cut to a context of "
            f"{context}: {estimate(tokens * most // found)} can be; {ends}"
        )
    raise TooLongError(sentence, tokens)


def encode(
    file: ChatFile,
    messages: Sequence[ChatMessage],
    continue_last: bool,
    thinking: bool = True,
    tools: Sequence[ToolSpec] = (),
    values: Mapping[str, Any] = {},
) -> Encoded:
    """Encode a conversation in the model's own template, or else in a plain format; as one text if
    it is a text that is continued. FileError if the template is at fault."""
    tokenizer = file.tokenizer
    if is_text(messages):
        return encode_completion(tokenizer, messages)
    try:
        encoded = encode_chat(
            tokenizer,
            file.template,
            messages,
            continue_last=continue_last,
            thinking=thinking,
            tools=tools,
            values=values,
        )
    except UnsupportedError as error:  # the template's own fault
        raise FileError(file.path, str(error)) from error
    if file.template.origin != "model":
        begins_line = tokenizer.decode(encoded.ids[-1:]).endswith("\n")
        encoded.roles = role_ends(tokenizer, begins_line=begins_line, in_chat=True)
    else:
        encoded.roles = turn_ends(tokenizer, file.template)
    encoded.request = next((m.content for m in reversed(messages) if m.role == "user"), "")
    return encoded


def is_open_answer(messages: Sequence[ChatMessage]) -> bool:
    """Return True if the last message is an answer with content: it is left open when read."""
    last = messages[-1] if messages else None
    return last is not None and last.role == "assistant" and bool(last.content + last.thought)


def encode_raw(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> Encoded:
    """Return the messages' texts one after the other, without a template; control tokens that are
    typed count as such."""
    encoded = Encoded([], [])
    encoded.add(list(tokenizer.around[0]), -1)
    for index, message in enumerate(messages):
        ids = message.tokens or tokenizer.encode(message.content, behind=encoded.message_tokens)
        encoded.add(ids, index)
    return encoded


def encode_chat(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    *,
    continue_last: bool = False,
    thinking: bool = True,
    tools: Sequence[ToolSpec] = (),
    values: Mapping[str, Any] = {},
) -> Encoded:
    """Encode the template's own text with its control tokens, the messages' contents as plain text.

    An assistant's message that knows its tokens enters as these, so that the cache still fits; one
    with thoughts as its text, as templates leave earlier thoughts out. With `continue_last` the
    last message is an assistant's, and stays open. `thinking`, `tools` and `values`: as in
    `Generate`. The template is given the turns of `turns_for`, so that it writes all messages.
    """
    if continue_last and (not messages or messages[-1].role != "assistant"):
        raise RequestError("there is no answer to continue")
    template = template.for_tools() if tools else template
    renderer = _Renderer(template, tokenizer, thinking, tools, values)
    turns = renderer.turns_of(messages[:-1] if continue_last else messages)
    placeholders, segments = renderer.render(turns)
    encoded = Encoded([], [])
    writer = _SegmentWriter(tokenizer, encoded, turns.turns)
    pending: list[tuple[str, bool]] = []
    for text, trusted in segments:
        if trusted or text not in placeholders:
            pending.append((text, trusted))
            continue
        writer.add(pending)
        writer.add_answer_tokens(placeholders[text])
        pending = []
    writer.add(pending)
    begin = list(tokenizer.around[0])
    if encoded.ids[: len(begin)] != begin:  # the template wrote none
        encoded = Encoded(begin + encoded.ids, [-1] * len(begin) + encoded.owners)
    if template.thinking_style is not None:
        prompt = "".join(text for text, _ in segments)
        encoded.thinking = begun_by(prompt, template.thinking_style)
    if continue_last:
        opened = _open_tail(tokenizer, messages[-1], encoded)
        encoded.add(opened, len(messages) - 1)
    return encoded


def chat_segments(
    tokenizer: Tokenizer,
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    *,
    thinking: bool = True,
    tools: Sequence[ToolSpec] = (),
    values: Mapping[str, Any] = {},
) -> list[Segment]:
    """Return the prompt of `encode_chat` as (text, True if the template wrote it); answers whose
    tokens are known enter as their text."""
    template = template.for_tools() if tools else template
    renderer = _Renderer(template, tokenizer, thinking, tools, values)
    return renderer.render(renderer.turns_of([replace(m, tokens=()) for m in messages]))[1]


class _Renderer:
    """A template with its variables besides the messages."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        thinking: bool,
        tools: Sequence[ToolSpec],
        values: Mapping[str, Any],
    ) -> None:
        check_values(values, tokenizer.control_tokens)
        self._template, self._tokenizer, self._thinking = template, tokenizer, thinking
        self._tools = tools_for(template, tools, tokenizer.control_tokens)
        self._values = values

    def turns_of(self, messages: Sequence[ChatMessage]) -> TemplateTurns:
        check_names(messages, self._tokenizer.control_tokens)
        return turns_for(
            self._template,
            messages,
            thinking=self._thinking,
            has_tools=bool(self._tools),
            values=self._values,
        )

    def render(self, turns: TemplateTurns) -> tuple[dict[str, int], list[Segment]]:
        """Return the index of each answer's turn by its placeholder in the prompt, and the prompt
        in segments."""
        placeholders, messages = self._with_placeholders(turns)
        segments = self._template.render_segments(
            messages,
            add_generation_prompt=True,
            thinking=self._thinking,
            tools=self._tools,
            values=self._values,
            control_tokens=self._tokenizer.control_tokens,
        )
        return placeholders, segments

    def _with_placeholders(self, turns: TemplateTurns) -> tuple[dict[str, int], list[Message]]:
        """Replace each answer that has token ids by a unique placeholder before rendering; return
        the answers' turns by placeholder, and the messages with these.

        A placeholder is found again whatever the template trims and whatever else is said. Where a
        template does not write the contents as they are (it drops the thoughts of earlier answers,
        say, or writes calls in another form), there are no placeholders: the contents are encoded
        again.
        """
        messages = turns.messages
        plain = turns.for_template(self._template, self._tools)
        runs = (run for m in messages for run in re.findall(f"{_MARK}+", m.content))
        mark = _MARK * (1 + max(map(len, runs), default=0))
        with_tokens = [i for i, m in enumerate(messages) if m.role == "assistant" and m.tokens]
        without_thoughts = [i for i in with_tokens if not messages[i].thought]
        without_calls = [i for i in without_thoughts if not messages[i].calls]
        for indices in (without_thoughts, without_calls):
            placeholders = {f"{mark}{index}{mark}": index for index in indices}
            if not placeholders:
                break
            replaced = list(turns.turns)
            for placeholder, index in placeholders.items():
                replaced[index] = Turn.of(index, ChatMessage("assistant", placeholder))
            rows = replace(turns, turns=tuple(replaced)).for_template(self._template, self._tools)
            if self._renders_alike(messages, plain, placeholders, rows):
                return placeholders, rows
        return {}, plain

    def _renders_alike(
        self,
        messages: Sequence[ChatMessage],
        plain: list[Message],
        placeholders: dict[str, int],
        rows: list[Message],
    ) -> bool:
        """Return True if `rows`, rendered and with contents in place of its placeholders, is what
        `plain` renders to."""
        render = partial(
            self._template.render, thinking=self._thinking, tools=self._tools, values=self._values
        )
        expected, found = render(plain), render(rows)
        contents = {name: self._content(messages[i]) for name, i in placeholders.items()}
        names = re.compile("|".join(map(re.escape, placeholders)))
        untrimmed = names.sub(lambda name: contents[name[0]], found)
        trimmed = names.sub(lambda name: contents[name[0]].strip(), found)
        return expected in (untrimmed, trimmed)

    def _content(self, message: ChatMessage) -> str:
        if not message.calls:
            return message.content
        return self._tokenizer.decode(without_end(self._tokenizer, message.tokens))


class _SegmentWriter:
    """Encodes the segments of a prompt, and records the message of each token."""

    def __init__(self, tokenizer: Tokenizer, encoded: Encoded, turns: Sequence[Turn]) -> None:
        self._tokenizer, self._encoded, self._turns = tokenizer, encoded, turns
        self._texts = MessageTexts([turn.message for turn in turns])
        self._at = 0  # turns come in order, and each once

    def add(self, segments: Sequence[Segment]) -> None:
        ids = self._tokenizer.encode_segments(segments, behind=self._encoded.ids)
        owner_of_byte: list[int] = []
        for text, trusted in segments:
            place = -1 if trusted else self._texts.owner(text, self._at)
            self._at = max(self._at, place + 1)
            owner_of_byte += self._owners_of(text, place)
        self._encoded.ids += ids
        whole = "".join(text for text, _ in segments)
        self._encoded.owners += _owners(self._tokenizer, ids, whole, owner_of_byte)

    def add_answer_tokens(self, place: int) -> None:
        """Add the answer at a place by its token ids, as it was generated."""
        turn = self._turns[place]
        self._encoded.add(without_end(self._tokenizer, turn.message.tokens), turn.index)
        self._at = max(self._at, place + 1)

    def _owners_of(self, text: str, place: int) -> list[int]:
        """Return the message of each byte of a segment, which the turn at `place` says."""
        if place >= 0 and len(self._turns[place].sources) > 1:
            return self._turns[place].owners(text)
        return [self._turns[place].index if place >= 0 else -1] * len(text.encode())


def _owners(
    tokenizer: Tokenizer, ids: Sequence[int], text: str, owner_of_byte: Sequence[int]
) -> list[int]:
    """Return the owner of each token: the message that any of its bytes belongs to, else -1."""
    data, at, owners = text.encode(), 0, []
    for token in ids:
        at, length = _spelled_at(data, at, tokenizer, token)
        owners.append(max(owner_of_byte[at : at + length], default=-1))
        at += length
    return owners


def _spelled_at(data: bytes, at: int, tokenizer: Tokenizer, token: int) -> tuple[int, int]:
    """Return where in the text, not before `at`, a token is, and how many bytes of it.

    SentencePiece puts a space before the text, and marks of turns may take whitespace along. Where
    normalisation has changed the text, the next control token is where both agree again.
    """
    own = tokenizer.token_bytes(token)
    bare = own[1:] if own[:1] == b" " else own
    after = spaces.end() if (spaces := _SPACES.match(data, at)) else at
    for place, spelled in ((at, own), (at, bare), (after, own), (after, bare)):
        if spelled and data.startswith(spelled, place):
            return place, len(spelled)
    if tokenizer.is_special(token) and (found := data.find(own, at)) >= 0:
        return found, len(own)
    return at, len(bare)


def _open_tail(tokenizer: Tokenizer, last: ChatMessage, encoded: Encoded) -> list[int]:
    if last.tokens:
        return without_end(tokenizer, last.tokens)
    if encoded.thinking is None:
        return tokenizer.encode(last.content, parse_special=False, behind=encoded.ids)
    segments = written_out(encoded.thinking, last.thought, last.content)
    return tokenizer.encode_segments(segments, behind=encoded.ids)


def spelled(tokenizer: Tokenizer, command: SpellTokens) -> TokensSpelled:
    """Return the texts of an answer's tokens, cut as they were when it was written."""
    decoder, texts = StreamDecoder(tokenizer), list[str]()
    try:
        for token in command.tokens:
            ends = token in tokenizer.end_ids
            texts.append(decoder.flush() if ends else decoder.feed(token))
    except LlmLiteError:  # of another vocabulary
        texts = []
    return TokensSpelled(tuple(texts))


def begun_with(tokenizer: Tokenizer, begin: ChatMessage, prompt: Encoded) -> list[int]:
    """Return the tokens of the beginning of the answer to a prompt, which another model or a person
    may have written."""
    thinking = prompt.thinking
    if thinking is None or not begin.thought:
        return tokenizer.encode(begin.content, parse_special=False, behind=prompt.ids)
    segments = written_out(thinking, begin.thought, begin.content, thinks_on=not begin.content)
    return tokenizer.encode_segments(segments, behind=prompt.ids)


def without_end(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[int]:
    ids = list(tokens)
    while ids and ids[-1] in tokenizer.end_ids:
        ids.pop()
    return ids


def check_values(values: Mapping[str, Any], control_tokens: Collection[str]) -> None:
    """Raise RequestError if a value of a template's variable contains a control token: templates
    write values as their own text."""
    for name, value in values.items():
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError, RecursionError):
            raise RequestError(f"{name[:64]}: expected a value that JSON has") from None
        if token := next((token for token in control_tokens if token in text), ""):
            raise RequestError(
                f"{name[:64]}: the value has {token!r} in it, which this model takes for a control "
                "token; change its text"
            )


def check_names(messages: Sequence[ChatMessage], control_tokens: Collection[str]) -> None:
    """Raise RequestError if a name of a function in the conversation contains a control token:
    templates write names as their own text."""
    for message in messages:
        for name in (message.name, *(call.name for call in message.calls)):
            if token := next((token for token in control_tokens if token in name), ""):
                raise RequestError(
                    f"messages: the name of a function has {token!r} in it, which this model takes "
                    "for a control token; change it"
                )


def tools_for(
    template: ChatTemplate, tools: Sequence[ToolSpec], control_tokens: Collection[str]
) -> list[dict[str, Any]]:
    """Return the tools as the template expects them; [] if it knows no functions.

    RequestError if one contains a control token: it comes from outside, as a message does, but
    templates write it in too many ways to encode it apart.
    """
    if not template.tools_variable:
        return []
    for spec in tools:
        texts = (spec.name, spec.description, json.dumps(schema_of(spec), ensure_ascii=False))
        found = (token for token in control_tokens for text in texts if token in text)
        if token := next(found, ""):
            raise RequestError(
                f"the function {spec.name[:64]} has {token!r} in its name, description or "
                "parameters, which this model takes for a control token; switch the function off "
                "or change its text"
            )
    return [offered(spec) for spec in tools]


def encode_completion(tokenizer: Tokenizer, messages: Sequence[ChatMessage]) -> Encoded:
    """Return the text's tokens: answers whose tokens are known enter as these. Control tokens that
    are typed are plain text."""
    encoded = Encoded([], [])
    encoded.add(list(tokenizer.around[0]), -1)
    for index, (message, piece) in enumerate(zip(messages, pieces(messages), strict=True)):
        ids = without_end(tokenizer, message.tokens)
        ids = ids or tokenizer.encode(piece, parse_special=False, behind=encoded.message_tokens)
        encoded.add(ids, index)
    joined = "".join(pieces(messages))
    encoded.roles = role_ends(tokenizer, begins_line=joined[-1:] in ("", "\n"))
    return encoded
