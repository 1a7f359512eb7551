"""The chat: a person sends, stops, edits and begins another one; the engine reads the prompt, and
writes tokens until the answer ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from llm_lite.core.attached_text import LONGEST_TEXT, ConversationExtras, DraftedFile
from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import (
    NO_CHANGES,
    CacheRewritten,
    Cancel,
    Command,
    ConversationRead,
    Ended,
    Event,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    PrefillProgress,
    Read,
    Role,
    SamplingOptions,
    SpellTokens,
    TokenDecoded,
    TokensSpelled,
)
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import files_obstacle
from llm_lite.desktop.features.attachments.state import MOST_FILES, DraftFile, DraftFiles, NewDraft
from llm_lite.desktop.features.chat.reading import (
    begun,
    ended,
    owner_of,
    too_long,
    waiting,
    with_read_rate,
    with_turns,
)
from llm_lite.desktop.features.chat.state import Effort, Thought
from llm_lite.desktop.features.performance import speed
from llm_lite.desktop.features.program import cached_text
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    ask_again,
    end_edit,
    end_reading,
    obstacle,
    request_answer,
    show,
    waits_for_model,
    with_message,
    wrote,
)
from llm_lite.desktop.features.program.scopes import fields_of, next_conversation
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import (
    RATE_WINDOW,
    AppState,
    ChatForm,
    Message,
    Running,
    Token,
)
from llm_lite.desktop.features.sampling.model import differing, sampler
from llm_lite.desktop.features.steer.model import with_kept_interventions
from llm_lite.desktop.features.tools.model import results, without_grants
from llm_lite.desktop.features.tools.state import split_calls
from llm_lite.desktop.features.translator.model import ClearTarget, clear
from llm_lite.desktop.features.tree.model import spelled
from llm_lite.desktop.language.incoming import TYPED, typed
from llm_lite.desktop.language.translate import tr


class SetDraft(Action, frozen=True):
    text: str


class Send(Action, frozen=True):
    text: str


class StopAnswer(Action, frozen=True):
    pass


class ContinueAnswer(Action, frozen=True):
    pass


class Regenerate(Action, frozen=True):
    """Write another answer in the place of one, which stays beside it with what followed; None: the
    last. `exactly` with the seed, the other options and the interventions of the one that is
    there."""

    index: int | None = None
    exactly: bool = False


class EditMessage(Action, frozen=True):
    """Put a message back into the input. Sent, it stands beside what it was, as another version;
    what followed stays with that one."""

    index: int


class CancelEdit(Action, frozen=True):
    pass


class NewChat(Action, frozen=True):
    pass


class SetSystemPrompt(Action, frozen=True):
    text: str


class SetSampling(Action, frozen=True):
    sampling: SamplingOptions


class ResetSampling(Action, frozen=True):
    """Nothing is set any more: the model's own defaults hold, or else the program's."""


class KeepDraft(Action, frozen=True):
    """Do not send the draft once the model is loaded: it stays in the input."""


class SetForm(Action, frozen=True):
    """Let the conversation that is about to begin be a chat, or a text that the model continues."""

    form: ChatForm


class SetThinking(Action, frozen=True):
    """Let the model think before it answers, or not, where its template lets one choose."""

    thinking: bool


class SetEffort(Action, frozen=True):
    """Let the model think so much, where its template takes that; "": as the template has it."""

    effort: Effort


class UnfoldThought(Action, frozen=True):
    """Show all that an answer has thought, or fold it to a line again."""

    index: int
    unfolded: bool


def _set_draft(action: SetDraft, state: AppState, now: float) -> Result:
    if len(action.text) > TYPED:
        words = tr("The input holds at most {most:,} characters: the rest was left out.")
        state = notify(state, "warning", words.format(most=TYPED), now)
    draft = typed(action.text)
    return replace(state, draft=draft, queued=state.queued and draft == state.draft), ()


def queued_message(state: AppState) -> Send | None:
    """Return the draft that waited for the model, once that is loaded or will not be."""
    return Send(state.draft) if state.queued and state.load is None else None


def _keep_draft(action: KeepDraft, state: AppState, now: float) -> Result:
    return replace(state, queued=False), ()


def _send(action: Send, state: AppState, now: float) -> Result:
    state = replace(state, queued=False)
    text, at = typed(action.text.strip()), state.editing
    if state.completes and text:
        text = typed(action.text)  # the text goes on as it is, with its spaces and lines
    if not text and not state.files.files:
        return state, ()
    edited = state.messages[at] if at is not None and at < len(state.messages) else None
    if edited is not None and edited.role == "assistant":
        return _send_answer(action, state, text, now)
    if waits_for_model(state):
        return replace(state, draft=typed(action.text), queued=True), ()
    if problem := obstacle(state) or files_obstacle(state) or length_obstacle(state):
        return notify(replace(state, draft=typed(action.text)), "warning", problem, now), ()
    new_role: Role = "text" if state.completes else "user"
    role = edited.role if edited is not None else new_role
    message = Message(role, text, attachments=state.files.attachments)
    if edited is None or at is None:
        calling = waiting(state)  # calls that nobody has answered count as refused
        refused = results(state, calling) if calling else ()
        messages = (*state.messages, *refused, message)
        state = without_grants(state)
    else:
        messages = (*state.messages[:at], message)  # beside the one that is edited
    return request_answer(_without_draft(state), messages, now)


def length_obstacle(state: AppState) -> str:
    """Return why the conversation can have no further turn, as a sentence; "" when it can."""
    if too_long(state) is None:
        return ""
    return tr("The conversation fills the context. Choose above the input what is to give way.")


def _without_draft(state: AppState) -> AppState:
    """Empty the input, whose draft was sent; after an edit the draft from before comes back."""
    if state.editing is not None:
        return end_edit(state)
    return replace(state, draft="", files=state.files.emptied())


def _send_answer(action: Send, state: AppState, text: str, now: float) -> Result:
    """Keep what a person made of a model's answer as a version beside it."""
    index = state.editing
    assert index is not None
    if state.running:
        return notify(replace(state, draft=action.text), "warning", obstacle(state), now), ()
    before = state.messages[index]
    state, commands = end_reading(end_edit(state))
    if text == before.text:
        return state, commands
    fresh = Message("assistant", text, stop_reason="end", written=before.written, edited=True)
    return show(state, (*state.messages[:index], fresh)), commands


