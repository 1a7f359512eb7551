"""All that a person can do by name or with a key: one row each, in the order in which they are
listed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import NO_CHANGES
from llm_lite.core.records import replace
from llm_lite.desktop.features.attention.model import ReadAgain, SetAttention
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
from llm_lite.desktop.features.commands.fields import open_address
from llm_lite.desktop.features.history.menu import open_export
from llm_lite.desktop.features.history.model import (
    ArchiveConversation,
    BeginRename,
    DeleteConversation,
    PinConversation,
    RedoHistory,
    ShowHistory,
    ShowHistoryPart,
    UndoHistory,
)
from llm_lite.desktop.features.history.state import ConversationRow, HistoryPart
from llm_lite.desktop.features.layouts.model import ShowInspector, UseLayout
from llm_lite.desktop.features.layouts.state import LayoutName
from llm_lite.desktop.features.lesson.model import ShowLesson
from llm_lite.desktop.features.library.model import ShowLibrary
from llm_lite.desktop.features.library.state import LibraryTab
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.model import (
    CancelLoading,
    ChooseFile,
    ClearLog,
    ResetLayout,
    SetFontSize,
    SetTheme,
)
from llm_lite.desktop.features.program.requests import hindrance, obstacle
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import ForgetReports, RunTask, StopTask
from llm_lite.desktop.features.quantization.state import TaskKind
from llm_lite.desktop.features.remote.model import Disconnect
from llm_lite.desktop.features.serving.model import SwitchServing
from llm_lite.desktop.features.steer.model import AnswerSteered, EndComparison, Steer
from llm_lite.desktop.features.tokens.model import SetXRay
from llm_lite.desktop.features.translator.model import StopTarget
from llm_lite.desktop.language.translate import mark
from llm_lite.desktop.system_theme import Appearance
from llm_lite.desktop.widgets.ui import Ui

Group = Literal["chat", "conversations", "layout", "panels", "look", "model", "compare", "program"]
Place = Literal["", "input", "text", "find", "list", "controls", "lesson"]
Run = Callable[[AppState, Ui], list[Action]]
GROUPS: dict[Group, str] = {
    "chat": mark("Chat"),
    "conversations": mark("Conversations"),
    "layout": mark("Layout"),
    "panels": mark("Panels"),
    "look": mark("Look inside"),
    "model": mark("Model"),
    "compare": mark("Measure and compare"),
    "program": mark("Program"),
}
PLACES: dict[Place, str] = {
    "": mark("Everywhere"),
    "input": mark("In the input"),
    "text": mark("In the conversation's text"),
    "find": mark("In the search of the conversation"),
    "list": mark("In lists"),
    "controls": mark("Among controls"),
    "lesson": mark("In the lesson"),
}


def always(state: AppState, ui: Ui) -> bool:
    return True


class UserCommand(Struct, frozen=True):
    """`keys` are chords; the first is shown. Where `place` is one, the keys work there
    only, and what is there answers them; such a row teaches, and has nothing to run."""

    name: str
    title: str  # marked for translation
    group: Group
    run: Run | None = None
    keys: tuple[str, ...] = ()
    when: Callable[[AppState, Ui], bool] = always
    place: Place = ""
    while_typing: bool = True  # its keys work in a field of text too
    in_untouched_input: bool = False  # and where not, then in the chat's input before it is used
    words: str = ""  # by which it is found too


def _open(popover: str) -> Run:
    def run(state: AppState, ui: Ui) -> list[Action]:
        ui.show_popover(popover)
        return []

    return run


def _request(what: str) -> Run:
    def run(state: AppState, ui: Ui) -> list[Action]:
        ui.request(what)
        return []

    return run


def _talks(state: AppState, ui: Ui) -> bool:
    """Tell whether there is a conversation, and a model that holds it."""
    return bool(state.messages) and state.holds_conversations


def _answered(state: AppState, ui: Ui) -> bool:
    last = state.messages[-1] if state.messages else None
    answer = last is not None and last.role == "assistant"
    return answer and not state.busy and state.holds_conversations


def _has_question(state: AppState, ui: Ui) -> bool:
    return (
        not state.busy
        and state.holds_conversations
        and any(message.role in ("user", "text") for message in state.messages)
    )


def _edit_last(state: AppState, ui: Ui) -> list[Action]:
    asked = [at for at, message in enumerate(state.messages) if message.role in ("user", "text")]
    ui.request("input")
    return [EditMessage(asked[-1])]


def _continue_text(state: AppState, ui: Ui) -> list[Action]:
    ui.request("input")
    return [NewChat(), SetForm("completion")]


def _stop(state: AppState, ui: Ui) -> list[Action]:
    return [StopTarget() if state.translating.running else StopAnswer()]


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
    UserCommand("write", mark("Write a message"), "chat", _request("input"), ("Ctrl+L",)),
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
        "edit_last", mark("Edit the last question"), "chat", _edit_last, ("Ctrl+E",),
        when=_has_question,
    ),
    UserCommand(
        "cancel_edit", mark("Cancel the edit"), "chat", lambda s, u: [CancelEdit()],
        when=lambda s, u: s.editing is not None,
    ),
    UserCommand(
        "copy_answer", mark("Copy the selection or the last answer as Markdown"), "chat",
        _request("copy"), ("Ctrl+Shift+C",), when=_talks,
    ),
    UserCommand(
        "map", mark("A map of the conversation"), "chat", _open("tree.map"), ("Ctrl+G",),
        when=_talks, words="tree branches versions",
    ),
    UserCommand(
        "find", mark("Find in the conversation"), "chat", _request("find"), ("Ctrl+F",),
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
    ui.request("search")
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


def _show_part(part: HistoryPart) -> Callable[[AppState, Ui], list[Action]]:
    return lambda state, ui: [ShowHistory(True), ShowHistoryPart(part)]


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
        "all_conversations", mark("List all conversations"), "conversations", _show_part("all")
    ),
    UserCommand("archived", mark("List archived ones"), "conversations", _show_part("archived")),
    UserCommand("deleted", mark("List deleted ones"), "conversations", _show_part("deleted")),
    UserCommand(
        "export", mark("Export the conversation"), "conversations", _export,
        when=lambda s, u: _open_row(s) is not None, words="save markdown html json",
    ),
    UserCommand(
        "import", mark("Import conversations"), "conversations", _import, words="chatgpt lm studio"
    ),
)  # fmt: skip


DEFAULT_FONT = 15.0  # logical pixels


def _use(name: LayoutName) -> Run:
    return lambda state, ui: [UseLayout(name)]


def _set_theme(appearance: Appearance) -> Run:
    return lambda state, ui: [SetTheme(appearance)]


def _toggle_inspector(state: AppState, ui: Ui) -> list[Action]:
    return [ShowInspector(not ui.shows_inspector)]


def _larger(by: float) -> Run:
    return lambda state, ui: [SetFontSize(state.font_size + by)]


LAYOUT = (
    UserCommand(
        "read", mark("Read: the conversations and the chat"), "layout", _use("read"), ("Ctrl+1",),
        words="layout",
    ),
    UserCommand(
        "inspect", mark("Inspect: the chat beside the inspector"), "layout", _use("inspect"),
        ("Ctrl+2",), words="layout",
    ),
    UserCommand(
        "compare", mark("Compare: the chat beside two runs"), "layout", _use("compare"),
        ("Ctrl+3",), words="layout a b runs",
    ),
    UserCommand(
        "inspector", mark("Show or hide the inspector"), "layout", _toggle_inspector,
        ("Ctrl+Shift+B",), words="panels sidebar",
    ),
    UserCommand("next_panel", mark("Next panel"), "layout", _request("next_panel"), ("F6",)),
    UserCommand(
        "previous_panel", mark("Previous panel"), "layout", _request("previous_panel"),
        ("Shift+F6",),
    ),
    UserCommand(
        "next_tab", mark("Next tab of the panel"), "layout", _request("next_tab"), ("Ctrl+Tab",)
    ),
    UserCommand(
        "previous_tab", mark("Previous tab of the panel"), "layout", _request("previous_tab"),
        ("Ctrl+Shift+Tab",),
    ),
    UserCommand(
        "reset_layout", mark("Reset the layout"), "layout", lambda s, u: [ResetLayout()],
        words="default panels",
    ),
)  # fmt: skip


def _xray(state: AppState, ui: Ui) -> list[Action]:
    return [SetXRay(replace(state.xray, shown=not state.xray.shown, at=None))]


def _large(state: AppState, ui: Ui) -> list[Action]:
    return [SetAttention(replace(state.attention, large=not state.attention.large))]


def _lesson(state: AppState, ui: Ui) -> list[Action]:
    return [ShowLesson(not state.lesson.shown)]


def _unlock(state: AppState, ui: Ui) -> list[Action]:
    return [SetAttention(replace(state.attention, locked=()))]


def _show_library(tab: LibraryTab | None) -> Run:
    return lambda state, ui: [ShowLibrary(True, tab)]


LOOK = (
    UserCommand(
        "xray", mark("X-ray: show the tokens, or the text"), "look", _xray, ("Ctrl+Shift+X",),
        when=lambda s, u: bool(s.messages), words="tokens",
    ),
    UserCommand(
        "large_heads", mark("Large view of the heads, or back"), "look", _large,
        ("Ctrl+Shift+A",), when=lambda s, u: u.maps is not None, words="attention maps",
    ),
    UserCommand(
        "lesson", mark("Follow one token: a lesson on this model"), "look", _lesson,
        ("Ctrl+Shift+L",), words="learn teach transformer explain how tutorial step",
    ),
    UserCommand(
        "unlock_heads", mark("Unlock all heads"), "look", _unlock,
        when=lambda s, u: bool(s.attention.locked), words="attention",
    ),
    UserCommand(
        "read_again", mark("Read this conversation again"), "look", lambda s, u: [ReadAgain()],
        when=lambda s, u: bool(s.messages) and not obstacle(s), words="cache refill",
    ),
    UserCommand(
        "unsteer", mark("End all interventions"), "look", lambda s, u: [Steer(NO_CHANGES)],
        when=lambda s, u: bool(s.steering.interventions), words="steer reset",
    ),
    UserCommand(
        "answer_steered", mark("Answer under these interventions"), "look",
        lambda s, u: [AnswerSteered()],
        when=lambda s, u: bool(s.steering.interventions and s.messages) and not obstacle(s),
    ),
    UserCommand(
        "end_comparison", mark("Show one answer only"), "look", lambda s, u: [EndComparison()],
        when=lambda s, u: s.comparing is not None,
    ),
)  # fmt: skip


def _connect(state: AppState, ui: Ui) -> list[Action]:
    open_address(ui)
    return []


MODEL = (
    UserCommand("models", mark("Models"), "model", _open("models"), ("Ctrl+M",), words="load"),
    UserCommand(
        "manage_models", mark("Manage models"), "model", _show_library(None), ("Ctrl+Shift+M",),
        words="library download hugging face local disk quantize delete import",
    ),
    UserCommand(
        "find_models", mark("Find models on the hub"), "model", _show_library("find"),
        words="search download hugging face library",
    ),
    UserCommand(
        "model_queue", mark("Queue of models"), "model", _show_library("queue"),
        words="downloads progress library",
    ),
    UserCommand(
        "connect", mark("Connect to a server"), "model", _connect,
        words="remote openai api vllm llama server lm studio url address",
    ),
    UserCommand(
        "disconnect", mark("Disconnect"), "model", lambda s, u: [Disconnect()],
        when=lambda s, u: s.elsewhere and not s.busy, words="remote server local",
    ),
    UserCommand(
        "open_file", mark("Open a model's file"), "model", lambda s, u: [ChooseFile()], ("Ctrl+O",),
        words="gguf load",
    ),
    UserCommand(
        "cancel_load", mark("Cancel the loading"), "model", lambda s, u: [CancelLoading()],
        when=lambda s, u: s.load is not None,
    ),
    UserCommand(
        "serving", mark("Serve this model…"), "model", _open("serving"),
        words="server openai api network address share port key",
    ),
    UserCommand(
        "stop_serving", mark("Stop serving"), "model", lambda s, u: [SwitchServing(False)],
        when=lambda s, u: s.serving.phase in ("starting", "on"),
    ),
    UserCommand(
        "sampler", mark("Sampling"), "model", _open("sampler"), ("Ctrl+P",),
        words="temperature presets",
    ),
    UserCommand(
        "system_prompt", mark("System prompt"), "model", _open("system_prompt"),
        words="instructions",
    ),
    UserCommand(
        "memory", mark("Context and KV cache"), "model", _open("memory"),
        words="context cache",
    ),
    UserCommand(
        "tools", mark("Tools"), "model", _open("tools"), words="functions mcp servers calls",
    ),
    UserCommand(
        "executor", mark("Where the model runs"), "model", _open("executor"),
        words="backend vulkan cpu weights",
    ),
)  # fmt: skip


def _task(kind: TaskKind) -> Run:
    return lambda state, ui: [RunTask(kind)]


def _can_measure(state: AppState, ui: Ui) -> bool:
    return state.quantization.work is None and not hindrance(state)


COMPARE = (
    UserCommand(
        "ask_both", mark("Ask both runs"), "compare", _task("runs"),
        when=lambda s, u: _can_measure(s, u)
        and s.holds_conversations
        and bool(s.quantization.choices.prompt.strip()),
    ),
    UserCommand(
        "measure_modes", mark("Measure the weight modes"), "compare", _task("modes"),
        when=_can_measure, words="speed quantization",
    ),
    UserCommand(
        "measure_step", mark("Measure a step"), "compare", _task("step"), when=_can_measure,
        words="profile performance",
    ),
    UserCommand(
        "study_kernels", mark("Measure the kernels"), "compare", _task("kernels"),
        when=_can_measure, words="matmul study performance roofline",
    ),
    UserCommand(
        "stop_task", mark("Stop the measurement"), "compare", lambda s, u: [StopTask()],
        when=lambda s, u: s.quantization.work is not None,
    ),
    UserCommand(
        "forget_reports", mark("Forget the reports"), "compare", lambda s, u: [ForgetReports()],
        when=lambda s, u: bool(s.quantization.reports),
    ),
)  # fmt: skip
PROGRAM = (
    UserCommand(
        "palette", mark("Command palette"), "program", _request("palette"), ("Ctrl+K",),
        words="find anything search",
    ),
    UserCommand(
        "shortcuts", mark("Keyboard shortcuts"), "program", _open("shortcuts"), ("F1",),
        words="keys help",
    ),
    UserCommand(
        "settings", mark("Settings"), "program", _open("settings"), ("Ctrl+,",),
        words="preferences options",
    ),
    UserCommand(
        "theme_system", mark("Use the system's theme"), "program", _set_theme("system"),
        words="dark light appearance",
    ),
    UserCommand(
        "theme_dark",
        mark("Use the dark theme"),
        "program",
        _set_theme("dark"),
        words="appearance night",
    ),
    UserCommand(
        "theme_light", mark("Use the light theme"), "program", _set_theme("light"),
        words="appearance day",
    ),
    UserCommand(
        "larger", mark("Larger text"), "program", _larger(1),
        ("Ctrl++", "Ctrl+Shift+=", "Ctrl+Keypad+"), words="zoom font size",
    ),
    UserCommand(
        "smaller", mark("Smaller text"), "program", _larger(-1), ("Ctrl+-", "Ctrl+Keypad-"),
        words="zoom font size",
    ),
    UserCommand(
        "font_size", mark("Reset the text size"), "program",
        lambda s, u: [SetFontSize(DEFAULT_FONT)], ("Ctrl+0",), words="zoom font reset",
    ),
    UserCommand(
        "clear_log", mark("Clear the log"), "program", lambda s, u: [ClearLog()],
        when=lambda s, u: bool(s.log),
    ),
)  # fmt: skip

# Keys that one place answers: the input, the conversation's text, lists, controls.
PLACED = (
    UserCommand("send", mark("Send"), "chat", keys=("Enter",), place="input"),
    UserCommand("break_line", mark("New line"), "chat", keys=("Shift+Enter",), place="input"),
    UserCommand(
        "escape", mark("Stop the answer, end the edit"), "chat", keys=("Esc",), place="input"
    ),
    UserCommand("find_next", mark("Next match"), "chat", keys=("Enter",), place="find"),
    UserCommand(
        "find_before", mark("Previous match"), "chat", keys=("Shift+Enter",), place="find"
    ),
    UserCommand("find_close", mark("Close the search"), "chat", keys=("Esc",), place="find"),
    UserCommand("copy", mark("Copy the selection"), "chat", keys=("Ctrl+C",), place="text"),
    UserCommand(
        "select_all", mark("Select the message, then all"), "chat", keys=("Ctrl+A",), place="text"
    ),
    UserCommand(
        "select_left", mark("Select a character less"), "chat", keys=("Shift+Left",), place="text"
    ),
    UserCommand(
        "select_right", mark("Select a character more"), "chat", keys=("Shift+Right",), place="text"
    ),
    UserCommand(
        "select_word_left", mark("Select a word less"), "chat", keys=("Ctrl+Shift+Left",),
        place="text",
    ),
    UserCommand(
        "select_word_right", mark("Select a word more"), "chat", keys=("Ctrl+Shift+Right",),
        place="text",
    ),
    UserCommand(
        "select_up", mark("Select a line less"), "chat", keys=("Shift+Up",), place="text"
    ),
    UserCommand(
        "select_down", mark("Select a line more"), "chat", keys=("Shift+Down",), place="text"
    ),
    UserCommand(
        "select_line_start", mark("Select to the start of the line"), "chat", keys=("Shift+Home",),
        place="text",
    ),
    UserCommand(
        "select_line_end", mark("Select to the end of the line"), "chat", keys=("Shift+End",),
        place="text",
    ),
    UserCommand(
        "select_text_start", mark("Select to the start of the conversation"), "chat",
        keys=("Ctrl+Shift+Home",), place="text",
    ),
    UserCommand(
        "select_text_end", mark("Select to the end of the conversation"), "chat",
        keys=("Ctrl+Shift+End",), place="text",
    ),
    UserCommand(
        "row_menu", mark("Menu of the conversation"), "conversations", keys=("Delete",),
        place="list",
    ),
    UserCommand("next_control", mark("Next control"), "layout", keys=("Tab",), place="controls"),
    UserCommand(
        "previous_control", mark("Previous control"), "layout", keys=("Shift+Tab",),
        place="controls",
    ),
    UserCommand("press", mark("Press the control"), "layout", keys=("Space",), place="controls"),
    UserCommand(
        "close", mark("Close what is open, back to the input"), "layout", keys=("Esc",),
        place="controls",
    ),
    UserCommand(
        "lesson_next", mark("Next step"), "look", keys=("Right",), place="lesson"
    ),
    UserCommand(
        "lesson_before", mark("Previous step"), "look", keys=("Left",), place="lesson"
    ),
    UserCommand(
        "lesson_play", mark("Play the picture, or hold it"), "look", keys=("Space",),
        place="lesson",
    ),
)  # fmt: skip

COMMANDS: tuple[UserCommand, ...] = (
    *CHAT,
    *CONVERSATIONS,
    *LAYOUT,
    *LOOK,
    *MODEL,
    *COMPARE,
    *PROGRAM,
    *PLACED,
)
BY_NAME = {command.name: command for command in COMMANDS}
GLOBAL = tuple(command for command in COMMANDS if command.keys and not command.place)
