"""A token traced through whatever model is loaded, for the lesson."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.encoding.pooling import Pooler, cosines
from llm_lite.core.encoding.texts import encode_text
from llm_lite.core.generation.token_texts import with_texts
from llm_lite.core.inspect.lesson.collecting import part, trace_text, trace_token
from llm_lite.core.loading.encoder_runner import EncoderRunner
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages.inspecting.lesson import (
    MOST_BESIDE,
    DenseShape,
    FollowToken,
    Pooled,
    TokenTrace,
)
from llm_lite.core.models.model import TextEmbedding
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

F32 = NDArray[np.float32]


def traced(runner: Runner | EncoderRunner, asked: FollowToken) -> TokenTrace:
    """Return all numbers of the token, with the texts of tokens that may stand there. RequestError
    where the token, layer or head does not exist; NotFiniteError."""
    tokenizer = runner.model_file.tokenizer
    if isinstance(runner, EncoderRunner):
        return with_texts(tokenizer, _of_text(runner, asked))
    encoder = runner.source_encoder
    trace = trace_token(
        runner.session, runner.attention, asked, encoder.hidden if encoder else None
    )
    if encoder is None:
        return with_texts(tokenizer, trace)
    decoding, plan = runner.model_file.model.decoding, encoder.executor.program.plans[0]
    beams, layers = decoding.beams if decoding else 1, len(plan.layer_ends)
    shape = replace(trace.shape, encoder_layers=layers, beams=beams)
    return with_texts(tokenizer, replace(trace, shape=shape))


def _of_text(runner: EncoderRunner, asked: FollowToken) -> TokenTrace:
    session = runner.session
    head = session.head_logits if session.has_head else None
    trace, states = trace_text(session, runner.attention, asked, head)
    if session.has_head:
        return trace
    return replace(trace, pooled=_pooled(runner, trace, states, asked.beside[:MOST_BESIDE]))


def _pooled(runner: EncoderRunner, trace: TokenTrace, states: F32, beside: str) -> Pooled:
    """Return how the hidden states [tokens, width] become a vector, and its similarity to another
    text's."""
    how = runner.embedding
    states = states[: runner.most_tokens]
    raw = Pooler(replace(how, normalized=False), runner.model_file.file.tensors)(states)
    length = float(np.linalg.norm(raw))
    vector = raw / max(length, 1e-12) if how.normalized else raw
    sentence = tuple(part(states[place]) for place, _ in trace.tokens if place < len(states))
    pooled = Pooled(
        how.poolings, sentence, len(states), how.normalized, part(vector), length,
        dense=_dense_shapes(how, runner.model_file.file.tensors),
    )  # fmt: skip
    if not beside.strip():
        return pooled
    own = runner.session.tokens()
    other = encode_text(runner.model_file.tokenizer, beside, runner.most_tokens)
    both = runner.embed_tokens([own, other])  # in steps of their own: the session keeps its text
    return replace(pooled, beside=part(both[1]), similarity=float(cosines(both)[0, 1]))


def _dense_shapes(how: TextEmbedding, weights: Mapping[str, TensorData]) -> tuple[DenseShape, ...]:
    """Return the shapes of the dense layers behind the pooling, as `core/encoding/pooling.py`
    applies them."""
    shapes = list[DenseShape]()
    for i, activation in enumerate(how.dense):
        rows, columns = weights[f"dense.{i}.weight"].shape
        has_bias = f"dense.{i}.bias" in weights
        shapes.append(DenseShape(rows, columns, activation == "tanh", has_bias))
    return tuple(shapes)
