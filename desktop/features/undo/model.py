"""Undo and redo of everything that changes a conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from llm_lite.core.messages import Command
from llm_lite.core.records import replace
from llm_lite.desktop.features.chat.model import Regenerate, Send, SetSystemPrompt
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    DeleteAll,
    DeleteConversation,
    ForkConversation,
    ImportConversations,
    PinConversation,
    RedoHistory,
    RenameConversation,
    RestoreConversation,
    UndoHistory,
    done_since,
    revealing,
)
from llm_lite.desktop.features.presets.model import UsePreset
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import SetOptions, set_options
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import (
    Result,
    end_edit,
    leave_answer,
    show_tree,
)
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.steer.model import AnswerSteered, Steer, steer
from llm_lite.desktop.features.translator.model import RestoreTarget, restore
from llm_lite.desktop.features.tree.model import (
    ContinueFrom,
    ContinueText,
    ShowMessage,
    SwitchVersion,
)
from llm_lite.desktop.features.undo.state import (
    ChatStep,
    ConversationSnapshot,
    ListStep,
    Step,
    typed_on,
)
from llm_lite.desktop.language.translate import mark, tr

LABELS: Mapping[type[Any], str] = {
    Send: mark("edit of a question"),
    Regenerate: mark("another answer"),
    AnswerSteered: mark("answer under other interventions"),
    ContinueFrom: mark("fork from a token"),
    ContinueText: mark("fork within an answer"),
    SwitchVersion: mark("choice of a version"),
    ShowMessage: mark("choice on the map"),
    SetSystemPrompt: mark("change of the system prompt"),
    UsePreset: mark("preset"),
}
EDITED = mark("edit of an answer")
OF_THE_LIST = {  # by the labels of the history's journal
    "Rename": mark("renaming"),
    "Pin": mark("pinning"),
    "Unpin": mark("unpinning"),
    "Archive": mark("archiving"),
    "Unarchive": mark("bringing back from the archive"),
    "Delete": mark("deleting"),
    "Restore": mark("restoring"),
    "Delete all": mark("deleting all"),
    "Import": mark("import"),
    "Fork": mark("fork to a new conversation"),
}

LIST_LABELS: Mapping[type[Any], str] = {  # until the history reports what it did
    RenameConversation: "Rename",
    PinConversation: "Pin",
    ArchiveConversation: "Archive",
    DeleteConversation: "Delete",
    DeleteAll: "Delete all",
    RestoreConversation: "Restore",
    ImportConversations: "Import",
    ForkConversation: "Fork",
}


class Journalled(Action, frozen=True):
    """The history carried out the oldest waiting step; with number 0 it changed nothing."""

    number: int
    label: str = ""


class JournalKept(Action, frozen=True):
    """The numbers of the steps that the history can still undo or redo."""

    numbers: frozenset[int]


UndoAction = Journalled | JournalKept


def note_step(action: object, before: AppState, result: Result, now: float) -> Result:
    """Add a step to the journal where an action changed a conversation."""
    after, commands = result
    return _with_step(action, before, after, now), commands


def _with_step(action: object, before: AppState, after: AppState, now: float) -> AppState:
    if type(action) in LIST_LABELS:
        label = OF_THE_LIST[LIST_LABELS[type(action)]]
        return replace(after, undoing=after.undoing.requested(label))
    label = LABELS.get(type(action), "")
    if not label or after is before or after.chat != before.chat:
        return after
    old, new = _shown(before), _shown(after)
    if old.leaf is None or after.tree.index(old.leaf) is not None:
        new = replace(new, leaf=old.leaf)  # nothing else is shown than before, but what was added
    if old == new:
        return after
    if isinstance(action, Send):
        at = before.editing
        edited = before.messages[at] if at is not None and at < len(before.messages) else None
        label = EDITED if edited is not None and edited.role == "assistant" else label
    number = after.history.open
    step = ChatStep(label, now, after.chat, number, old, new)
    journal = after.undoing
    if isinstance(action, SetSystemPrompt):
        last = journal.done[-1] if journal.done else None
        if (longer := typed_on(last, step)) is not None:
            step, journal = longer, replace(journal, done=journal.done[:-1])
    return replace(done_since(after), undoing=journal.with_step(step))


def _shown(state: AppState) -> ConversationSnapshot:
    leaf, changes = state.tree.leaf, state.steering.interventions
    return ConversationSnapshot(leaf, state.system_prompt, state.sampling, state.options, changes)


def _newest(state: AppState, back: bool) -> Step | None:
    return state.undoing.newest(state.chat, state.history.open, back)


def is_for_history(action: object, state: AppState) -> bool:
    """Return whether the history carries it out: an undo may be of the conversation in the chat."""
    if not isinstance(action, UndoHistory | RedoHistory):
        return True
    step = _newest(state, isinstance(action, UndoHistory))
    return isinstance(step, ListStep)


def undo_label(state: AppState, back: bool = True) -> str:
    """Name the step that an undo (`back`) or a redo would take; "" where there is none."""
    step = _newest(state, back)
    return tr(step.label) if step is not None else ""


def _undo(action: UndoHistory, state: AppState, now: float) -> Result:
    if state.writes_targets and state.translating.cleared is not None:
        return restore(RestoreTarget(), state, now)
    return _move(state, now, back=True)


def _redo(action: RedoHistory, state: AppState, now: float) -> Result:
    return _move(state, now, back=False)


def _move(state: AppState, now: float, *, back: bool) -> Result:
    state, step = done_since(state), _newest(state, back)
    if step is None or (state.writes_targets and isinstance(step, ChatStep)):  # of a hidden chat
        words = tr("There is nothing to undo.") if back else tr("There is nothing to redo.")
        return notify(state, "info", words, now), ()
    state = replace(state, undoing=state.undoing.moved(step, back))
    if isinstance(step, ListStep):  # the history carries it out and reports it
        return state, ()
    state, commands = leave_answer(state)
    before, after = (step.after, step.before) if back else (step.before, step.after)
    state, more = _show(state, before, after, now)
    words = tr("Undone: {what}.") if back else tr("Redone: {what}.")
    state = notify(state, "info", words.format(what=tr(step.label)), now)
    return state, (*commands, *more)


def _show(
    state: AppState, before: ConversationSnapshot, after: ConversationSnapshot, now: float
) -> Result:
    """Set what differs between two snapshots to what it is in `after`."""
    commands: tuple[Command, ...] = ()
    differs = {
        name
        for name in ConversationSnapshot.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    }
    if "leaf" in differs and after.leaf is not None:
        shown = state.messages
        state = show_tree(state, state.tree.showing(after.leaf))
        pairs = zip(state.messages, shown, strict=False)
        other = next((one.id for one, was in pairs if one.id != was.id), state.history.reveal)
        state = revealing(end_edit(state), other)
    if "system_prompt" in differs:
        state = replace(state, system_prompt=after.system_prompt)
    if "sampling" in differs:
        state = replace(state, sampling=after.sampling)
    if "options" in differs:
        state, commands = set_options(SetOptions(after.options), state, now)
    if "interventions" in differs:
        state, more = steer(Steer(after.interventions), state, now)
        commands = (*commands, *more)
    return state, commands


def _journalled(action: Journalled, state: AppState, now: float) -> Result:
    label = OF_THE_LIST.get(action.label, action.label)
    return replace(state, undoing=state.undoing.answered(action.number, label)), ()


def _journal_kept(action: JournalKept, state: AppState, now: float) -> Result:
    return replace(state, undoing=state.undoing.keeping(action.numbers)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    UndoHistory: _undo,
    RedoHistory: _redo,
    Journalled: _journalled,
    JournalKept: _journal_kept,
}
