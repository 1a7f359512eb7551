"""Servers elsewhere, and the models that they answer with."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.messages.models import CacheLayerInfo

# Who answers: each tells other things of itself, and takes other options.
DialectName = Literal["llm-lite", "vllm", "llama-server", "llama-cpp-python", "lm-studio", "openai"]


# Token numbers from here on are made of the text: servers seldom tell theirs.
UNTOLD_TOKENS = 1 << 31


class ApiKey(Struct, frozen=True):
    """A secret: what is printed of it says nothing."""

    text: str = ""

    def __repr__(self) -> str:
        return "ApiKey(…)" if self.text else "ApiKey()"

    def __bool__(self) -> bool:
        return bool(self.text)


NO_KEY = ApiKey()


class RemoteModel(Struct, frozen=True):
    """A model of a server. 0 and "" stand for what it does not tell."""

    name: str
    context: int = 0  # tokens
    trained_context: int = 0
    parameters: int = 0
    file_bytes: int = 0
    vocabulary: int = 0
    width: int = 0
    layers: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    cache_layers: tuple[CacheLayerInfo, ...] = ()  # with rows for the whole context
    architecture: str = ""
    weights: str = ""  # "Q4_K_M"
    calls_functions: bool = True  # as far as is known
    switches_thinking: bool = True
    loaded: bool = True  # else the server loads it when it is asked
    encoder: EncoderInfo | None = None  # of an encoder whose server shows what it reads
    makes_vectors_only: bool = False  # of an embedding model whose server shows nothing of it

    @property
    def title(self) -> str:
        """Return the name without the folders of a file that it may have."""
        return self.name.replace("\\", "/").rpartition("/")[2] if self._is_file else self.name

    @property
    def _is_file(self) -> bool:
        return self.name.endswith(".gguf")

    @property
    def recurrent_layers(self) -> tuple[int, ...]:
        """Return the layers that have no keys and values, if the server says which have."""
        cached = {one for layer in self.cache_layers for one in (layer.layer, *layer.shared_with)}
        return tuple(i for i in range(self.layers) if i not in cached) if cached else ()


class RemoteServer(Struct, frozen=True):
    """The server at an address, and its models."""

    address: str  # what stands before /v1
    host: str  # the address in sentences
    dialect: DialectName
    title: str  # "vLLM"
    version: str = ""
    models: tuple[RemoteModel, ...] = ()
    lacks: tuple[str, ...] = ()  # fields of SamplingOptions that it does not know
    continues: bool = False  # an answer goes on where it ended
    switches_thinking: bool = False
    counts_tokens: bool = False
    can_inspect: bool = False  # attention, lens and cache of its answers can be read


class HeldCache(Struct, frozen=True):
    """The cache of another llm-lite: what it holds of an answer, and how full it is."""

    tokens: int
    first_query: int  # queries are kept from this position on
    page_tokens: int  # positions of a page
    pages: int
    pages_used: int  # by answers that are written
    pages_kept: int  # by ended ones, until others need them
