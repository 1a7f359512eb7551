"""Renders messages to the text a chat model was trained on, by the Jinja template in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from llm_lite.core.errors import RequestError, UnsupportedError
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.text.sandbox.limits import Limits
from llm_lite.core.text.sandbox.process import SandboxError, sandbox
from llm_lite.core.text.thinking import style_of
from llm_lite.core.tools import calls as tool_calls

if TYPE_CHECKING:
    from llm_lite.core.text.tokenizer import Tokenizer

MAX_SOURCE_CHARS = 128 * 1024
COMPILING = Limits(cpu_seconds=2.0, wall_seconds=60.0, memory_bytes=512 << 20)
_A_MESSAGE = 100  # characters that take as long as a message without any
RENDERING = Limits(cpu_seconds=0.8, wall_seconds=60.0, memory_bytes=512 << 20)  # a prompt takes six
MAX_EXTRA_CHARS = 1_000_000  # what a template may add to the messages
TOOL_USE = "tool_use"  # the name of a template of prompts that offer functions
# Variables that no request sets: they are what it is made of.
RESERVED = frozenset(("messages", "tools", "add_generation_prompt", "continue_final_message"))

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n"
    "{{ '' }}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{{ '' }}{% endif %}"
)
PLAIN = (
    "{% for message in messages %}{{ message['role'] | capitalize }}: {{ message['content'] }}\n"
    "{{ '' }}{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"
)
# Special tokens, by their names in templates, and in the metadata of GGUF.
_IN_GGUF = {
    "unk_token": "unknown",
    "pad_token": "padding",
    "sep_token": "seperator",  # as the format spells it
    "cls_token": "cls",
    "mask_token": "mask",
}
_HARMONY_EFFORTS = {"none": "low", "minimal": "low", "xhigh": "high"}  # it knows three
_MOST_KNOWN = 256
_CONTROL_LIKE = re.compile(r"<[^<>\s]{1,60}>|\[[^\[\]\s]{1,60}\]")
_FIRST_MARK = "\U00010000"  # of Linear B
_NEUTRAL = "x"
_OURS = ("role", "name", "tool_call_id")  # fields that no message says: they are checked names
# Where a template looks for the thoughts of an answer, and what it calls the switch for them.
_THOUGHT_KEYS = (
    ("reasoning_content", r"\breasoning_content\b"),
    ("thinking", r"""\.thinking\b|['"]thinking['"]"""),
    ("reasoning", r"""\.reasoning\b|['"]reasoning['"]"""),
)
_SWITCHES = (
    ("enable_thinking", r"\benable_thinking\b"),
    ("thinking", r"\b(el)?if (not )?thinking\b"),
)

# role, content; perhaps thoughts under the template's key, tool_calls, and the name of a tool
Message = Mapping[str, Any]
Segment = tuple[str, bool]  # text, whether the template (and not a message) wrote it


class TemplateStoppedError(UnsupportedError):
    """The template takes more time or memory than it may."""


