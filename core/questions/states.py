"""Takes a head's recurrent state apart by token: how fast it forgets, how far each token changes
it, and what later tokens read of earlier ones.

The gated delta rule (Yang et al. 2024, https://arxiv.org/abs/2412.06464, equation 10) is linear in
what tokens wrote. With a[t] what a token leaves of the state, b[t] how far it moves it, and S[t]
the state behind it [dk,dv]:

    u[j] = b[j] (v[j] - a[j] S[j-1]^T k[j])                what token j wrote
    S[t] = a[t] S[t-1] + k[t] u[t]^T
    y[t] = S[t]^T q[t]
         = sum over j <= t of w[t,j] u[j]  +  a[1] .. a[t] S[0]^T q[t]
    w[t,j] = a[j+1] .. a[t] (q[t] . k[j])

So `w` is a map as attention's is, though its weights have signs and no sum of 1. It is made of the
tokens that the cache holds, which run once more (running.py).
"""

from __future__ import annotations

import math

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import RequestError
from llm_lite.core.exec.reference import DeltaInputs, kept_part
from llm_lite.core.kv_cache.states import State, state_tensors
from llm_lite.core.messages import ReadStates, StatesRead
from llm_lite.core.plan.ops import STORES
from llm_lite.core.plan.plan import Op, Plan
from llm_lite.core.plan.recurrent_layers import state_layers
from llm_lite.core.plan.step import Step
from llm_lite.core.questions.question import Parts, Question
from llm_lite.core.questions.replay import Replay
from llm_lite.core.questions.running import parts_again

F32 = NDArray[np.float32]


class HeadReads(Struct, frozen=True):
    """The writes and reads of a head over T tokens, float32."""

    weights: F32  # [T,T]: w; 0 for later tokens
    written: F32  # [T,dv]: u
    of_start: F32  # [T,dv]: what is read of the state before the first token
    norms: F32  # [T]: of the state behind each token (Frobenius)

    @property
    def read(self) -> F32:
        """Return what the head reads, [T,dv]: the op's result."""
        total: F32 = self.weights @ self.written + self.of_start
        return total

    def shares(self) -> tuple[F32, F32]:
        """Return the parts of what tokens read that each token wrote [T,T], and that were there at
        the start [T], by their lengths in the direction of the whole: a row of both adds up to 1; 0
        where nothing is read."""
        whole = self.read.astype(np.float64)  # of small values, squares are smaller
        length = np.einsum("tv,tv->t", whole, whole)
        scale = np.divide(1, length, out=np.zeros_like(length), where=length > 0)
        parts = self.weights * (whole @ self.written.T) * scale[:, None]
        of_start = np.einsum("tv,tv->t", self.of_start, whole) * scale
        return parts.astype(np.float32), of_start.astype(np.float32)


def head_reads(given: DeltaInputs, head: int, start: F32) -> HeadReads:
    """Return what a head wrote and read from the state `start` [dk,dv] on."""
    q, k, v = given.q[:, head], given.k[:, head], given.v[:, head]
    count, state, left = len(q), start, np.float32(1)
    weights, decayed = q @ k.T, np.zeros((count, count), np.float32)
    written, of_start = np.empty_like(v), np.empty_like(v)
    norms = np.empty(count, np.float32)
    for t in range(count):
        kept = given.kept[t, head]
        left = left * kept
        state = kept * state
        written[t] = given.written[t, head] * (v[t] - k[t] @ state)
        state = state + np.outer(k[t], written[t])
        norms[t] = np.linalg.norm(state)
        decayed[t, :t] = decayed[t - 1, :t] * kept
        decayed[t, t] = 1
        of_start[t] = left * (q[t] @ start)
    return HeadReads(weights * decayed, written, of_start, norms)


def half_lives(kept: F32) -> F32:
    """Return after how many tokens half of a state is left, [H], of what tokens leave [T,H]."""
    with np.errstate(divide="ignore"):
        mean = np.log(kept).mean(axis=0)
        lives: F32 = np.float32(-math.log(2)) / mean
    return np.where(mean == 0, np.float32(math.inf), lives)


def run(request: ReadStates, replay: Replay) -> Parts[StatesRead]:
    """Return what a head holds of the last `request.positions` tokens."""
    work = _Reading(request, replay)
    for _ in parts_again(replay, work.first, replay.length, work.run_part):
        yield "executor"
    yield "anywhere"
    return work.result()


