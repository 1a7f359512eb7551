"""What the lesson must show, made another way: the whole text at once on the NumPy executor, whose
every op is kept, and attention from its queries, keys and values in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from llm_lite.core.messages.inspecting.lesson import HeadTrace, TokenTrace
from llm_lite.core.plan.step import Step
from tests.encoder_checks import started
from tests.runners import exact, running


@dataclass(frozen=True)
class Whole:
    """A whole text at once on the NumPy executor. Logits after every token, float64 [tokens, V],
    none where there is no head; what every op made, float32 [tokens, columns]; the layers'
    attention and biases by distance, where layers end, and the ops' labels."""

    logits: np.ndarray | None
    rows: dict[str, np.ndarray]
    layers: tuple
    biases: tuple
    ends: tuple[int, ...]
    names: list[str]
    causal: bool = True


@lru_cache(maxsize=1)  # dequantizing a real model takes seconds
def whole_text(path: Path, tokens: tuple[int, ...], context: int) -> Whole:
    with running(path, exact("numpy", context=context), every_output=True) as runner:
        logits = runner.session.logits(tokens).astype(np.float64)
        return _whole(runner, logits, dict(runner.executor._scratch))


@lru_cache(maxsize=2)
def whole_target(path: Path, source: tuple[int, ...], tokens: tuple[int, ...]) -> Whole:
    """Of an encoder-decoder."""
    with running(path, exact("numpy")) as runner:
        runner.read_source(source)
        step = runner.session.step(tokens, 0)
        plan = runner.executor.program.plan_of(step)
        rows = keys_of(runner.source_encoder, source) | every_output(runner.executor, plan, step)
        last = [runner.session.prefill(tokens[: n + 1]) for n in range(len(tokens))]
        rows["source"] = runner.source_encoder.hidden
        return _whole(runner, np.stack(last).astype(np.float64), rows)


@lru_cache(maxsize=2)
def whole_encoder(path: Path, tokens: tuple[int, ...]) -> Whole:
    runner = started(path, "numpy")
    try:
        plan = runner.executor.program.plan_for(len(tokens), 0)
        rows = every_output(runner.executor, plan, Step(np.array(tokens, np.int32), 0, 0))
        has_head = runner.session.has_head
        logits = runner.session.logits(tokens).astype(np.float64) if has_head else None
        rows["vector"] = runner.embed_tokens([tokens])
        return replace(_whole(runner, logits, rows), causal=False)
    finally:
        runner.close()
        runner.model_file.close()


def keys_of(encoder, source) -> dict[str, np.ndarray]:
    """Keys and values of a source, by their labels: the encoder's plan makes them at its end."""
    count = len(source)
    plan = encoder.executor.program.plan_for(count, count)
    step = Step(np.array(source, np.int32), 0, count)
    found = every_output(encoder.executor, plan, step, len(plan.ops))
    return {label: rows for label, rows in found.items() if ".cross_attention." in label}


def every_output(executor, plan, step, last=0) -> dict[str, np.ndarray]:
    """Op by op, by its label; of the layers, or as many ops as `last` says."""
    found = {}
    for index, op in enumerate(plan.ops[: last or plan.layer_ends[-1] + 1]):
        executor.run_ops(plan, step, index, index + 1)
        tensor = plan.tensors[op.outputs[0]]
        if op.name != "store":
            found[op.label] = executor.read(plan, tensor, step).copy()
    return found


def _whole(runner, logits, rows) -> Whole:
    plan, source = runner.executor.program.plans[0], runner.attention
    biases = tuple(source.bias(layer) for layer in range(len(source.layers)))
    names = [op.label for op in plan.ops]
    return Whole(logits, rows, source.layers, biases, plan.layer_ends, names)


