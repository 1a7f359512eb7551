"""A small mixture of experts whose matrices lie in blocks of Q4_0, as GGUF files have them."""

from pathlib import Path

from llm_lite.core.convert import synthetic
from llm_lite.core.models.qwen3_moe import QWEN3_MOE

FIELDS = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "num_experts": 12,
    "num_experts_per_tok": 3,
    "norm_topk_prob": True,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10_000.0,
}
VOCABULARY = 400


def write_mixture_in_blocks(folder: Path) -> Path:
    """Write a file of random values; the same each time."""
    path = folder / "mixture.gguf"
    metadata, shapes = synthetic._mixture(QWEN3_MOE, FIELDS, VOCABULARY)
    whole = {"general.name": "Mixture", **metadata, **synthetic._tokenizer(VOCABULARY)}
    synthetic._write_gguf(path, whole, shapes, 0, None)
    return path
