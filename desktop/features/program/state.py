"""The whole state of the window, in frozen records that views read. Times are in seconds of one
monotonic clock, sizes in bytes, rates in tokens per second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from llm_lite.core.attached_text import Attachment, message_text
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import (
    AllowedTokens,
    Alternative,
    AnswerRun,
    ChatMessage,
    Command,
    CountTokens,
    DraftsLearned,
    EngineOptions,
    ExecutorInfo,
    Generate,
    GenerationStats,
    Level,
    LoadNeedsMemory,
    Mode,
    ModelInfo,
    Overflow,
    Read,
    Reconfigure,
    Role,
    SamplingOptions,
    StopReason,
    Thinking,
    ToolSpec,
    ToolStyle,
)
from llm_lite.core.messages.answers import EFFORT
from llm_lite.core.records import replace
from llm_lite.core.tools.calls import CallSplit
from llm_lite.desktop.features.attachments.state import DraftFiles, NewDraft
from llm_lite.desktop.features.attention.state import AttentionChoice
from llm_lite.desktop.features.cache.state import CacheState
from llm_lite.desktop.features.chat.state import Effort, Thought
from llm_lite.desktop.features.encoder.state import EncodingChoice
from llm_lite.desktop.features.file_chooser.state import FilesState
from llm_lite.desktop.features.history.state import HistoryState
from llm_lite.desktop.features.layouts.state import Layouts
from llm_lite.desktop.features.lesson.state import LessonState
from llm_lite.desktop.features.library.state import LibraryState
from llm_lite.desktop.features.palette.state import PaletteState
from llm_lite.desktop.features.program.asked import Exchange
from llm_lite.desktop.features.program.cached_text import (
    CachedText,
    PromptSettings,
    common,
    of_messages,
    shared_messages,
)
from llm_lite.desktop.features.program.scopes import divided, made, of
from llm_lite.desktop.features.program.switches import Switches
from llm_lite.desktop.features.prompts.state import PromptLibrary
from llm_lite.desktop.features.quantization.state import Quantization, RateSample
from llm_lite.desktop.features.remote.state import RemoteState
from llm_lite.desktop.features.resume.state import ResumeState
from llm_lite.desktop.features.serving.state import ServingState
from llm_lite.desktop.features.steer.state import EngineInterventions, Steering
from llm_lite.desktop.features.tokenizer.state import TokenizerChoice
from llm_lite.desktop.features.tokens.state import DraftOutcome, XRay
from llm_lite.desktop.features.tools.state import ToolReply, ToolsState, chosen
from llm_lite.desktop.features.translator.state import TranslatingState
from llm_lite.desktop.features.undo.state import Undoing
from llm_lite.desktop.system_theme import Appearance, ThemeName


class Counted(Struct, frozen=True):
    """Tokens of a conversation in the prompt of the model in use."""

    messages: tuple[Any, ...] | None = None  # None: nothing was counted
    prompt_settings: PromptSettings | None = None  # beside them
    tokens: int | None = None  # None: not counted yet, or it cannot be
    about: bool = False  # they are an estimate: far more than the context holds
    ids: tuple[int, ...] | None = None  # of these; None: not known
    asked: CountTokens | None = None  # and not answered yet

    def is_of(self, messages: tuple[Any, ...], settings: PromptSettings) -> bool:
        return self.messages is messages and self.prompt_settings == settings


class DeviceChoice(Struct, frozen=True):
    """A Vulkan device of this machine, and why it cannot be used where it cannot."""

    index: int
    name: str
    kind: str
    usable: bool
    why_not: str = ""


class CatalogueEntry(Struct, frozen=True):
    """A model that can be opened by its name."""

    source: str  # what LoadModel takes
    path: str  # of its file; "" while it is not installed
    title: str
    description: str
    bytes: int = 0
    installing: bool = False  # pip brings it now


_UNCOUNTED = Counted()
MIN_FONT, MAX_FONT = 10.0, 32.0  # logical pixels
LOG_LINES = 1000
NOTICES = 4
RECENT_FILES = 8
RATE_WINDOW = 1.5  # seconds of token arrivals behind the live rate
RATE_SPAN = 0.25  # seconds that arrivals must span before a rate means something
ChatForm = Literal["auto", "chat", "completion"]  # auto: what the model is made for
Phase = Literal["waiting", "prefill", "decode"]


class Token(Struct, frozen=True):
    id: int
    text: str
    probability: float  # nan: not judged
    alternatives: tuple[Alternative, ...] = ()
    allowed: AllowedTokens | None = None  # by a schema or grammar; None: all were
    accepted: bool = False  # it was drafted, and verified with an earlier token
    rejected: tuple[str, ...] = ()  # texts of what was drafted for its place and behind, in vain


class Message(Struct, frozen=True):
    role: Role
    text: str
    tokens: tuple[Token, ...] = ()
    stop_reason: StopReason | None = None  # None while it is being written, and for users
    stats: GenerationStats | None = None
    problem: str = ""  # a sentence, where the answer ended early
    sampling: SamplingOptions | None = None  # of an answer, its seed included
    thought: Thought | None = None  # None: the model marks no thoughts; `text` is without them
    written: AnswerRun | None = None  # what wrote an answer; None: that is not known
    edited: bool = False  # an answer whose text a person wrote
    calls: CallSplit | None = None  # None: no functions were offered; `text` is without its calls
    reply: ToolReply | None = None  # of a tool's message
    restored: bool = False  # read from the history, which knows its first tokens by their ids only
    untokenized: bool = False  # the tokens of its beginning are not known, or another model's
    attachments: tuple[Attachment, ...] = ()
    unfolded: int = -1  # the attachment whose text is shown
    likelihoods: tuple[float, ...] = ()  # of those; -1: not judged
    id: int = field(default_factory=new_id)  # the same whatever is replaced, also in the history

    def __eq__(self, other: object) -> bool:
        """Compare what two messages hold; each has an id of its own."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        return _content(self) == _content(other)

    def __hash__(self) -> int:
        return hash(_content(self))

    @property
    def whole(self) -> str:
        """Return all that its tokens spell, with thoughts and their marks."""
        return self.thought.split.raw if self.thought else self.visible_text

    @property
    def visible_text(self) -> str:
        """Return the text without its thoughts, but with its calls and their marks."""
        return self.calls.raw if self.calls else self.text

    @property
    def markdown(self) -> str:
        """What is laid out: an answer of a JSON schema is code, whose end is not written."""
        of_schema = self.sampling is not None and bool(self.sampling.json_schema)
        if not of_schema or self.text[:1] not in ("{", "[") or "```" in self.text:
            return self.text
        return f"```json\n{self.text}"

    @property
    def pieces(self) -> list[str]:
        """Return the text of each token; nothing where that is not known."""
        return [] if self.restored else [token.text for token in self.tokens]

    def drafting(self, at: int | None) -> DraftOutcome:
        """How drafts for the place of a token did; empty where there were none, or none is
        known."""
        if at is None or not 0 <= at < len(self.tokens):
            return ""
        token = self.tokens[at]
        return "accepted" if token.accepted else "rejected" if token.rejected else ""

    def likelihood(self, at: int) -> float:
        """Return the probability of the token at `at`; nan where nobody asked for it."""
        if 0 <= at < len(self.likelihoods):
            return self.likelihoods[at] if self.likelihoods[at] >= 0 else math.nan
        return self.tokens[at].probability if 0 <= at < len(self.tokens) else math.nan

    def ended(self) -> Message:
        """Return the answer as it ends here, its thoughts and calls too."""
        thought = self.thought and self.thought.ended()
        visible = thought.split.visible_text if thought else self.visible_text
        calls = self.calls and self.calls.up_to(visible).ended()
        return replace(
            self, text=calls.visible_text if calls else visible, thought=thought, calls=calls
        )

    def as_chat(self, with_tokens: bool = True) -> ChatMessage:
        ids = tuple(token.id for token in self.tokens) if with_tokens else ()
        text = message_text(self.text, self.attachments) if self.attachments else self.text
        thought = self.thought.text if self.thought else ""
        calls, name = self.calls.calls if self.calls else (), self.reply.name if self.reply else ""
        return ChatMessage(self.role, text, ids, thought, calls, name)


