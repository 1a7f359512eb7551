"""What a person does in the chat: say, stop, edit, begin another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from llm_lite.core.attached_text import LONGEST_TEXT, ConversationExtras, DraftedFile
from llm_lite.core.messages import Role, SamplingOptions, Stop
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments.model import files_obstacle
from llm_lite.desktop.features.attachments.state import MOST_FILES, DraftFile, DraftFiles, NewDraft
from llm_lite.desktop.features.chat.rounds import waiting
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    as_version,
    ask,
    ask_again,
    end_edit,
    end_reading,
    obstacle,
    show,
    wrote,
)
from llm_lite.desktop.features.program.scopes import fields_of, next_conversation
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState, ChatForm, Message
from llm_lite.desktop.features.sampling.model import completes, differing, sampler
from llm_lite.desktop.features.tools.model import results
from llm_lite.desktop.features.translator.model import ClearTarget, clear
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
    """Another answer in the place of one, which stays beside it with what followed; None: the
    last. `exactly` with the seed, the other options and the gains of the one that is there."""

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


class SetForm(Action, frozen=True):
    """Whether the conversation that is about to begin is a chat, or a text that the model
    continues."""

    form: ChatForm


class SetThinking(Action, frozen=True):
    """Whether the model thinks before it answers, where its template lets one choose."""

    thinking: bool


class UnfoldThought(Action, frozen=True):
    """Show all that an answer has thought, or fold it to a line again."""

    index: int
    unfolded: bool


def _set_draft(action: SetDraft, state: AppState, now: float) -> Result:
    if len(action.text) > TYPED:
        words = tr("The input holds at most {most:,} characters: the rest was left out.")
        state = notify(state, "warning", words.format(most=TYPED), now)
    return replace(state, draft=typed(action.text)), ()


def _send(action: Send, state: AppState, now: float) -> Result:
    text, at = typed(action.text.strip()), state.editing
    if completes(state) and text:
        text = typed(action.text)  # the text goes on as it is, with its spaces and lines
    if not text and not state.files.files:
        return state, ()
    edited = state.messages[at] if at is not None and at < len(state.messages) else None
    if edited is not None and edited.role == "assistant":
        return _send_answer(action, state, text, now)
    if problem := obstacle(state) or files_obstacle(state):
        return notify(replace(state, draft=typed(action.text)), "warning", problem, now), ()
    said: Role = "text" if completes(state) else "user"
    role = edited.role if edited is not None else said
    message = Message(role, text, attachments=state.files.attachments)
    if edited is None or at is None:
        calling = waiting(state)  # calls that nobody has answered count as refused
        refused = results(state, calling) if calling else ()
        messages = (*state.messages, *refused, message)
        state = replace(state, tools=replace(state.tools, granted=0))
    else:
        messages = as_version(state, at, message)
    return ask(replace(_without_draft(state), comparing=None), messages, now)


def _without_draft(state: AppState) -> AppState:
    """It was sent; where it was of an edit, the one of before comes back."""
    if state.editing is not None:
        return end_edit(state)
    return replace(state, draft="", files=state.files.emptied())


def _send_answer(action: Send, state: AppState, text: str, now: float) -> Result:
    """What a person makes of a model's answer: a version beside it."""
    index = state.editing
    assert index is not None
    if state.running:
        return notify(replace(state, draft=action.text), "warning", obstacle(state), now), ()
    before = state.messages[index]
    state, ended = end_reading(replace(end_edit(state), comparing=None))
    if text == before.text:
        return state, ended
    fresh = Message("assistant", text, stop_reason="end", written=before.written, edited=True)
    return show(state, as_version(state, index, fresh)), ended


def _stop_answer(action: StopAnswer, state: AppState, now: float) -> Result:
    if state.running is None or state.running.stopping:
        return state, ()
    if state.queued:
        last = replace(state.messages[-1], stop_reason="stopped")
        messages = (*state.messages[:-1], last)
        return replace(state, messages=messages, queued=None, running=None), ()
    return replace(state, running=replace(state.running, stopping=True)), (Stop(),)


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
    return ask(state, (*state.messages[:-1], last), now, continue_last=True)


