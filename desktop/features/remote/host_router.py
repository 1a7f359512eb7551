"""The face of an engine, behind which the one here or one elsewhere answers the chat.

While one elsewhere is connected, what the engine here says of its model and cache is held back; it
is told when the chat comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from llm_lite.core.messages import (
    AttentionPart,
    CacheStatus,
    CheckKept,
    Command,
    CompareElsewhere,
    CompareGains,
    CountTokens,
    Event,
    ExecutorChanged,
    ExportMaps,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStarted,
    Inspect,
    KeepConversation,
    LoadFailed,
    LoadModel,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    MakeTitle,
    MeasureCache,
    ModelLoaded,
    Read,
    ReadAttentionRows,
    ResumeKept,
    RunFinished,
    RunReady,
    RunToken,
    SamplingOptions,
    SpellTokens,
    Stop,
    Task,
    TaskFinished,
    TokenDecoded,
)
from llm_lite.core.text.thinking import MARKS
from llm_lite.desktop.language.translate import tr

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource
    from llm_lite.core.serving.service import Service


HERE, THERE = 0, 1  # runs


class SideBySide:
    """`commands` are the two answers to be asked for, by run."""

    def __init__(self, command: CompareElsewhere, here: ModelLoaded, there: ModelLoaded) -> None:
        self._command, self._models = command, (here, there)
        self._running = {HERE, THERE}
        self._problem = ""
        self._opening: dict[int, str] = {}  # the mark of thoughts that a prompt has begun
        sampling: SamplingOptions = command.sampling
        # Numbers that no answer of the chat has.
        self._numbers = (-2 * command.request - 1, -2 * command.request - 2)
        self.commands = tuple(
            Generate(number, command.messages, sampling) for number in self._numbers
        )

    @property
    def over(self) -> bool:
        return not self._running

    def begin(self) -> list[Event]:
        told: list[Event] = []
        for run, one in enumerate(self._models):
            size = one.model.weight_bytes
            told.append(RunReady(self._command.request, run, one.executor, size, 0, run == HERE))
        return told

    def takes(self, event: Event) -> bool:
        """Whether it is of one of the two answers."""
        return getattr(event, "request", None) in self._numbers

    def heard(self, event: Event) -> list[Event]:
        """What is told of it."""
        request = self._command.request
        number = getattr(event, "request", None)
        run = self._numbers.index(number) if number in self._numbers else HERE
        if isinstance(event, GenerationStarted) and event.thinking and event.thinking.inside:
            self._opening[run] = MARKS[event.thinking.style].written[0]
        if isinstance(event, TokenDecoded):
            text = self._opening.pop(run, "") + event.text
            return [
                RunToken(request, run, event.token, text, event.probability, event.alternatives)
            ]
        if not isinstance(event, GenerationFinished):
            return []
        self._running.discard(run)
        self._problem = self._problem or event.message
        told: list[Event] = [RunFinished(request, run, event.stop_reason, event.stats)]
        if self.over:
            told.append(TaskFinished(request, self._problem))
        return told


_LOOKS = Inspect | ReadAttentionRows | ExportMaps
_ASKED_THERE = Generate | Read | SpellTokens | CountTokens | _LOOKS | MakeTitle | Task
_NOT_OF_IT = (
    KeepConversation | CheckKept | ResumeKept | CompareGains | MeasureCache | FollowToken
)  # of a cache that lies here, and is not of the conversation in the chat
_HELD_BACK = (
    ModelLoaded
    | ExecutorChanged
    | CacheStatus
    | LoadStarted
    | LoadProgress
    | LoadFailed
    | LoadNeedsMemory
)


class Here(Protocol):
    """What answers the chat."""

    def send(self, command: Command) -> None: ...

    def poll(self) -> list[Event]: ...

    def attention(self, part: AttentionPart | None = None) -> AttentionSource | None: ...

    def service(self) -> Service | None: ...

    def coming(self) -> str: ...

    def close(self, timeout: float = 2.0) -> object: ...


class Elsewhere(Protocol):
    def send(self, command: Command) -> None: ...

    def poll(self) -> list[Event]: ...

    def close(self, timeout: float = 2.0) -> object: ...

    def loaded(self) -> ModelLoaded:
        """Its model, as if it had just been loaded."""
        ...


class Router:
    """Opening a model here brings the chat back to the engine here."""

    def __init__(self, local: Here) -> None:
        self._local = local
        self._remote: Elsewhere | None = None
        self._loaded: ModelLoaded | None = None  # what the engine here has
        self._changed: ExecutorChanged | None = None  # since then: the options in force
        self._loading: dict[type[Any], Event] = {}  # the newest of a load that goes on there
        self._cache: CacheStatus | None = None
        self._told: list[Event] = []  # is to be said
        self._pair: SideBySide | None = None  # answers that are compared

    def enter(self, remote: Elsewhere) -> None:
        """That one answers the chat from now on."""
        self._close_remote()
        self._remote = remote

    def leave(self) -> None:
        """The engine here answers again, and says what it has."""
        if self._remote is None:
            return
        self._close_remote()
        known = (self._loaded, self._changed, self._cache, *self._loading.values())
        self._told += [event for event in known if event is not None]

    def send(self, command: Command) -> None:
        remote = self._remote
        if remote is None:
            self._local.send(command)
        elif isinstance(command, LoadModel):
            self._close_remote()
            self._local.send(command)
        elif isinstance(command, CompareElsewhere):
            self._compare(command, remote)
        elif isinstance(command, Stop):
            remote.send(command)
            self._local.send(command)
        elif isinstance(command, _ASKED_THERE):
            remote.send(command)
        elif not isinstance(command, _NOT_OF_IT):
            self._local.send(command)

    def poll(self) -> list[Event]:
        told, self._told = self._told, []
        for event in self._local.poll():
            self._note(event)
            if self._pair is not None and self._pair.takes(event):
                told += self._pair.heard(event)
            elif self._remote is None or not isinstance(event, _HELD_BACK):
                told.append(event)
        for event in self._remote.poll() if self._remote is not None else ():
            pair = self._pair
            told += pair.heard(event) if pair is not None and pair.takes(event) else [event]
        if self._pair is not None and self._pair.over:
            self._pair = None
        return told

    def _compare(self, command: CompareElsewhere, remote: Elsewhere) -> None:
        """Both answer at once."""
        if self._loaded is None:
            problem = tr("No model is loaded here: open one, then connect again.")
            self._told.append(TaskFinished(command.request, problem))
            return
        self._pair = SideBySide(command, self._loaded, remote.loaded())
        self._told += self._pair.begin()
        here, elsewhere = self._pair.commands
        self._local.send(here)
        remote.send(elsewhere)

    @property
    def remote(self) -> Elsewhere | None:
        """The one that answers the chat, where it is elsewhere."""
        return self._remote

    def attention(self, part: AttentionPart | None = None) -> AttentionSource | None:
        return self._local.attention(part) if self._remote is None else None

    def service(self) -> Service | None:
        """Clients of the window's server are answered by the engine here."""
        return self._local.service()

    def coming(self) -> str:
        """The model that is being loaded here."""
        return self._local.coming()

    def close(self, timeout: float = 2.0) -> object:
        self._close_remote()
        return self._local.close(timeout)

    def _close_remote(self) -> None:
        remote, self._remote = self._remote, None
        if remote is not None:
            remote.close(0.0)  # its thread ends with the request that it cancels

    def _note(self, event: Event) -> None:
        """What the engine here has, to be told again."""
        if isinstance(event, ModelLoaded):
            self._loaded, self._changed = event, None
            self._loading.clear()
        elif isinstance(event, ExecutorChanged) and self._loaded is not None:
            self._loaded = ModelLoaded(event.model, event.executor, self._loaded.seconds)
            self._changed = event
            self._loading.clear()
        elif isinstance(event, CacheStatus):
            self._cache = event
        elif isinstance(event, LoadFailed):
            self._loading.clear()
        elif isinstance(event, LoadStarted | LoadProgress):
            self._loading[type(event)] = event
