"""The dialects of servers with OpenAI's protocol: which options of sampling they have, under which
names.

Sources: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html,
https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md,
https://lmstudio.ai/docs/developer/openai-compat,
https://platform.openai.com/docs/api-reference/chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from llm_lite.core.messages.remote import DialectName
from llm_lite.core.messages.sampling_options import OPTIONS, names_in

# How an answer is continued: by a field of the request, by sending its beginning last, or not.
Continuing = Literal["field", "prefill", ""]
Counting = Literal["vllm", "llama-server", ""]  # the form of /tokenize

_OPENAI = names_in("openai")


class Dialect(Struct, frozen=True):
    """The fields that a kind of server takes; `sampling`: field of SamplingOptions -> field of a
    request. `extras` are fields that are sent with every request for an answer; a server that
    refuses one is asked again without it."""

    name: DialectName
    title: str
    sampling: Mapping[str, str]
    extras: Mapping[str, object]
    continuing: Continuing = ""
    counting: Counting = ""
    switches_thinking: bool = False
    tells_likelihoods: bool = True
    sends_thoughts: bool = False  # reasoning_content of earlier answers is taken
    takes_minus_one: bool = False  # for all tokens, or no limit

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the fields of SamplingOptions that the dialect lacks."""
        return tuple(name for name in OPTIONS if name not in self.sampling)


DIALECTS: Mapping[DialectName, Dialect] = MappingProxyType(
    {
        dialect.name: dialect
        for dialect in (
            Dialect(
                "llm-lite",
                "llm-lite",
                {**{name: name for name in OPTIONS}, **_OPENAI},
                {"stream_options": {"include_usage": True}},
                continuing="field",
                counting="vllm",
                switches_thinking=True,
                sends_thoughts=True,
                takes_minus_one=True,
            ),
            Dialect(
                "vllm",
                "vLLM",
                {**_OPENAI, **names_in("vllm")},
                {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
                continuing="field",
                counting="vllm",
                switches_thinking=True,
                sends_thoughts=True,
            ),
            Dialect(
                "llama-server",
                "llama-server",
                {**_OPENAI, **names_in("llama-server")},
                {
                    "stream_options": {"include_usage": True},
                    "timings_per_token": True,
                    "return_progress": True,
                },
                continuing="prefill",
                counting="llama-server",
                switches_thinking=True,
                sends_thoughts=True,
                takes_minus_one=True,
            ),
            Dialect(
                "llama-cpp-python",
                "llama.cpp (Python)",
                {**_OPENAI, **names_in("llama-cpp-python")},
                {},
                tells_likelihoods=False,  # with them it loses characters of several tokens
                takes_minus_one=True,
            ),
            Dialect(
                "lm-studio",
                "LM Studio",
                {**_OPENAI, **names_in("lm-studio")},
                {"stream_options": {"include_usage": True}},
                takes_minus_one=True,
            ),
            Dialect("openai", "", _OPENAI, {"stream_options": {"include_usage": True}}),
        )
    }
)
