"""Interventions that the tests make and that hooks of transformers made
(tests/fixtures/make_interventions.py): positions, vectors and texts of both."""

from __future__ import annotations

import zlib

import numpy as np

from tests.families import VOCABULARY
from tests.make_huggingface import random_values

FAMILIES = ("llama", "gpt2", "gpt_neox", "gemma2", "phi3", "olmoe", "lfm2", "qwen3_next")
# By family, what its feed-forwards make, where it is no product without a bias.
MLP = {
    "gpt2": "feed_forward.down.biased",
    "gpt_neox": "feed_forward.down.biased",
    "olmoe": "feed_forward.sum",
    "qwen3_next": "feed_forward.sum.shared",
}
COUNT = 24
POSITIONS = (5, 20)
UNTIL = COUNT - 1  # the last token, whose logits are asked for
HEAD = 1
FACTOR = -0.5  # below 0: norms behind what is scaled do not undo it
TEXT, OTHER = "The Eiffel Tower is in the city of", "The Colosseum is in the city of"
COLUMNS = 48  # of SmolLM2's logits, the likeliest before
LAYER = 12  # of SmolLM2


def tokens_of(family: str) -> np.ndarray:
    return _random(f"{family}.tokens")


def source_of(family: str) -> np.ndarray:
    return _random(f"{family}.source")


def _random(name: str) -> np.ndarray:
    seed = zlib.crc32(name.encode())
    return np.random.RandomState(seed).randint(3, VOCABULARY, COUNT).astype(np.int32)


def vector_of(width: int, scale: float = 1.0) -> np.ndarray:
    return random_values("steering", (width,), 0.0, scale)
