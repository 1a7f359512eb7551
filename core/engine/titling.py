"""A title for a conversation, made by the model when it is idle."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.errors import DeviceError, LlmLiteError
from llm_lite.core.generation.answer import Emit
from llm_lite.core.generation.titles import make_title
from llm_lite.core.messages import MakeTitle, TitleMade


def entitle(
    host: ModelHost, command: MakeTitle, emit: Emit, should_stop: Callable[[], bool]
) -> None:
    """Make a title and emit TitleMade in any case. A DeviceError is handled here: the C++ executor
    takes over and reads the conversation again."""
    text: str | None = None
    runner = host.runner
    if runner is not None and runner.translator is None and not should_stop():
        try:
            text = make_title(runner, command.messages, should_stop)
        except DeviceError as error:
            runner.session.clear()  # nobody knows whether the rows came back
            host.fall_back(error)
        except LlmLiteError:  # of no consequence: the title that is there stays
            text = ""
    emit(TitleMade(command.conversation, text))
