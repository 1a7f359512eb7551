"""A measurement under way, or why the last one did not come to its end."""

from __future__ import annotations

from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.quantization.model import StopTask
from llm_lite.desktop.features.quantization.state import TaskKind
from llm_lite.desktop.language.core_words import said_stage
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.language.units import capital, sentence
from llm_lite.desktop.widgets.ui import Ui
from llm_lite.desktop.widgets.widgets import button, progress, wrapped


def draw_work(state: AppState, ui: Ui, kind: TaskKind) -> list[Action]:
    """How far a task of this kind is, with a way to stop it."""
    work = state.quantization.work
    if work is None or work.kind != kind:
        if problem := state.quantization.problem(kind):
            wrapped(ui, sentence(problem), "error")
        return []
    progress(ui, capital(said_stage(work.stage)), work.fraction)
    if button(ui, f"quantization.stop.{kind}", tr("Stop"), enabled=not work.stopping):
        return [StopTask()]
    return []
