"""GPT-1 (Radford et al. 2018): GPT-2's parts in the order of the first Transformer: norms stand
behind attention and feed-forward, over the sum with their input, and none at the end.
"""

from __future__ import annotations

from functools import partial

from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.blocks import Decoder, attention_block, decoder_plan, plain_block
from llm_lite.core.models.description import decoder as shared
from llm_lite.core.models.description.rows import Known, row
from llm_lite.core.models.gpt2 import GPT_2, Gpt2Config
from llm_lite.core.plan.plan import Tensor
from llm_lite.core.records import replace

_NAMES = {"wte.weight": "tokens_embed.weight", "wpe.weight": "positions_embed.weight"}


def _inner(config: CheckpointConfig, known: Known) -> int:
    return 4 * int(known["width"])


class Gpt1Config(Gpt2Config, frozen=True, kw_only=True):
    context: int = row(replace(shared.CONTEXT, checkpoint="n_positions", assumed=512))
    feed_forward: int = row(replace(shared.FEED_FORWARD, checkpoint=_inner))


def _layer(d: Decoder[Gpt1Config], x: Tensor, layer: int) -> Tensor:
    at, w = f"layers.{layer}.", f"blk.{layer}."
    x = attention_block(d, x, layer, pre_norm="", rotary=False)
    x = d.norm(x, w + "attn_norm", at + "attention.norm")
    x = plain_block(d, x, layer, pre_norm="")
    return d.norm(x, w + "ffn_norm", at + "feed_forward.norm")


GPT_1 = replace(
    GPT_2,
    title="GPT-1",
    gguf="openai-gpt",
    model_types=("openai-gpt",),
    config=Gpt1Config,
    tensors=tuple(
        replace(one, checkpoint=_NAMES.get(one.checkpoint or "", one.checkpoint))
        for one in GPT_2.tensors
        if not one.gguf.startswith("output_norm")
    ),
    graph=partial(decoder_plan, _layer),
    must_be=(("afn", "gelu", "such a feed-forward is"),),
)