_content = attrgetter(*(name for name in Message.__struct_fields__ if name != "id"))


class Running(Struct, frozen=True):
    """The answer being made."""

    asked: Generate
    started: float
    phase: Phase = "waiting"
    prompt_tokens: int = 0
    reused_tokens: int = 0
    done: int = 0  # prompt tokens read so far
    first_token: float | None = None  # when it came
    ttft_ms: float = 0.0  # to the first token, as the engine measures it; 0: not yet
    stopping: bool = False
    arrivals: tuple[float, ...] = ()  # of the last tokens, within RATE_WINDOW
    lead: int = 0  # messages told before those of the conversation
    forced: tuple[Token, ...] = ()  # what the answer begins with, as it was judged before
    thinking: Thinking | None = None  # how the answer marks its thoughts
    tool_style: ToolStyle = ""  # how it marks its calls; "": no functions were offered
    received: float | None = None  # when its last tokens came
    prompt_settings: PromptSettings = PromptSettings()  # beside the messages

    @property
    def rate(self) -> float:
        """Return the decode rate of the last seconds; 0 until the arrivals span long enough."""
        span = self.arrivals[-1] - self.arrivals[0] if self.arrivals else 0.0
        return (len(self.arrivals) - 1) / span if span >= RATE_SPAN else 0.0


