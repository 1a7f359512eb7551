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
    SpellTokens,
    Stop,
    Task,
    TaskFinished,
)
from llm_lite.desktop.app.remote.comparing import SideBySide
from llm_lite.desktop.language.translate import tr

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource
    from llm_lite.core.serving.service import Service

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