def _stop_answer(action: StopAnswer, state: AppState, now: float) -> Result:
    running = state.running
    if running is None or running.stopping:
        return state, ()
    return replace(state, running=replace(running, stopping=True)), (Cancel(running.asked),)


def _continue_answer(action: ContinueAnswer, state: AppState, now: float) -> Result:
    if not state.messages or state.messages[-1].role != "assistant":
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    last = replace(state.messages[-1], stop_reason=None, stats=None, problem="")
    if not last.whole:
        return _ask_in_place(state, now)
    if not wrote(state, last):  # those that follow alone would tell the engine half of it
        last = replace(last, untokenized=True)
    return request_answer(state, (*state.messages[:-1], last), now, continue_last=True)


def _regenerate(action: Regenerate, state: AppState, now: float) -> Result:
    if not state.messages:
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    last = len(state.messages) - 1
    index = last if action.index is None else action.index
    if not 0 <= index <= last:
        return state, ()
    message = state.messages[index]
    if message.role != "assistant":
        return request_answer(state, state.messages, now) if index == last else (state, ())
    if action.exactly:
        then = message.written.interventions if message.written else NO_CHANGES
        own = then if then or state.steering.interventions else None
        return ask_again(state, index, now, sampling=message.sampling, interventions=own)
    if not message.whole and index == last:  # nothing worth keeping
        return _ask_in_place(state, now)
    return ask_again(state, index, now)


def _ask_in_place(state: AppState, now: float) -> Result:
    """Begin an answer that has no text again."""
    *before, last = state.messages
    return request_answer(state, tuple(before), now, again=last.id)


def _edit_message(action: EditMessage, state: AppState, now: float) -> Result:
    if state.running or not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    first = state.editing is None
    files = state.files.with_attachments(message.attachments, aside=first)
    aside = state.draft if first else state.aside
    state = replace(state, draft=message.text, aside=aside, files=files)
    return replace(state, editing=action.index), ()


def _cancel_edit(action: CancelEdit, state: AppState, now: float) -> Result:
    return end_edit(state), ()


def _new_chat(action: NewChat, state: AppState, now: float) -> Result:
    if state.encodes:
        return notify(state, "info", obstacle(state), now), ()
    if state.writes_targets:
        return clear(ClearTarget(), state, now)
    if not state.messages and state.history.open is None:
        return end_edit(state), ()
    return turn_to(state)


