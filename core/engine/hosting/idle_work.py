"""What the engine does with the model in use while nobody asks for anything."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import Level


def work_while_idle(
    host: ModelHost, is_wanted: Callable[[], bool], log: Callable[[Level, str], None]
) -> bool:
    """A pass that measures what drafts cost, or else a slice of the files in use is checked, until
    `is_wanted` says that a command or a client waits; whether more is left."""
    try:
        return measure(host.runner, is_wanted) or host.verify_next()
    except Exception:  # a defect ends the measuring, and not the engine's thread
        log("error", f"internal error, please report it: {traceback.format_exc()}")
        if host.runner is not None and host.runner.session.speculation is not None:
            host.runner.session.speculation.timing = None
        return False


def measure(runner: Runner | None, is_wanted: Callable[[], bool]) -> bool:
    """A pass of the model in use; whether there was something to measure. NumPy's steps are long,
    end only between two ops, and are not there to be fast. An encoder-decoder has no text to go on
    with."""
    if runner is None or runner.choice.backend == "numpy" or runner.translator is not None:
        return False
    speculation = runner.session.speculation
    if speculation is None or speculation.timing is None:
        return False
    if not speculation.timing.step(runner.session, is_wanted):
        speculation.timing = None
    return True
