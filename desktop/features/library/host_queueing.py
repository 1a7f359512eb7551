"""What a person asks of the queue, as the change of its jobs that it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llm_lite.core.errors import RequestError
from llm_lite.core.hub.queue import commands
from llm_lite.core.hub.queue.jobs import Edit
from llm_lite.core.messages.library import LocalModel
from llm_lite.desktop.features.library import model as does
from llm_lite.desktop.features.library.model import (
    DismissEnded,
    FetchModel,
    JobAction,
    QuantizeModel,
    SliceModel,
)
from llm_lite.desktop.language.translate import tr

SLICE = "E2B"
_OF_JOBS: Mapping[type[object], Callable[[str], Edit]] = {
    does.PauseJob: commands.pause,
    does.ResumeJob: commands.resume,
    does.CancelJob: commands.cancel,
    does.RetryJob: commands.retry,
    does.DismissJob: commands.remove,
    does.UndoRemoval: commands.undo,
    does.RemoveNow: commands.delete_now,
    does.KeepSource: commands.keep_source,
}


def edit_of(
    action: FetchModel | QuantizeModel | SliceModel | JobAction, known: Mapping[str, LocalModel]
) -> Edit:
    """RequestError where it cannot be done."""
    if isinstance(action, FetchModel):
        return commands.fetch(
            action.repo,
            action.file,
            size=action.size,
            mode=action.mode,
            delete_source=action.delete_source,
            calibrate=action.calibrate,
        )
    if isinstance(action, QuantizeModel):
        model = _known(action.name, known)
        return commands.convert(
            model,
            mode=action.mode,
            delete_source=action.delete_source,
            calibrate=action.calibrate,
        )
    if isinstance(action, SliceModel):
        return commands.convert(_known(action.name, known), cut=SLICE)
    if isinstance(action, DismissEnded):
        return commands.clear
    return _OF_JOBS[type(action)](action.id)


def _known(name: str, known: Mapping[str, LocalModel]) -> LocalModel:
    if name not in known:
        raise RequestError(tr("{name} is not listed any more.").format(name=name))
    return known[name]
