"""Lines of a conversation, read and answered until the person leaves."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.cli.conversation.commands import COMMANDS, is_command, run_command
from llm_lite.cli.conversation.conversation import Conversation, checked
from llm_lite.cli.conversation.editor import make_editor
from llm_lite.cli.terminal import interrupts
from llm_lite.cli.terminal.output import say, warn
from llm_lite.core.errors import LlmLiteError


def converse(talk: Conversation) -> None:
    """Read lines and answer them until the person leaves."""
    say(
        f"{talk.model.name} on {talk.executor.device}. "
        "Ctrl-C stops an answer, Ctrl-D leaves, /help says what else there is."
    )
    if talk.completes:
        why = "" if talk.model.has_chat_template else f"{talk.model.name} has no chat template: "
        say(
            f"{why}what you type is one text with what the model writes, which it continues; "
            "/form chat asks it in questions and answers."
        )
    read = make_editor(COMMANDS)
    while not talk.over:
        line = _read(read, talk)
        if line is None:
            return
        try:
            if is_command(line):
                run_command(talk, line)
            elif line.strip():
                talk.ask(checked(line.removeprefix("/") if line.startswith("//") else line))
        except LlmLiteError as error:
            warn(str(error))
        except KeyboardInterrupt:  # the second one during an answer, or one between two answers
            interrupts.answered()
            say("")


def _read(read: Callable[[str], str], talk: Conversation) -> str | None:
    """A line, "" where it was cleared or is no text; None at the end."""
    draft, talk.draft = talk.draft, ""
    try:
        return read(draft)
    except EOFError:
        say("")
        return None
    except KeyboardInterrupt:
        interrupts.answered()
        say("")
        return ""
    except LlmLiteError as error:
        warn(str(error))
        return ""
