"""Rewrites a conversation into turns that a chat template writes whole, so that nothing is lost.

Templates differ in what they take: contents as texts or as lists of parts, a system's message or
none, roles in any order or in alternation, one call in a message or several, arguments as an object
or as its JSON. What a template takes is found by rendering: each content is replaced by a mark of
its own, and the marks are looked for in the text. Where one is missing, or the template refuses the
messages, the conversation is rewritten in some manners (`_MANNERS`), as few as will do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from typing import Any, Literal

from msgspec import Struct

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.messages import ChatMessage, ToolCall
from llm_lite.core.records import replace
from llm_lite.core.text.chat_template import ChatTemplate, Message, TemplateStoppedError
from llm_lite.core.tools.json_values import JsonProblem, read_json

Manner = Literal[
    "parts",
    "no empty answers",
    "late",
    "one call",
    "apart",
    "tools in system",
    "arguments as text",
    "null contents",
    "system in question",
    "alternating",
    "calls in words",
    "one question",
]
_UNNAMED = "unknown"
_NOTHING = "…"  # stands where a template wants words and nothing was said
_MOST_MANNERS = 3  # together
_THOUGHT = "zqthought"
_KEY = "zqkey"  # of a stand-in for arguments
_STAND_IN = {
    "type": "function",
    "function": {
        "name": "zqtool",
        "description": "zqtool",
        "parameters": {"type": "object", "properties": {}},
    },
}
_NAMED: Mapping[str, str] = {
    "system": "the system's",
    "user": "a question",
    "assistant": "an answer",
    "tool": "a tool's",
    "calls": "a call",
}


class Turn(Struct, frozen=True):
    """A message as a template takes it. `sources` has the parts of its content, each with the
    index of the message that says it; `index` is that of the message it stands for, or -1."""

    message: ChatMessage
    index: int
    sources: tuple[tuple[int, str], ...]

    @classmethod
    def of(cls, index: int, message: ChatMessage) -> Turn:
        return cls(message, index, ((index, message.content),) if message.content else ())

    def saying(self, content: str) -> Turn:
        """Return the turn with other words of the same message."""
        return Turn(replace(self.message, content=content), self.index, ((self.index, content),))

    def behind(self, other: Turn) -> Turn:
        """Return one turn with the words of both, those of `other` first."""
        sources = (*other.sources, *self.sources)
        content = "\n\n".join(text for _, text in sources)
        thought = "\n\n".join(filter(None, (other.message.thought, self.message.thought)))
        message = replace(self.message, content=content, tokens=(), thought=thought)
        return Turn(message, self.index, sources)

    def owners(self, text: str) -> list[int]:
        """Return for each byte of `text`, which is the content or what a template has left of it,
        the message that says it."""
        owners: list[int] = []
        for index, words in self.sources:
            gap = 2 if owners else 0
            owners += [index] * (gap + len(words.encode("utf-8", "surrogatepass")))
        content = self.message.content
        lead = content[: max(content.find(text), 0)]
        first = len(lead.encode("utf-8", "surrogatepass"))
        size = len(text.encode("utf-8", "surrogatepass"))
        found = owners[first : first + size]
        return found + [self.index] * (size - len(found))


class TemplateTurns(Struct, frozen=True):
    """A conversation as its template takes it."""

    turns: tuple[Turn, ...]
    parts: frozenset[int] = frozenset()  # places of turns whose contents are lists of parts
    text_arguments: bool = False
    null_contents: bool = False  # of calls without words
    tools_in_system: bool = False
    thought_parts: bool = False

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        return tuple(turn.message for turn in self.turns)

    def for_template(
        self, template: ChatTemplate, tools: Sequence[Mapping[str, Any]] = ()
    ) -> list[Message]:
        """Return the messages in the form that the template takes as input."""
        key, ids = template.thought_key, list[str]()
        messages: list[Message] = []
        for place, turn in enumerate(self.turns):
            message = turn.message
            row: dict[str, Any] = {"role": message.role, "content": message.content}
            if place in self.parts:
                row["content"] = [_part("text", message.content)]
            if key and message.thought and self.thought_parts:
                row["content"] = [
                    _part("thinking", message.thought),
                    _part("text", message.content),
                ]
            elif key and message.thought:
                row[key] = message.thought
            if message.calls and not message.content and self.null_contents:
                row["content"] = None
            if message.calls:
                number = max(turn.index, 0) % 100_000
                ids = [f"{number:05d}{n % 10_000:04d}" for n in range(len(message.calls))]
                pairs = zip(message.calls, ids, strict=True)
                row["tool_calls"] = [_call(call, i, self.text_arguments) for call, i in pairs]
            if message.role == "tool":
                row["name"] = message.name or _UNNAMED
                row["tool_call_id"] = ids.pop(0) if ids else "0" * 9
            if place == 0 and message.role == "system" and self.tools_in_system and tools:
                row["tools"] = json.dumps(list(tools), ensure_ascii=False)
            messages.append(row)
        return messages


class Outcome(Struct, frozen=True):
    """The outcome of a rendering with marks: `lost` has what the template left out, by place and
    kind; None where it did not render them, or not rightly."""

    lost: tuple[tuple[int, str], ...] | None
    is_stopped: bool = False  # the template takes too long

    @property
    def is_whole(self) -> bool:
        return self.lost == ()


class Found(Struct, frozen=True):
    """The manners for conversations of one structure, or `problem`: a sentence."""

    manners: tuple[Manner, ...] = ()
    parts: frozenset[int] = frozenset()
    problem: str = ""


def turns_for(
    template: ChatTemplate,
    messages: Sequence[ChatMessage],
    *,
    thinking: bool = True,
    has_tools: bool = False,
    values: Mapping[str, Any] = {},
) -> TemplateTurns:
    """Return the conversation as the template writes all of it. RequestError with a sentence where
    there is no such manner."""
    knows_tools = bool(template.tools_variable)
    turns = [Turn.of(index, message) for index, message in enumerate(messages)]
    if not knows_tools:
        turns = _calls_in_words(turns)
    if template.origin != "model":  # ours write everything
        return TemplateTurns(tuple(turns))
    probe = _Probe(template, turns, thinking, has_tools and knows_tools, values)
    found = template.known.get(probe.structure)
    if found is None:
        found = template.known[probe.structure] = probe.search()
    if found.problem:
        raise RequestError(found.problem)
    conversation = _in_manners(turns, found.manners, found.parts)
    if template.thought_key and any(message.thought for message in messages):
        return replace(conversation, thought_parts=_takes_thought_parts(template))
    return conversation


def _takes_thought_parts(template: ChatTemplate) -> bool:
    """Return True if a template writes thoughts that are parts of a content, and no others."""
    known = template.known.get("thought parts")
    if known is None:
        answer = ChatMessage("assistant", _part_mark(1, 0), thought=_THOUGHT)
        turns = (Turn.of(0, ChatMessage("user", _part_mark(0, 0))), Turn.of(1, answer))
        fields = _writes_thought(template, TemplateTurns(turns))
        known = not fields and _writes_thought(template, TemplateTurns(turns, thought_parts=True))
        template.known["thought parts"] = known
    return bool(known)


def _writes_thought(template: ChatTemplate, conversation: TemplateTurns) -> bool:
    try:
        text = template.render(conversation.for_template(template), add_generation_prompt=False)
    except (RequestError, UnsupportedError):
        return False
    return _THOUGHT in text and not _WRONGLY_WRITTEN.search(text)


def _in_manners(
    turns: Sequence[Turn], manners: Sequence[Manner], parts: frozenset[int] = frozenset()
) -> TemplateTurns:
    for name, rewrite in _MANNERS:
        if name in manners:
            turns = rewrite(turns)
    return TemplateTurns(
        tuple(turns),
        parts,
        text_arguments="arguments as text" in manners,
        null_contents="null contents" in manners,
        tools_in_system="tools in system" in manners,
    )


class _Probe:
    """A search for the manners in which a template writes all of a conversation."""

    def __init__(
        self,
        template: ChatTemplate,
        turns: Sequence[Turn],
        thinking: bool,
        has_tools: bool,
        values: Mapping[str, Any],
    ) -> None:
        self._template, self._turns = template, turns
        self._thinking, self._values = thinking, values
        self._tools = [_STAND_IN] if has_tools else []
        shapes = tuple(_shape(turn.message) for turn in turns)
        value_bytes = repr(sorted(values.items())).encode("utf-8", "surrogatepass")
        # Values may be long.
        self.structure = (shapes, thinking, has_tools, sha256(value_bytes).digest())
        self._tried: dict[TemplateTurns, Outcome] = {}

    def search(self) -> Found:
        """Return the first manners that lose nothing, or a sentence that names what is lost."""
        first = self._outcome(_in_manners(self._turns, ()))
        if first.is_whole or first.is_stopped:
            return Found()
        for chosen in self._choices(first):
            for conversation in self._variants(chosen):
                outcome = self._outcome(conversation)
                if outcome.is_whole:
                    return Found(chosen, conversation.parts)
                if outcome.is_stopped:
                    return Found()
        if first.lost is None:  # what it says of the conversation itself is the sentence
            return Found()
        lost = (outcome.lost for outcome in self._tried.values() if outcome.lost)
        return Found(problem=_problem(min(lost, key=len)))

    def _choices(self, first: Outcome) -> Iterator[tuple[Manner, ...]]:
        """Yield manners to try: few before many, and what changes little first. A template that
        wrote some of the conversation may write all of it in one question."""
        usable = [name for name in _PREFERRED if self._may_change(name)]
        for last in ((), ("calls in words",)) if self._may_change("calls in words") else ((),):
            for count in range(_MOST_MANNERS + 1):
                yield from ((*chosen, *last) for chosen in combinations(usable, count))
        if first.lost is not None:
            yield ("one question",)
            yield ("one question", "parts")

    def _may_change(self, name: Manner) -> bool:
        messages = [turn.message for turn in self._turns]
        match name:
            case "tools in system":
                return bool(self._tools)
            case "arguments as text" | "null contents":
                return any(message.calls for message in messages)
            case "alternating":
                return bool(messages)
            case "parts":
                return True
        return tuple(dict(_MANNERS)[name](self._turns)) != tuple(self._turns)

    def _variants(self, chosen: tuple[Manner, ...]) -> Iterator[TemplateTurns]:
        """Yield the conversation in these manners; contents as parts where they are lost, or
        everywhere."""
        plain = _in_manners(self._turns, chosen)
        if "parts" not in chosen:
            yield plain
            return
        worded = frozenset(n for n, turn in enumerate(plain.turns) if turn.message.content)
        outcome = self._outcome(plain)
        if outcome.lost is not None and not outcome.is_whole:
            missing = frozenset(place for place, _ in outcome.lost if place in worded)
            if missing != worded:
                yield replace(plain, parts=missing)
        yield replace(plain, parts=worded)

    def _outcome(self, conversation: TemplateTurns) -> Outcome:
        if conversation not in self._tried:
            self._tried[conversation] = self._render_marked(conversation)
        return self._tried[conversation]

    def _render_marked(self, conversation: TemplateTurns) -> Outcome:
        marked = replace(conversation, turns=tuple(map(_marked, range(10**9), conversation.turns)))
        try:
            text = self._text_of(marked)
        except TemplateStoppedError:
            return Outcome(None, is_stopped=True)
        if text is None or _WRONGLY_WRITTEN.search(text):
            return Outcome(None)
        lost = tuple(self._missing(conversation, text.lower()))
        return Outcome(lost or tuple(self._taken_for_answers(marked, text)))

    def _taken_for_answers(self, marked: TemplateTurns, text: str) -> Iterator[tuple[int, str]]:
        """Yield what the template writes as it writes an answer, and is none."""
        answers = [
            replace(turn, message=replace(turn.message, role="assistant"))
            if turn.message.role in ("system", "tool")
            else turn
            for turn in marked.turns
        ]
        for place, (turn, answer) in enumerate(zip(marked.turns, answers, strict=True)):
            if turn == answer:
                continue
            key, known = ("answers", turn.message.role, place == 0), self._template.known
            if key not in known:
                turns = (*marked.turns[:place], answer, *marked.turns[place + 1 :])
                known[key] = self._text_of(replace(marked, turns=turns)) == text
            if known[key]:
                yield place, turn.message.role

    def _text_of(self, conversation: TemplateTurns) -> str | None:
        """Return the prompt; None where the template refuses the messages or fails at them."""
        try:
            return self._template.render(
                conversation.for_template(self._template, self._tools),
                thinking=self._thinking,
                tools=self._tools,
                values=self._values,
            )
        except TemplateStoppedError:
            raise
        except (RequestError, UnsupportedError):
            return None

    def _missing(self, conversation: TemplateTurns, text: str) -> Iterator[tuple[int, str]]:
        for place, turn in enumerate(conversation.turns):
            message = turn.message
            if any(_part_mark(place, n) not in text for n in range(len(turn.sources))):
                yield place, message.role
            for number, call in enumerate(message.calls):
                name, value = _call_marks(place, number)
                if name not in text or (_arguments(call) and value not in text):
                    yield place, "calls"
        if self._tools and "zqtool" not in text:
            yield -1, "tools"


def _problem(lost: Sequence[tuple[int, str]]) -> str:
    place, kind = lost[0]
    if kind == "tools":
        return "the chat template leaves out the functions: the model would not know of them"
    others = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
    return (
        f"the chat template leaves out message {place + 1} ({_NAMED[kind]}){others}: the model "
        "would not read it in any form that is tried"
    )


def _shape(message: ChatMessage) -> tuple[Any, ...]:
    """Return what of a message a template may decide by, apart from its words."""
    calls = tuple(bool(_arguments(call)) for call in message.calls)
    named = bool(message.name)
    return message.role, bool(message.content), bool(message.thought), calls, named


def _marked(place: int, turn: Turn) -> Turn:
    sources = tuple((i, _part_mark(place, n)) for n, (i, _) in enumerate(turn.sources))
    content = "\n\n".join(text for _, text in sources) or turn.message.content
    calls = tuple(_marked_call(place, n, c) for n, c in enumerate(turn.message.calls))
    thought = _THOUGHT if turn.message.thought else ""
    message = replace(turn.message, content=content, thought=thought, calls=calls)
    return Turn(message, turn.index, sources)


def _marked_call(place: int, number: int, call: ToolCall) -> ToolCall:
    name, value = _call_marks(place, number)
    arguments = json.dumps({_KEY: value} if _arguments(call) else {})
    return ToolCall(name, arguments)


def _part_mark(place: int, part: int) -> str:
    return f"zq{place}p{part}qz"


def _call_marks(place: int, number: int) -> tuple[str, str]:
    return f"zqn{place}n{number}qz", f"zqv{place}v{number}qz"


# Contents and arguments that a template has written as Python or JSON writes objects and texts:
# parts where it wants a text, an object where it wants JSON, and JSON within a text of JSON.
_WRONGLY_WRITTEN = re.compile(
    rf"""['"](?:text|thinking)['"]: ['"]zq[\dt]|'{_KEY}': ['"]zqv|\\"{_KEY}\\+": """, re.IGNORECASE
)


