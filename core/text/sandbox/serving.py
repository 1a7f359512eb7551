"""The loop of a separate process: requests from standard input, answers to standard output.

Nothing a request does ends the loop but the end of the process: what a library throws, panics of
native code included, becomes an answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from llm_lite.core.text.sandbox.frames import read_frame, write_frame
from llm_lite.core.text.sandbox.limits import Limits, confine, limited

_MOST_BYTES = 1 << 30  # of a request, which comes from the program

Answer = dict[str, Any]
Action = Callable[[dict[str, Any], bytes], Answer]


def serve(prepare: Callable[[], Mapping[str, Action]]) -> None:
    """Answer requests until their end, by the actions that `prepare` returns."""
    requests, answers = take_streams()
    confine()
    actions = prepare()
    write_frame(answers, {"ready": True})
    while (frame := read_frame(requests, _MOST_BYTES)) is not None:
        request, data = frame
        write_frame(answers, _answer(actions[request["action"]], request, data))


def _answer(action: Action, request: dict[str, Any], data: bytes) -> Answer:
    with limited(Limits(**request["limits"])):
        try:
            return action(request, data)
        except BaseException as error:  # panics of native code are no Exception
            return {"failed": str(error).strip().split("\n")[0][:300] or type(error).__name__}


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the two pipes; what is printed from now on is lost."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdin = sys.stdout = sys.stderr = None
    return requests, answers
