"""What a family's config.json may not say, and the sentence that says so."""

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.registry import read_model
from tests.families import family_of
from tests.family_checks import write_case
from tests.fixtures.families.llama import LONG, YARN

CAP = ({"attn_logit_softcapping": -1.0}, "attn_logit_softcapping is -1.0, expected")
LATER = ({"use_bidirectional_attention": True}, "attention to later tokens is not known")


def scaling(changes, message):
    return {"rope_scaling": changes}, message


BAD = {  # (family, case) -> (changes of its config, what the sentence says)
    ("bloom", "plain"): [({"head_dim": 16}, "expected 192 rows, found shape")],
    ("gemma2", "plain"): [CAP, LATER],
    ("gemma3", "plain"): [
        CAP,
        ({"use_bidirectional_attention": "all"}, "attention is 'all', expected true or false"),
        ({"sliding_window_pattern": 0}, "sliding_window_pattern is 0, expected 1 to"),
        ({"layer_types": ["linear_attention"] * 7}, "layer_types has 'linear_attention'"),
        ({"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0, expected a number from"),
        ({"rope_local_base_freq": 0}, "rope_local_base_freq is 0, expected a number from 1"),
        (
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "rope_type is 'linear': such a rotary scaling of windows is not known here",
        ),
    ],
    ("gemma4", "shared"): [
        ({"enable_moe_block": True}, "num_experts is missing"),
        ({"use_bidirectional_attention": "all"}, "attention to later tokens is not known"),
        ({"num_key_value_heads": 3}, "expected divisors of the 4 heads"),
        ({"head_dim": 11}, "head_dim is 11, expected an even number"),
        ({"num_kv_shared_layers": 5}, "num_kv_shared_layers is 5, expected fewer: among"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}},
            "rotary scaling 'yarn' is not known here; known are default, proportional",
        ),
    ],
    ("cohere", "plain"): [
        (
            {"use_qk_norm": True},
            "use_qk_norm is true: norms of queries and keys are not known",
        ),
        ({"logit_scale": 0}, "logit_scale is 0, expected a number from"),
    ],
    ("ernie4_5", "plain"): [({"use_bias": True}, "use_bias is true: biases are not known here")],
    ("gemma", "plain"): [
        LATER,
        ({"hidden_activation": "relu"}, "hidden_activation is 'relu': such a feed-forward is"),
    ],
    ("glm4", "plain"): [
        ({"attention_bias": False}, "queries and keys without biases are not known here"),
        ({"partial_rotary_factor": 0}, "partial_rotary_factor is 0, expected a number from"),
    ],
    ("gpt_neox", "parallel"): [
        ({"hidden_act": "relu"}, "hidden_act is 'relu': such a feed-forward is not known here"),
        ({"attention_bias": False}, "attention without biases is not known here"),
        (
            {"use_parallel_residual": "yes"},
            "use_parallel_residual is .yes., expected true or",
        ),
    ],
    ("hunyuan", "plain"): [
        scaling({"type": "dynamic"}, "alpha is missing"),
        scaling({"type": "yarn", "factor": 2.0}, "known are default, dynamic with alpha"),
    ],
    ("internlm2", "groups"): [
        ({"bias": True}, "bias is true: biases are not known here"),
        ({"num_key_value_heads": 3}, "attn_qkv.weight: expected rows of 12 heads, found shape"),
        scaling({"type": "yarn", "factor": 2.0}, "known are default, linear, dynamic"),
        scaling({"type": "linear"}, "factor is missing"),
    ],
    ("muse_glimmer", "plain"): [
        ({"layer_rope_theta": [5e5] * 5}, "layer_rope_theta: known are layers that slide and have"),
        ({"layer_rope_theta": [1e4] * 3 + [0, 1e4]}, "that slide and have 500000, and layers that"),
        ({"layer_rope_theta": [5e5]}, "layer_rope_theta"),
        ({"qk_scale_factor": 0}, "qk_scale_factor is 0, expected"),
        ({"hidden_activation": "gelu"}, "hidden_activation is 'gelu'"),
    ],
    ("qwen", "plain"): [
        ({"no_bias": False}, "no_bias is false: biases behind attention are not known here"),
        ({"rotary_pct": 0.5}, "rotary_pct is 0.5: heads that rotate in part are not known here"),
        ({"intermediate_size": 151}, "intermediate_size is 151, expected an even number"),
        ({"kv_channels": 12}, "attn_qkv.weight: expected 216 rows, found shape"),
        ({"seq_length": 0}, "seq_length is 0, expected 1 to"),
    ],
    ("olmo", "plain"): [({"clip_qkv": 8.0}, "clip_qkv is 8.0: queries, keys and values with bou")],
    ("seed_oss", "plain"): [
        ({"attention_out_bias": True}, "a bias behind attention is not known here"),
    ],
    ("stablelm", "plain"): [
        ({"use_parallel_residual": True}, "a feed-forward beside attention is not known here"),
        ({"qk_layernorm": True}, "norms of queries and keys are not known here"),
    ],
    ("starcoder2", "plain"): [({"use_bias": False}, "layers without biases are not known here")],
    ("gpt2", "plain"): [
        ({"activation_function": "relu"}, "activation_function is 'relu': such a feed-forward is"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scores that layers scale are not known here"),
    ],
    ("llama", "yarn"): [
        scaling({**YARN, "factor": 0}, "factor is 0, expected a number from"),
        scaling(
            {**YARN, "original_max_position_embeddings": 0},
            "original_max_position_embeddings is 0, expected 1 to",
        ),
        scaling({**LONG, "long_factor": [1.0]}, "long_factor is a list of 1, expected 5"),
        scaling({**LONG, "short_factor": None}, "short_factor is missing"),
        scaling({**LONG, "short_factor": [0] * 5}, "short_factor is .*, expected numb"),
        scaling({"rope_type": "ntk"}, "scaling 'ntk' is not known here; known are default, linear"),
    ],
    ("phi3", "longrope of a part"): [
        ({"num_key_value_heads": 3}, r"tensor blk.0.attn_qkv.weight: expected 96 rows, found"),
        ({"intermediate_size": 76}, r"tensor blk.0.ffn_up.weight: expected 152 rows, found sh"),
        ({"partial_rotary_factor": 0.5}, "long_factor is a list of 3, expected 2|short_fac"),
        ({"partial_rotary_factor": 0.4}, "rope.dimension_count is 3, expected an even number"),
        ({"partial_rotary_factor": 0}, "partial_rotary_factor is 0, expected a number from"),
    ],
    ("qwen2", "plain"): [
        ({"hidden_act": "relu"}, "hidden_act is 'relu': such a feed-forward is not known here"),
        ({"num_attention_heads": 7}, "num_key_value_heads is 2, expected a divisor of the 7 heads"),
    ],
    ("qwen3", "windows"): [
        (
            {"layer_types": None, "attention_bias": True},
            "attention_bias is true: biases are not known here",
        ),
        (
            {"layer_types": None, "max_window_layers": -1},
            "max_window_layers is -1, expected 0 to",
        ),
        ({"layer_types": ["full_attention"]}, "layer_types is a list of 1, expected 3 values"),
    ],
}


@pytest.mark.parametrize(
    ("family", "case", "changes", "message"),
    [(*of, *bad) for of, several in BAD.items() for bad in several],
)
def test_bad_configs(family, case, changes, message, tmp_path):
    folder = write_case(family_of(family), case, tmp_path, raw=True, **changes)
    with pytest.raises(LlmLiteError, match=message):
        source = open_source(folder)
        read_model(source.metadata, source.tensors, source.path)
