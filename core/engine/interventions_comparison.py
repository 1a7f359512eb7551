"""Measures over a whole answer how far interventions move what a model would say.

Both settings read the same answer (teacher forcing), so that their distributions can be compared
token by token, although the answers that were written with them part long before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.engine.cache_restoring import cache_restored
from llm_lite.core.engine.task_context import TaskContext
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.prompt import encode, encode_raw
from llm_lite.core.messages import AnswerDivergence, CompareAnswer
from llm_lite.core.metrics.divergence import compare
from llm_lite.core.questions.interventions.live import intervene, live_of

ROOM = 128 << 20  # bytes of the first setting's logits, which are held until the second has its own
LONGEST_STEP = 32  # tokens


def compare_answer(task: CompareAnswer, context: TaskContext) -> None:
    """Score the answer under both settings; the chat's session is returned with the interventions
    and the tokens that it had. RequestError where one cannot act while the model writes,
    CancelledError where it is cancelled."""
    session, file = context.runner.session, context.file
    for one in task.interventions:  # refused before anything runs
        live_of(context.runner, one)
    asked = task.asked
    if asked.raw:
        prompt = encode_raw(file.tokenizer, asked.messages).ids
    else:
        encoded = encode(file, asked.messages, False, asked.thinking, asked.tools, asked.values)
        prompt = encoded.ids
    row = 4 * session.executor.program.vocabulary
    count = min(len(task.tokens), max(1, ROOM // row), session.context - len(prompt))
    if count <= 0:
        raise RequestError("there is no answer to compare, or it is not in the context")
    answer = task.tokens[:count]
    with cache_restored(context):
        context.emit(AnswerDivergence(_divergence(task, context, prompt, answer)))


def _divergence(
    task: CompareAnswer, context: TaskContext, prompt: list[int], answer: tuple[int, ...]
) -> tuple[float, ...]:
    session, first = context.runner.session, len(prompt) - 1
    step = min(LONGEST_STEP, session.max_outputs)
    known, found = list[NDArray[np.float32]](), list[float]()
    for number, interventions in enumerate(task.interventions):
        intervene(context.runner, interventions, throughout=True)
        at = 0
        for rows in session.score([*prompt, *answer[:-1]], first, step, _stop(context)):
            if number:
                targets = np.asarray(answer[at : at + len(rows)], np.int64)
                found += compare(known.pop(0), rows, targets).kld.tolist()
            else:
                known.append(rows)
            at += len(rows)
            context.between()
    return tuple(found)


def _stop(context: TaskContext) -> Callable[[], bool]:
    return lambda: context.should_stop() or context.closing()