class Reading(Struct, frozen=True):
    """The conversation on its way back into the cache, without an answer."""

    asked: Read
    prompt_settings: PromptSettings = PromptSettings()  # beside the messages
    lead: int = 0  # messages told before those of the conversation
    done: int = 0  # tokens
    total: int = 0
    began: float = 0.0  # when the engine began with it; 0: it has not


class AnswerComparison(Struct, frozen=True):
    """The answer `answer` beside another version of it, `base`: ids of messages."""

    base: int
    answer: int


class Load(Struct, frozen=True):
    source: str
    stage: str = "opening"
    fraction: float = 0.0
    cancelling: bool = False
    asked: Command | None = None  # the command that loads it, or changes how the model in use runs
    in_use: EngineOptions | None = None  # until then
    mode: Mode | None = None  # that a client of the server asked for

    @property
    def changes(self) -> bool:
        """Return whether a person changes how the model in use runs; else a model is loaded."""
        return isinstance(self.asked, Reconfigure)


class LogLine(Struct, frozen=True):
    level: Level
    text: str
    time: float  # since the epoch


class Notice(Struct, frozen=True):
    """A toast: one sentence, gone after a while, or when dismissed."""

    id: int
    level: Level
    text: str
    until: float
    undo: bool = False  # offers to take back what it tells


