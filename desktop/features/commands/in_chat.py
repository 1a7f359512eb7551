"""Commands of the chat and of the list of conversations."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.desktop.features.chat.model import (
    CancelEdit,
    ContinueAnswer,
    EditMessage,
    NewChat,
    Regenerate,
    SetForm,
    SetThinking,
    StopAnswer,
    UnfoldThought,
)
from llm_lite.desktop.features.commands.command import UserCommand
from llm_lite.desktop.features.history.menu import open_export
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    BeginRename,
    DeleteConversation,
    PinConversation,
    RedoHistory,
    ShowHistory,
    ShowShelf,
    UndoHistory,
)
from llm_lite.desktop.features.history.state import ConversationRow, Shelf
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.translator.model import StopTarget
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.widgets.ui import Ui


def _talks(state: AppState, ui: Ui) -> bool:
    """Tell whether there is a conversation, and a model that holds it."""
    return bool(state.messages) and state.holds_conversations


def _answered(state: AppState, ui: Ui) -> bool:
    last = state.messages[-1] if state.messages else None
    said = last is not None and last.role == "assistant"
    return said and not state.busy and state.holds_conversations


def _asked(state: AppState, ui: Ui) -> bool:
    return (
        not state.busy
        and state.holds_conversations
        and any(message.role in ("user", "text") for message in state.messages)
    )


def _edit_last(state: AppState, ui: Ui) -> list[Action]:
    asked = [at for at, message in enumerate(state.messages) if message.role in ("user", "text")]
    ui.ask("input")
    return [EditMessage(asked[-1])]


def _continue_text(state: AppState, ui: Ui) -> list[Action]:
    ui.ask("input")
    return [NewChat(), SetForm("completion")]


def _stop(state: AppState, ui: Ui) -> list[Action]:
    return [StopTarget() if state.translating.running else StopAnswer()]


def _focus_input(state: AppState, ui: Ui) -> list[Action]:
    ui.ask("input")
    return []


def _copy(state: AppState, ui: Ui) -> list[Action]:
    ui.ask("copy")
    return []


def _find(state: AppState, ui: Ui) -> list[Action]:
    ui.ask("find")
    return []


def _map(state: AppState, ui: Ui) -> list[Action]:
    ui.show_popover("tree.map")
    return []


def _exactly(state: AppState, ui: Ui) -> list[Action]:
    return [Regenerate(exactly=True)]


def _can_repeat(state: AppState, ui: Ui) -> bool:
    return _answered(state, ui) and state.messages[-1].sampling is not None


def _last_thought(state: AppState) -> int | None:
    thoughts = (at for at, m in reversed([*enumerate(state.messages)]) if m.thought)
    return next((at for at in thoughts if (t := state.messages[at].thought) and t.text), None)


def _unfold(state: AppState, ui: Ui) -> list[Action]:
    """Unfold the thoughts of the newest answer that has some, or fold them to a line."""
    at = _last_thought(state)
    if at is None or (thought := state.messages[at].thought) is None:
        return []
    return [UnfoldThought(at, not thought.unfolded)]


CHAT = (
    UserCommand("new_chat", mark("New chat"), "chat", lambda s, u: [NewChat()], ("Ctrl+N",)),
    UserCommand(
        "completion", mark("Continue a text"), "chat", _continue_text,
        when=lambda s, u: s.holds_conversations, words="completion base model raw",
    ),
    UserCommand("write", mark("Write a message"), "chat", _focus_input, ("Ctrl+L",)),
    UserCommand(
        "stop", mark("Stop the answer"), "chat", _stop,
        when=lambda s, u: s.busy,
    ),
    UserCommand(
        "regenerate", mark("Regenerate"), "chat", lambda s, u: [Regenerate()], ("Ctrl+R",),
        when=_answered, words="regenerate retry",
    ),
    UserCommand(
        "exactly", mark("Regenerate exactly"), "chat", _exactly, when=_can_repeat,
        words="same seed reproduce",
    ),
    UserCommand(
        "continue", mark("Continue the answer"), "chat", lambda s, u: [ContinueAnswer()],
        when=_answered,
    ),
    UserCommand(
        "edit_last", mark("Edit the last question"), "chat", _edit_last, ("Ctrl+E",), when=_asked
    ),
    UserCommand(
        "cancel_edit", mark("Cancel the edit"), "chat", lambda s, u: [CancelEdit()],
        when=lambda s, u: s.editing is not None,
    ),
    UserCommand(
        "copy_answer", mark("Copy the selection or the last answer as Markdown"), "chat", _copy,
        ("Ctrl+Shift+C",), when=_talks,
    ),
    UserCommand(
        "map", mark("A map of the conversation"), "chat", _map, ("Ctrl+G",),
        when=_talks, words="tree branches versions",
    ),
    UserCommand(
        "find", mark("Find in the conversation"), "chat", _find, ("Ctrl+F",),
        when=_talks, words="search",
    ),
    UserCommand(
        "thoughts", mark("Unfold or fold the last thoughts"), "chat", _unfold, ("Ctrl+T",),
        when=lambda s, u: _last_thought(s) is not None, words="thinking reasoning",
    ),
    UserCommand(
        "think_first", mark("Think first, or not"), "chat",
        lambda s, u: [SetThinking(not s.thinking)],
        when=lambda s, u: s.model is not None and s.model.switches_thinking,
    ),
)  # fmt: skip


def _has_open(state: AppState, ui: Ui) -> bool:
    return state.history.open is not None


def _open_row(state: AppState) -> ConversationRow | None:
    return next((row for row in state.history.rows if row.id == state.history.open), None)


def _toggle_list(state: AppState, ui: Ui) -> list[Action]:
    return [ShowHistory(not ui.shows_list)]


def _search(state: AppState, ui: Ui) -> list[Action]:
    ui.ask("search")
    return [] if ui.shows_list else [ShowHistory(True)]


def _rename(state: AppState, ui: Ui) -> list[Action]:
    return [ShowHistory(True), BeginRename(state.history.open)]


def _pin(state: AppState, ui: Ui) -> list[Action]:
    row = _open_row(state)
    return [PinConversation(row.id, not row.pinned)] if row is not None else []


def _archive(state: AppState, ui: Ui) -> list[Action]:
    number = state.history.open
    return [ArchiveConversation(number, True)] if number is not None else []


def _delete(state: AppState, ui: Ui) -> list[Action]:
    number = state.history.open
    return [DeleteConversation(number)] if number is not None else []


def _shelf(shelf: Shelf) -> Callable[[AppState, Ui], list[Action]]:
    return lambda state, ui: [ShowHistory(True), ShowShelf(shelf)]


def _export(state: AppState, ui: Ui) -> list[Action]:
    open_export(ui, _open_row(state))
    return [ShowHistory(True)]


def _import(state: AppState, ui: Ui) -> list[Action]:
    ui.show_popover("history.import")
    return [ShowHistory(True)]


CONVERSATIONS = (
    UserCommand(
        "list", mark("Show or hide the conversations"), "conversations", _toggle_list, ("Ctrl+B",),
        words="sidebar history",
    ),
    UserCommand(
        "search", mark("Search the conversations"), "conversations", _search, ("Ctrl+Shift+F",),
        words="find history",
    ),
    UserCommand(
        "rename", mark("Rename the conversation"), "conversations", _rename, ("F2",), _has_open
    ),
    UserCommand(
        "pin", mark("Pin the conversation, or unpin it"), "conversations", _pin,
        when=lambda s, u: _open_row(s) is not None,
    ),
    UserCommand(
        "archive", mark("Archive the conversation"), "conversations", _archive, when=_has_open
    ),
    UserCommand(
        "delete", mark("Delete the conversation"), "conversations", _delete, when=_has_open,
        words="trash remove",
    ),
    UserCommand(
        "undo", mark("Undo"), "conversations", lambda s, u: [UndoHistory()], ("Ctrl+Z",),
        while_typing=False, in_untouched_input=True,
    ),
    UserCommand(
        "redo", mark("Redo"), "conversations", lambda s, u: [RedoHistory()],
        ("Ctrl+Shift+Z", "Ctrl+Y"), while_typing=False, in_untouched_input=True,
    ),
    UserCommand(
        "all_conversations", mark("List all conversations"), "conversations", _shelf("all")
    ),
    UserCommand("archived", mark("List archived ones"), "conversations", _shelf("archived")),
    UserCommand("deleted", mark("List deleted ones"), "conversations", _shelf("deleted")),
    UserCommand(
        "export", mark("Export the conversation"), "conversations", _export,
        when=lambda s, u: _open_row(s) is not None, words="save markdown html json",
    ),
    UserCommand(
        "import", mark("Import conversations"), "conversations", _import, words="chatgpt lm studio"
    ),
)  # fmt: skip
