"""Patches of tiny models whose results `python -m tests.fixtures.make_patched` stores: by the model
the modules of transformers whose outputs are replaced by those of another text."""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np

SITES: Mapping[str, tuple[str, ...]] = {
    "llama.llama3": ("model.layers.0", "model.layers.0.self_attn"),
    "gpt2.plain": ("transformer.h.0", "transformer.h.1.ln_1"),
    "olmoe.plain": ("model.layers.0", "model.layers.0.self_attn"),
    "qwen3_next.all": ("model.layers.0", "model.layers.2.linear_attn"),
    "bert.masked": ("bert.encoder.layer.0", "cls.predictions.transform"),
    "roberta.masked": ("roberta.encoder.layer.0", "roberta.encoder.layer.0.attention.self"),
    "distilbert.masked": ("distilbert.transformer.layer.0", "vocab_projector"),
    "t5.gated": ("encoder.block.0", "encoder.final_layer_norm", "decoder.block.0.layer.1"),
    "bart.plain": ("model.encoder.layers.0", "model.decoder.layers.0"),
    "marian.plain": ("model.encoder.layers.1", "model.decoder.layers.0"),
}
POSITIONS = (2, 6)  # that get rows of the other text at the same positions
PREDICTED = 6  # the token of an encoder that is asked about; of others the last


def other(name: str, tokens: np.ndarray, kept: int | None = None) -> np.ndarray:
    """Another text as long as `tokens`, which has the token `kept` where these have it."""
    random = np.random.RandomState(zlib.crc32(f"{name}.source".encode()))
    found = random.randint(5, int(tokens.max()), len(tokens))
    return np.where(tokens == kept, tokens, found).astype(np.int32)
