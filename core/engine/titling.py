"""A title for a conversation, made by the model when it is idle."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.errors import CancelledError, DeviceError, LlmLiteError
from llm_lite.core.generation.titles import make_title
from llm_lite.core.messages import MakeTitle


def entitle(host: ModelHost, command: MakeTitle, should_stop: Callable[[], bool]) -> str | None:
    """Return what the model in use answers, "" if it cannot, or None if it was interrupted. A
    DeviceError is handled here: the C++ executor takes over and reads the conversation again."""
    runner = host.runner
    if runner is None or should_stop():
        return None
    try:
        return make_title(runner, command.messages, should_stop)
    except CancelledError:
        return None
    except DeviceError as error:
        runner.session.clear()  # nobody knows whether the rows came back
        host.fall_back(error)
        return None
    except LlmLiteError:  # of no consequence: the title that is there stays
        return ""