def _without_empty_answers(turns: Sequence[Turn]) -> list[Turn]:
    """Put "…" for an answer that was stopped within its thoughts: Mistral's templates refuse empty
    answers."""
    return [
        replace(turn, message=replace(turn.message, content=_NOTHING))
        if turn.message.role == "assistant" and turn.message.thought and not turn.message.content
        else turn
        for turn in turns
    ]


def _late(turns: Sequence[Turn]) -> list[Turn]:
    """Put in a person's name what many templates refuse or leave out: what a system says later, and
    results of no known function."""
    return [
        replace(turn, message=replace(turn.message, role="user"))
        if _is_late(place, turn.message)
        else turn
        for place, turn in enumerate(turns)
    ]


def _is_late(place: int, message: ChatMessage) -> bool:
    return (message.role == "tool" and not message.name) or (message.role == "system" and place > 0)


def _one_call(turns: Sequence[Turn]) -> list[Turn]:
    """Put each call in a message of its own, with its result behind it."""
    found: list[Turn] = []
    place = 0
    while place < len(turns):
        turn = turns[place]
        place += 1
        calls = turn.message.calls
        if len(calls) < 2:
            found.append(turn)
            continue
        results = []
        while place < len(turns) and turns[place].message.role == "tool":
            results.append(turns[place])
            place += 1
        for number, call in enumerate(calls):
            one = turn if number == 0 else Turn.of(turn.index, ChatMessage("assistant", ""))
            message = replace(one.message, tokens=(), calls=(call,))
            found.append(replace(one, message=message))
            found += results[number : number + 1]
        found += results[len(calls) :]
    return found