class LessonReference:
    """Of a token, by default the last of `tokens`, in a layer and a head. Of a decoder, what
    follows it changes nothing of what it is."""

    part = "attention"

    def __init__(
        self, path: Path, tokens: Sequence[int], layer: int, head: int, context: int = 0,
        position: int | None = None, *, whole: Whole | None = None,
    ):  # fmt: skip
        self.position = len(tokens) - 1 if position is None else position
        self.whole = whole or whole_text(path, tuple(tokens), context)
        self.ends, self.names = self.whole.ends, self.whole.names
        self.logits = None if self.whole.logits is None else self.whole.logits[self.position]
        self.seen = self.position + 1 if self.whole.causal else len(tokens)
        self.number, self.layer, self.head = layer, layer, head

    @property
    def wiring(self):
        return self.whole.layers[self.number]

    @property
    def is_behind(self) -> bool:
        """Norms stand behind the sums of the layers' parts."""
        at = f"layers.{self.layer}.attention"
        known = list(self.whole.rows)
        return f"{at}.norm" in known and known.index(f"{at}.norm") > known.index(f"{at}.heads")

    def crossing(self) -> LessonReference:
        """The same of the layer's cross-attention."""
        found = copy(self)
        found.part, found.number = "cross_attention", len(self.ends) + self.layer
        found.seen = len(self.whole.rows["source"])
        return found

    def row(self, *labels: str, at: int | None = None) -> np.ndarray:
        """What the last of these ops made for the token; float32 [columns]."""
        return self.all(*labels)[self.position if at is None else at]

    def all(self, *labels: str) -> np.ndarray:
        """float32 [tokens, columns]"""
        known = [label for label in labels if label in self.whole.rows]
        assert known, labels
        return self.whole.rows[known[-1]]

    def of_layer(self, part: str, *labels: str) -> np.ndarray:
        return self.row(*(f"layers.{self.layer}.{part}.{label}" for label in labels))

    def rows_of_layer(self, *labels: str) -> np.ndarray:
        return self.all(*(f"layers.{self.layer}.{self.part}.{label}" for label in labels))

    def heads_of(self, values: np.ndarray, count: int) -> np.ndarray:
        """[tokens, count, head_dim]"""
        return values.reshape(len(values), count, -1)

    @property
    def query(self) -> np.ndarray:
        """[d], as it meets the keys."""
        found = self.rows_of_layer("q", "q.biased", "q_norm", "q_rope", "q_magnitude")
        return self.heads_of(found, self.wiring.heads)[self.position, self.head]

    @property
    def raw_query(self) -> np.ndarray:
        found = self.rows_of_layer("q", "q.biased", "q_norm")
        return self.heads_of(found, self.wiring.heads)[self.position, self.head]

    @property
    def group(self) -> int:
        return self.head * self.wiring.kv_heads // self.wiring.heads

    @property
    def keys(self) -> np.ndarray:
        """[tokens that are seen, d] of the head's group"""
        found = self.rows_of_layer("k", "k.biased", "k_norm", "k_rope")
        return self.heads_of(found, self.wiring.kv_heads)[: self.seen, self.group]

    @property
    def values(self) -> np.ndarray:
        found = self.rows_of_layer("v", "v.biased", "v_norm")
        return self.heads_of(found, self.wiring.kv_heads)[: self.seen, self.group]

    @property
    def own(self) -> int:
        """The token whose key and value are told: itself, or the last of a source."""
        return self.position if self.part == "attention" else self.seen - 1

    @property
    def dots(self) -> np.ndarray:
        return self.keys.astype(np.float64) @ self.query

    @property
    def biases(self) -> np.ndarray:
        table, before = self.whole.biases[self.number], self.wiring.bias_before
        if table is None:
            return np.zeros(self.seen)
        columns = np.arange(self.seen) - self.position + before
        return table[self.head, np.clip(columns, 0, table.shape[1] - 1)]

    def scores(self, scale: float) -> np.ndarray:
        """float64 [tokens], capped; -inf where the layer does not see."""
        found, cap, window = self.dots * scale, self.wiring.softcap, self.wiring.window
        found = found + self.biases
        if cap:
            found = cap * np.tanh(found / cap)
        if window:
            found[: max(0, len(found) - window)] = -np.inf
        return found

    def shares(self, scale: float) -> np.ndarray:
        scores = self.scores(scale)
        weights = np.exp(scores - scores.max())
        return weights / weights.sum()

    @property
    def outputs(self) -> np.ndarray:
        """[heads, d], as the op made them."""
        return self.heads_of(self.rows_of_layer("heads"), self.wiring.heads)[self.position]

    @property
    def embedded(self) -> np.ndarray:
        sums = ("embedding", "embedding.scaled", "embedding.typed", "embedding.placed")
        return self.row(*sums, "embedding.norm")

    @property
    def embedding_sum(self) -> np.ndarray:
        return self.row("embedding", "embedding.typed", "embedding.placed")

    def ends_of(self, layer: int) -> np.ndarray:
        return self.row(self.names[self.ends[layer]])

    @property
    def before(self) -> np.ndarray:
        """The residual that the layer is given."""
        return self.ends_of(self.layer - 1) if self.layer else self.embedded

    @property
    def normed(self) -> np.ndarray:
        label = f"layers.{self.layer}.attention.norm"
        return self.row(label) if label in self.whole.rows and not self.is_behind else self.before

    @property
    def summed(self) -> np.ndarray:
        return self.of_layer("attention", "residual")

    @property
    def after_attention(self) -> np.ndarray:
        return self.of_layer("attention", "residual", *(["norm"] if self.is_behind else []))

    @property
    def after_cross(self) -> np.ndarray:
        return self.of_layer("cross_attention", "residual", *(["norm"] if self.is_behind else []))

    def added_by(self, part: str, layer: int | None = None) -> np.ndarray:
        names = ("output", "output.biased", "down", "down.biased", "post_norm", "scaled")
        return self.row(
            *(f"layers.{self.layer if layer is None else layer}.{part}.{n}" for n in names)
        )

    @property
    def attended(self) -> np.ndarray:
        return self.added_by(self.part)

    @property
    def added(self) -> np.ndarray:
        return self.added_by("feed_forward")

    @property
    def activations(self) -> np.ndarray:
        return self.of_layer(
            "feed_forward", "gelu", "gelu_new", "relu", "silu", "gelu_mul", "silu_mul"
        )

    def growth(self, kind: str, layer: int) -> float:
        """Of what attention, cross-attention and feed-forward add, and of the residual behind."""
        if kind == "residual":
            return rms(self.ends_of(layer))
        if self.is_behind:
            name = {"cross": "cross_attention"}.get(kind, kind)
            return rms(self.added_by(name, layer))
        at = f"layers.{layer}"
        points = [self.ends_of(layer - 1) if layer else self.embedded]
        points.append(self.row(f"{at}.attention.residual", f"{at}.state.residual"))
        if f"{at}.cross_attention.residual" in self.whole.rows:
            points.append(self.row(f"{at}.cross_attention.residual"))
        points.append(self.ends_of(layer))
        which = {"attention": 1, "cross": 2, "feed_forward": len(points) - 1}[kind]
        return rms(points[which] - points[which - 1])

    def probabilities(self, temperature: float) -> np.ndarray:
        weights = np.exp((self.logits - self.logits.max()) / temperature)
        return weights / weights.sum()


