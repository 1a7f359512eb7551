"""Engines elsewhere for the window: who is at an address is asked in a thread; what came of it is
told in actions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, get_args

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.messages.remote import NO_KEY, ApiKey, HeldCache, RemoteServer
from llm_lite.desktop.features.host import Host
from llm_lite.desktop.features.program.action import Action
from llm_lite.desktop.features.program.host_worker import Worker
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.host_router import Here, Router
from llm_lite.desktop.features.remote.model import (
    ConnectModel,
    Disconnect,
    FindServer,
    ForgetAddress,
    ForgetServer,
    RemoteHostAction,
    TellConnected,
    TellHeld,
    TellWho,
)
from llm_lite.desktop.features.remote.state import Connection
from llm_lite.desktop.language.incoming import fit_line, fit_to_show

if TYPE_CHECKING:
    from llm_lite.core.remote.client import Client, Exchange
    from llm_lite.core.remote.engine import RemoteEngine
    from llm_lite.desktop.features.remote.host_maps import RemoteMaps
    from llm_lite.desktop.widgets.head_maps import HeadMaps


class RemoteHost(Host):
    """`heard` is called, on another thread, when `poll` or the engine has something."""

    actions = get_args(RemoteHostAction)

    def __init__(self, heard: Callable[[], None]) -> None:
        self._heard = heard
        self._worker = Worker("servers", heard, 2)
        self._router: Router | None = None
        self._exchange: Exchange | None = None  # of the question that is under way
        self._client: Client | None = None  # of the server that was found last
        self._server: RemoteServer | None = None
        self._keeps = False
        self._maps: RemoteMaps | None = None
        self._told_cache: HeldCache | None = None
        self._keys: dict[str, ApiKey] = {}  # of this run, by address
        self._told: list[Action] = []  # of what was clear at once
        self._wanted = ""  # the model that is connected to once it is found

    def around(self, engine: Here) -> Router:
        """What the program talks to in the place of the engine here."""
        self._router = Router(engine)
        return self._router

    def do(self, action: RemoteHostAction, state: AppState) -> list[Action]:
        """What follows of it at once."""
        if isinstance(action, FindServer):
            return [] if state.running or state.quantization.work else self._find(action, state)
        if isinstance(action, ConnectModel):
            return self._connect(action.name, state)
        if isinstance(action, Disconnect):
            if self._router is not None and not state.running:
                self._router.leave()
        elif isinstance(action, ForgetAddress):
            self._keys.pop(action.address, None)
        elif isinstance(action, ForgetServer):
            self._cancel()
        return []

    def poll(self, state: AppState) -> list[Action]:
        """Who was found; a model that is the only one, or was asked for, is connected to."""
        told, self._told = [*self._told, *self._worker.poll()], []
        told += self._tell_held(state)
        for action in tuple(told):
            if not isinstance(action, TellWho) or action.server is None:
                continue
            if action.address != state.remote.asked:
                continue
            names = [model.name for model in action.server.models]
            wanted = self._wanted if self._wanted in names else ""
            only = names[0] if len(names) == 1 else ""
            if wanted or only:
                told += [ConnectModel(wanted or only)]
        return told

    def _tell_held(self, state: AppState) -> list[Action]:
        there = self._router is not None and self._router.remote is not None
        engine = self.engine if there else None
        held = engine.held if engine is not None else None
        cache = held.cache if held is not None else None
        if cache is self._told_cache:
            return []
        self._told_cache = cache
        return [TellHeld(cache)]

    @property
    def engine(self) -> RemoteEngine | None:
        """The one that answers the chat."""
        from llm_lite.core.remote.engine import RemoteEngine

        found = self._router.remote if self._router is not None else None
        return found if isinstance(found, RemoteEngine) else None

    def maps(self, shown: bool) -> HeadMaps | None:
        """Of the engine that answers, where it is elsewhere; a frame is about to be built. Not
        `shown`: what it holds is not of the conversation in front."""
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

            self._maps = RemoteMaps(self._heard)
        self._maps.begin(found, shown)
        return self._maps

    def close(self, state: AppState | None = None) -> None:
        """End what is under way."""
        self._cancel()
        if self._router is not None:
            self._router.leave()
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
            key = self._key_of(address.base, action, state)
            client = Client(address, read_key(key.text))
        except LlmLiteError as error:
            self._told.append(TellWho(action.address, None, fit_line(str(error))))
            self._heard()
            return []
        exchange = self._exchange = Exchange()
        self._wanted, self._keeps = action.model, action.keeps
        if action.key is None:
            known = state.remote.known(address.base)
            self._keeps = known is not None and bool(known.key)

        def ask() -> Iterable[Action]:
            from llm_lite.core.remote.connecting import connect

            server = fit_to_show(connect(client, exchange))
            self._client, self._server = client, server
            if key:
                self._keys[address.base] = key
            yield TellWho(action.address, server)

        self._worker.put(ask, lambda problem: self._failed(action, exchange, problem))
        return []

    def _failed(self, action: FindServer, exchange: Exchange, problem: str) -> list[Action]:
        if exchange.cancelled:
            return []
        return [TellWho(action.address, None, fit_line(problem))]

    def _key_of(self, base: str, action: FindServer, state: AppState) -> ApiKey:
        """The one that was typed, or else of this run, or else the kept one."""
        if action.key is not None:
            return action.key
        known = state.remote.known(base)
        return self._keys.get(base) or (known.key if known else NO_KEY)

    def _connect(self, name: str, state: AppState) -> list[Action]:
        from llm_lite.core.remote.engine import RemoteEngine

        server, client = self._server, self._client
        if server is None or client is None or self._router is None:
            return []
        model = next((one for one in server.models if one.name == name), None)
        if model is None or state.running:
            return []
        engine = RemoteEngine(client, server, model, self._heard)
        self._router.enter(engine)
        key = self._keys.get(server.address, NO_KEY) if self._keeps else NO_KEY
        return [TellConnected(Connection(server, model), engine.info, engine.executor, key)]