class AppState(Switches, frozen=True):
    tree: ConversationTree[Message] = made("conversation", ConversationTree)
    draft: str = of("conversation", "")
    # index of the message whose text is in the draft
    editing: int | None = of("conversation", None)
    aside: str = of("conversation", "")  # the draft of before, which comes back when the edit ends
    files: DraftFiles = divided(DraftFiles)  # that go with the draft
    queued: bool = of("conversation", False)  # the draft is sent once the model is loaded
    new_draft: NewDraft = made("program", NewDraft)  # of new chats, while another is in front
    running: Running | None = of("conversation", None)
    reading: Reading | None = of("conversation", None)
    # of the last prompt that was read: the executor, and tokens a second
    read_rate: tuple[ExecutorInfo | None, float] = of("program", (None, 0.0))
    read_for: tuple[object, ...] = of("reading", ())  # what was read again last, and how
    chat: int = of("program", 0)  # counts conversations that came to the front

    model: ModelInfo | None = of("model", None)
    executor: ExecutorInfo | None = of("model", None)
    load: Load | None = of("program", None)
    # of the model that was opened first; None: none was yet
    first_source: str | None = of("program", None)
    # before what does not fit is loaded
    memory_question: LoadNeedsMemory | None = of("program", None)
    load_seconds: float = of("model", 0.0)
    # of the conversation that was counted last: views ask for `counted`
    count: Counted = made("reading", Counted)
    rates: tuple[RateSample, ...] = of("conversation", ())

    # as the person set it
    sampling: SamplingOptions = made("setting", SamplingOptions)
    # fields of it that are set to the program's own default
    sampling_chosen: frozenset[str] = of("setting", frozenset())
    form: ChatForm = of("conversation", "auto")  # of a conversation that has not begun
    presets: tuple[str, ...] = of("program", ())  # names of those that are kept
    preset: str = of("program", "")  # the one that was chosen or saved last
    prompts: PromptLibrary = made("program", PromptLibrary)
    # that of new chats is a setting: `HistoryState.own_prompt`
    system_prompt: str = of("conversation", "")
    overflow: Overflow = of("setting", "stop")
    thinking: bool = of("setting", True)  # what the switch of a template is set to
    effort: Effort = of("setting", "")  # of thinking, where a template takes it
    options: EngineOptions = made("setting", EngineOptions)
    # Settings, by "sampling.temperature", that only the command line asked for: they are not kept.
    unkept: frozenset[str] = of("program", frozenset())
    theme: ThemeName = of("setting", "dark")  # what is shown
    appearance: Appearance = of("setting", "system")
    system_theme: ThemeName | None = of("program", None)  # None: the system does not say
    language: str = of("setting", "en")  # a code, or "system"
    font_size: float = of("setting", 15.0)  # logical pixels
    recent: tuple[str, ...] = of("setting", ())
    devices: tuple[DeviceChoice, ...] = of("program", ())
    catalogue: tuple[CatalogueEntry, ...] = of("program", ())
    memory_available: int | None = of("program", None)  # bytes of the machine; None: not known

    attention: AttentionChoice = divided(AttentionChoice)

    cached: CachedText = divided(CachedText)
    asks: Mapping[Any, Exchange] = made("reading", dict)  # by the slot of the question
    cache: CacheState = divided(CacheState)
    xray: XRay = divided(XRay)
    lesson: LessonState = divided(LessonState)
    steering: Steering = divided(Steering)
    engine_interventions: EngineInterventions = of("program", EngineInterventions())
    encoding: EncodingChoice = divided(EncodingChoice)
    tokenizer: TokenizerChoice = made("program", TokenizerChoice)
    translating: TranslatingState = divided(TranslatingState)  # of a source, likewise
    compared: AnswerComparison | None = of("conversation", None)
    quantization: Quantization = divided(Quantization)
    history: HistoryState = divided(HistoryState)
    tools: ToolsState = divided(ToolsState)
    undoing: Undoing = made("program", Undoing)  # each step names its conversation
    resume: ResumeState = divided(ResumeState)
    learned_drafts: DraftsLearned | None = of("model", None)  # None: the engine has not said
    layouts: Layouts = made("setting", Layouts)
    palette: PaletteState = made("program", PaletteState)
    chooser: FilesState = made("program", FilesState)  # of files, in the window
    library: LibraryState = made("program", LibraryState)
    serving: ServingState = made("program", ServingState)
    remote: RemoteState = divided(RemoteState)

    log: tuple[LogLine, ...] = of("program", ())
    notices: tuple[Notice, ...] = of("program", ())
    next_notice: int = of("program", 1)

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return the messages of the conversation in front that are shown."""
        return self.tree.path

    @property
    def in_front(self) -> CachedText:
        """Return what of the text in the engine's cache is in front: all views show this alone."""
        global _in_front
        state, text = _in_front
        if state is not self:
            text = _text_in_front(self)
            _in_front = self, text
        return text

    @property
    def owners(self) -> tuple[int, ...]:
        """Return by position whose each token is: a message's index, TEMPLATE, SYSTEM or TARGET."""
        return self.in_front.owners

    @property
    def positions(self) -> tuple[str, ...]:
        """Return the texts of the tokens in the cache, by position."""
        return self.in_front.texts

    @property
    def context_used(self) -> int:
        """Return how many first tokens of what is in front the cache holds by now."""
        return self.in_front.used

    @property
    def counted(self) -> Counted:
        """Return the tokens of the whole conversation in front; where another one, or another
        prompt of it, was counted last, nothing is known."""
        known = self.count
        return known if known.is_of(self.messages, self.prompt_settings) else _UNCOUNTED

    @property
    def prompt_settings(self) -> PromptSettings:
        """Return what the prompt is made with: that of the answer that is written, else of the
        next one."""
        if self.running is not None:
            return self.running.prompt_settings
        return self.next_prompt_settings

    @property
    def next_prompt_settings(self) -> PromptSettings:
        raw = self.is_sentence_only
        prompt = "" if raw else self.system_prompt.strip()
        values = tuple(self.template_values.items())
        return PromptSettings(raw, prompt, self.thinking, values, self.offered_tools)

    @property
    def is_sentence_only(self) -> bool:
        """Return whether the conversation is only the lesson's sentence and the model's
        continuation: the history keeps it once a message follows, and the model reads it as it is,
        without a template or a system prompt."""
        return self.lesson.sentence_chat == self.chat and len(self.messages) <= 2

    @property
    def completes(self) -> bool:
        """Return whether the conversation in front is one text that the model continues, and no
        chat. What has begun decides; before that, what the person wants; else, what the model is
        made for."""
        if self.messages:
            return any(message.role == "text" for message in self.messages)
        if self.form == "auto":
            return not self.has_template
        return self.form == "completion"

    @property
    def has_template(self) -> bool:
        """Return whether the model in use was made for chats; without a model, return true."""
        return self.model is None or self.model.has_chat_template

    @property
    def knows_tools(self) -> bool:
        """Return whether the template of the model in use has a form for calls of functions."""
        return self.model is not None and self.model.tool_style not in ("", "unknown")

    @property
    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """Return the functions that the model is offered; none where its template knows none."""
        if not self.knows_tools or self.completes:
            return ()
        return tuple(spec for _, spec in chosen(self.tools))

    @property
    def takes_effort(self) -> bool:
        """Return whether the template of the model in use takes how much the model is to think."""
        return self.model is not None and EFFORT in self.model.template_variables

    @property
    def template_values(self) -> dict[str, Any]:
        """Return the values of variables that the template is given beside its switch for
        thoughts."""
        return {EFFORT: self.effort} if self.effort and self.takes_effort else {}

    @property
    def comparing(self) -> AnswerComparison | None:
        """Return the comparison of the last answer with another version; None where another answer
        is in front."""
        known, last = self.compared, self.messages[-1].id if self.messages else None
        return known if known is not None and known.answer == last else None

    @property
    def busy(self) -> bool:
        return self.running is not None or self.translating.running

    @property
    def writes_targets(self) -> bool:
        """Return whether the model in use is an encoder-decoder, which holds no conversation."""
        return self.model is not None and self.model.translates

    @property
    def holds_conversations(self) -> bool:
        """Return whether the model in use answers messages; true while there is none."""
        return not (self.encodes or self.writes_targets)

    @property
    def elsewhere(self) -> bool:
        """Return whether the model computes on another machine, behind a server's protocol."""
        return self.remote.connection is not None

    @property
    def can_inspect(self) -> bool:
        """Return whether what happens inside the model can be shown: here, or by the server."""
        connection = self.remote.connection
        return connection is None or connection.server.can_inspect

    @property
    def is_inspected(self) -> bool:
        """Return whether the caches of the conversation in front can be read: here, or in the
        server, which has them of the answer that it gave last, or of the text that it read last."""
        if self.elsewhere and self.encodes:
            return bool(self.cached.texts)
        return not self.elsewhere or self.remote.cache is not None

    @property
    def encodes(self) -> bool:
        """Return whether the model in use is an encoder, which writes no text."""
        return self.model is not None and self.model.embeds

    @property
    def answering(self) -> Message | None:
        """Return the answer being written, if one is."""
        last = self.messages[-1] if self.messages else None
        return last if self.running and last and last.role == "assistant" else None

    @property
    def last_stats(self) -> GenerationStats | None:
        """Return the figures of the newest answer in front; None where another model wrote it."""
        for message in reversed(self.messages):
            if message.stats is not None and message.stats.new_tokens:
                written, model = message.written, self.model
                known = written is None or model is None or written.model.path in ("", model.path)
                return message.stats if known else None
        return None

    @property
    def decode_rate(self) -> float:
        if self.running:
            return self.running.rate
        return self.last_stats.decode_tok_s if self.last_stats else 0.0


