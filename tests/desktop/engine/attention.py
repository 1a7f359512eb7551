"""A source of maps without a model: random queries and keys, on the host or on the device."""

from contextlib import contextmanager

import numpy as np

from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.core.records import replace

STORAGE = 0x20  # VK_BUFFER_USAGE_STORAGE_BUFFER_BIT


class RandomSource:
    """`grow` commits positions; `device` puts the memory there."""

    def __init__(
        self, *, layers=2, heads=4, kv_heads=2, head_dim=16, context=128, ring=None, dtype="f32",
        window=0, device=None, seed=0, sharpness=3.0, softcap=0.0, sinks=0.0, bias=None,
        bidirectional=False, cross=(),
    ):  # fmt: skip
        """`bias`: its columns, and that for a distance of 0. `cross`: layers that see a source."""
        self.random = np.random.default_rng(seed)
        self.dtype, self.ring_rows, self.note = dtype, ring or context, ""
        self.context, self.sharpness = context, sharpness
        layer = AttentionLayer("q", "k", heads, kv_heads, head_dim, head_dim**-0.5, window,
                               dtype, context, softcap)  # fmt: skip
        if sinks:
            own = np.random.default_rng(1).normal(0, sinks, heads).astype(np.float32)
            layer = replace(layer, sinks=tuple(own.tolist()))
        if bias:
            layer = replace(layer, bias="bias", bias_before=bias[1])
        self._bias = np.random.default_rng(2).normal(0, 2, (heads, (bias or (1,))[0]))
        layer = replace(layer, bidirectional=bidirectional)
        seen = replace(layer, bias=None, bidirectional=False, cross=True)
        self.layers = tuple(seen if at in cross else layer for at in range(layers))
        self._source_tokens = ()
        kind = {"f16": np.float16, "f32": np.float32}[dtype]
        self.query_rows = np.zeros((layers, self.ring_rows, heads * head_dim), kind)
        self.key_rows = np.zeros((layers, context, kv_heads * head_dim), kind)
        self.bytes = self.query_rows.nbytes
        self.version, self._tokens = 0, ()
        self.epoch = 0
        self.alive, self.holders = True, 0
        self._device = device
        self._buffers = []
        if device:
            for array in (self.query_rows, self.key_rows):
                self._buffers.append(Buffer(device, array.nbytes, STORAGE, host=False))

    def grow(self, count, tokens=None):
        start = self.length
        for layer in range(len(self.layers)):
            q = self.random.normal(size=(count, self.query_rows.shape[2])) * self.sharpness
            self.query_rows[layer, np.arange(start, start + count) % self.ring_rows] = q
            keys = self.random.normal(size=(count, self.key_rows.shape[2]))
            if not self.layers[layer].cross:
                self.key_rows[layer, start : start + count] = keys
        tokens = tokens if tokens is not None else self.random.integers(0, 40, count).tolist()
        self._tokens = (*self._tokens, *tokens)
        self.version += 1
        for buffer, array in zip(self._buffers, (self.query_rows, self.key_rows), strict=False):
            buffer.upload(array)

    def encode(self, count):
        """Another source, of so many tokens, and nothing yet that saw it."""
        self._source_tokens = tuple(self.random.integers(0, 40, count).tolist())
        for number, layer in enumerate(self.layers):
            if layer.cross:
                shape = count, self.key_rows.shape[2]
                self.key_rows[number, :count] = self.random.normal(size=shape)
        self.cut(0)

    def source_tokens(self):
        return self._source_tokens

    def columns(self, layer):
        return len(self._source_tokens) if self.layers[layer].cross else self.length

    def bias(self, layer):
        return self._bias.astype(np.float32) if self.layers[layer].bias else None

    def cut(self, length):
        self._tokens = self._tokens[:length]
        self.version += 1

    def follow(self, tokens):
        """Hold these tokens: what begins alike stays."""
        pairs = zip(self._tokens, tokens, strict=False)
        same = next((at for at, (own, new) in enumerate(pairs) if own != new), None)
        same = min(self.length, len(tokens)) if same is None else same
        if same < self.length:
            self.cut(same)
        if same < len(tokens):
            self.grow(len(tokens) - same, tokens[same:])

    def tokens(self):
        return self._tokens

    @property
    def length(self):
        return len(self._tokens)

    @property
    def rows(self):
        return range(max(0, self.length - self.ring_rows), self.length)

    def rows_of(self, layer):
        return self.rows

    def host_queries(self, layer):
        return None if self._device else self.query_rows[layer]

    def host_keys(self, layer):
        return None if self._device else self.key_rows[layer]

    def device_queries(self, layer):
        return self._range(0, self.query_rows, layer)

    def device_keys(self, layer):
        return self._range(1, self.key_rows, layer)

    def _range(self, which, array, layer):
        if not self._device:
            return None
        return self._buffers[which], layer * array[layer].nbytes, array[layer].nbytes

    @contextmanager
    def hold(self):
        self.holders += 1
        yield self.alive
        self.holders -= 1

    def queries(self, layer):
        one, rows = self.layers[layer], self.rows
        ring = self.query_rows[layer].reshape(-1, one.heads, one.head_dim)
        return ring[np.arange(rows.start, rows.stop) % self.ring_rows]

    def keys(self, layer):
        one = self.layers[layer]
        return self.key_rows[layer].reshape(-1, one.kv_heads, one.head_dim)[: self.columns(layer)]

    def head(self, layer, head):
        """float32 queries [length, d] (rows that the ring lost are zero) and keys [columns, d]."""
        one, n = self.layers[layer], self.length
        d, group = one.head_dim, head * one.kv_heads // one.heads
        q = self.query_rows[layer].reshape(self.ring_rows, one.heads, d)[:, head]
        k = self.key_rows[layer].reshape(self.context, one.kv_heads, d)[
            : self.columns(layer), group
        ]
        positions = np.arange(n)
        return q[positions % self.ring_rows], k

    def close(self):
        for buffer in self._buffers:
            buffer.close()
