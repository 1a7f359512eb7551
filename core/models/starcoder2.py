"""StarCoder2: LayerNorm, grouped-query attention with rotary positions, a plain feed-forward, and
biases everywhere (https://arxiv.org/abs/2402.19173). Where its config has a window, every layer
slides.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, plain_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.rows import row
from llm_lite.core.models.description.tensors import bias_of, of_layer, with_bias
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace


class StarCoder2Config(shared.DecoderConfig, frozen=True, kw_only=True):
    eps: float = row(replace(shared.LAYER_NORM_EPS, checkpoint="norm_epsilon"))


def _layer(d: Decoder[StarCoder2Config], x: Tensor, layer: int) -> Tensor:
    return plain_block(d, attention_block(d, x, layer), layer)


STARCODER_2 = Architecture(
    title="StarCoder2",
    gguf="starcoder2",
    model_types=("starcoder2",),
    config=StarCoder2Config,
    tensors=(
        *shared.MODEL_TENSORS,
        bias_of(shared.OUTPUT_NORM),
        *shared.ROPE_TENSORS,
        *with_bias(shared.ATTENTION_NORM),
        *shared.ATTENTION,
        *shared.ATTENTION_BIASES,
        bias_of(shared.ATTENTION_OUTPUT),
        *with_bias(shared.FEED_FORWARD_NORM),
        *with_bias(of_layer("ffn_up.weight", "mlp.c_fc.weight", "feed_forward", "width")),
        *with_bias(of_layer("ffn_down.weight", "mlp.c_proj.weight", "width", "feed_forward")),
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(
        ("hidden_act", "gelu_pytorch_tanh", "such a feed-forward is"),
        ("use_bias", True, "layers without biases are"),
    ),
    defaults={"num_key_value_heads": 2, "max_position_embeddings": 4096},
    tied=True,
)
