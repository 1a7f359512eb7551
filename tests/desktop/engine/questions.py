"""What a scripted engine answers to questions about its text. A question that has no line here is
answered by `tests.scripted_answers`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_lite.core.messages import (
    Alternative,
    AttentionRows,
    CacheMeasured,
    CompareTexts,
    EffectRead,
    EncodeText,
    Event,
    FollowToken,
    Inspect,
    LensResult,
    LensRow,
    MeasureCache,
    ReadAttentionRows,
    ReadEffect,
    ReadRouting,
    ReadStates,
    RoutingRead,
    StatesRead,
    StepRequest,
)
from llm_lite.core.questions.table import BY_REQUEST
from tests.desktop.engine.encoding import compared, encoded
from tests.desktop.engine.lesson import followed
from tests.desktop.engine.model import MODEL
from tests.scripted_answers import scripted

if TYPE_CHECKING:
    from tests.desktop.engine.engine import ScriptedEngine


def measured(command: MeasureCache, layers: int, length: int) -> CacheMeasured:
    """Every value says where it stands: layer + position / 1000."""
    places = range(command.first, length if command.last is None else command.last)
    values = tuple(tuple(n + p / 1000 for p in places) for n in range(layers))
    return CacheMeasured(command.what, command.first, 1, values)


def look(command: ReadAttentionRows) -> AttentionRows:
    """Half of the attention rests on the first token, half on the token itself."""
    weights = [0.0] * (command.position + 1)
    weights[0] += 0.5
    weights[-1] += 0.5
    return AttentionRows(command.position, command.direction, tuple(weights))


def read_states(command: ReadStates, tokens: int, layers: Sequence[int]) -> StatesRead:
    """Half of what a token reads is its own, half of the text before; two heads a layer, of which
    the second forgets later."""
    count = min(tokens, command.positions)
    shares = np.eye(count) / 2
    half = (0.5,) * count
    lives = tuple((layer, (2.0 + layer, 500.0)) for layer in layers)
    rows = tuple(map(tuple, shares.tolist()))
    first, norms = tokens - count, tuple(range(1, count + 1))
    return StatesRead(command.layer, command.head, first, half, half, norms, rows, half, lives)


def read_routing(command: ReadRouting, tokens: int, layers: Sequence[int]) -> RoutingRead:
    """A token chooses the expert of its place among four, and the last of five."""
    places = np.arange(command.first, tokens)[:, None].repeat(len(layers), axis=1)
    chosen = np.stack([places % 4, np.full_like(places, 4)], axis=-1).astype("<u2")
    shares = np.broadcast_to(np.array([0.75, 0.25], "<f4"), chosen.shape)
    return RoutingRead(
        command.first, 0, 5, 2, tuple(layers), chosen.tobytes(), shares.astype("<f4").tobytes()
    )


def lens() -> tuple[LensRow, ...]:
    """From layer 20 on the last layer's word leads."""
    early = (Alternative(5, " the", 0.3), Alternative(6, " blue", 0.1))
    late = (Alternative(6, " blue", 0.8), Alternative(5, " the", 0.1))
    return tuple(LensRow(i, late if i >= 20 else early) for i in range(MODEL.layers))


Answering = Callable[["ScriptedEngine", Any], Event]


def _states(engine: ScriptedEngine, command: ReadStates) -> StatesRead:
    return read_states(command, len(engine.cache), engine.model.delta_layers)


def _measured(engine: ScriptedEngine, command: MeasureCache) -> CacheMeasured:
    return measured(command, len(engine.model.cache.layers), len(engine.cache))


# Where what is drawn shall be sensible: a row's number says where it stands.
ANSWERS: Mapping[type[StepRequest], Answering] = MappingProxyType(
    {
        ReadAttentionRows: lambda engine, command: look(command),
        Inspect: lambda engine, command: LensResult(command.position, lens()),
        FollowToken: lambda engine, command: followed(command, encodes=engine.encodes),
        MeasureCache: _measured,
        ReadStates: _states,
        ReadEffect: lambda engine, command: EffectRead(0.25),
        EncodeText: lambda engine, command: encoded(command),
        CompareTexts: lambda engine, command: compared(command),
    }
)


def answer(engine: ScriptedEngine, command: StepRequest) -> Event:
    """Return the answer to a question of the table, or about a text that an encoder reads."""
    if type(command) in ANSWERS:
        return ANSWERS[type(command)](engine, command)
    return scripted(command)


def is_question(command: object) -> bool:
    return type(command) in ANSWERS or type(command) in BY_REQUEST
