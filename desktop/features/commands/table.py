"""All that a person can do by name or with a key, in the order in which it is listed."""

from __future__ import annotations

from llm_lite.desktop.features.commands.command import UserCommand
from llm_lite.desktop.features.commands.in_chat import CHAT, CONVERSATIONS
from llm_lite.desktop.features.commands.in_places import PLACED
from llm_lite.desktop.features.commands.in_program import LAYOUT, PROGRAM
from llm_lite.desktop.features.commands.inside import COMPARE, LOOK, MODEL

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