class _Reading:
    def __init__(self, request: ReadStates, replay: Replay) -> None:
        """Raise RequestError where layer, head or positions cannot be read."""
        self._request, self._replay = request, replay
        self._plan = replay.executor.program.plans[0]
        self._layers = state_layers(self._plan)
        self._check(request)
        self.first = max(0, replay.length - request.positions)
        self._given: list[DeltaInputs] = []  # of the layer, part by part
        self._kept: dict[int, list[F32]] = {layer: [] for layer in self._layers}
        self._start: State | None = None

    def _check(self, request: ReadStates) -> None:
        if not self._layers:
            raise RequestError(
                "the recurrent states of this model are of convolutions only, which have no heads "
                "whose reads could be taken apart"
                if state_tensors(self._plan)
                else "the model has no recurrent states: its layers attend"
            )
        if request.layer not in self._layers:
            known = ", ".join(map(str, self._layers))
            raise RequestError(
                f"layer {request.layer} has no recurrent state; expected one of {known}"
            )
        heads = int(self._op(request.layer).params["heads"])
        if not 0 <= request.head < heads:
            raise RequestError(
                f"layer {request.layer} has states of heads 0 to {heads - 1}, asked for "
                f"{request.head}"
            )
        if request.positions < 1:
            raise RequestError(f"positions: expected 1 or more, found {request.positions}")
        if not self._replay.length:
            raise RequestError("there is nothing to read: the cache is empty")
        if self._replay.reusable_prefix_length() < self._replay.length:
            raise RequestError(
                "tokens of the cache were computed with other weights or interventions than "
                "those in force, so their states are not to be had: send the conversation again"
            )

    def _op(self, layer: int) -> Op:
        return self._plan.ops[self._layers[layer]]

    def run_part(self, start: int, state: State | None, step: Step) -> None:
        if start == self.first:
            self._start = state
        executor, shown = self._replay.executor, start >= self.first
        plan, done = executor.program.plan_of(step), 0
        with self._replay.files.unchanged():
            for layer, index in state_layers(plan).items():
                executor.run_ops(plan, step, done, index, STORES)
                if shown:
                    self._note(plan, step, layer, plan.ops[index])
                executor.run_ops(plan, step, index, index + 1)
                done = index + 1

    def _note(self, plan: Plan, step: Step, layer: int, op: Op) -> None:
        """Keep what the op of a layer is about to compute with; of layers that nobody asked for,
        only what they keep of their states."""
        tensors = [plan.tensors[i] for i in op.inputs]
        rate, bias = (self._replay.weights[tensor.name].dequantize() for tensor in tensors[3:])
        if layer != self._request.layer:
            decay = self._replay.executor.read(plan, tensors[1], step)
            self._kept[layer].append(kept_part(decay, rate, bias))
            return
        read = self._replay.executor.read
        qkv, decay, beta = (read(plan, tensor, step) for tensor in tensors[:3])
        sizes = {name: int(op.params[name]) for name in ("heads", "key_heads", "key_dim")}
        tiled = bool(op.params["tiled"])
        given = DeltaInputs.of(qkv, decay, beta, rate, bias, **sizes, tiled=tiled)
        self._kept[layer].append(given.kept)
        self._given.append(given)

    def result(self) -> StatesRead:
        """Return what the parts have found, once all have run; any thread may call it."""
        layer, head = self._request.layer, self._request.head
        given = joined(self._given)
        found = head_reads(given, head, self._start_of(given))
        shares, of_start = found.shares()
        for values in (shares, of_start, found.norms):
            self._replay.checked(values, f"the state of layer {layer}, head {head}")
        return StatesRead(
            layer,
            head,
            self.first,
            tuple(given.kept[:, head].tolist()),
            tuple(given.written[:, head].tolist()),
            tuple(found.norms.tolist()),
            tuple(map(tuple, shares.tolist())),
            tuple(of_start.tolist()),
            tuple(
                (at, tuple(half_lives(np.concatenate(parts)).tolist()))
                for at, parts in self._kept.items()
            ),
        )

    def _start_of(self, given: DeltaInputs) -> F32:
        """Return the head's state before the first token, [dk,dv]."""
        keys, values = given.k.shape[2], given.v.shape[2]
        if self._start is None:
            return np.zeros((keys, values), np.float32)
        tensor = self._plan.tensors[self._op(self._request.layer).outputs[1]]
        rows = self._start[tensor.name].view(np.float32).reshape(-1, keys, values)
        return rows[self._request.head]


def joined(parts: list[DeltaInputs]) -> DeltaInputs:
    """Return the inputs of tokens in parts, one behind the other, as those of all."""
    names = DeltaInputs.__struct_fields__
    return DeltaInputs(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))


STATES = Question(
    "states",
    ReadStates,
    StatesRead,
    run,
    "what its states hold",
    ReadStates(0, 0),
    newest_only=True,
    turn=2,
    runs_tokens=True,
)
