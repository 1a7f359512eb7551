"""All actions of all views, and the pure `act` that carries one out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import KeepConversation, Stop
from llm_lite.core.records import replace
from llm_lite.desktop.actions import (
    caching,
    chatting,
    connecting,
    fitting,
    forking,
    history,
    inspecting,
    learned_drafts,
    program,
    quantizing,
    resuming,
    undoing,
)
from llm_lite.desktop.actions.caching import CacheAction
from llm_lite.desktop.actions.chatting import ChatAction
from llm_lite.desktop.actions.composing import attaching, counting, presets, prompts
from llm_lite.desktop.actions.composing.attaching import AttachingAction
from llm_lite.desktop.actions.composing.presets import PresetAction
from llm_lite.desktop.actions.composing.prompts import PromptAction
from llm_lite.desktop.actions.connecting import ConnectAction
from llm_lite.desktop.actions.fitting import FitAction
from llm_lite.desktop.actions.forking import ForkAction
from llm_lite.desktop.actions.history import HistoryAction
from llm_lite.desktop.actions.inspecting import InsideAction
from llm_lite.desktop.actions.learned_drafts import LearnedAction
from llm_lite.desktop.actions.lesson import following
from llm_lite.desktop.actions.lesson.following import LessonAction
from llm_lite.desktop.actions.library import changing, installing, showing
from llm_lite.desktop.actions.library.changing import ChangingAction
from llm_lite.desktop.actions.library.installing import InstallAction
from llm_lite.desktop.actions.library.showing import ShowingAction
from llm_lite.desktop.actions.program import ProgramAction
from llm_lite.desktop.actions.quantizing import QuantAction
from llm_lite.desktop.actions.requests import Result
from llm_lite.desktop.actions.resuming import ResumeAction
from llm_lite.desktop.actions.serving import switching
from llm_lite.desktop.actions.serving.switching import ServingAction
from llm_lite.desktop.actions.texts import encoding, tokenizing, translating
from llm_lite.desktop.actions.texts.encoding import EncodingAction
from llm_lite.desktop.actions.texts.tokenizing import TokenizingAction
from llm_lite.desktop.actions.texts.translating import TranslatingAction
from llm_lite.desktop.actions.tools import calling
from llm_lite.desktop.actions.tools import declaring as tools
from llm_lite.desktop.actions.tools.calling import CallAction
from llm_lite.desktop.actions.tools.declaring import ToolAction
from llm_lite.desktop.actions.undoing import UndoAction
from llm_lite.desktop.actions.window import files, layouts, palette
from llm_lite.desktop.actions.window.files import FilesAction
from llm_lite.desktop.actions.window.layouts import LayoutAction
from llm_lite.desktop.actions.window.palette import PaletteAction
from llm_lite.desktop.state import defects
from llm_lite.desktop.state.defects import ReportDefect
from llm_lite.desktop.state.sampling.asked import settled
from llm_lite.desktop.state.state import AppState

Action = (
    ChatAction
    | HistoryAction
    | ProgramAction
    | InsideAction
    | LessonAction
    | EncodingAction
    | ForkAction
    | FitAction
    | ConnectAction
    | ShowingAction
    | ChangingAction
    | LayoutAction
    | PaletteAction
    | FilesAction
    | InstallAction
    | CacheAction
    | QuantAction
    | PresetAction
    | AttachingAction
    | PromptAction
    | ToolAction
    | CallAction
    | UndoAction
    | ResumeAction
    | LearnedAction
    | ServingAction
    | TokenizingAction
    | TranslatingAction
    | ReportDefect
)


def act(action: Action, state: AppState, now: float) -> Result:
    """The state after `action`, and what the engine must be told."""
    if type(action) not in _HANDLERS:
        raise TypeError(f"not an action: {action!r}")
    after, commands = _HANDLERS[type(action)](action, state, now)
    after = showing.leaving(action, undoing.noted(action, state, after, now))
    after = following.leaving(action, after)
    after, commands = resuming.leaving(action, state, (after, commands))
    after, told = inspecting.tell_gains(settled(state, after))
    if not told:
        return after, commands
    # What stops an answer or keeps its cache is of the gains before, all else of these.
    first = tuple(c for c in commands if isinstance(c, Stop | KeepConversation))
    return after, (*first, *told, *(c for c in commands if c not in first))


def due(state: AppState) -> Result:
    """What had to wait for the engine and can be sent now; after every batch of events."""
    state, commands = inspecting.tell_gains(state)
    state, asked = inspecting.compare_gains(state)
    commands = (*commands, *asked)
    state, asked = resuming.due(state)
    commands = (*commands, *asked)
    state, asked = counting.count_due(state)
    commands = (*commands, *asked)
    state, counts = attaching.count_due(state)
    state, served = switching.due(state)
    state, texts = encoding.encode_due(state)
    commands = (*commands, *counts, *served, *texts)
    if state.queued is None or state.draining is not None:
        return state, commands
    return replace(state, queued=None), (*commands, state.queued)


_HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    **chatting.HANDLERS,
    **program.HANDLERS,
    **inspecting.HANDLERS,
    **following.HANDLERS,
    **encoding.HANDLERS,
    **forking.HANDLERS,
    **fitting.HANDLERS,
    **connecting.HANDLERS,
    **layouts.HANDLERS,
    **palette.HANDLERS,
    **files.HANDLERS,
    **installing.HANDLERS,
    **showing.HANDLERS,
    **changing.HANDLERS,
    **caching.HANDLERS,
    **quantizing.HANDLERS,
    **history.HANDLERS,
    **presets.HANDLERS,
    **attaching.HANDLERS,
    **prompts.HANDLERS,
    **tools.HANDLERS,
    **calling.HANDLERS,
    **undoing.HANDLERS,
    **resuming.HANDLERS,
    **learned_drafts.HANDLERS,
    **switching.HANDLERS,
    **tokenizing.HANDLERS,
    **translating.HANDLERS,
    **defects.HANDLERS,
}
