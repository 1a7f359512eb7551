"""The connection to a server: threads that ask it, and a router that sends the chat's commands
there. While a server answers the chat, events of the local engine's model and cache are held back;
they are returned when the local engine answers again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, get_args

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.handles import AnyEngine, Handle, Report, cancel
from llm_lite.core.messages import (
    AttentionPart,
    CacheStatus,
    Cancel,
    CheckKept,
    Command,
    CompareElsewhere,
    CompareTexts,
    CountTokens,
    EncodeText,
    Ended,
    ExecutorChanged,
    ExportMaps,
    FollowToken,
    Generate,
    GenerationFinished,
    GenerationStarted,
    GenerationStats,
    Inspect,
    KeepConversation,
    LoadModel,
    LoadNeedsMemory,
    LoadProgress,
    LoadStarted,
    MakeTitle,
    MeasureCache,
    ModelLoaded,
    Read,
    ReadAttentionRows,
    ReadEffect,
    ReadRouting,
    ReadStates,
    Reconfigure,
    ResumeKept,
    RunFinished,
    RunReady,
    RunToken,
    SamplingOptions,
    SpellTokens,
    StopReason,
    Task,
    TokenDecoded,
)
from llm_lite.core.messages.remote import NO_KEY, ApiKey, HeldCache, RemoteServer
from llm_lite.core.text.thinking import MARKS
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.host_worker import Worker
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.model import (
    CacheReported,
    ConnectModel,
    Disconnect,
    FindServer,
    ForgetAddress,
    ForgetServer,
    ModelRefused,
    RemoteHostAction,
    ServerConnected,
    ServerFound,
)
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.language.incoming import fit_line, fit_to_show
from llm_lite.desktop.language.translate import tr

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource
    from llm_lite.core.remote.client import Client, Exchange
    from llm_lite.core.remote.engine import RemoteEngine
    from llm_lite.core.remote.inspection import RemoteResponse
    from llm_lite.core.serving.service import Service
    from llm_lite.desktop.features.remote.host_maps import RemoteMaps
    from llm_lite.desktop.widgets.head_maps import HeadMaps

LOCAL_RUN, REMOTE_RUN = RUNS = 0, 1  # of a comparison


class RemoteComparison:
    """Two answers to one conversation, of the local engine and of the server. `commands` request
    them, in the order of the runs; `handle` is of the comparison."""

    def __init__(self, handle: Handle, command: CompareElsewhere) -> None:
        self.handle = handle
        self._running = {LOCAL_RUN, REMOTE_RUN}
        self._finished = set[int]()
        self._problem = ""
        self._opening: dict[int, str] = {}  # the mark of thoughts that a prompt has begun
        sampling: SamplingOptions = command.sampling
        self.answers: tuple[Handle, ...] = ()
        self.commands = tuple(Generate(command.messages, sampling) for _ in RUNS)

    @property
    def is_done(self) -> bool:
        return not self._running

    def cancel(self) -> None:
        for answer in self.answers:
            answer.cancel()

    def begin(self, here: ModelLoaded, there: ModelLoaded) -> None:
        for run, one in enumerate((here, there)):
            size = one.model.weight_bytes
            self.handle.emit(RunReady(run, one.executor, size, 0, run == LOCAL_RUN))

    def takes(self, report: Report) -> bool:
        """Emit what a report of one of the two answers says of the comparison; return False for
        others."""
        run = next((n for n, one in enumerate(self.commands) if one is report.command), None)
        if run is None:
            return False
        event = report.event
        if isinstance(event, GenerationStarted) and event.thinking and event.thinking.inside:
            self._opening[run] = MARKS[event.thinking.style].written[0]
        if isinstance(event, TokenDecoded):
            text = self._opening.pop(run, "") + event.text
            known = event.probability, event.alternatives
            self.handle.emit(RunToken(run, event.token, text, *known))
        if isinstance(event, GenerationFinished):
            self._problem = self._problem or event.message
            self.handle.emit(RunFinished(run, event.stop_reason, event.stats))
            self._finished.add(run)
        if isinstance(event, Ended):
            if run not in self._finished:
                self._problem = self._problem or event.failure
                reason: StopReason = "error" if event.failure else "stopped"
                self.handle.emit(RunFinished(run, reason, GenerationStats()))
            self._running.discard(run)
            if self.is_done:
                self.handle.end(self._problem)
        return True


_INSPECTION = (
    Inspect | ReadAttentionRows | ReadRouting | ReadStates | ExportMaps | MeasureCache | FollowToken
)
_ENCODING = EncodeText | CompareTexts
_SENT_ELSEWHERE = (
    Generate | Read | SpellTokens | CountTokens | _ENCODING | _INSPECTION | MakeTitle | Task
)
# Of a cache that lies here, and is not of the conversation in the chat.
_LOCAL_CACHE_ONLY = KeepConversation | CheckKept | ResumeKept | ReadEffect
_LOADS = LoadModel | Reconfigure
_HELD_BACK = (
    ModelLoaded | ExecutorChanged | CacheStatus | LoadStarted | LoadProgress | LoadNeedsMemory
)


class LocalEngine(AnyEngine, Protocol):
    """The engine of this program, as far as the window uses it."""

    def attention(self, part: AttentionPart | None = None) -> AttentionSource | None: ...

    def service(self) -> Service | None: ...

    def coming(self) -> str: ...


class OtherEngine(AnyEngine, Protocol):
    """An engine elsewhere, as far as the window uses it."""

    def loaded(self) -> ModelLoaded:
        """Return the event that would announce its model."""
        ...


class Router:
    """Send the chat's commands to the local engine, or to the one that is connected. To open a
    model here disconnects it."""

    def __init__(self, local: LocalEngine) -> None:
        self._local = local
        self._remote: OtherEngine | None = None
        self._loaded: ModelLoaded | None = None  # what the engine here has
        self._changed: ExecutorChanged | None = None  # since then: the options in force
        self._loading: dict[type[Any], Report] = {}  # the newest of a load that goes on there
        self._cache: CacheStatus | None = None
        self._pending: list[Report] = []  # to be returned by `poll`
        self._comparison: RemoteComparison | None = None  # answers that are compared

    def connect(self, remote: OtherEngine) -> None:
        """Let another engine answer the chat."""
        self._close_remote()
        self._remote = remote

    def disconnect(self) -> None:
        """Let the local engine answer again, and repeat what it has loaded."""
        if self._remote is None:
            return
        self._close_remote()
        known = self._loaded, self._changed, self._cache
        self._pending += [Report(event) for event in known if event is not None]
        self._pending += self._loading.values()

    def submit(self, command: Command) -> Handle:
        remote = self._remote
        if isinstance(command, Cancel) and self._comparison is not None:
            cancel((self._comparison.handle,), command)
        if remote is None:
            return self._local.submit(command)
        if isinstance(command, LoadModel):
            self._close_remote()
        elif isinstance(command, CompareElsewhere):
            return self._compare(command, remote)
        elif isinstance(command, Cancel):
            remote.submit(command)
        elif isinstance(command, _SENT_ELSEWHERE):
            return remote.submit(command)
        elif isinstance(command, _LOCAL_CACHE_ONLY):
            handle = Handle(command, self._pending.append)
            handle.end()
            return handle
        return self._local.submit(command)

    def poll(self) -> list[Report]:
        reports = []
        for report in self._local.poll():
            self._record(report)
            if not self._is_compared(report) and not (
                self._remote is not None
                and (isinstance(report.event, _HELD_BACK) or _is_end_of_load(report))
            ):
                reports.append(report)
        for report in self._remote.poll() if self._remote is not None else ():
            if not self._is_compared(report):
                reports.append(report)
        if self._comparison is not None and self._comparison.is_done:
            self._comparison = None
        reports = [*self._pending, *reports]
        self._pending.clear()  # handles append to this list
        return reports

    def _is_compared(self, report: Report) -> bool:
        return self._comparison is not None and self._comparison.takes(report)

    def _compare(self, command: CompareElsewhere, remote: OtherEngine) -> Handle:
        """Request both answers at once."""
        handle = Handle(command, self._pending.append)
        if self._loaded is None:
            problem = tr("No model is loaded here: open one, then connect again.")
            handle.end(problem)
            return handle
        self._comparison = RemoteComparison(handle, command)
        self._comparison.begin(self._loaded, remote.loaded())
        here, elsewhere = self._comparison.commands
        self._comparison.answers = self._local.submit(here), remote.submit(elsewhere)
        handle.on_cancel = self._comparison.cancel
        return handle

    @property
    def remote(self) -> OtherEngine | None:
        """Return the engine elsewhere that answers the chat, if one does."""
        return self._remote

    def attention(self, part: AttentionPart | None = None) -> AttentionSource | None:
        return self._local.attention(part) if self._remote is None else None

    def service(self) -> Service | None:
        """Return the local engine's service: it answers clients of the window's server."""
        return self._local.service()

    def coming(self) -> str:
        """Return the model that is being loaded here."""
        return self._local.coming()

    def close(self, timeout: float = 2.0) -> object:
        self._close_remote()
        return self._local.close(timeout)

    def _close_remote(self) -> None:
        remote, self._remote = self._remote, None
        if remote is not None:
            remote.close(0.0)  # its thread ends with the request that it cancels

    def _record(self, report: Report) -> None:
        """Keep what the local engine has loaded, to be repeated after a connection."""
        event = report.event
        if isinstance(event, ModelLoaded):
            self._loaded, self._changed = event, None
            if isinstance(report.command, LoadModel):
                options = report.command.options
                self._changed = ExecutorChanged(event.executor, event.model, options)
        elif isinstance(event, ExecutorChanged) and self._loaded is not None:
            self._loaded = ModelLoaded(event.model, event.executor, self._loaded.seconds)
            self._changed = event
        elif isinstance(event, CacheStatus):
            self._cache = event
        elif isinstance(event, LoadStarted | LoadProgress):
            self._loading[type(event)] = report
        if isinstance(event, ModelLoaded | ExecutorChanged) or _is_end_of_load(report):
            self._loading.clear()


def _is_end_of_load(report: Report) -> bool:
    return isinstance(report.event, Ended) and isinstance(report.command, _LOADS)


def _is_in_front(held: RemoteResponse | None, state: AppState) -> bool:
    """Return whether what a server holds is of what is in front: of an encoder, its very text."""
    if state.encodes:
        return held is not None and held.tokens == state.cached.ids
    return bool(state.owners)


class RemoteHost(Host):
    """Ask servers in threads, and connect to one of their models. `wake` is called, on another
    thread, when `poll` or the engine has something."""

    actions = get_args(RemoteHostAction)

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._worker = Worker("servers", wake, 2)
        self._router: Router | None = None
        self._exchange: Exchange | None = None  # of the request that is under way
        self._client: Client | None = None  # of the server that was found last
        self._server: RemoteServer | None = None
        self._keeps_key = False
        self._maps: RemoteMaps | None = None
        self._reported_cache: HeldCache | None = None
        self._keys: dict[str, ApiKey] = {}  # of this run, by address
        self._pending: list[Action] = []  # to be returned by `poll`
        self._wanted_model = ""  # the model that is connected to once it is found

    def around(self, engine: LocalEngine) -> Router:
        """Return the router that takes the place of the local engine."""
        self._router = Router(engine)
        return self._router

    def do(self, action: RemoteHostAction, state: AppState) -> list[Action]:
        if isinstance(action, FindServer):
            return [] if state.running or state.quantization.work else self._find(action, state)
        if isinstance(action, ConnectModel):
            return self._connect(action.name, state)
        if isinstance(action, Disconnect):
            if self._router is not None and not state.running:
                self._router.disconnect()
        elif isinstance(action, ForgetAddress):
            self._keys.pop(action.address, None)
        elif isinstance(action, ForgetServer):
            self._cancel()
        return []

    def poll(self, state: AppState) -> list[Action]:
        """Return what servers answered. A model that is the only one, or was requested, is
        connected to."""
        actions, self._pending = [*self._pending, *self._worker.poll()], []
        actions += self._cache_changes()
        for action in tuple(actions):
            if not isinstance(action, ServerFound) or action.server is None:
                continue
            if action.address != state.remote.requested_address:
                continue
            names = [model.name for model in action.server.models]
            wanted = self._wanted_model if self._wanted_model in names else ""
            only = names[0] if len(names) == 1 else ""
            if wanted or only:
                actions += [ConnectModel(wanted or only)]
        return actions

    def _cache_changes(self) -> list[Action]:
        there = self._router is not None and self._router.remote is not None
        engine = self.engine if there else None
        held = engine.held if engine is not None else None
        cache = held.cache if held is not None else None
        if cache is self._reported_cache:
            return []
        self._reported_cache = cache
        return [CacheReported(cache)]

    @property
    def engine(self) -> RemoteEngine | None:
        """Return the engine elsewhere that answers the chat."""
        from llm_lite.core.remote.engine import RemoteEngine

        found = self._router.remote if self._router is not None else None
        return found if isinstance(found, RemoteEngine) else None

    def maps(self, state: AppState) -> HeadMaps | None:
        """Return the maps of the engine elsewhere, if one answers, and begin a frame of them: of
        none where its maps belong to another conversation or text than the one in front."""
        engine = self._router.remote if self._router is not None else None
        if engine is None:
            if self._maps is not None:
                self._maps.leave()
            return None
        found = self.engine
        if found is None:
            return None
        if self._maps is None:
            from llm_lite.desktop.features.remote.host_maps import RemoteMaps

            self._maps = RemoteMaps(self._wake)
        self._maps.begin(found, _is_in_front(found.held, state))
        return self._maps

    def close(self, state: AppState | None = None) -> None:
        """End requests and the connection."""
        self._cancel()
        if self._router is not None:
            self._router.disconnect()
        if self._maps is not None:
            self._maps.leave()

    def _cancel(self) -> None:
        if self._exchange is not None:
            self._exchange.cancel()

    def _find(self, action: FindServer, state: AppState) -> list[Action]:
        from llm_lite.core.remote.address import read_address, read_key
        from llm_lite.core.remote.client import Client, Exchange

        self._cancel()
        try:
            address = read_address(action.address)
            key = self._key_for(address.base, action, state)
            client = Client(address, read_key(key.text))
        except LlmLiteError as error:
            self._pending.append(ServerFound(action.address, None, fit_line(str(error))))
            self._wake()
            return []
        exchange = self._exchange = Exchange()
        self._wanted_model, self._keeps_key = action.model, action.keeps
        if action.key is None:
            known = state.remote.known(address.base)
            self._keeps_key = known is not None and bool(known.key)

        def connect_to_server() -> Iterable[Action]:
            from llm_lite.core.remote.connecting import connect

            server = fit_to_show(connect(client, exchange))
            self._client, self._server = client, server
            if key:
                self._keys[address.base] = key
            yield ServerFound(action.address, server)

        self._worker.put(connect_to_server, lambda problem: self._failed(action, exchange, problem))
        return []

    def _failed(self, action: FindServer, exchange: Exchange, problem: str) -> list[Action]:
        if exchange.cancelled:
            return []
        return [ServerFound(action.address, None, fit_line(problem))]

    def _key_for(self, base: str, action: FindServer, state: AppState) -> ApiKey:
        """Return the key that was typed, or else this run's, or else the one in the settings."""
        if action.key is not None:
            return action.key
        known = state.remote.known(base)
        return self._keys.get(base) or (known.key if known else NO_KEY)

    def _connect(self, name: str, state: AppState) -> list[Action]:
        from llm_lite.core.remote.connecting import chosen
        from llm_lite.core.remote.engine import RemoteEngine

        server, client = self._server, self._client
        if server is None or client is None or self._router is None:
            return []
        if state.running:
            return []
        try:
            model = chosen(server, name)
        except LlmLiteError as error:
            return [ModelRefused(fit_line(str(error)))]
        engine = RemoteEngine(client, server, model, self._wake)
        self._router.connect(engine)
        key = self._keys.get(server.address, NO_KEY) if self._keeps_key else NO_KEY
        return [ServerConnected(Connection(server, model), engine.info, engine.executor, key)]
