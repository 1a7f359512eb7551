"""The inspection of an answer in another llm-lite: its tokens, its attention, its logit lens, how
full its cache is. Arrays come as NPZ; they are checked before they are used."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite
from typing import Any
from urllib.parse import urlencode

import numpy as np
from msgspec import Struct, ValidationError, convert
from numpy.typing import NDArray

from llm_lite.core.messages import (
    Alternative,
    AttentionRows,
    CacheMeasured,
    ChatMessage,
    Command,
    FollowToken,
    Inspect,
    LensResult,
    LensRow,
    MeasureCache,
    PromptToken,
    ReadAttentionRows,
    ReadRouting,
    ReadStates,
    RoutingRead,
    StatesRead,
    TokenFollowed,
    TokenTrace,
)
from llm_lite.core.messages.inspecting import lesson
from llm_lite.core.messages.remote import HeldCache
from llm_lite.core.plain_text import shortened
from llm_lite.core.questions import wire
from llm_lite.core.questions.attention import AttentionRead, ReadAttention
from llm_lite.core.questions.question import RemoteText
from llm_lite.core.questions.table import BY_REQUEST
from llm_lite.core.remote.arrays import npz_arrays
from llm_lite.core.remote.client import Client, Exchange
from llm_lite.core.remote.counting import placed
from llm_lite.core.remote.failures import RemoteError
from llm_lite.core.remote.json_fields import a_list, an_object, number, text, whole

F32 = NDArray[np.float32]
MOST_VALUES = 8 << 20  # of one array
MOST_BYTES = (64 << 20) + (1 << 20)  # of an answer in arrays: a server's 16M values
MOST_TOKENS = 1 << 17
MOST_LAYERS = 1024
MOST_EXPERTS = 1 << 16
MOST_HEADS = 1 << 14  # of all layers: the largest models have about so many
SECONDS = 60.0
LONGEST_QUERY = 2000  # characters, which every program on the way takes
LONG_SECONDS = 600.0  # for what takes a pass over all keys, behind what others ask


class RemoteResponse(Struct, frozen=True):
    """An answer that its server can still look into."""

    response: str
    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    prompt_tokens: int
    first_query: int  # queries are kept from this position on
    layers: int
    heads: int
    cache: HeldCache
    source: int = 0  # of an encoder-decoder, how many tokens its source has
    is_encoded: bool = False  # the text of an encoder

    @property
    def sizes(self) -> RemoteText:
        """Return what answers about it are held to."""
        lengths = (len(self.tokens), self.source) if self.source else (len(self.tokens),)
        return RemoteText(lengths, self.layers, self.heads)

    def as_prompt(self, messages: tuple[ChatMessage, ...], answer: int) -> tuple[PromptToken, ...]:
        """Return its tokens with the messages that contain them; `answer` is the answer's index."""
        count = self.prompt_tokens
        contents = [message.content for message in messages]
        prompt = placed(self.tokens[:count], self.texts[:count], contents)
        rest = zip(self.tokens[count:], self.texts[count:], strict=True)
        return (*prompt, *(PromptToken(token, words, answer) for token, words in rest))


