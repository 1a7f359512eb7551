"""What the lesson must show, made another way: the whole text at once on the NumPy executor, whose
every op is kept, and attention from its queries, keys and values in plain NumPy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from llm_lite.core.messages.inspecting.lesson import TokenTrace
from tests.runners import exact, running


@lru_cache(maxsize=1)  # dequantizing a real model takes seconds
def whole_text(path: Path, tokens: tuple[int, ...], context: int):
    """Logits after every token, float64 [tokens, V]; what every op made, float32 [tokens, columns];
    the layers' attention, where layers end, and the ops' labels."""
    with running(path, exact("numpy", context=context), every_output=True) as runner:
        logits = runner.session.logits(tokens).astype(np.float64)
        plan = runner.executor.program.plans[0]
        names = [op.label for op in plan.ops]
        return (
            logits,
            dict(runner.executor._scratch),
            runner.attention.layers,
            plan.layer_ends,
            names,
        )


class LessonReference:
    """Of a token, by default the last of `tokens`, in a layer and a head: what follows it changes
    nothing of what it is."""

    def __init__(
        self, path: Path, tokens: Sequence[int], layer: int, head: int, context: int = 0,
        position: int | None = None,
    ):  # fmt: skip
        self.position = len(tokens) - 1 if position is None else position
        logits, rows, layers, self.ends, self.names = whole_text(path, tuple(tokens), context)
        self.logits = logits[self.position]
        self.rows = {label: each[: self.position + 1] for label, each in rows.items()}
        self.wiring, self.layer, self.head = layers[layer], layer, head

    def row(self, *labels: str, at: int = -1) -> np.ndarray:
        """What the last of these ops made for a token; float32 [columns]."""
        return self.all(*labels)[at]

    def all(self, *labels: str) -> np.ndarray:
        """float32 [tokens, columns]"""
        known = [label for label in labels if label in self.rows]
        assert known, labels
        return self.rows[known[-1]]

    def of_layer(self, part: str, *labels: str) -> np.ndarray:
        return self.all(*(f"layers.{self.layer}.{part}.{label}" for label in labels))

    def heads_of(self, values: np.ndarray, count: int) -> np.ndarray:
        """[tokens, count, head_dim]"""
        return values.reshape(len(values), count, -1)

    @property
    def queries(self) -> np.ndarray:
        """[tokens, heads, d], as they meet the keys."""
        found = self.of_layer("attention", "q", "q.biased", "q_norm", "q_rope", "q_magnitude")
        return self.heads_of(found, self.wiring.heads)

    @property
    def raw_query(self) -> np.ndarray:
        found = self.of_layer("attention", "q", "q.biased", "q_norm")
        return self.heads_of(found, self.wiring.heads)[-1, self.head]

    @property
    def group(self) -> int:
        return self.head * self.wiring.kv_heads // self.wiring.heads

    @property
    def keys(self) -> np.ndarray:
        """[tokens, d] of the head's group"""
        found = self.of_layer("attention", "k", "k.biased", "k_norm", "k_rope")
        return self.heads_of(found, self.wiring.kv_heads)[:, self.group]

    @property
    def values(self) -> np.ndarray:
        found = self.of_layer("attention", "v", "v.biased", "v_norm")
        return self.heads_of(found, self.wiring.kv_heads)[:, self.group]

    @property
    def dots(self) -> np.ndarray:
        return self.keys.astype(np.float64) @ self.queries[-1, self.head]

    def scores(self, scale: float) -> np.ndarray:
        """float64 [tokens], capped; -inf where the layer does not see."""
        found, cap, window = self.dots * scale, self.wiring.softcap, self.wiring.window
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
    def embedded(self) -> np.ndarray:
        return self.row("embedding", "embedding.scaled", "embedding.placed")

    def ends_of(self, layer: int) -> np.ndarray:
        return self.row(self.names[self.ends[layer]])

    @property
    def before(self) -> np.ndarray:
        """The residual that the layer is given."""
        return self.ends_of(self.layer - 1) if self.layer else self.embedded

    @property
    def normed(self) -> np.ndarray:
        label = f"layers.{self.layer}.attention.norm"
        return self.row(label) if label in self.rows else self.before

    @property
    def attended(self) -> np.ndarray:
        labels = ("output", "output.biased", "post_norm", "scaled")
        return self.of_layer("attention", *labels)[-1]

    @property
    def added(self) -> np.ndarray:
        """By the feed-forward."""
        return self.of_layer("feed_forward", "down", "down.biased", "post_norm", "scaled")[-1]

    def probabilities(self, temperature: float) -> np.ndarray:
        weights = np.exp((self.logits - self.logits.max()) / temperature)
        return weights / weights.sum()