def _apart(turns: Sequence[Turn]) -> list[Turn]:
    """Put an answer's words and its calls in messages of their own; thoughts stay with calls."""
    found: list[Turn] = []
    for turn in turns:
        message = turn.message
        if message.calls and message.content:
            words = replace(message, tokens=(), thought="", calls=())
            found.append(replace(turn, message=words))
            message = replace(message, content="", tokens=())
            turn = Turn(message, turn.index, ())
        found.append(turn)
    return found


def _calls_in_words(turns: Sequence[Turn]) -> list[Turn]:
    """Write calls and their results as text, for templates without functions."""
    return [_in_words(turn) for turn in turns]


def _in_words(turn: Turn) -> Turn:
    message = turn.message
    if message.role == "tool" and message.name:
        content = f"Result of {message.name}:\n{message.content}"
        return Turn.of(turn.index, ChatMessage("user", content))
    if not message.calls:
        return turn
    calls = "\n".join(f"Call: {call.name}({call.arguments})" for call in message.calls)
    content = f"{message.content}\n{calls}" if message.content else calls
    return replace(turn, message=replace(message, tokens=(), calls=())).saying(content)


def _system_in_question(turns: Sequence[Turn]) -> list[Turn]:
    """Put what the system says first before the first question."""
    if not turns or turns[0].message.role != "system":
        return [*turns]
    system, rest = turns[0], [*turns[1:]]
    place = next((n for n, turn in enumerate(rest) if turn.message.role == "user"), -1)
    if place < 0:
        return [replace(system, message=replace(system.message, role="user")), *rest]
    rest[place] = rest[place].behind(system)
    return rest