class RemoteInspection:
    """The inspection of answers of one server. RemoteError if an answer is no longer kept."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def held(
        self,
        response: str,
        exchange: Exchange,
        seconds: float = SECONDS,
        *,
        is_encoded: bool = False,
    ) -> RemoteResponse:
        """Return what the server keeps of a response, or of the text of an encoder. RemoteError
        where that is nothing usable."""
        path = f"/glass/cache?{urlencode({'response': response})}"
        reply = an_object(self._client.get_json(path, exchange, seconds))
        tokens = [whole(token) for token in a_list(reply.get("tokens"))[:MOST_TOKENS]]
        texts = [text(words, 200) for words in a_list(reply.get("texts"))[:MOST_TOKENS]]
        layers, heads = whole(reply.get("layers")), whole(reply.get("heads"))
        if (
            not tokens
            or len(texts) != len(tokens)
            or not (0 < layers <= 1024 and 0 < heads <= 1024 and layers * heads <= MOST_HEADS)
        ):
            raise RemoteError(f"{self._host} tells nothing usable of the cache of {response[:40]}")
        prompt = min(whole(reply.get("prompt_tokens")), len(tokens))
        first = min(whole(reply.get("first_query")), len(tokens))
        cache = HeldCache(
            len(tokens),
            first,
            whole(reply.get("page_tokens")),
            whole(reply.get("pages")),
            whole(reply.get("pages_used")),
            whole(reply.get("pages_kept")),
        )
        return RemoteResponse(
            response,
            tuple(tokens),
            tuple(texts),
            prompt,
            first,
            layers,
            heads,
            cache,
            len(a_list(reply.get("source"))[:MOST_TOKENS]),
            is_encoded,
        )

    def attention(
        self,
        held: RemoteResponse,
        layer: int,
        heads: range | tuple[int, ...],
        first: int,
        last: int,
        exchange: Exchange,
    ) -> F32:
        """Return probabilities float32 [heads, last - first, length]; nan where the server does not
        know them."""
        length = len(held.tokens)
        asked = {
            "response": held.response, "layer": layer, "heads": ",".join(map(str, heads)),
            "first": first, "last": last, "format": "npz",
        }  # fmt: skip
        path, most = f"/glass/attention?{urlencode(asked)}", 4 * MOST_VALUES + (64 << 10)
        raw = self._client.fetch("GET", path, None, exchange, SECONDS, most)
        found = self._array(raw, "attention", (len(heads), last - first, length))
        return np.clip(found, 0.0, 1.0)

    def maps(self, held: RemoteResponse, asked: ReadAttention, exchange: Exchange) -> AttentionRead:
        """Return rows of the maps of heads. RemoteError where the server cannot tell them."""
        heads = asked.heads or tuple(range(held.heads))
        first = held.first_query if asked.first is None else asked.first
        last = len(held.tokens) if asked.last is None else asked.last
        found = self.attention(held, asked.layer, heads, first, last, exchange)
        return AttentionRead(asked.layer, heads, first, found)

    def lens(self, held: RemoteResponse, asked: Inspect, exchange: Exchange) -> LensResult:
        position = min(asked.position, len(held.tokens) - 1)
        query = {"response": held.response, "position": position, "count": asked.count}
        reply = an_object(
            self._client.get_json(f"/glass/lens?{urlencode(query)}", exchange, SECONDS)
        )
        rows = []
        for row in map(an_object, a_list(reply.get("layers"))[:1024]):
            parts = (a_list(row.get(name))[:50] for name in ("tokens", "texts", "probabilities"))
            best = [
                Alternative(whole(token), text(words, 200), chance)
                for token, words, share in zip(*parts, strict=False)
                if (chance := number(share)) == chance
            ]
            if best:
                rows.append(LensRow(whole(row.get("layer")), tuple(best)))
        if not rows:
            raise RemoteError(f"{self._host} tells nothing of its layers")
        return LensResult(asked.position, tuple(rows))

    def rows(
        self, held: RemoteResponse, asked: ReadAttentionRows, exchange: Exchange
    ) -> AttentionRows:
        """Return attention rows. RemoteError if the server cannot compute them."""
        how: dict[str, object] = {}
        if asked.mode == "heads":
            how["heads"] = ",".join(f"{layer}.{head}" for layer, head in asked.heads)
        elif asked.mode == "layer-mean":
            how["layer"] = asked.layer
        elif asked.without_first:
            how["without_first"] = "true"
        query = urlencode(
            {
                "response": held.response,
                "position": asked.position,
                "direction": asked.direction,
                **how,
            }
        )
        reply = an_object(self._client.get_json(f"/inspect/rows?{query}", exchange, SECONDS))
        given = a_list(reply.get("weights"))
        if len(given) != len(held.tokens):
            raise RemoteError(
                f"{self._host} tells nothing usable of where a token looks: expected "
                f"{len(held.tokens)} weights, found {len(given)}"
            )
        weights = np.clip(np.nan_to_num(np.array([number(one) for one in given])), 0.0, 1.0)
        note = text(reply.get("note"), 200)
        return AttentionRows(asked.position, asked.direction, tuple(weights.tolist()), note)

    def statistics(
        self, held: RemoteResponse, asked: MeasureCache, exchange: Exchange
    ) -> CacheMeasured:
        """Return numbers of the positions `asked.first` to `asked.last`-1 in each layer's cache."""
        query = urlencode({"response": held.response, "what": asked.what})
        path = f"/inspect/statistics?{query}"
        reply = an_object(self._client.get_json(path, exchange, LONG_SECONDS))
        rows = [a_list(row) for row in a_list(reply.get("values"))[:MOST_LAYERS]]
        length = len(held.tokens)
        if not rows or any(len(row) != length for row in rows):
            raise RemoteError(
                f"{self._host} tells nothing usable of its cache: expected {length} numbers for "
                f"each layer, found {', '.join(sorted({str(len(row)) for row in rows})) or 'none'}"
            )
        values = tuple(tuple(number(one) for one in row[asked.first : asked.last]) for row in rows)
        layers = tuple(whole(one) for one in a_list(reply.get("layers"))[: len(rows)])
        return CacheMeasured(asked.what, asked.first, 0, values, layers)

    def trace(self, held: RemoteResponse, asked: FollowToken, exchange: Exchange) -> TokenFollowed:
        """Return all numbers of a token. RemoteError if the server's are not of such a kind."""
        how: dict[str, object] = {} if asked.head == lesson.ANY_HEAD else {"head": asked.head}
        query = {"response": held.response, "position": asked.position, "layer": asked.layer}
        if held.is_encoded and asked.beside:
            how["beside"] = asked.beside[: lesson.MOST_BESIDE]
        path = f"/inspect/trace?{urlencode({**query, 'first': asked.first, **how})}"
        reply = an_object(self._client.get_json(path, exchange, LONG_SECONDS))
        expected: lesson.ModelPath = "encoder" if held.is_encoded else "decoder"
        try:
            return TokenFollowed(trace_of(reply.get("trace"), asked, expected))
        except ValidationError as error:
            raise RemoteError(
                f"{self._host} tells nothing usable of the token: {shortened(str(error), 200)}"
            ) from None

    def states(self, held: RemoteResponse, asked: ReadStates, exchange: Exchange) -> StatesRead:
        """Return what a head of a recurrent state holds. RemoteError if the server's numbers do not
        belong together."""
        query = {"response": held.response, "layer": asked.layer, "head": asked.head}
        path = f"/inspect/states?{urlencode({**query, 'positions': asked.positions})}"
        reply = an_object(self._client.get_json(path, exchange, LONG_SECONDS))
        try:
            return states_of(reply, asked, len(held.tokens))
        except ValidationError as error:
            raise RemoteError(
                f"{self._host} tells nothing usable of its states: {shortened(str(error), 200)}"
            ) from None

    def routing(self, held: RemoteResponse, asked: ReadRouting, exchange: Exchange) -> RoutingRead:
        """Return the experts that tokens chose. RemoteError if the server's numbers do not belong
        together."""
        path = f"/inspect/experts?{urlencode({'response': held.response, 'first': asked.first})}"
        reply = an_object(self._client.get_json(path, exchange, LONG_SECONDS))
        try:
            return routing_of(reply, asked, len(held.tokens))
        except ValidationError as error:
            raise RemoteError(
                f"{self._host} tells nothing usable of its experts: {shortened(str(error), 200)}"
            ) from None

    def ask(self, held: RemoteResponse, request: Command, exchange: Exchange) -> Any:
        """Return the answer to a question of the table about a response. RemoteError if the server
        cannot answer it, or its answer is none."""
        if (own := _OWN_FORM.get(type(request))) is not None:
            return own(self, held, request, exchange)
        question = BY_REQUEST[type(request)]
        path, more = f"/inspect/{question.name}", {"response": held.response, "format": "npz"}
        query = urlencode({**more, **wire.query_of(question, request)})
        if len(query) > LONGEST_QUERY and wire.takes_records(question):
            body = {**more, **wire.body_of(question, request)}
            raw = self._client.fetch("POST", path, body, exchange, LONG_SECONDS, MOST_BYTES)
        else:
            path = f"{path}?{query}"
            raw = self._client.fetch("GET", path, None, exchange, LONG_SECONDS, MOST_BYTES)
        try:
            arrays = npz_arrays(raw)
            arrays.pop("response", None)
            answer = wire.answer_of_arrays(question, arrays)
            question.check(request, answer, held.sizes)
            return answer
        except (ValueError, TypeError) as error:
            raise RemoteError(
                f"{self._host} tells nothing usable of {question.subject}: "
                f"{shortened(str(error), 200)}"
            ) from None

    @property
    def _host(self) -> str:
        return self._client.address.host

    def _array(self, raw: bytes, name: str, shape: tuple[int, ...]) -> F32:
        try:
            found = npz_arrays(raw).get(name)
            if found is None or found.dtype != np.float32 or found.shape != shape:
                described = "nothing" if found is None else f"{found.dtype} {found.shape}"
                raise ValueError(f"expected float32 {shape}, found {described}")
            return found
        except ValueError as error:
            raise RemoteError(f"{self._host} sends no array of {name}: {error}") from None


