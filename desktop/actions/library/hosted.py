"""The actions that the host of models does: those that need a disk, a network or the queue."""

from __future__ import annotations

from llm_lite.desktop.actions.library.changing import (
    CancelJob,
    FetchModel,
    ImportLocal,
    PauseJob,
    QuantizeModel,
    RemoveModels,
    ResumeJob,
    RevealModel,
    SliceModel,
    TellImported,
    VerifyModel,
    WeighRemoval,
)
from llm_lite.desktop.actions.library.showing import ListModels, ReadRepo, SearchHub, ShowLibrary

QueueAction = FetchModel | QuantizeModel | SliceModel | PauseJob | ResumeJob | CancelJob | RemoveModels
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
