"""What a fuzzer is: a door through which data from outside enters, and cases that try it.

A case is made from the door's name and its number alone, so that a number repeats it. What comes of
a case is judged here: a result, a sentence, or a failure.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.plain_text import one_line

Outcome = Literal[
    "ok", "sentence", "traceback", "signal", "hang", "memory", "non-finite", "outside"
]
FAILURES: tuple[Outcome, ...] = (
    *("traceback", "signal", "hang", "memory", "non-finite", "outside"),
)
SECONDS = 5.0  # that a case may take
MEMORY_BYTES = 256 << 20  # that a case may add to the memory of its process
LONGEST_SENTENCE = 5000  # characters: a path may have 4096

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
_NO_SENTENCE = re.compile(
    r"\bNone\b"  # an error without a text, written as if it had one
    r"|\b\w+(?:Error|Exception|Exit|Interrupt)\("  # the repr of an exception of Python
    r"|Traceback|<[\w.]+ object at 0x|\bpanicked at\b"
)


@dataclass(frozen=True, slots=True)
class Case:
    number: int
    rng: random.Random
    folder: Path  # empty; nothing may be written outside of it


@dataclass(frozen=True, slots=True)
class Result:
    """What a case gave: numbers for a person, and whether a warning came with them."""

    arrays: Sequence[Any] = ()
    warned: bool = False


@dataclass(frozen=True)
class Door:
    """`use` tries a case: it returns, or raises LlmLiteError with a sentence. `prepare` is called
    once in each process, before the first case; what `use` needs is imported by it."""

    name: str
    use: Callable[[Case], Result | None]
    prepare: Callable[[], object] = field(default=lambda: None)
    seconds: float = SECONDS
    memory_bytes: int = MEMORY_BYTES
    quotes: tuple[str, ...] = ()  # what stands before words that are a file's own, not ours


@dataclass(frozen=True, slots=True)
class Judged:
    outcome: Outcome
    detail: str = ""


class OutsideError(BaseException):
    """A case tried to write outside its folder. No Exception, so that nothing takes it for one."""


def case_of(door: Door, number: int, folder: Path) -> Case:
    return Case(number, random.Random(f"{door.name} {number}"), folder)


def judge(door: Door, case: Case) -> Judged:
    """Try a case in this process. What ends the process, or never ends, is for the runner."""
    try:
        with np.errstate(all="ignore"):  # values may be anything
            result = door.use(case)
    except LlmLiteError as error:
        problem = problem_of_sentence(str(error), door.quotes)
        return Judged("traceback", f"{problem}: {error}") if problem else Judged("sentence")
    except OutsideError as error:
        return Judged("outside", str(error))
    except MemoryError as error:
        return Judged("memory", _where(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # panics of Rust are no Exceptions
        return Judged("traceback", _where(error))
    if result and not result.warned and not all(map(_finite, result.arrays)):
        return Judged("non-finite", "a result that is not finite, without an error or a warning")
    return Judged("ok")


def problem_of_sentence(text: str, quotes: tuple[str, ...] = ()) -> str:
    """What is wrong with the text of an error; "" where it is a sentence for a person."""
    if not text.strip():
        return "an empty sentence"
    if len(text.splitlines()) > 1:
        return "more than one line"
    if one_line(text) != text:
        return "characters that a terminal obeys"
    if len(text) > LONGEST_SENTENCE:
        return f"{len(text)} characters"
    ours = min((text[: text.find(q) + len(q)] for q in quotes if q in text), default=text)
    own = _QUOTED.sub("", ours)
    if found := _NO_SENTENCE.search(own):
        return f"{found[0]!r} in a sentence"
    return "" if len(own.split()) > 2 else "no sentence"


def _finite(array: Any) -> bool:
    return bool(np.isfinite(np.asarray(array, np.float64)).all())


def _where(error: BaseException) -> str:
    """The error, and the last line of ours that it came through: the fuzzer's own, if it judged."""
    place, trace = "", error.__traceback__
    judges = isinstance(error, AssertionError)
    while trace is not None:
        name = Path(trace.tb_frame.f_code.co_filename)
        if name.parent.name == "fuzz" and judges:
            place = f" at {name.name}:{trace.tb_lineno}"
        elif name.parent.name != "fuzz" and not {"core", "desktop"}.isdisjoint(name.parts):
            place = f" at {'/'.join(name.parts[-2:])}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__name__}: {str(error)[:300]}{place}"