def _alternating(turns: Sequence[Turn]) -> list[Turn]:
    """Join messages of one role that follow each other; before an answer that follows none of a
    person or a tool, a person says nothing."""
    found: list[Turn] = []
    for turn in turns:
        before = found[-1].message if found else ChatMessage("system", "")
        message = turn.message
        if before.role == message.role != "tool" and not (before.calls or message.calls):
            found[-1:] = [turn.behind(found[-1])] if found else [turn]
            continue
        if message.role == "assistant" and before.role in ("system", "assistant"):
            found.append(Turn(ChatMessage("user", _NOTHING), -1, ()))
        found.append(turn)
    return found


def _one_question(turns: Sequence[Turn]) -> list[Turn]:
    """Put the whole conversation in one question, for templates that write nothing else."""
    turns = _calls_in_words(turns)
    if len(turns) < 2:
        return [replace(t, message=replace(t.message, role="user", tokens=())) for t in turns]
    sources = tuple(
        (i, f"{turn.message.role.capitalize()}: {text}")
        for turn in turns
        for i, text in turn.sources
    )
    content = "\n\n".join(text for _, text in sources)
    return [Turn(ChatMessage("user", content), turns[-1].index, sources)]


def _with_system(turns: Sequence[Turn]) -> list[Turn]:
    """Let a system's message come first, which has the functions."""
    if turns and turns[0].message.role == "system":
        return [*turns]
    return [Turn(ChatMessage("system", ""), -1, ()), *turns]