# Whose address is older than the table of questions, or has another form than its records.
_OWN_FORM: dict[type[Command], Callable[..., Any]] = {
    ReadAttention: RemoteInspection.maps,
    Inspect: RemoteInspection.lens,
    ReadAttentionRows: RemoteInspection.rows,
    MeasureCache: RemoteInspection.statistics,
    ReadStates: RemoteInspection.states,
    ReadRouting: RemoteInspection.routing,
    FollowToken: RemoteInspection.trace,
}


class _Lives(Struct):
    layer: int
    tokens: tuple[float | None, ...]


class _States(Struct):
    """`StatesRead` in JSON, which has no infinity: of half-lives, null stands for it."""

    layer: int
    head: int
    first: int
    kept: tuple[float, ...]
    written: tuple[float, ...]
    norms: tuple[float, ...]
    shares: tuple[tuple[float, ...], ...]
    of_start: tuple[float, ...]
    half_lives: tuple[_Lives, ...]


def states_of(found: Any, asked: ReadStates, length: int) -> StatesRead:
    """Return what a head's states hold from JSON, of a text of `length` tokens. ValidationError
    where it is none, or its parts do not belong together."""
    states, count = convert(found, _States), min(asked.positions, length)
    by_token = states.kept, states.written, states.norms, states.of_start, *states.shares
    for what, belongs in (
        ("head", (states.layer, states.head) == (asked.layer, asked.head)),
        ("positions", states.first == length - count),
        ("tokens", len(states.shares) == count and {len(one) for one in by_token} == {count}),
        ("numbers", all(isfinite(value) for one in by_token for value in one)),
        ("layers", 0 < len(states.half_lives) <= MOST_LAYERS),
        ("heads", all(states.head < len(one.tokens) <= MOST_HEADS for one in states.half_lives)),
    ):
        if not belongs:
            raise ValidationError(f"its {what} do not belong together")
    lives = tuple(
        (one.layer, tuple(inf if tokens is None else tokens for tokens in one.tokens))
        for one in states.half_lives
    )
    return StatesRead(
        states.layer,
        states.head,
        states.first,
        states.kept,
        states.written,
        states.norms,
        states.shares,
        states.of_start,
        lives,
    )


