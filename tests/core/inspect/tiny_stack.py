"""A tiny stack of attention, without a model: an encoder's, or a decoder's that sees a source."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.finite import checked
from llm_lite.core.inspect.attention import AttentionSource
from llm_lite.core.inspect.inspected import Committed
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant import rows
from tests.core.exec.vulkan.vulkan_program import VOCABULARY, weight

HEADS, KV_HEADS, HEAD_DIM = 6, 3, 4
COLUMNS, CONTEXT, SOURCE = HEADS * HEAD_DIM, 40, 21
BEFORE = 7  # the column of a bias for a distance of 0
ENCODER = ("bidirectional", "bidirectional")
DECODER = ("causal", "cross", "causal", "cross")


class TinyStack:
    """`kinds` of attention, one behind the other; self-attention with a bias of `columns`."""

    def __init__(self, kinds, *, columns=15, dtype="f32", make=NumpyExecutor, softcap=0.0):
        self.kinds, self.columns, self.dtype, self.softcap = kinds, columns, dtype, softcap
        tensors = [weight("table", (VOCABULARY, COLUMNS))]
        for at in range(len(kinds)):
            for seed, name in enumerate("qkv"):
                rows_of = COLUMNS if name == "q" else KV_HEADS * HEAD_DIM
                tensors.append(
                    weight(f"{name}.{at}", (rows_of, COLUMNS), "f32", 3 * at + seed, 0.3)
                )
        if columns:
            tensors.append(weight("bias", (HEADS, columns), seed=99, scale=2.0))
        self.weights = {tensor.name: tensor for tensor in tensors}
        cross = "cross" in kinds
        self.program = Program((self._plan(),), CONTEXT, COLUMNS, None, SOURCE if cross else 0)
        self.executor = make(self.program, self.weights)
        self.source_tokens = tuple(range(SOURCE)) if cross else ()
        self.tokens, self.epoch = (), 0
        if cross:
            self._fill_source()
        self._session = SimpleNamespace(
            tokens=lambda: self.tokens, source_tokens=self.source_tokens, checked=checked
        )
        self.attend(())
        self.source = AttentionSource(self.executor, self._session, weights=self.weights)

    def _numbers(self):
        """As models have them: self-attention layer by layer, then cross-attention."""
        ordered = sorted(range(len(self.kinds)), key=lambda at: self.kinds[at] == "cross")
        return {at: number for number, at in enumerate(ordered)}

    def _plan(self):
        b = PlanBuilder(self.weights, Bucket(CONTEXT, CONTEXT), integer_activations=False)
        x, numbers = b.embed(b.weight("table"), "embed"), self._numbers()
        gains = b.state("gains", "f32", (len(self.kinds), HEADS), fill=1.0)
        for at, kind in enumerate(self.kinds):
            q, k, v = (b.matmul(x, b.weight(f"{name}.{at}"), f"{name}{at}") for name in "qkv")
            ring = b.state(f"q_ring.{numbers[at]}", "f32", (CONTEXT, COLUMNS))
            size = (SOURCE if kind == "cross" else CONTEXT, KV_HEADS * HEAD_DIM)
            caches = [b.state(f"{n}.{at}c", self.dtype, size, block=HEAD_DIM) for n in "kv"]
            kept = [] if kind == "cross" else [(k, caches[0]), (v, caches[1])]
            b.store([*kept, (q, ring)], f"store{at}")
            biased = bool(self.columns) and kind != "cross"
            y = b.attention(
                q, *caches, gains, f"heads{at}", layer=numbers[at], heads=HEADS,
                kv_heads=KV_HEADS, head_dim=HEAD_DIM, softcap=self.softcap,
                bias=b.weight("bias") if biased else None, bias_before=BEFORE if biased else 0,
                bidirectional=kind == "bidirectional", cross=kind == "cross",
            )  # fmt: skip
            x = b.add(x, y, f"residual{at}")
        return b.finish(b.output_rows(x, "rows"))

    def _fill_source(self):
        random = np.random.default_rng(8)
        for tensor in self.program.plans[0].tensors:
            if tensor.name[2:] in {f"{at}c" for at, k in enumerate(self.kinds) if k == "cross"}:
                values = random.normal(0, 1, tensor.shape).astype(np.float32)
                data = rows.encode(values, tensor.dtype, tensor.block)
                self.executor.write_state(tensor.name, 0, data.reshape(SOURCE, -1))

    def attend(self, tokens):
        """Over a text from its beginning."""
        self.tokens, self.epoch = tuple(tokens), self.epoch + 1
        if tokens:
            words = np.array(tokens, np.int32)
            self.step = Step(words, 0, len(words), source=len(self.source_tokens))
            self.executor.run(self.step)
        owners = sum(kind != "cross" for kind in self.kinds)
        length = len(tokens)
        self._session.committed = Committed(
            self.epoch, length, range(length), self.epoch, (0,) * owners
        )

    def read(self, name):
        """A tensor of the last step, or a state, float32."""
        plan = self.program.plans[0]
        tensor = next(t for t in plan.tensors if t.name == name)
        return self.executor.read(plan, tensor, self.step)

    def maps(self, number):
        """[heads, rows, columns] of a layer by float64 from the states, in loops over nothing that
        the program has."""
        at = next(at for at, found in self._numbers().items() if found == number)
        kind, n = self.kinds[at], len(self.tokens)
        columns = len(self.source_tokens) if kind == "cross" else n
        q = self.read(f"q_ring.{number}")[:n].reshape(n, HEADS, HEAD_DIM).astype(np.float64)
        k = self.read(f"k.{at}c")[:columns].reshape(columns, KV_HEADS, HEAD_DIM)
        scores = np.einsum("thd,chd->htc", q, np.repeat(k, HEADS // KV_HEADS, axis=1))
        scores /= np.sqrt(HEAD_DIM)
        apart = np.arange(columns)[None] - np.arange(n)[:, None]
        if self.columns and kind != "cross":
            bias = self.weights["bias"].dequantize()
            scores += bias[:, np.clip(apart + BEFORE, 0, self.columns - 1)]
        if self.softcap:
            scores = self.softcap * np.tanh(scores / self.softcap)
        if kind == "causal":
            scores[:, apart > 0] = -np.inf
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        return weights / weights.sum(axis=2, keepdims=True)

    def close(self):
        self.source.close()
        self.executor.close()