class ChatTemplate:
    """A chat template, rendered in a separate process within limits: a template from anywhere may
    be tried.

    Errors of rendering: UnsupportedError when the template is broken or hostile, RequestError when
    it refuses the messages (for instance because roles do not alternate).
    """

    def __init__(self, source: str, *, origin: str = "model", **tokens: str) -> None:
        """Check a template. `tokens` are the model's special tokens, as templates name them:
        bos_token, pad_token. UnsupportedError with the line where it is broken."""
        if len(source) > MAX_SOURCE_CHARS:
            raise UnsupportedError(
                f"the chat template has {len(source)} characters, "
                f"at most {MAX_SOURCE_CHARS} are read"
            )
        self.source = source
        self.origin = origin  # 'model', or the default used: 'default (ChatML)', 'default (plain)'
        self._tokens = {"bos_token": "", "eos_token": "", **tokens}
        # The field of a message that holds its thoughts, and the variable that turns thinking on
        # or off; "" where the template knows of none.
        self.thought_key = _first_found(_THOUGHT_KEYS, source)
        self.thinking_switch = _first_found(_SWITCHES, source)
        self.thinking_style = style_of(source)
        # What it calls the functions that a model may call, and how answers mark these calls.
        self.tools_variable = tool_calls.variable_of(source)
        self.tool_style = tool_calls.style_of(source)
        answer = self._call_sandbox("check template", COMPILING, 0)
        if "failed" in answer:
            raise UnsupportedError(f"the chat template is broken: {answer['failed']}")
        # What it reads and does not set itself.
        self.variables: frozenset[str] = frozenset(answer["variables"])
        # What was found out about it, by those who ask it, to be kept as long as it is.
        self.known = Known()
        self._with_tools: ChatTemplate | None = None

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, object], tokenizer: Tokenizer) -> ChatTemplate:
        """Return the file's own template, or a default that its vocabulary allows.

        Errors: UnsupportedError when the template is broken.
        """
        source = metadata.get("tokenizer.chat_template", "")
        if not isinstance(source, str):
            raise UnsupportedError(f"expected a text, found {repr(source)[:40]}")
        tokens = {}
        for name, key in _IN_GGUF.items():
            number = metadata.get(f"tokenizer.ggml.{key}_token_id")
            if isinstance(number, int) and 0 <= number < tokenizer.vocab_size:
                tokens[name] = tokenizer.token_text(number)
        with_tools = metadata.get(f"tokenizer.chat_template.{TOOL_USE}", "")
        return cls.of(source, tokenizer, tokens, with_tools if isinstance(with_tools, str) else "")

    @classmethod
    def of(
        cls,
        source: str,
        tokenizer: Tokenizer,
        tokens: Mapping[str, str] = {},
        with_tools: str = "",
    ) -> ChatTemplate:
        """Return the template, or a default that the vocabulary allows if `source` is blank.
        `tokens` are special tokens that the model's files name; `with_tools` is the template of
        prompts that offer functions, where the model has another one for these."""
        ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
        named = {name: tokenizer.token_text(i) for name, i in ids.items() if i is not None}
        tokens = {**tokens, **named}
        if source.strip():
            template = cls(source, **tokens)
            if with_tools.strip():
                template._with_tools = cls(with_tools, **tokens)
            return template
        if tokenizer.has_token("<|im_start|>"):
            return cls(CHATML, origin="default (ChatML)", **tokens)
        return cls(PLAIN, origin="default (plain)", **tokens)

    def for_tools(self) -> ChatTemplate:
        """Return the template of prompts that offer functions: some models have one for these."""
        return self._with_tools or self

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        values: Mapping[str, Any] = {},
    ) -> str:
        """Render the prompt for messages of `role`, `content` and perhaps `thought_key`. `thinking`
        is what its switch is set to, if it has one. `tools` are functions as transformers takes
        them; a template that knows of none is given none. `values` are those of other variables."""
        typed = sum(len(text) for message in messages for text in _texts_of(message))
        given = {self.tools_variable: list(tools)} if tools and self.tools_variable else {}
        given |= self._read_of(values)
        more = len(repr(given))
        answer = self._call_sandbox(
            "render template",
            RENDERING,
            typed + more + _A_MESSAGE * len(messages),
            messages=[dict(message) for message in messages],
            add_generation_prompt=add_generation_prompt,
            variables={
                **self._tokens,
                **({self.thinking_switch: thinking} if self.thinking_switch else {}),
                **given,
            },
            most_chars=MAX_EXTRA_CHARS + 2 * typed + 4 * more,
        )
        if "refused" in answer:
            raise RequestError(f"the chat template refuses this: {answer['refused']}")
        if "stopped" in answer:
            raise TemplateStoppedError(f"the chat template fails: {answer['stopped']}")
        if "failed" in answer:
            raise UnsupportedError(f"the chat template fails: {answer['failed']}")
        return str(answer["text"])

    def render_segments(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        thinking: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
        values: Mapping[str, Any] = {},
        control_tokens: Collection[str] = (),
    ) -> list[Segment]:
        """Return the same text as render(), cut into (text, trusted) for Tokenizer.encode_segments.

        Contents of messages are not trusted: '<|im_end|>' typed by the user must stay text.
        Templates that rewrite contents so that their place is lost are handled by comparison with
        neutral contents: a control token that contents bring in is not trusted anywhere.
        """
        render = partial(
            self.render,
            add_generation_prompt=add_generation_prompt,
            thinking=thinking,
            tools=tools,
            values=values,
        )
        plain = render(messages)
        contents = (text for m in messages for text in _texts_of(m))
        marks = _unused_characters([self.source, plain, *contents])
        for mark in (_mark_all, _mark_inside_whitespace):
            marked = [_changed(m, partial(mark, start=marks[0], end=marks[1])) for m in messages]
            segments = _marked_segments(render, marked, *marks)
            if "".join(part for part, _ in segments) == plain:
                return segments
        expected = render([_changed(m, lambda _: _NEUTRAL) for m in messages])
        return _distrust_additions(plain, expected, control_tokens)

    def _call_sandbox(
        self, action: str, limits: Limits, size: int, **request: Any
    ) -> dict[str, Any]:
        """Return the sandbox's answer to a request of so many characters; a sandbox that ended is
        the template's failure."""
        request = {"source": self.source, **request}
        try:
            return sandbox().call(action, request, limits=limits, size=size)
        except SandboxError as error:
            return {"failed": str(error), "stopped": str(error)}

    def _read_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that the template reads."""
        left_out = unread(self.variables, values)
        read = {name: value for name, value in values.items() if name not in left_out}
        if self.thinking_style == "harmony" and isinstance(read.get(EFFORT), str):
            read[EFFORT] = _HARMONY_EFFORTS.get(read[EFFORT], read[EFFORT])
        return read


class Known(dict[Any, Any]):
    """A table of what is known by its key, of the keys that came last."""

    def __setitem__(self, key: Any, value: Any) -> None:
        while len(self) >= _MOST_KNOWN:
            self.pop(next(iter(self)), None)
        super().__setitem__(key, value)


def unread(variables: Collection[str], values: Collection[str]) -> list[str]:
    """Return the names of values that a template of these variables does not read."""
    return [name for name in values if name not in variables or name in RESERVED]


def check_read(variables: Collection[str], values: Collection[str]) -> None:
    """Raise RequestError for values that a template of these variables does not read."""
    if names := unread(variables, values):
        known = ", ".join(sorted(set(variables) - RESERVED)[:20]) or "none"
        raise RequestError(
            f"{names[0][:64]}: the chat template reads no variable of this name; it reads {known}"
        )


def _first_found(names: Sequence[tuple[str, str]], source: str) -> str:
    return next((name for name, pattern in names if re.search(pattern, source)), "")


def _changed(message: Message, change: Callable[[str], str]) -> Message:
    changed: dict[str, Any] = {}
    for key, value in message.items():
        if key in _OURS:
            changed[key] = value
        elif key == "content" and isinstance(value, list):
            changed[key] = [_changed_part(part, change) for part in value]
        elif key == "tool_calls" and isinstance(value, list):
            changed[key] = [_changed_call(call, change) for call in value]
        else:
            changed[key] = _changed_in(value, change)
    return changed


def _changed_call(call: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    """Change the arguments of a call; its other fields are ours."""
    function = call["function"]
    arguments = _changed_in(function["arguments"], change)
    return {**call, "function": {**function, "arguments": arguments}}


def _changed_part(part: Mapping[str, Any], change: Callable[[str], str]) -> Mapping[str, Any]:
    """Change what a part of a content says; its type is ours."""
    return {key: v if key == "type" else _changed_in(v, change) for key, v in part.items()}


def _changed_in(value: Any, change: Callable[[str], str]) -> Any:
    """Change texts at any depth. Names of arguments, which a model writes, are changed too, and
    stay different."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_changed_in(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    changed = {}
    for place, (key, item) in enumerate(value.items()):
        name = change(key)
        changed[f"{name}{place}" if name in changed else name] = _changed_in(item, change)
    return changed