def _text_in_front(state: AppState) -> CachedText:
    """Return the first positions of the cached text that are what is in front. Of a conversation
    these are its first messages, where the prompt is made with the same settings; where it is not,
    the tokens are compared."""
    cached = state.cached
    if not state.holds_conversations or cached.prompt_settings is None:
        return cached
    messages = shared_messages(cached, state.messages)
    if messages == 0 and cached.chat != state.chat:
        return _cut(cached, 0, 0)
    if cached.prompt_settings == state.prompt_settings:
        return _cut(cached, messages, len(cached.owners))
    counted = state.counted
    if counted.ids is None or cached.forgotten:
        return _cut(cached, 0, 0)
    return _cut(cached, messages, common(cached.ids, counted.ids))


def _cut(cached: CachedText, messages: int, positions: int) -> CachedText:
    """Return the text up to the first token behind so many messages or positions; the same object
    as the last time where nothing has changed, as views make much of it once."""
    global _last_cut
    key, text = _last_cut
    if key[0] is not cached or key[1:] != (messages, positions):
        text = of_messages(cached, messages)
        if positions < len(text.owners):
            text = text.first(positions)
        _last_cut = (cached, messages, positions), text
    return text


# The last results, with what they were made of: each frame asks for them many times.
_in_front: tuple[AppState | None, CachedText] = None, CachedText()
_last_cut: tuple[tuple[CachedText | None, int, int], CachedText] = (None, 0, 0), CachedText()
