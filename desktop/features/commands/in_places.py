"""Keys that one place answers: the input, the conversation's text, lists, controls."""

from __future__ import annotations

from llm_lite.desktop.features.commands.command import UserCommand
from llm_lite.desktop.language.translate import mark

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