def rms(vector: np.ndarray) -> float:
    return math.sqrt(float(np.square(vector.astype(np.float64)).mean()))


def close(found: float, wanted: float, scale: float = 1.0) -> bool:
    return abs(found - wanted) <= 2e-4 * max(scale, abs(wanted))


def check_trace(trace: TokenTrace, wanted: LessonReference) -> None:
    """Every number of the trace."""
    opened, head = trace.opened, trace.opened.head
    vectors = (
        (trace.row, wanted.row("embedding")), (trace.embedded, wanted.embedded),
        (opened.residual, wanted.before), (opened.normed, wanted.normed),
        (head.query_raw, wanted.raw_query), (head.query, wanted.queries[-1, wanted.head]),
        (head.key, wanted.keys[-1]), (head.value, wanted.values[-1]),
        (opened.attended, wanted.attended), (opened.feed_forward.output, wanted.added),
        (opened.after_attention, wanted.of_layer("attention", "residual")[-1]),
        (opened.after, wanted.ends_of(wanted.layer)),
        (trace.final, wanted.row("output.norm")),
    )  # fmt: skip
    for vector, expected in vectors:
        assert vector.size == len(expected)
        assert np.abs(np.array(vector.values) - expected[: len(vector.values)]).max() < 2e-4 * (
            1 + np.abs(expected).max()
        )
        assert close(vector.rms, rms(expected))
    scale, shares, bare = trace.shape.scale, wanted.shares(trace.shape.scale), wanted.shares(1.0)
    largest = np.abs(wanted.dots).max()
    for score in head.scores:
        at = score.position
        assert close(score.dot, wanted.dots[at], largest)
        assert close(score.score, wanted.scores(scale)[at], largest)
        assert close(score.probability, shares[at])
        assert close(score.unscaled, bare[at], 10 * largest)
        assert np.abs(np.array(score.value) - wanted.values[at]).max() < 2e-3
    inside = sum(score.probability for score in head.scores)
    assert close(head.others_probability + inside + head.sink, 1.0)
    outputs = wanted.heads_of(wanted.of_layer("attention", "heads"), wanted.wiring.heads)[-1]
    assert np.allclose(head.outputs, [rms(one) for one in outputs], rtol=1e-3, atol=1e-4)
    mixed = shares @ wanted.values
    assert np.abs(np.array(head.output.values) - mixed).max() < 2e-4 * (1 + np.abs(mixed).max())
    check_neurons(trace, wanted)
    check_growth(trace, wanted)
    for token in trace.distribution.top:
        assert close(token.logit, wanted.logits[token.id], np.abs(wanted.logits).max())


def check_neurons(trace: TokenTrace, wanted: LessonReference) -> None:
    found = wanted.of_layer("feed_forward", "gelu", "gelu_mul", "silu_mul")[-1]
    traced = trace.opened.feed_forward
    strongest = np.sort(np.abs(found))[::-1]
    assert traced.size == len(found)
    assert abs(traced.strong - int((np.abs(found) >= strongest[0] / 10).sum())) <= 1
    for place, neuron in enumerate(traced.neurons):
        assert close(abs(neuron.value), strongest[place], strongest[0])
        assert close(neuron.value, found[neuron.index], strongest[0])
        up = wanted.of_layer("feed_forward", "up", "up.biased")[-1]
        assert close(neuron.up, up[neuron.index], np.abs(up).max())


def check_growth(trace: TokenTrace, wanted: LessonReference) -> None:
    before = wanted.embedded
    for layer, growth in enumerate(trace.growth):
        middle = wanted.row(f"layers.{layer}.attention.residual")
        after = wanted.ends_of(layer)
        scale = rms(after)
        assert close(growth.attention, rms(middle - before), scale)
        assert close(growth.feed_forward, rms(after - middle), scale)
        assert close(growth.residual, rms(after), scale)
        before = after
