"""Actions that find a server, connect to one of its models and disconnect again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llm_lite.core.messages import ExecutorInfo, ModelInfo, ModelLoaded
from llm_lite.core.messages.remote import NO_KEY, ApiKey, HeldCache, RemoteServer
from llm_lite.core.records import replace
from llm_lite.desktop.features.program.action import Action, HostAction
from llm_lite.desktop.features.program.loading import model_loaded
from llm_lite.desktop.features.program.notices import notify
from llm_lite.desktop.features.program.requests import Result, end_reading, leave_answer
from llm_lite.desktop.features.program.scopes import next_model
from llm_lite.desktop.features.program.settings import Settings
from llm_lite.desktop.features.program.state import AppState
from llm_lite.desktop.features.remote.state import (
    Connection,
    KeptAddress,
    RecentAddress,
    RemoteState,
)
from llm_lite.desktop.language.translate import tr


class FindServer(Action, frozen=True):
    """Request what server is at an address. With `key` None, the one that is known of it is used;
    `keeps` says whether it may be written down. The `model`, or the only one that is loaded, is
    connected to."""

    address: str
    key: ApiKey | None = None
    keeps: bool = False
    model: str = ""


class ConnectModel(HostAction, frozen=True):
    """Let a model of the server that was found answer the chat."""

    name: str


class Disconnect(Action, frozen=True):
    """Let the model of this machine answer again."""


class ForgetServer(Action, frozen=True):
    """Cancel the request, or close the list of models that it found."""


class ForgetAddress(Action, frozen=True):
    address: str


class ServerFound(Action, frozen=True):
    """The server at an address, or a sentence that says why there is none."""

    address: str
    server: RemoteServer | None
    problem: str = ""


class ModelRefused(Action, frozen=True):
    """The model that was to be connected to cannot be: a sentence says why."""

    problem: str


class ServerConnected(Action, frozen=True):
    """The chat is answered there from now on; `key` is written down with the address."""

    connection: Connection
    model: ModelInfo
    executor: ExecutorInfo
    key: ApiKey = NO_KEY


class CacheReported(Action, frozen=True):
    """The cache of the server after the last answer."""

    cache: HeldCache | None


RemoteHostAction = FindServer | ConnectModel | Disconnect | ForgetServer | ForgetAddress


def _find(action: FindServer, state: AppState, now: float) -> Result:
    if state.running or state.quantization.work:
        words = tr("Something is being computed. Stop it first, or wait until it ends.")
        return notify(state, "warning", words, now), ()
    remote = replace(state.remote, requested_address=action.address, found=None, problem="")
    return replace(state, remote=remote), ()


def _server_found(action: ServerFound, state: AppState, now: float) -> Result:
    if state.remote.requested_address != action.address:
        return state, ()  # something else was asked meanwhile
    remote = replace(
        state.remote, requested_address="", found=action.server, problem=action.problem
    )
    return replace(state, remote=remote), ()


def _model_refused(action: ModelRefused, state: AppState, now: float) -> Result:
    remote = replace(state.remote, requested_address="", problem=action.problem)
    return replace(state, remote=remote), ()


def _server_connected(action: ServerConnected, state: AppState, now: float) -> Result:
    """The conversation stays; the cache of the model here is no longer its cache."""
    state, stop = end_reading(state)
    state = model_loaded(ModelLoaded(action.model, action.executor, 0.0), state, now)
    server, model = action.connection.server, action.connection.model
    remote = state.remote.used(server.address, model.name, action.key)
    remote = replace(
        remote, connection=action.connection, requested_address="", found=None, problem=""
    )
    words = tr("{model} answers from now on, at {host}.")
    if model.encoder is not None:
        words = tr("{model} reads texts from now on, at {host}.")
    words = words.format(model=model.title, host=server.host)
    return notify(replace(state, remote=remote), "info", words, now), stop


def disconnected(state: AppState) -> AppState:
    """Return the state without a model, until the local engine reports the one that it has."""
    if state.remote.connection is None:
        return state
    state, _ = leave_answer(state)
    remote = replace(state.remote, connection=None, cache=None)
    return next_model(state, None, remote=remote, executor=None)


def _disconnect(action: Disconnect, state: AppState, now: float) -> Result:
    if state.running:
        words = tr("An answer is being written. Stop it first, or wait until it ends.")
        return notify(state, "warning", words, now), ()
    return disconnected(state), ()


def _forget_server(action: ForgetServer, state: AppState, now: float) -> Result:
    return replace(
        state, remote=replace(state.remote, requested_address="", found=None, problem="")
    ), ()


def _forget_address(action: ForgetAddress, state: AppState, now: float) -> Result:
    recent = tuple(one for one in state.remote.recent if one.address != action.address)
    return replace(state, remote=replace(state.remote, recent=recent)), ()


def _cache_reported(action: CacheReported, state: AppState, now: float) -> Result:
    if not state.owners:  # of an answer to another conversation
        return state, ()
    return replace(state, remote=replace(state.remote, cache=action.cache)), ()


HANDLERS: dict[type[Any], Callable[[Any, AppState, float], Result]] = {
    FindServer: _find,
    Disconnect: _disconnect,
    ForgetServer: _forget_server,
    ForgetAddress: _forget_address,
    ServerFound: _server_found,
    ModelRefused: _model_refused,
    ServerConnected: _server_connected,
    CacheReported: _cache_reported,
}


def restore(settings: Settings, state: AppState) -> AppState:
    recent = (RecentAddress(one.address, one.model, ApiKey(one.key)) for one in settings.addresses)
    return replace(state, remote=RemoteState(recent=tuple(recent)))


def remember(state: AppState, settings: Settings) -> dict[str, Any]:
    recent = state.remote.recent
    return {"addresses": tuple(KeptAddress(one.address, one.model, one.key.text) for one in recent)}
