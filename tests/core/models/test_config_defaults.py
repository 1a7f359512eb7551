"""Fields of a config.json that are left out, or null: what transformers makes of them, stored by
tests/fixtures/make_config_defaults.py."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.models.description.rows import GgufFields
from llm_lite.core.models.registry import MODEL_TYPES, architecture_by_config
from tests.paths import FIXTURES

STORED = json.loads((FIXTURES / "config_defaults.json").read_text())
# What a null says that is a value: of which of our fields.
NONE = {
    "sliding_window": ("window", 0),
    "attn_logit_softcapping": ("score_cap", 0.0),
    "final_logit_softcapping": ("softcap", 0.0),
}
OF_OTHERS = {  # that hold a config of one of those stored, or that transformers does not have
    *("gemma3", "gemma3n", "gemma4", "gemma4_unified", "mistral3", "muse_glimmer"),
    *("qwen3_5", "qwen3_5_moe", "internlm2", "qwen"),
}
PATH = Path("config.json")


def known(kind: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a model, as they are once GGUF's terms have them."""
    config = CheckpointConfig({**values, "model_type": kind}, PATH)
    architecture = architecture_by_config(config)
    fields = GgufFields(architecture.metadata_of(config), PATH, f"{architecture.gguf}.")
    return dict(architecture._known(fields)[0])


def test_every_model_type_is_stored():
    assert set(STORED) | OF_OTHERS == set(MODEL_TYPES)


@pytest.mark.parametrize("how", ["left_out", "null"])
@pytest.mark.parametrize("kind", sorted(STORED))
def test_a_field_that_says_nothing_is_what_transformers_takes(kind, how):
    whole, compared = STORED[kind]["config"], 0
    for key, changes in STORED[kind][how].items():
        given = {name: value for name, value in whole.items() if name != key}
        given |= {key: None} if how == "null" else {}
        try:
            found = known(kind, given)
        except LlmLiteError as error:  # sizes are never guessed
            assert changes == "refused" or str(error).endswith("is missing"), error
            continue
        if changes == "refused":
            continue
        if key in NONE and NONE[key][0] in found and changes.get(key, 1) is None:
            attribute, value = NONE[key]
            assert found[attribute] == value, key
            continue
        assert found == known(kind, {**whole, **changes}), key
        compared += 1
    assert compared >= 4 or how == "null"  # which most fields may not be


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("gemma2", "attn_logit_softcapping"),
        ("gemma2", "final_logit_softcapping"),
        *((kind, "sliding_window") for kind in ("mistral", "olmo3", "gemma2", "gemma3_text")),
        *((kind, "sliding_window") for kind in ("cohere2", "gpt_oss")),
    ],
)
def test_null_is_none_and_left_out_is_the_default(kind, key):
    given = {name: value for name, value in STORED[kind]["config"].items() if name != key}
    attribute, none = NONE[key]
    assert STORED[kind]["null"][key].get(key, 1) is None  # as transformers has it
    assert known(kind, {**given, key: None})[attribute] == none
    assert known(kind, given)[attribute] == STORED[kind]["config"][key]