def _regenerate(action: Regenerate, state: AppState, now: float) -> Result:
    if not state.messages:
        return state, ()
    if problem := obstacle(state):
        return notify(state, "warning", problem, now), ()
    state = replace(state, comparing=None)
    last = len(state.messages) - 1
    index = last if action.index is None else action.index
    if not 0 <= index <= last:
        return state, ()
    message = state.messages[index]
    if message.role != "assistant":
        return ask(state, state.messages, now) if index == last else (state, ())
    if action.exactly:
        gains = message.written.gains if message.written else None
        return ask_again(state, index, now, sampling=message.sampling, gains=gains)
    if not message.whole and index == last:  # nothing worth keeping
        return _ask_in_place(state, now)
    return ask_again(state, index, now)


def _ask_in_place(state: AppState, now: float) -> Result:
    """An answer that says nothing begins again."""
    before = state.messages[-1]
    state, commands = ask(state, state.messages[:-1], now)
    fresh = replace(
        state.messages[-1], key=before.key, versions=before.versions, place=before.place
    )
    return replace(state, messages=(*state.messages[:-1], fresh)), commands


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
    return turn_to(state, ())


def new_draft(state: AppState) -> NewDraft:
    """That of chats that have not begun, in front or not. The draft of a conversation that is not
    kept becomes it: it would be lost."""
    extras, aside = extras_of(state), state.new_draft
    if state.history.open is not None or not (extras.draft or extras.files):
        return aside
    return NewDraft(
        extras.draft, state.files.aside if state.editing is not None else state.files.files
    )


def turn_to(
    state: AppState, messages: tuple[Message, ...], extras: ConversationExtras | None = None
) -> Result:
    """Another conversation comes to the front, with what is kept as `extras` of it; a new chat
    without. An answer that is being written ends: what it has said is kept."""
    state, ended = end_reading(end_edit(state))
    sent = state.running and not state.queued
    commands = (Stop(),) if sent else ended
    prompt, drafted = state.history.own_prompt, new_draft(state)
    draining = state.running.request if state.running and sent else state.draining
    turned = next_conversation(
        state,
        messages=messages,
        chat=state.chat + 1,
        draining=draining,
        system_prompt=state.system_prompt if prompt is None else prompt,
        new_draft=drafted,
        **_of_a_text(state),
    )
    if extras is None:
        files = turned.files.holding(drafted.files)
        return replace(turned, draft=drafted.text, files=files, new_draft=NewDraft()), commands
    steering = replace(turned.steering, kept=extras.gains)
    if turned.model is not None:
        steering = steering.fit(turned.model)
    files = turned.files.holding(drafted_files(extras))
    return replace(turned, draft=extras.draft, files=files, steering=steering), commands


def _of_a_text(state: AppState) -> dict[str, Any]:
    """What was read of a text that is no conversation, which stays in front."""
    if state.holds_conversations:
        return {}
    kept = ("attention", "cache", "xray", "lesson", "steering")
    return {name: getattr(state, name) for name in (*kept, *fields_of(state, "reading"))}


def drafted_files(extras: ConversationExtras) -> tuple[DraftFile, ...]:
    """Those of a kept draft: what has no text yet is read from its path."""
    return tuple(DraftFile(0, one.path, one.name, one.attached) for one in extras.files)


def extras_of(state: AppState) -> ConversationExtras:
    """What is kept of the conversation in front beside its messages."""
    text, files = state.draft, state.files.files
    if state.editing is not None:
        text, files = state.aside, state.files.aside
    drafted = tuple(DraftedFile(one.path, one.name, one.attached) for one in files)
    return ConversationExtras(state.steering.kept, text, drafted)


def _set_system_prompt(action: SetSystemPrompt, state: AppState, now: float) -> Result:
    return replace(state, system_prompt=typed(action.text)), ()


def _set_sampling(action: SetSampling, state: AppState, now: float) -> Result:
    """What differs from what was in force, the person chose."""
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


def _unfold_thought(action: UnfoldThought, state: AppState, now: float) -> Result:
    if not 0 <= action.index < len(state.messages):
        return state, ()
    message = state.messages[action.index]
    if message.thought is None or message.thought.unfolded == action.unfolded:
        return state, ()
    changed = replace(message, thought=replace(message.thought, unfolded=action.unfolded))
    before, after = state.messages[: action.index], state.messages[action.index + 1 :]
    return replace(state, messages=(*before, changed, *after)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    SetDraft: _set_draft,
    Send: _send,
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
    UnfoldThought: _unfold_thought,
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
