"""The sandbox itself: requests from standard input, answers to standard output, until it ends.

Started by `process`, in no other way. Nothing a request does ends the loop but the end of the
process: what a library throws, panics of native code included, becomes an answer.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from llm_lite.core.text.sandbox.frames import read_frame, write_frame
from llm_lite.core.text.sandbox.limits import Limits, confine, limited
from llm_lite.core.text.sandbox.templates import Templates
from llm_lite.core.text.sandbox.tokenizers import LoadedTokenizers

_MOST_BYTES = 1 << 30  # of a request, which comes from the program

Answer = dict[str, Any]


def main() -> None:
    requests, answers = _streams()
    confine()
    gc.freeze()
    gc.set_threshold(200_000)  # a vocabulary is a million objects and no cycle
    templates, tokenizers = Templates(), LoadedTokenizers()
    actions: dict[str, Callable[[dict[str, Any], bytes], Answer]] = {
        "check template": lambda request, _: templates.check(request),
        "render template": lambda request, _: templates.render(request),
        "load tokenizer": tokenizers.load_file,
        "load pairs": tokenizers.load_pairs,
        "encode": lambda request, _: tokenizers.encode(request),
    }
    write_frame(answers, {"ready": True})
    while (frame := read_frame(requests, _MOST_BYTES)) is not None:
        request, data = frame
        answer = _answer(actions[request["action"]], request, data)
        write_frame(answers, answer)


def _answer(
    action: Callable[[dict[str, Any], bytes], Answer], request: dict[str, Any], data: bytes
) -> Answer:
    with limited(Limits(**request["limits"])):
        try:
            return action(request, data)
        except BaseException as error:  # panics of native code are no Exception
            return {"failed": str(error).strip().split("\n")[0][:300] or type(error).__name__}


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """The two pipes; what is printed from now on is lost."""
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdin = sys.stdout = sys.stderr = None
    return requests, answers
