"""Hunyuan (dense, V1): llama whose queries and keys are normed once they are rotated
(https://huggingface.co/tencent/Hunyuan-7B-Instruct). Longer contexts raise the base of rotary
positions (NTK-aware scaling); a config.json says by how much, GGUF has the raised base.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.errors import UnsupportedError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.ranges import ROPE_FACTOR
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description import rope
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.plain_text import quote
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


def _alpha(config: CheckpointConfig) -> float:
    part, _ = config.rope()
    kind = part.text("rope_type", part.text("type", "default"))
    if not rope.is_plain(part):
        raise UnsupportedError(
            f"{config.path}: rotary scaling {quote(kind)} is not known here; "
            "known are default, dynamic with alpha"
        )
    if kind != "dynamic" or (part.get("alpha") is None and part.get("factor") is not None):
        return 1.0  # a factor alone raises the base in longer contexts than the model's own
    return part.number("alpha", within=ROPE_FACTOR)


def _theta(config: CheckpointConfig, known: Known) -> float:
    width = known["head_dim"]
    return float(rope.base(config, known) * _alpha(config) ** (width / max(width - 2, 1)))


class HunyuanConfig(shared.UnscaledConfig, frozen=True, kw_only=True):
    theta: float = row(replace(shared.THETA, checkpoint=_theta))


def _layer(d: Decoder[HunyuanConfig], x: Tensor, layer: int) -> Tensor:
    x = attention_block(d, x, layer, qk_norm=True, norms_rotated=True)
    return gated_block(d, x, layer)


HUNYUAN = Architecture(
    title="Hunyuan",
    gguf="hunyuan-dense",
    model_types=("hunyuan_v1_dense",),
    config=HunyuanConfig,
    tensors=(
        *shared.DECODER_TENSORS,
        replace(shared.QUERY_NORM, checkpoint="layers.{i}.self_attn.query_layernorm.weight"),
        replace(shared.KEY_NORM, checkpoint="layers.{i}.self_attn.key_layernorm.weight"),
    ),
    graph=partial(decoder_plan, _layer),
    of_config=lambda config, known: [],
    defaults={"rms_norm_eps": 1e-5},
)