def _texts_of(value: Any) -> Iterator[str]:
    """Yield all texts of a message."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts_of(item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _texts_of(item)


def _marked_segments(
    render: Callable[[Sequence[Message]], str], marked: Sequence[Message], start: str, end: str
) -> list[Segment]:
    try:
        text = render(marked)
    except (RequestError, UnsupportedError):  # the marks upset it
        return []
    return _cut_at_marks(text, start, end)


def _unused_characters(texts: Sequence[str]) -> tuple[str, str]:
    """Return two characters that occur nowhere in `texts`: printable ones where these are free, as
    Python's `repr`, which some templates write of what is nested in arguments, leaves them as they
    are."""
    used = {char for text in texts for char in text if char >= _FIRST_MARK}
    marks = range(ord(_FIRST_MARK), 0x10FFFE)
    free = (char for char in map(chr, marks) if char not in used)
    printable = (char for char in map(chr, marks) if char.isprintable() and char not in used)
    found = [*islice(printable, 2)]
    return (found[0], found[1]) if len(found) == 2 else (next(free), next(free))


def _mark_all(content: str, start: str, end: str) -> str:
    return f"{start}{content}{end}"


def _mark_inside_whitespace(content: str, start: str, end: str) -> str:
    """Put marks around a text, for templates that trim contents: the outer whitespace stays outside
    the marks."""
    core = content.strip()
    if not core:
        return content
    lead = content.index(core)
    return f"{content[:lead]}{start}{core}{end}{content[lead + len(core) :]}"


def _cut_at_marks(text: str, start: str, end: str) -> list[Segment]:
    """Return the parts between the marks; [] if these do not pair up."""
    segments: list[Segment] = []
    trusted = True
    for part in re.split(f"([{start}{end}])", text):
        if part in (start, end):
            if trusted != (part == start):
                return []
            trusted = not trusted
        elif part:
            segments.append((part, trusted))
    return segments if trusted else []


def _distrust_additions(plain: str, expected: str, control: Collection[str]) -> list[Segment]:
    """Distrust every token-like text that `plain` has more often than `expected`."""
    candidates = {*_CONTROL_LIKE.findall(plain), *(token for token in control if token in plain)}
    foreign = [token for token in candidates if plain.count(token) > expected.count(token)]
    if not foreign:
        return [(plain, True)]
    pattern = "|".join(re.escape(token) for token in sorted(foreign, key=len, reverse=True))
    parts = re.split(f"({pattern})", plain)
    return [(part, i % 2 == 0) for i, part in enumerate(parts) if part]
