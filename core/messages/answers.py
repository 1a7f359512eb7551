"""Answers, a token at a time. A command that could not be carried out has no last event of its own
here: its end says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from llm_lite.core.messages.interventions import Interventions
from llm_lite.core.messages.kinds import Command, Event
from llm_lite.core.messages.sampling_options import SamplingOptions
from llm_lite.core.messages.tools import ToolCall, ToolSpec

# A person's piece of a text that the model continues has the role "text": `core.generation.
# prompt.encode_completion` says how such a conversation is read.
Role = Literal["system", "user", "assistant", "tool", "text"]
# "role": it began to speak as somebody else; "repetition": it repeated itself without an end.
StopReason = Literal[
    "end", "stop string", "role", "repetition", "length", "stopped", "context", "error"
]
Overflow = Literal["stop", "forget-middle", "rolling"]
OVERFLOWS: tuple[Overflow, ...] = ("stop", "forget-middle", "rolling")
ThinkingStyle = Literal["think", "granite", "mistral", "gemma", "harmony"]


class ChatMessage(Struct, frozen=True):
    role: Role
    content: str
    tokens: tuple[int, ...] = ()  # an assistant's ids as generated; () where unknown
    thought: str = ""  # of an assistant: what it thought before it said `content`
    calls: tuple[ToolCall, ...] = ()  # of an assistant, behind what it said
    name: str = ""  # of a tool's message: the function that it answers; they stand in calls' order


EFFORT = "reasoning_effort"  # the variable in which templates take how much a model is to think


class ModelInterventions(Struct, frozen=True):
    """Interventions of a conversation, for the model at `path`."""

    path: str
    interventions: Interventions


class Generate(Command, frozen=True):
    """Answer the conversation: GenerationStarted, PrefillProgress, TokenDecoded, and at last
    GenerationFinished, also of one that was cancelled while it was written. Answers wait for those
    that were asked for before.

    With `continue_last`, the last message is an assistant's and is continued where it ended.
    With `raw`, the messages' text goes to the model as it is, without a chat template.
    With `interventions`, all of the conversation is read and answered under these and no others,
    be they none: a cache that was made under others is cleared first. None: those hold that
    `SetInterventions` has set.
    `forced` tokens begin the answer; they come back as TokenDecoded and do not count as new. Where
    there are none, `begin` may say with what text it begins: it is encoded as this model's own and
    then forced. Thoughts with no text behind them go on.
    `overflow` says what is done when the context is full: the answer ends, what lies between the
    first turn and the last tokens is forgotten, or all but the first tokens and the last.
    `thinking` is what the template's switch for thoughts is set to, where it has one.
    `tools` are offered to the model where its template knows of them.
    `values` are those of other variables that a template reads, as reasoning_effort.
    """

    messages: tuple[ChatMessage, ...]
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    continue_last: bool = False
    raw: bool = False
    forced: tuple[int, ...] = ()
    overflow: Overflow = "stop"
    thinking: bool = True
    tools: tuple[ToolSpec, ...] = ()
    begin: ChatMessage | None = None
    conversation: int = 0  # its number in the history; 0: not known
    values: Mapping[str, Any] = field(default_factory=dict)
    interventions: Interventions | None = None


class SpellTokens(Command, frozen=True):
    """Ask what tokens of an answer that was kept stand for: TokensSpelled."""

    tokens: tuple[int, ...]


class TokensSpelled(Event, frozen=True):
    texts: tuple[str, ...]  # as those of TokenDecoded; () where they are not of this vocabulary


class Read(Command, frozen=True):
    """Read a conversation into the cache without answering, as when another branch of it is to be
    inspected. PrefillProgress reports how far it is, and ConversationRead what the cache holds in
    the end. What was read before it was cancelled stays."""

    messages: tuple[ChatMessage, ...]
    thinking: bool = True
    conversation: int = 0  # as in `Generate`
    tools: tuple[ToolSpec, ...] = ()
    afresh: bool = False  # nothing is reused, so that queries of all tokens are kept
    raw: bool = False  # as in `Generate`
    values: Mapping[str, Any] = field(default_factory=dict)  # as in `Generate`


class PromptToken(Struct, frozen=True):
    id: int
    text: str  # U+FFFD where it is a part of a character
    message: int  # index of the message that says it; -1: the template's own


class Thinking(Struct, frozen=True):
    """How thoughts are marked in an answer; `core.text.thinking` separates them from the rest."""

    style: ThinkingStyle
    inside: bool = False  # the prompt has begun them: the answer starts within


class GenerationStarted(Event, frozen=True):
    prompt_tokens: int  # tokens of the whole prompt
    reused_tokens: int  # of these, already in the cache
    prompt: tuple[PromptToken, ...] = ()  # by position; the answer's tokens follow
    thinking: Thinking | None = None  # None: the model marks no thoughts


class ConversationRead(Event, frozen=True):
    """A conversation of `total` tokens was read; `prompt` is what the cache holds of it, by
    position: less where the reading was stopped."""

    prompt: tuple[PromptToken, ...] = ()
    total: int = 0


class PrefillProgress(Event, frozen=True):
    done: int  # tokens
    total: int


class Alternative(Struct, frozen=True):
    token: int
    text: str  # U+FFFD where it is a part of a character
    probability: float  # at temperature 1, before any filter


class AllowedTokens(Struct, frozen=True):
    """The tokens that a schema or grammar allowed in one place."""

    count: int
    probability: float  # that the model gave all of them together, as in Alternative
    best: tuple[Alternative, ...]  # the five likeliest of them, the likeliest first


class DraftedToken(Struct, frozen=True):
    token: int
    text: str  # U+FFFD where it is a part of a character


class SourceDrafts(Struct, frozen=True):
    """The drafts that one source brought to an answer."""

    # "lookup": found in the text; "model": a smaller one; "slice": of the same
    source: Annotated[str, Meta(min_length=1)]
    drafted: int = 0  # tokens that passes over the weights verified
    accepted: int = 0  # of these, the ones that came


class TokenDecoded(Event, frozen=True):
    token: int
    text: str  # what became whole characters with this token; may be ""
    probability: float  # of the chosen token, at temperature 1, before any filter; nan: see below
    context_used: int  # tokens
    # The five likeliest tokens, the likeliest first. Of forced tokens only the last is scored; the
    # others have none, and no probability.
    alternatives: tuple[Alternative, ...] = ()
    # That the model's step took whose logits chose the token; 0 where it had chosen others before.
    step_ms: float = 0.0
    allowed: AllowedTokens | None = None  # None: nothing was forbidden
    ttft_ms: float = 0.0  # of the first token: the same as in GenerationStats
    accepted: bool = False  # it was drafted: the pass of an earlier token has verified it
    rejected: tuple[DraftedToken, ...] = ()  # drafted for its place and behind, and not what came


_LEAST_FROM_DISK = 1 << 20  # bytes a token: the program itself reads less in a short answer


class GenerationStats(Struct, frozen=True):
    prompt_tokens: int = 0
    reused_tokens: int = 0
    new_tokens: int = 0
    prefill_tok_s: float = 0.0
    decode_tok_s: float = 0.0
    ttft_ms: float = 0.0  # request to first token
    context_used: int = 0
    peak_rss_bytes: int = 0
    read_bytes: int = 0  # that the last token had to read: weights and cache
    disk_bytes: int = 0  # that came from disks between the first token and the last one
    inspect_ms: float = 0.0  # since the first token, between steps: inspection was served
    passes: int = 0  # over the weights, for tokens behind the first one
    drafted: int = 0  # tokens that these passes verified beside
    accepted: int = 0  # of these, the ones that came
    drafted_passes: int = 0  # of the passes, those that verified drafts
    saved_ms: float = 0.0  # by drafts, against a pass a token; below 0: they cost time
    drafted_by: tuple[SourceDrafts, ...] = ()  # the sources that the drafted tokens are from
    # What passes over n tokens take, as far as was measured: (n, milliseconds).
    pass_ms: tuple[tuple[int, float], ...] = ()

    @property
    def disk_bytes_per_token(self) -> int:
        """Return what came from disks for each token behind the first; 0 if it is so little that
        the program may have read it for itself."""
        each = self.disk_bytes // max(1, self.new_tokens - 1)
        return each if each >= _LEAST_FROM_DISK else 0

    @property
    def pass_share(self) -> float:
        """Return the passes over the weights for each token behind the first."""
        behind = self.passes + self.accepted
        return self.passes / behind if behind else 1.0


class GenerationFinished(Event, frozen=True):
    stop_reason: StopReason  # never "error": where an answer fails, its end says why
    stats: GenerationStats
    message: str = ""  # a sentence, for stop_reason "context"