def new_draft(state: AppState) -> NewDraft:
    """Return the draft of chats that have not begun, in front or not. The draft of a conversation
    that is not kept becomes it: it would be lost."""
    extras, aside = extras_of(state), state.new_draft
    if state.history.open is not None or not (extras.draft or extras.files):
        return aside
    return NewDraft(
        extras.draft, state.files.aside if state.editing is not None else state.files.files
    )


def turn_to(
    state: AppState,
    tree: ConversationTree[Message] | None = None,
    extras: ConversationExtras | None = None,
) -> Result:
    """Bring another conversation to the front, with what is kept as `extras` of it; a new chat has
    none. An answer that is being written ends: its text so far is kept."""
    state, commands = end_reading(end_edit(state))
    if state.running is not None:
        commands = (*commands, Cancel(state.running.asked))
    prompt, drafted = state.history.own_prompt, new_draft(state)
    turned = next_conversation(
        state,
        tree=tree or ConversationTree(),
        chat=state.chat + 1,
        system_prompt=state.system_prompt if prompt is None else prompt,
        new_draft=drafted,
        **_of_a_text(state),
    )
    if extras is None:
        files = turned.files.holding(drafted.files)
        return replace(turned, draft=drafted.text, files=files, new_draft=NewDraft()), commands
    turned = with_kept_interventions(turned, extras.interventions)
    files = turned.files.holding(drafted_files(extras))
    return replace(turned, draft=extras.draft, files=files), commands


def _of_a_text(state: AppState) -> dict[str, Any]:
    """Return what was read of a text that is no conversation, which stays in front."""
    if state.holds_conversations:
        return {}
    kept = ("attention", "cache", "cached", "xray", "lesson", "steering")
    return {name: getattr(state, name) for name in (*kept, *fields_of(state, "reading"))}


def drafted_files(extras: ConversationExtras) -> tuple[DraftFile, ...]:
    """Return the files of a kept draft: one that has no text yet is read from its path."""
    return tuple(DraftFile(0, one.path, one.name, one.attached) for one in extras.files)


def extras_of(state: AppState) -> ConversationExtras:
    """Return what is kept of the conversation in front beside its messages."""
    text, files = state.draft, state.files.files
    if state.editing is not None:
        text, files = state.aside, state.files.aside
    drafted = tuple(DraftedFile(one.path, one.name, one.attached) for one in files)
    return ConversationExtras(state.steering.kept, text, drafted)


def _set_system_prompt(action: SetSystemPrompt, state: AppState, now: float) -> Result:
    return replace(state, system_prompt=typed(action.text)), ()


def _set_sampling(action: SetSampling, state: AppState, now: float) -> Result:
    """Set the options; the person chose those that differ from what was in force."""
    names = differing(action.sampling, sampler(state))
    chosen = {name: getattr(action.sampling, name) for name in names}
    own = replace(state.sampling, **chosen)
    return replace(state, sampling=own, sampling_chosen=state.sampling_chosen | names), ()


def _reset_sampling(action: ResetSampling, state: AppState, now: float) -> Result:
    return replace(state, sampling=SamplingOptions(), sampling_chosen=frozenset()), ()


def _set_form(action: SetForm, state: AppState, now: float) -> Result:
    return replace(state, form=action.form), ()


def _set_thinking(action: SetThinking, state: AppState, now: float) -> Result:
    return replace(state, thinking=action.thinking), ()


def _set_effort(action: SetEffort, state: AppState, now: float) -> Result:
    return replace(state, effort=action.effort), ()