def rms(vector: np.ndarray) -> float:
    return math.sqrt(float(np.square(vector.astype(np.float64)).mean()))


def close(found: float, wanted: float, scale: float = 1.0) -> bool:
    return abs(found - wanted) <= 2e-4 * max(scale, abs(wanted))


def check_trace(trace: TokenTrace, wanted: LessonReference) -> None:
    """Every number of the trace."""
    opened = trace.opened
    check_vectors(
        (trace.row, wanted.row("embedding")), (trace.embedded, wanted.embedded),
        (opened.residual, wanted.before), (opened.normed, wanted.normed),
        (opened.attended, wanted.attended), (opened.feed_forward.output, wanted.added),
        (opened.after_attention, wanted.after_attention),
        (opened.after, wanted.ends_of(wanted.layer)),
    )  # fmt: skip
    for vector, label in ((trace.place, "positions"), (trace.segment, "types")):
        assert (vector is None) == (label not in wanted.whole.rows)
        if vector is not None:
            check_vectors((vector, wanted.row(label)))
    if trace.embedding_sum is not None:
        check_vectors((trace.embedding_sum, wanted.embedding_sum))
    assert (opened.summed is None) != wanted.is_behind
    if opened.summed is not None:
        check_vectors((opened.summed, wanted.summed))
    if wanted.whole.causal and trace.shape.final_norm and "output.norm" in wanted.whole.rows:
        check_vectors((trace.final, wanted.row("output.norm")))
    check_head(opened.head, wanted)
    if opened.cross is not None:
        crossing = wanted.crossing()
        check_head(opened.cross.head, crossing)
        check_vectors(
            (opened.cross.attended, crossing.attended), (opened.cross.after, wanted.after_cross)
        )
    for token in trace.source:
        check_vectors((token.hidden, wanted.whole.rows["source"][token.position]))
    check_neurons(trace, wanted)
    check_growth(trace, wanted)
    for token in trace.distribution.top:
        assert close(token.logit, wanted.logits[token.id], np.abs(wanted.logits).max())


