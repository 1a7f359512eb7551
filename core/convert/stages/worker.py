"""The process of a stage: it reads one task from standard input, runs it and ends."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from llm_lite.core import system_errors
from llm_lite.core.convert.stages.report import StageReport
from llm_lite.core.errors import CancelledError, FileError, LlmLiteError, RequestError
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.hub.queue.queue_file import lock_of

_NICENESS = 5  # the window and an answer go first
_OTHER_SECONDS = 15.0  # in which the process of a killed program has ended
_LONGEST_TASK = 1 << 20  # bytes

Task = Mapping[str, Any]


def main() -> None:
    tasks, messages = _streams()
    task = json.loads(tasks.readline(_LONGEST_TASK))
    report = StageReport(tasks, messages)
    with contextlib.suppress(OSError, AttributeError):
        os.nice(_NICENESS)
    report.send(_outcome(task, report))
    messages.flush()
    os._exit(0)  # threads of libraries are not waited for


def _outcome(task: Task, report: StageReport) -> dict[str, Any]:
    folder = Path(task["folder"])
    try:
        with _alone(folder):
            return {"finished": _named(_STAGES[task["stage"]](task, report))}
    except CancelledError:
        return {"stopped": True}
    except LlmLiteError as error:
        return {"failed": str(error)}
    except BaseException as error:
        sentence = system_errors.sentence(error)
        return {"failed": sentence or _defect(error, folder)}


def _named(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result with the name by which commands know the model that was made."""
    if "path" in result:
        from llm_lite.core.hub.local.listing import local_models

        path = Path(result["path"])
        names = [model.name for model in local_models() if model.path == path]
        return {**result, "name": names[0] if names else path.name}
    return result


@contextlib.contextmanager
def _alone(folder: Path) -> Any:
    """Wait until no other stage of this queue runs: one whose program was killed ends by itself."""
    make_folder(folder)
    lock = lock_of(folder, "stage")
    try:
        lock.acquire(timeout=_OTHER_SECONDS)
    except TimeoutError:
        raise RequestError("the process of another stage still runs; retry when it ended") from None
    try:
        yield
    finally:
        lock.release()


def _defect(error: BaseException, folder: Path) -> str:
    """Return a sentence on an error that is a defect of the program, and write its traceback."""
    path = folder / "defect.txt"
    what = f"a defect of the program: {type(error).__name__}: {error}"
    try:
        text = "".join(traceback.format_exception(error))
        write_file(path, text.encode(errors="replace"), private=True)
    except FileError:
        return what
    return f"{what} (where it was is in {path})"


def _download(task: Task, report: StageReport) -> dict[str, Any]:
    from llm_lite.core.convert.stages.fetching import download

    return download(task, report)


def _slice(task: Task, report: StageReport) -> dict[str, Any]:
    from llm_lite.core.convert.stages.making import cut

    return cut(task, report)


def _quantize(task: Task, report: StageReport) -> dict[str, Any]:
    from llm_lite.core.convert.stages.making import convert

    return convert(task, report)


def _delete_source(task: Task, report: StageReport) -> dict[str, Any]:
    from llm_lite.core.convert.stages.deleting import delete_source

    return delete_source(task, report)


def _delete(task: Task, report: StageReport) -> dict[str, Any]:
    from llm_lite.core.convert.stages.deleting import delete

    return delete(task, report)


_STAGES: Mapping[str, Callable[[Task, StageReport], dict[str, Any]]] = {
    "download": _download,
    "slice": _slice,
    "quantize": _quantize,
    "delete source": _delete_source,
    "delete": _delete,
}


def _streams() -> tuple[BinaryIO, BinaryIO]:
    """Return the pipes of tasks and of messages; what libraries print is discarded."""
    tasks, messages = os.fdopen(os.dup(0), "rb", 0), os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    sys.stdin = sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
    return tasks, messages
