"""EXAONE 4: norms stand behind attention and feed-forward, and each head's queries and keys are
normed; of four layers three slide and rotate, and one sees all and does not
(https://arxiv.org/abs/2507.11407). The small one has no windows, and rotates everywhere.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, gated_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.models.description.tensors import of_layer
from llm_lite.core.plan.plan import Tensor


class Exaone4Config(shared.DecoderConfig, frozen=True, kw_only=True):
    window: int = row(shared.WINDOW_OF_THREE_IN_FOUR)
    sliding: tuple[bool, ...] = row(shared.SLIDING_THREE_IN_FOUR)


def _layer(d: Decoder[Exaone4Config], x: Tensor, layer: int) -> Tensor:
    x = attention_block(
        d,
        x,
        layer,
        pre_norm="",
        post_norm="post_attention_norm",
        qk_norm=True,
        rotary=d.config.sliding[layer] or not d.config.window,
    )
    return gated_block(d, x, layer, pre_norm="", post_norm="post_ffw_norm")


EXAONE_4 = Architecture(
    title="EXAONE 4",
    gguf="exaone4",
    model_types=("exaone4",),
    config=Exaone4Config,
    tensors=(
        *shared.MODEL_TENSORS,
        *shared.ROPE_TENSORS,
        *shared.ATTENTION,
        shared.QUERY_NORM,
        shared.KEY_NORM,
        of_layer("post_attention_norm.weight", "post_attention_layernorm.weight", "width"),
        *shared.GATED,
        of_layer("post_ffw_norm.weight", "post_feedforward_layernorm.weight", "width"),
    ),
    graph=partial(decoder_plan, _layer),
    defaults={"rms_norm_eps": 1e-5, "sliding_window": 4096},
)