def check_vectors(*pairs) -> None:
    for vector, expected in pairs:
        assert vector.size == len(expected)
        assert np.abs(np.array(vector.values) - expected[: len(vector.values)]).max() < 2e-4 * (
            1 + np.abs(expected).max()
        )
        assert close(vector.rms, rms(expected))


def check_head(head: HeadTrace, wanted: LessonReference) -> None:
    check_vectors(
        (head.query_raw, wanted.raw_query), (head.query, wanted.query),
        (head.key, wanted.keys[wanted.own]), (head.value, wanted.values[wanted.own]),
    )  # fmt: skip
    scale = wanted.wiring.scale
    shares, bare = wanted.shares(scale), wanted.shares(1.0)
    largest = np.abs(wanted.dots).max()
    for score in head.scores:
        at = score.position
        assert close(score.dot, wanted.dots[at], largest)
        assert close(score.bias, wanted.biases[at])
        assert close(score.score, wanted.scores(scale)[at], largest)
        assert close(score.probability, shares[at])
        assert close(score.unscaled, bare[at], 10 * largest)
        assert np.abs(np.array(score.value) - wanted.values[at]).max() < 2e-3
    inside = sum(score.probability for score in head.scores)
    assert close(head.others_probability + inside + head.sink, 1.0)
    outputs = wanted.outputs
    assert np.allclose(head.outputs, [rms(one) for one in outputs], rtol=1e-3, atol=1e-4)
    mixed = shares @ wanted.values
    for expected in (mixed, outputs[wanted.head]):
        away = np.abs(np.array(head.output.values) - expected).max()
        assert away < 2e-4 * (1 + np.abs(mixed).max())


def check_neurons(trace: TokenTrace, wanted: LessonReference) -> None:
    found = wanted.activations
    traced = trace.opened.feed_forward
    strongest = np.sort(np.abs(found))[::-1]
    assert traced.size == len(found)
    assert abs(traced.strong - int((np.abs(found) >= strongest[0] / 10).sum())) <= 1
    for place, neuron in enumerate(traced.neurons):
        assert close(abs(neuron.value), strongest[place], strongest[0])
        assert close(neuron.value, found[neuron.index], strongest[0])
        up = wanted.of_layer("feed_forward", "up", "up.biased")
        assert close(neuron.up, up[neuron.index], np.abs(up).max())


def check_growth(trace: TokenTrace, wanted: LessonReference) -> None:
    for layer, growth in enumerate(trace.growth):
        scale = wanted.growth("residual", layer)
        kinds = ["attention", "feed_forward", "residual"]
        kinds += ["cross"] if trace.opened.cross is not None else []
        for kind in kinds:
            assert close(getattr(growth, kind), wanted.growth(kind, layer), scale), (layer, kind)
