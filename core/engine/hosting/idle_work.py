"""What the engine does with the model in use while nobody asks for anything."""

from __future__ import annotations

from collections.abc import Callable

from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.loading.runner import Runner


def work_while_idle(host: ModelHost, is_wanted: Callable[[], bool]) -> bool:
    """A pass that measures what drafts cost, or else a slice of the files in use is checked, until
    `is_wanted` says that a command waits; whether more is left."""
    return measure(host.runner, is_wanted) or host.verify_next()


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