class _Experts(Struct):
    """`RoutingRead` in JSON."""

    first: int
    layers: tuple[int, ...]
    experts: int
    chosen: tuple[tuple[tuple[int, ...], ...], ...]
    shares: tuple[tuple[tuple[float, ...], ...], ...]


def routing_of(found: Any, asked: ReadRouting, length: int) -> RoutingRead:
    """Return the experts that tokens chose from JSON, of a text of `length` tokens. ValidationError
    where it is none, or its parts do not belong together."""
    routing = convert(found, _Experts)
    count, layers = length - routing.first, len(routing.layers)
    each = len(routing.chosen[0][0]) if routing.chosen and routing.chosen[0] else 0
    numbers = [n for token in routing.chosen for layer in token for n in layer]
    shares = [n for token in routing.shares for layer in token for n in layer]
    for what, belongs in (
        ("positions", asked.first <= routing.first < length),
        ("layers", 0 < layers <= MOST_LAYERS),
        ("tokens", len(routing.chosen) == len(routing.shares) == count),
        ("choices", 0 < each <= routing.experts <= MOST_EXPERTS),
        ("choices", len(numbers) == len(shares) == count * layers * each),
        ("choices", all(0 <= one < routing.experts for one in numbers)),
        ("shares", all(isfinite(share) for share in shares)),
    ):
        if not belongs:
            raise ValidationError(f"its {what} do not belong together")
    return RoutingRead(
        routing.first,
        0,
        routing.experts,
        each,
        routing.layers,
        np.array(numbers, "<u2").tobytes(),
        np.array(shares, "<f4").tobytes(),
    )


def trace_of(found: Any, asked: FollowToken, path: lesson.ModelPath = "decoder") -> TokenTrace:
    """Return the trace of a token of such a model from JSON. ValidationError where it is none, or
    its parts do not belong together."""
    trace = convert(found, TokenTrace)
    shape, opened = trace.shape, trace.opened
    sizes = shape.layers, shape.width, shape.heads, shape.kv_heads, shape.head_dim
    vectors = [trace.row, trace.embedded, trace.final, opened.head.query, opened.head.key]
    pooled, chances = trace.pooled, trace.distribution
    if pooled is not None:
        more = (pooled.vector, pooled.beside)
        vectors += [*pooled.states, *(one for one in more if one is not None)]
    has_logits = path != "encoder" or shape.has_head
    for what, belongs in (
        ("sizes", all(0 < one < 1 << 24 for one in sizes) and shape.path == path),
        ("position", trace.position == asked.position and 0 <= trace.layer < shape.layers),
        ("head", 0 <= trace.head < shape.heads == len(opened.head.outputs)),
        ("tokens", 0 < len(trace.tokens) == len(trace.texts) <= lesson.MOST_TOKENS),
        ("scores", 0 < len(opened.head.scores) <= len(trace.tokens)),
        ("layers", len(trace.growth) == shape.layers <= MOST_LAYERS),
        ("logits", len(chances.tails) == len(lesson.TEMPERATURES)),
        ("logits", has_logits <= len(chances.top) <= lesson.MOST_LOGITS * has_logits),
        ("poolings", (pooled is not None) != has_logits),
        ("poolings", pooled is None or len(pooled.states) <= len(trace.tokens)),
        ("neurons", 0 < len(opened.feed_forward.neurons) <= lesson.MOST_NEURONS),
        ("vectors", all(0 < len(one.values) <= lesson.MOST_VALUES for one in vectors)),
    ):
        if not belongs:
            raise ValidationError(f"its {what} do not belong together")
    return trace
