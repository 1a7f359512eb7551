"""Another llm-lite: its real server on a scripted service, and what it alone tells."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from msgspec import ValidationError, to_builtins

from llm_lite.core.errors import RequestError
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.messages import (
    CacheMeasured,
    CacheRewritten,
    ChatMessage,
    Command,
    CountTokens,
    Ended,
    FollowToken,
    Generate,
    GenerationStarted,
    Inspect,
    LensResult,
    MeasureCache,
    ReadAttentionRows,
    ReadEffect,
    ReadRouting,
    ReadStates,
    RoutingRead,
    SamplingOptions,
    StatesRead,
    TokenDecoded,
    TokenFollowed,
    TokensCounted,
    ToolSpec,
)
from llm_lite.core.messages.remote import ApiKey, HeldCache
from llm_lite.core.questions.activations import ReadActivations
from llm_lite.core.questions.patch import ReadPatch
from llm_lite.core.questions.scores import ReadScores
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.records import replace
from llm_lite.core.remote.address import read_address
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.connecting import connect
from llm_lite.core.remote.engine import RemoteEngine
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.inspection import (
    RemoteInspection,
    RemoteResponse,
    routing_of,
    states_of,
    trace_of,
)
from llm_lite.core.tools.calls import read_calls
from llm_lite.server.config import ServerConfig
from llm_lite.server.serve import Server
from tests.asking import asked, served_maps
from tests.children import PATIENCE
from tests.core.engine_client import Client as LocalClient
from tests.core.remote.test_answers import events_in, events_of, finished, said
from tests.core.serving.clients import serve as serve_clients
from tests.desktop.engine import lesson as scripted_lesson
from tests.desktop.engine.questions import read_states
from tests.runners import exact, running
from tests.server.conftest import Served, serve

__all__ = ["serve"]  # the fixture
ASKED = (ChatMessage("system", "Be brief."), ChatMessage("user", "Why is the sky blue?"))
MOST = SamplingOptions(temperature=0.0)


def engine_of(served: Served, key: str = "") -> RemoteEngine:
    client = Client(read_address(served.url), ApiKey(key))
    told = connect(client, Exchange())
    assert told.dialect == "llm-lite" and told.can_inspect and not told.lacks
    return RemoteEngine(client, told, told.models[0])


def result_of(engine: RemoteEngine, command: Command, kind: type[Any]) -> Any:
    found = engine.submit(command).result(PATIENCE)
    assert isinstance(found, kind)
    engine.poll()
    return found


def test_an_answer_with_all_its_tokens(serve: Callable[..., Served]) -> None:
    served = serve(config={"api_key": "k"})
    engine = engine_of(served, "k")
    assert engine.info.context == 4096 and engine.info.heads == 3
    events = events_of(engine, Generate(ASKED, MOST))
    assert said(events) == "You said: Why is the sky blue?"
    started = next(event for event in events if isinstance(event, GenerationStarted))
    tokens = [event for event in events if isinstance(event, TokenDecoded)]
    assert all(0 < token.probability <= 1 for token in tokens) and tokens[0].alternatives
    rewritten = next(event for event in events if isinstance(event, CacheRewritten))
    whole = "".join(token.text for token in rewritten.tokens)
    prompt = "".join(token.text for token in started.prompt)
    assert whole.startswith(prompt) and prompt.endswith("assistant:")
    by = {n: "".join(t.text for t in rewritten.tokens if t.message == n) for n in (0, 1, 2)}
    assert by[0].strip() == "Be brief." and by[1].strip() == "Why is the sky blue?"
    assert by[2].startswith("You said: Why is the sky blue?")
    end = finished(events)
    assert end.stats.prompt_tokens == len(started.prompt) and end.stop_reason == "end"
    assert end.stats.decode_tok_s > 0
    engine.close()


def test_a_prompt_is_told_as_it_is_asked_for(serve: Callable[..., Served]) -> None:
    """With the values that its template is given, and with its switch off."""
    served = serve()
    engine = engine_of(served)
    asked = Generate(ASKED, MOST, thinking=False, values={"reasoning_effort": "low", "tone": "dry"})
    events = events_of(engine, asked)
    assert next(event for event in events if isinstance(event, GenerationStarted)).prompt
    told = [(False, {"reasoning_effort": "low", "tone": "dry"})] * 2  # the prompt, the answer
    assert served.service is not None and served.service.asked_values == told
    engine.close()


def test_what_is_inside(serve: Callable[..., Served]) -> None:
    served = serve()
    engine = engine_of(served)
    with pytest.raises(RequestError, match="ask something first"):
        engine.submit(Inspect(3)).result(PATIENCE)
    assert [type(event) for event in events_in(engine.poll())] == [Ended]
    events_of(engine, Generate(ASKED, MOST))
    held = engine.held
    assert held is not None and (held.layers, held.heads) == (4, 3) and held.cache.pages > 0
    maps = engine.inspection.attention(held, 2, range(3), 0, len(held.tokens), Exchange())
    assert maps.shape == (3, len(held.tokens), len(held.tokens))
    assert np.allclose(maps.sum(axis=2), 1, atol=1e-4)
    assert served.service is not None
    expected = served_maps(served.service, held.response, 2, [1], 5, 6)
    asked = ReadAttentionRows(5, "from", "heads", ((2, 1),))
    rows = result_of(engine, asked, type(engine.inspection.rows(held, asked, Exchange())))
    assert np.allclose(rows.weights, expected[0, 0], atol=1e-6)
    mean = engine.inspection.rows(held, ReadAttentionRows(5, "to", "layer-mean", (), 2), Exchange())
    column = maps.mean(axis=0)[:, 5] * (np.arange(len(maps[0])) >= 5)
    assert np.allclose(mean.weights, column, atol=1e-6)
    lens = result_of(engine, Inspect(4), LensResult)
    ended = events_of(engine, Inspect(4))[-1]
    assert isinstance(ended, Ended) and ended.of_tokens == held.tokens
    assert [row.layer for row in lens.rows] == [0, 1, 2, 3] and len(lens.rows[0].tokens) == 5
    measured = result_of(engine, MeasureCache("received", 0, 4), CacheMeasured)
    numbers = np.array(served.service.ask(held.response, MeasureCache("received")).values)[:, :4]
    assert np.allclose(measured.values, numbers, equal_nan=True) and np.isnan(numbers[0, 0])
    states = result_of(engine, ReadStates(2, 1, 6), StatesRead)
    assert states == served.service.ask(held.response, ReadStates(2, 1, 6))
    with pytest.raises(RequestError, match="no recurrent state"):
        engine.submit(ReadStates(1, 0)).result(PATIENCE)
    engine.poll()
    routing = result_of(engine, ReadRouting(3), RoutingRead)
    assert routing == served.service.ask(held.response, ReadRouting(3))
    layer = engine.info.cache.layers[2]
    assert (len(engine.info.cache.layers), layer.layer, layer.rows) == (4, 2, engine.info.context)
    asked_token = FollowToken(6, 1, 2)
    trace = result_of(engine, asked_token, TokenFollowed).trace
    assert trace == served.service.ask(held.response, asked_token).trace
    rollout = ReadAttentionRows(5, "from", "rollout")
    flow = engine.inspection.rows(held, rollout, Exchange())
    exact = served.service.ask(held.response, rollout)
    assert np.allclose(flow.weights, exact.weights, atol=1e-6)
    engine.close()


def test_thoughts_calls_and_continuing(serve: Callable[..., Served]) -> None:
    served = serve(thinks=True)
    engine = engine_of(served)
    events = events_of(engine, Generate(ASKED, MOST))
    started = next(event for event in events if isinstance(event, GenerationStarted))
    assert started.thinking is not None and started.thinking.inside
    assert "</think>" in said(events)
    tool = ToolSpec("weather", "", '{"type": "object", "properties": {"a": {"type": "string"}}}')
    engine.close()
    served = serve()
    engine = engine_of(served)
    events = events_of(engine, Generate(ASKED, MOST, tools=(tool,)))
    (call,) = read_calls("tags", said(events)).calls
    assert call.name == "weather" and not call.problem
    begun = (*ASKED, ChatMessage("assistant", "The sky"))
    events_of(engine, Generate(begun, MOST, continue_last=True))
    assert served.service is not None
    request = served.service.requests[-1]
    assert request.continue_last and request.messages[-1].content == "The sky"
    assert request.sampling.temperature == 0
    engine.close()


def test_counting(serve: Callable[..., Served]) -> None:
    engine = engine_of(serve())
    command = CountTokens(("one two three four", "five"), (2, 5))
    counted = result_of(engine, command, TokensCounted)
    assert counted.tokens[0] <= 2 and counted.tokens[1] == 1
    assert counted.kept[0] < 18 and counted.kept[1] == 4
    engine.close()


def test_an_answer_that_is_gone(serve: Callable[..., Served]) -> None:
    served = serve()
    inspection = RemoteInspection(Client(read_address(served.url), ApiKey()))
    with pytest.raises(RemoteError):
        inspection.held("chatcmpl-nothing", Exchange())


def _npz(name: str, raw: bytes, how: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how) as archive:
        archive.writestr(f"{name}.npy", raw)
    return stream.getvalue()


def test_traces_that_lie() -> None:
    """What does not belong together is one sentence, and is not drawn."""
    asked = FollowToken(3, 1, 2)
    good: dict[str, Any] = to_builtins(replace(scripted_lesson.trace(asked), texts=("a",) * 4))
    assert trace_of(good, asked).texts == ("a",) * 4
    for name, value in (
        ("position", 4), ("growth", []), ("tokens", []), ("texts", ["a"]), ("head", 9),
        ("layer", 30), ("shape", {}), ("final", {"values": [], "size": 0, "rms": 0.0}),
        ("distribution", {"top": [], "tails": [], "went_on": None, "rank": 0}), ("row", "x"),
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            trace_of({**good, name: value}, asked)
    for nothing in (None, [], "trace", {}):
        with pytest.raises(ValidationError):
            trace_of(nothing, asked)


def test_experts_that_lie() -> None:
    asked = ReadRouting(3)
    chosen, shares = [[[0, 4]] * 2] * 6, [[[0.5, 0.5]] * 2] * 6
    good: dict[str, Any] = {"first": 3, "layers": [1, 2], "experts": 5}
    good |= {"chosen": chosen, "shares": shares}
    assert routing_of(good, asked, 9).count == 6
    for name, value in (
        ("first", 2), ("first", 9), ("layers", []), ("layers", [1]), ("experts", 4),
        ("chosen", chosen[1:]), ("chosen", [[[0, -1]] * 2] * 6), ("chosen", [[[0]] * 2] * 6),
        ("shares", shares[1:]), ("shares", [[[0.5, np.inf]] * 2] * 6), ("chosen", "none"),
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            routing_of({**good, name: value}, asked, 9)


def test_states_that_lie() -> None:
    """What does not belong together is one sentence, and is not drawn."""
    asked = ReadStates(2, 1, 4)
    told: dict[str, Any] = to_builtins(read_states(asked, 9, (0, 2)))
    good = {**told, "half_lives": [{"layer": 2, "tokens": [3.0, None]}]}
    assert states_of(good, asked, 9).half_lives == ((2, (3.0, np.inf)),)
    rows = [[0.5] * 4] * 4
    for name, value in (
        ("layer", 0), ("head", 0), ("first", 4), ("kept", [0.5] * 3), ("written", None),
        ("norms", [0.5] * 5), ("shares", rows[:3]), ("shares", [*rows[:3], [0.5]]),
        ("shares", [*rows[:3], [0.5, 0.5, 0.5, np.inf]]), ("of_start", []), ("half_lives", []),
        ("half_lives", [{"layer": 2, "tokens": [3.0]}]), ("half_lives", told["half_lives"]),
    ):  # fmt: skip
        with pytest.raises(ValidationError):
            states_of({**good, name: value}, asked, 9)
    for nothing in (None, [], "states", {}):
        with pytest.raises(ValidationError):
            states_of(nothing, asked, 9)
    with pytest.raises(ValidationError):
        states_of(good, asked, 3)


def _npy(array: np.ndarray[Any, Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_arrays_that_lie() -> None:
    """Objects, bombs, other shapes and half files are one sentence, and are not unpacked."""
    inspection = RemoteInspection(Client(read_address("http://x"), ApiKey()))
    good = _npy(np.ones((1, 2, 3), np.float32))
    assert inspection._array(_npz("a", good), "a", (1, 2, 3)).shape == (1, 2, 3)
    huge = _npy(np.ones((1, 2, 3), np.float32)).replace(b"(1, 2, 3)", b"(1,2,9999)"[:9])
    whole, no_kind = _npz("a", good), good.replace(b"<f4", b"<f1")
    listed, end = whole.index(b"PK\x01\x02"), whole.index(b"PK\x05\x06")
    count = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 9, 9, 9 * (end - listed), listed, 0)
    nine_of_one = whole[:listed] + 9 * whole[listed:end] + count
    encrypted = whole[:6] + b"\1" + whole[7 : listed + 8] + b"\1" + whole[listed + 9 :]
    for raw in (
        b"", b"PK", _npz("a", good[:-4]), _npz("b", good), _npz("a", b"\x93NUMPY"),
        _npz("a", good, zipfile.ZIP_DEFLATED), _npz("a", huge),
        nine_of_one, encrypted, _npz("a", no_kind),
        _npz("a", _npy(np.array([{}], object))), _npz("a", _npy(np.ones((1, 2, 3)))),
    ):  # fmt: skip
        with pytest.raises(RemoteError, match="no array of a"):
            inspection._array(raw, "a", (1, 2, 3))


def test_recurrent_states_of_a_model_elsewhere(recurrent_folder: Path) -> None:
    client = LocalClient()
    client.load(recurrent_folder, exact("cpu"))
    serve_clients(client, parallel=2)
    server = Server(client.engine.service, ServerConfig(port=0))
    server.start()
    asking = Client(read_address(server.address), ApiKey())
    told = connect(asking, Exchange())
    engine = RemoteEngine(asking, told, told.models[0])
    try:
        assert engine.info.recurrent_layers == (0, 1, 2, 4)
        events_of(engine, Generate(ASKED, replace(MOST, max_new_tokens=12)))
        held = engine.held
        assert held is not None and len(held.tokens) > 20
        found = result_of(engine, ReadStates(4, 1, 15), StatesRead)
        with running(recurrent_folder, exact("numpy")) as alone:
            alone.session.prefill(held.tokens)
            known = asked(ReadStates(4, 1, 15), alone)
        assert found.first == known.first == len(held.tokens) - 15
        for name in ("kept", "written", "norms", "shares", "of_start"):
            assert np.abs(np.subtract(getattr(found, name), getattr(known, name))).max() < 1e-3
        assert len(result_of(engine, Inspect(9), LensResult).rows) == 5
        with pytest.raises(RequestError, match="layer 3 has no recurrent state"):
            engine.submit(ReadStates(3, 0)).result(PATIENCE)
    finally:
        engine.close()
        server.stop()
        assert client.engine.close(PATIENCE)


class _Saying:
    """A client of a server that says the same to every question."""

    address = read_address("http://liar")

    def __init__(self, **arrays: Any) -> None:
        self._arrays = arrays

    def fetch(self, *asked: Any) -> bytes:
        stream = io.BytesIO()
        np.savez(stream, **self._arrays)
        return stream.getvalue()


_HELD = RemoteResponse("r", tuple(range(9)), ("",) * 9, 4, 0, 2, 3, HeldCache(9, 0, 0, 0, 0, 0))
_OF = ReadActivations(("a",), 2)
_ROWS = np.ones((7, 5), np.float32)
_PATCH = ReadPatch(("a",), (5,), (1, 2), (0, 0), each=True, tokens=(3, 4))
_TWO = np.ones(2, np.float32)
_PATCHED = {
    "position": 8,
    "tokens": np.array([3, 4], np.int32),
    "texts": np.array(["a", "b"]),
    "before": _TWO,
    "of_source": _TWO,
    "after": np.ones((1, 2, 2), np.float32),
    "logits_before": _TWO,
    "logits_after": np.ones((1, 2, 2), np.float32),
    "kl": np.ones((1, 2), np.float32),
}
_SCORES = {name: np.ones((2, 3), np.float32) for name in SCORES}


@pytest.mark.parametrize(
    ("request_", "arrays", "sentence"),
    [
        (_OF, {"first": 2, "a": _ROWS}, ""),
        (_OF, {"first": 1, "a": _ROWS}, "first: expected 2, found 1"),
        (_OF, {"first": 2, "b": _ROWS}, "sites: expected a, found b"),
        (_OF, {"first": 2}, "sites: expected a, found none"),
        (_OF, {"first": 2, "a": _ROWS, "b": _ROWS}, "sites: expected a, found a, b"),
        (_OF, {"first": 2, "a": _ROWS[1:]}, "a: expected 7 rows of columns, found (6, 5)"),
        (_OF, {"first": 2, "a": _ROWS[0]}, "a: expected 7 rows of columns, found (5,)"),
        (_OF, {"first": 2, "a": _ROWS[:, :0]}, "a: expected 7 rows of columns, found (7, 0)"),
        (_OF, {"first": 2, "a": _ROWS * np.nan}, "a: expected finite numbers"),
        (ReadActivations(("a",), 2, 4), {"first": 2, "a": _ROWS[:2]}, ""),
        (ReadActivations(("a",), 2, 4), {"first": 2, "a": _ROWS}, "a: expected 2 rows of columns"),
        (ReadScores(), _SCORES, ""),
        (ReadScores(), {"entropy": _SCORES["entropy"]}, "scores: expected entropy, "),
        (ReadScores(), _SCORES | {"first": _ROWS}, "first: expected 2 layers of 3 heads, found"),
        (_PATCH, _PATCHED, ""),
        (_PATCH, _PATCHED | {"kl": _ROWS}, "kl: expected (1, 2), found (7, 5)"),
        (_PATCH, _PATCHED | {"before": _TWO * np.nan}, "before: expected finite numbers"),
        (_PATCH, _PATCHED | {"texts": np.array(["a"])}, "texts: expected 2, found 1"),
        (_PATCH, _PATCHED | {"tokens": np.ones(9, np.int32)}, "tokens: expected 1 to 2, found"),
        (ReadEffect(), {"kl": 0.5}, ""),
        (ReadEffect(), {"kl": np.nan}, "kl: expected a number from 0 on, found nan"),
    ],
)
def test_answers_that_are_of_something_else(
    request_: Any, arrays: dict[str, Any], sentence: str
) -> None:
    """An untrusted server: what was not asked for is one sentence, and reaches nobody."""
    inspection = RemoteInspection(cast(Any, _Saying(response="r", **arrays)))
    if not sentence:
        assert inspection.ask(_HELD, request_, Exchange())
        return
    with pytest.raises(RemoteError) as told:
        inspection.ask(_HELD, request_, Exchange())
    assert f"liar tells nothing usable of {BY_REQUEST[type(request_)].subject}: {sentence}" in str(
        told.value
    )


def test_rows_of_a_source_are_as_many_as_it_has() -> None:
    held = replace(_HELD, source=4)
    for rows in (_ROWS, _ROWS[:2]):
        said = RemoteInspection(cast(Any, _Saying(response="r", first=2, a=rows)))
        assert len(said.ask(held, _OF, Exchange()).values["a"]) == len(rows)
    with pytest.raises(RemoteError, match=r"a: expected 2 or 7 rows of columns, found \(3, 5\)"):
        said = RemoteInspection(cast(Any, _Saying(response="r", first=2, a=_ROWS[:3])))
        said.ask(held, _OF, Exchange())
