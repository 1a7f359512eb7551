"""What servers with OpenAI's protocol have of their own: which options of sampling, which names.

Sources: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html,
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://lmstudio.ai/docs/developer/openai-compat, https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages import SamplingOptions
from llm_lite.core.messages.remote import DialectName

# How an answer is continued: by a field of the request, by sending its beginning last, or not.
Continuing = Literal["field", "prefill", ""]
Counting = Literal["vllm", "llama-server", ""]  # the form of /tokenize

_OPENAI = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "seed": "seed",
    "max_new_tokens": "max_tokens",
    "stop": "stop",
    "logit_bias": "logit_bias",
    "json_schema": "response_format",
}
_VLLM = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
}
_LLAMA = {
    "top_k": "top_k",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repetition_penalty": "repeat_penalty",
    "penalty_window": "repeat_last_n",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "dry_multiplier": "dry_multiplier",
    "dry_base": "dry_base",
    "dry_allowed_length": "dry_allowed_length",
    "dry_window": "dry_penalty_last_n",
    "dry_breakers": "dry_sequence_breakers",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "grammar": "grammar",
}
_LLAMA_PYTHON = {
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
    "mirostat_tau": "mirostat_tau",
    "mirostat_eta": "mirostat_eta",
    "grammar": "grammar",
}
_LM_STUDIO = {"top_k": "top_k", "repetition_penalty": "repeat_penalty"}
_OURS = {name: name for name in SamplingOptions.__struct_fields__}


class Dialect(Struct, frozen=True):
    """`sampling`: field of SamplingOptions -> field of a request. `extras` are fields that are sent
    with every request for an answer; a server that refuses one is asked again without it."""

    name: DialectName
    title: str
    sampling: Mapping[str, str]
    extras: Mapping[str, object]
    continuing: Continuing = ""
    counting: Counting = ""
    switches_thinking: bool = False
    tells_likelihoods: bool = True
    sends_thoughts: bool = False  # reasoning_content of earlier answers is taken

    @property
    def lacks(self) -> tuple[str, ...]:
        """Fields of SamplingOptions that it does not know."""
        return tuple(n for n in SamplingOptions.__struct_fields__ if n not in self.sampling)


DIALECTS: Mapping[DialectName, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                "llm-lite",
                "llm-lite",
                {**_OURS, **_OPENAI},
                {"stream_options": {"include_usage": True}},
                continuing="field",
                counting="vllm",
                switches_thinking=True,
                sends_thoughts=True,
            ),
            Dialect(
                "vllm",
                "vLLM",
                {**_OPENAI, **_VLLM},
                {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
                continuing="field",
                counting="vllm",
                switches_thinking=True,
                sends_thoughts=True,
            ),
            Dialect(
                "llama-server",
                "llama-server",
                {**_OPENAI, **_LLAMA},
                {
                    "stream_options": {"include_usage": True},
                    "timings_per_token": True,
                    "return_progress": True,
                },
                continuing="prefill",
                counting="llama-server",
                switches_thinking=True,
                sends_thoughts=True,
            ),
            Dialect(
                "llama-cpp-python",
                "llama.cpp (Python)",
                {**_OPENAI, **_LLAMA_PYTHON},
                {},
                tells_likelihoods=False,  # with them it loses characters of several tokens
            ),
            Dialect(
                "lm-studio",
                "LM Studio",
                {**_OPENAI, **_LM_STUDIO},
                {"stream_options": {"include_usage": True}},
            ),
            Dialect("openai", "", _OPENAI, {"stream_options": {"include_usage": True}}),
        )
    }
)
