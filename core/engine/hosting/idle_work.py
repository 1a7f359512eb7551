"""Work that the engine does with the loaded model while it is idle."""

from __future__ import annotations

import traceback
from collections.abc import Callable

from llm_lite.core.engine.hosting.model_host import ModelHost
from llm_lite.core.errors import LlmLiteError
from llm_lite.core.generation.speculation import ngram_file as learned_files
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import DraftsLearned, Event, Level


def work_while_idle(
    host: ModelHost,
    is_wanted: Callable[[], bool],
    log: Callable[[Level, str], None],
    emit: Callable[[Event], None],
) -> bool:
    """Do one unit of idle work and return True if more is left: measure what drafts cost, or else
    let drafts learn from an answer, or else check a slice of the files in use; it stops when
    `is_wanted` returns True for a command or a client."""
    try:
        if measure(host.runner, is_wanted) or learn(host.runner, emit):
            return True
        return host.verify_next()
    except Exception:  # a defect ends the measuring, and not the engine's thread
        log("error", f"internal error, please report it: {traceback.format_exc()}")
        if host.runner is not None and host.runner.session.speculation is not None:
            host.runner.session.speculation.timing = None
            host.runner.session.speculation.learned = None
        return False


def measure(runner: Runner | None, is_wanted: Callable[[], bool]) -> bool:
    """Run one pass that measures what drafts cost; return True if there was something to measure.
    NumPy's steps are not timed, as they are long and end only between two ops, nor are those of an
    encoder-decoder, which has no text to continue."""
    if runner is None or runner.choice.backend == "numpy" or not runner.model_info.continues:
        return False
    speculation = runner.session.speculation
    if speculation is None or speculation.timing is None:
        return False
    if not speculation.timing.step(runner.session, is_wanted):
        speculation.timing = None
    return True


def learn(runner: Runner | None, emit: Callable[[Event], None]) -> bool:
    """Read what drafts learned before, learn an answer or write what was learned; whether there was
    any of these to do. If drafts learn nothing, the files on disk are reported once."""
    if runner is None:
        return False
    learned, is_told = runner.learned, runner.learned_told
    runner.learned_told = True
    if learned is None and (is_told or not learned_files.disk_bytes()):
        return False
    if learned is not None and not learned.work():
        return False
    emit_learned(runner, emit)
    return True


def emit_learned(runner: Runner | None, emit: Callable[[Event], None]) -> None:
    model = runner.learned.model if runner is not None and runner.learned is not None else None
    answers, tokens = (model.answers, model.tokens) if model is not None else (0, 0)
    emit(DraftsLearned(answers, tokens, learned_files.disk_bytes()))


def forget_learned_drafts(
    runner: Runner | None, log: Callable[[Level, str], None], emit: Callable[[Event], None]
) -> None:
    """Delete what drafts learned of all models, in memory and on disk; a failure is logged."""
    if runner is not None and runner.learned is not None:
        runner.learned.forget()
    try:
        freed = learned_files.remove_all()
        log("info", f"what drafts learned from answers was deleted: {freed / 1e6:.1f} MB")
    except LlmLiteError as error:
        log("warning", str(error))
    emit_learned(runner, emit)
