"""The actions that the host of models does: those that need a disk, a network or the queue."""

from __future__ import annotations

from llm_lite.desktop.features.library.changing import (
    CancelJob,
    DismissEnded,
    DismissJob,
    FetchModel,
    ImportLocal,
    KeepSource,
    PauseJob,
    QuantizeModel,
    RemoveModels,
    RemoveNow,
    ResumeJob,
    RetryJob,
    RevealModel,
    SliceModel,
    TellImported,
    UndoRemoval,
    VerifyModel,
    WeighRemoval,
)
from llm_lite.desktop.features.library.model import ListModels, ReadRepo, SearchHub, ShowLibrary

JobAction = (
    PauseJob
    | ResumeJob
    | CancelJob
    | RetryJob
    | DismissJob
    | DismissEnded
    | UndoRemoval
    | RemoveNow
    | KeepSource
)
QueueAction = FetchModel | QuantizeModel | SliceModel | RemoveModels | JobAction
LibraryHostAction = (
    ShowLibrary
    | ListModels
    | TellImported
    | SearchHub
    | ReadRepo
    | VerifyModel
    | WeighRemoval
    | ImportLocal
    | RevealModel
    | QueueAction
)