def _unfold_thought(action: UnfoldThought, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.thought is None or message.thought.unfolded == action.unfolded:
        return state, ()
    changed = replace(message, thought=replace(message.thought, unfolded=action.unfolded))
    return with_message(state, action.index, changed), ()


def _answer_replied(event: Event, asked: Generate, state: AppState, now: float) -> AppState:
    """Fold an event of the answer that is being written; one that was left tells nothing more."""
    running = state.running
    if running is None or running.asked is not asked:
        return state
    match event:
        case GenerationStarted():
            return _generation_started(event, state, running)
        case PrefillProgress():
            return _prefill_progress(event, state, running)
        case TokenDecoded():
            return decoded([event], asked, state, now)
        case CacheRewritten():
            return _cache_rewritten(event, state, running)
        case GenerationFinished():
            return _generation_finished(event, state, running, now)
        case Ended(failure=""):  # before it was begun
            stopped = GenerationFinished("stopped", GenerationStats())
            return _generation_finished(stopped, state, running, now)
        case Ended():
            failed = GenerationFinished("error", GenerationStats(), event.failure)
            state = _generation_finished(failed, state, running, now)
            hidden = state.lesson.shown or state.library.shown  # else the answer says it
            return notify(state, "error", event.failure, now) if hidden else state
    return state


def _generation_started(event: GenerationStarted, state: AppState, running: Running) -> AppState:
    running = replace(
        running,
        phase="prefill",
        prompt_tokens=event.prompt_tokens,
        reused_tokens=event.reused_tokens,
        done=event.reused_tokens,
        thinking=event.thinking,
    )
    owners = tuple(owner_of(token.message, running.lead) for token in event.prompt)
    reused, tokens = event.reused_tokens, event.prompt_tokens
    state = replace(state, running=running)
    return begun(
        state,
        event.prompt,
        owners,
        running.prompt_settings,
        reused=reused,
        tokens=tokens,
        used=reused,
    )


def _prefill_progress(event: PrefillProgress, state: AppState, running: Running) -> AppState:
    running = replace(running, phase="prefill", done=event.done, prompt_tokens=event.total)
    cached = state.cached
    used = min(max(cached.used, event.done), len(cached.owners) or event.done)
    return replace(state, running=running, cached=cached.computed_to(used))


def _reading_replied(event: Event, asked: Read, state: AppState, now: float) -> AppState:
    """Fold an event of the conversation that is read."""
    reading = state.reading
    if reading is None or reading.asked is not asked:
        return state
    match event:
        case PrefillProgress():
            began = reading.began or now
            reading = replace(reading, done=event.done, total=event.total, began=began)
            return replace(state, reading=reading)
        case ConversationRead():
            if reading.began:
                state = with_read_rate(state, len(event.prompt), now - reading.began)
            owners = tuple(owner_of(token.message, reading.lead) for token in event.prompt)
            state = begun(
                replace(state, reading=None), event.prompt, owners, reading.prompt_settings
            )
            is_cut = len(event.prompt) < event.total  # it was stopped
            return replace(state, cached=replace(state.cached, is_cut=is_cut))
        case Ended():
            state = replace(state, reading=None)
            return notify(state, "error", event.failure, now) if event.failure else state
    return state


def decoded(
    events: Sequence[TokenDecoded], asked: Command | None, state: AppState, now: float
) -> AppState:
    """Fold tokens of one answer, which follow each other, into it."""
    running, newest, count = state.running, events[-1], len(events)
    if running is None or running.asked is not asked:
        return state
    arrivals = (*(t for t in running.arrivals if now - t <= RATE_WINDOW), *[now] * count)
    first, behind = running.first_token, events
    if first is None:  # what came with the first token took its time after it
        behind = events[1:]
        first = now - sum(event.step_ms for event in behind) / 1e3
    since = newest.step_ms / 1e3 if running.received is None else now - running.received
    ttft_ms = next((event.ttft_ms for event in events if event.ttft_ms), running.ttft_ms)
    running = replace(
        running, phase="decode", arrivals=arrivals, first_token=first, received=now, ttft_ms=ttft_ms
    )
    last = _answer(state)
    tokens = [_token(e, running, at) for at, e in enumerate(events, len(last.tokens))]
    texts = [event.text for event in events]
    thought = last.thought
    if running.thinking and not last.tokens and not last.text:
        thought = Thought.of(running.thinking)
    thought = thought and thought.with_tokens(events, since)
    text = thought.split.visible_text if thought else last.visible_text + "".join(texts)
    calls = split_calls(last.calls, running.tool_style, text)
    text = calls.visible_text if calls else text
    last = replace(last, text=text, thought=thought, calls=calls, tokens=(*last.tokens, *tokens))
    state = _with_answer(state, last)
    pairs = [(event.token, event.text) for event in events]
    owner, used = len(state.messages) - 1, newest.context_used
    cached = cached_text.decoded(state.cached, pairs, owner, used)
    state = replace(state, running=running, cached=cached)
    return speed.sampled(state, len(behind), sum(event.step_ms for event in behind), now)


def _generation_finished(
    event: GenerationFinished, state: AppState, running: Running, now: float
) -> AppState:
    last = _answer(state).ended()
    last = replace(last, stop_reason=event.stop_reason, stats=event.stats, problem=event.message)
    used = event.stats.context_used or state.cached.used
    cached = state.cached.computed_to(used)
    state = replace(_with_answer(state, last), running=None, cached=cached)
    state, stats = ended(state, running), event.stats
    if stats.prefill_tok_s > 0:
        fresh = stats.prompt_tokens - stats.reused_tokens
        state = with_read_rate(state, fresh, fresh / stats.prefill_tok_s)
    return speed.completed(with_turns(state), running, event.stats)


def _spelling_replied(event: Event, asked: SpellTokens, state: AppState, now: float) -> AppState:
    """Give restored answers of these tokens their texts."""
    if not isinstance(event, TokensSpelled):
        return state
    texts = event.texts
    messages = (spelled(m, asked.tokens, texts) if m.restored else m for m in state.messages)
    return replace(state, tree=state.tree.with_path(tuple(messages)))


def _cache_rewritten(event: CacheRewritten, state: AppState, running: Running) -> AppState:
    owners = tuple(owner_of(token.message, running.lead) for token in event.tokens)
    cached = cached_text.rewritten(state.cached, event.tokens, owners, event.forgotten)
    return replace(state, cached=cached)


def _token(event: TokenDecoded, running: Running, index: int) -> Token:
    """Return the token; one that was forced and not scored again keeps its probability."""
    token = Token(
        event.token,
        event.text,
        event.probability,
        event.alternatives,
        event.allowed,
        event.accepted,
        tuple(drafted.text for drafted in event.rejected),
    )
    if event.probability == event.probability or index >= len(running.forced):
        return token
    before = running.forced[index]
    return replace(
        token,
        probability=before.probability,
        alternatives=before.alternatives,
        allowed=before.allowed,
    )


def _answer(state: AppState) -> Message:
    """Return the answer being written; a new one where the conversation ends with a user."""
    last = state.messages[-1] if state.messages else None
    return last if last and last.role == "assistant" else Message("assistant", "")


def _with_answer(state: AppState, answer: Message) -> AppState:
    last = state.messages[-1] if state.messages else None
    kept = state.messages[:-1] if last and last.role == "assistant" else state.messages
    return replace(state, tree=state.tree.with_path((*kept, answer)))


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetDraft: _set_draft,
    Send: _send,
    KeepDraft: _keep_draft,
    StopAnswer: _stop_answer,
    ContinueAnswer: _continue_answer,
    Regenerate: _regenerate,
    EditMessage: _edit_message,
    CancelEdit: _cancel_edit,
    NewChat: _new_chat,
    SetSystemPrompt: _set_system_prompt,
    SetSampling: _set_sampling,
    ResetSampling: _reset_sampling,
    SetForm: _set_form,
    SetThinking: _set_thinking,
    SetEffort: _set_effort,
    UnfoldThought: _unfold_thought,
}
REPLIES: dict[type[Any], Callable[[Event, Any, AppState, float], AppState]] = {
    Generate: _answer_replied,
    Read: _reading_replied,
    SpellTokens: _spelling_replied,
}


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    """Return the draft of a chat that has not begun, with its files and pasted texts, and the
    system prompt, but not that of an older chat in front."""
    drafted, own = new_draft(state), state.history.own_prompt
    return {
        "system_prompt": state.system_prompt if own is None else own,
        "draft": drafted.text,
        "draft_files": tuple(file.path for file in drafted.files if file.path),
        "draft_texts": _pasted_texts(drafted.files),
    }


def restore(settings: Settings, state: AppState) -> AppState:
    files = DraftFiles().with_paths(tuple((p, Path(p).name) for p in settings.draft_files))
    for name, text in settings.draft_texts:
        files = files.with_text(name, text)
    prompt, draft = settings.system_prompt, settings.draft
    return replace(state, system_prompt=prompt, draft=draft, files=files)


def _pasted_texts(files: tuple[DraftFile, ...]) -> tuple[tuple[str, str], ...]:
    """Return names and whole texts of what no file holds, as many as the settings may have."""
    texts, room = [], LONGEST_TEXT
    for file in files:
        if file.path or file.attached is None or file.attached.kind == "picture":
            continue
        text = file.text or file.attached.text
        if len(text) <= room:
            texts.append((file.name, text))
            room -= len(text)
    return tuple(texts[:MOST_FILES])
