"""All actions of all views, and the pure `act` that carries one out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import KeepConversation, Stop
from llm_lite.core.records import replace
from llm_lite.desktop.features.attachments import counting
from llm_lite.desktop.features.attachments import model as attaching
from llm_lite.desktop.features.attachments.model import AttachingAction
from llm_lite.desktop.features.attention import model as inspecting
from llm_lite.desktop.features.attention.model import InsideAction
from llm_lite.desktop.features.cache import model as caching
from llm_lite.desktop.features.cache.model import CacheAction
from llm_lite.desktop.features.chat import model as chatting
from llm_lite.desktop.features.chat.model import ChatAction
from llm_lite.desktop.features.encoder import model as encoding
from llm_lite.desktop.features.encoder.model import EncodingAction
from llm_lite.desktop.features.file_chooser import model as files
from llm_lite.desktop.features.file_chooser.model import FilesAction
from llm_lite.desktop.features.history import model as history
from llm_lite.desktop.features.history.model import HistoryAction
from llm_lite.desktop.features.layouts import model as layouts
from llm_lite.desktop.features.layouts.model import LayoutAction
from llm_lite.desktop.features.lesson import model as following
from llm_lite.desktop.features.lesson.model import LessonAction
from llm_lite.desktop.features.library import changing, installing
from llm_lite.desktop.features.library import model as showing
from llm_lite.desktop.features.library.changing import ChangingAction
from llm_lite.desktop.features.library.installing import InstallAction
from llm_lite.desktop.features.library.model import ShowingAction
from llm_lite.desktop.features.palette import model as palette
from llm_lite.desktop.features.palette.model import PaletteAction
from llm_lite.desktop.features.performance import model as learned_drafts
from llm_lite.desktop.features.performance.model import LearnedAction
from llm_lite.desktop.features.presets import model as presets
from llm_lite.desktop.features.presets.model import PresetAction
from llm_lite.desktop.features.program import defects, fitting
from llm_lite.desktop.features.program import model as program
from llm_lite.desktop.features.program.defects import ReportDefect
from llm_lite.desktop.features.program.fitting import FitAction
from llm_lite.desktop.features.program.model import ProgramAction
from llm_lite.desktop.features.program.requests import Result
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.prompts import model as prompts
from llm_lite.desktop.features.prompts.model import PromptAction
from llm_lite.desktop.features.quantization import model as quantizing
from llm_lite.desktop.features.quantization.model import QuantAction
from llm_lite.desktop.features.remote import model as connecting
from llm_lite.desktop.features.remote.model import ConnectAction
from llm_lite.desktop.features.resume import model as resuming
from llm_lite.desktop.features.resume.model import ResumeAction
from llm_lite.desktop.features.sampling.model import settled
from llm_lite.desktop.features.serving import model as switching
from llm_lite.desktop.features.serving.model import ServingAction
from llm_lite.desktop.features.tokenizer import model as tokenizing
from llm_lite.desktop.features.tokenizer.model import TokenizingAction
from llm_lite.desktop.features.tools import model as tools
from llm_lite.desktop.features.tools.model import CallAction, ToolAction
from llm_lite.desktop.features.translator import model as translating
from llm_lite.desktop.features.translator.model import TranslatingAction
from llm_lite.desktop.features.tree import model as forking
from llm_lite.desktop.features.tree.model import ForkAction
from llm_lite.desktop.features.undo import model as undoing
from llm_lite.desktop.features.undo.model import UndoAction

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
    **undoing.HANDLERS,
    **resuming.HANDLERS,
    **learned_drafts.HANDLERS,
    **switching.HANDLERS,
    **tokenizing.HANDLERS,
    **translating.HANDLERS,
    **defects.HANDLERS,
}