def _as_they_are(turns: Sequence[Turn]) -> list[Turn]:
    return [*turns]


# In the order in which they are carried out.
_MANNERS: tuple[tuple[Manner, Callable[[Sequence[Turn]], list[Turn]]], ...] = (
    ("no empty answers", _without_empty_answers),
    ("late", _late),
    ("calls in words", _calls_in_words),
    ("one call", _one_call),
    ("apart", _apart),
    ("system in question", _system_in_question),
    ("alternating", _alternating),
    ("one question", _one_question),
    ("tools in system", _with_system),
    ("parts", _as_they_are),
    ("arguments as text", _as_they_are),
    ("null contents", _as_they_are),
)
# In the order in which they are tried.
_PREFERRED: tuple[Manner, ...] = (
    "parts",
    "no empty answers",
    "late",
    "arguments as text",
    "null contents",
    "tools in system",
    "one call",
    "apart",
    "system in question",
    "alternating",
)


def _part(kind: str, text: str) -> dict[str, str]:
    return {"type": kind, kind: text}


def _call(call: ToolCall, number: str, as_text: bool) -> dict[str, Any]:
    arguments = _arguments(call)
    value = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
    function = {"name": call.name or _UNNAMED, "arguments": value}
    return {"id": number, "type": "function", "function": function}


def _arguments(call: ToolCall) -> dict[str, Any]:
    """Return a call's arguments, {} if they could not be read: its result tells the model so."""
    try:
        value = {} if call.problem else read_json(call.arguments, len(call.arguments))
    except JsonProblem:
        return {}
    return value if isinstance(value, dict) else {}
