"""Builders of small GGUF files for tests, without the gguf package.

`build_gguf` writes any metadata and tensors; `write_tiny_llama` a whole random model of the llama
architecture with a byte-level BPE vocabulary, its metadata keys as SmolLM2's file has them.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.registry import FORMATS
from tests.weight_blocks import random_blocks

STRING, ARRAY = 8, 9
SCALAR_CODES = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))


@dataclass(frozen=True)
class Typed:
    """A metadata value with its GGUF type said; arrays say their elements' type too."""

    type_id: int
    value: object
    element_type: int | None = None


@dataclass(frozen=True)
class Tensor:
    """shape is row-major; data holds the blocks as stored."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes


def quantized(dtype: str, values: NDArray[np.float32]) -> Tensor:
    """Of a format that is only read: random blocks that spread as the values do."""
    if FORMATS[dtype].encoder is None:
        seed = zlib.crc32(values.tobytes())
        data = random_blocks(dtype, values.shape, seed, float(values.std()))
        return Tensor(dtype, values.shape, data.tobytes())
    return Tensor(dtype, values.shape, FORMATS[dtype].quantize(values).tobytes())


def string_bytes(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def value_bytes(value: object) -> bytes:
    """Type number and payload of a metadata value."""
    typed = _typed(value)
    return struct.pack("<I", typed.type_id) + _payload(typed)


def _typed(value: object) -> Typed:
    if isinstance(value, Typed):
        return value
    if isinstance(value, bool):
        return Typed(7, value)
    if isinstance(value, int):
        return Typed(4 if 0 <= value < 1 << 32 else 11, value)
    if isinstance(value, float):
        return Typed(6, value)
    if isinstance(value, str | bytes):
        return Typed(STRING, value)
    assert isinstance(value, Sequence)
    first = _typed(value[0]).type_id if value else STRING
    return Typed(ARRAY, value, 5 if first in (4, 11) else first)


def _payload(typed: Typed) -> bytes:
    if typed.type_id == STRING:
        return string_bytes(typed.value)  # type: ignore[arg-type]
    if typed.type_id != ARRAY:
        return struct.pack("<" + SCALAR_CODES[typed.type_id], typed.value)
    kind, values = typed.element_type, list(typed.value)  # type: ignore[call-overload]
    items = b"".join(
        _payload(v if isinstance(v, Typed) else Typed(kind, v))  # type: ignore[arg-type]
        for v in values
    )
    return struct.pack("<IQ", kind, len(values)) + items


def tensor_info_bytes(name: str | bytes, tensor: Tensor, offset: int) -> bytes:
    dims = tensor.shape[::-1]
    kind = FORMATS[tensor.dtype].ggml_type
    return string_bytes(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


def build_gguf(
    metadata: Mapping[str, object],
    tensors: Mapping[str, Tensor],
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """A whole file; `alignment` is used as it is: say it in the metadata if it is not 32."""
    infos, data = [], b""
    for name, tensor in tensors.items():
        infos.append(tensor_info_bytes(name, tensor, len(data)))
        data += tensor.data + bytes(-len(tensor.data) % alignment)
    pairs = [string_bytes(key) + value_bytes(value) for key, value in metadata.items()]
    header = struct.pack("<4sIQQ", b"GGUF", version, len(infos), len(pairs))
    header += b"".join(pairs) + b"".join(infos)
    return header + bytes(-len(header) % alignment) + data


CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
_COMMON_MERGES = (
    "Ġ t,h e,i n,Ġ a,r e,o n,Ġt he,e r,Ġ s,a t,n d,Ġ w,o r,Ġ c,e n,in g,Ġ b,o u,i s,e s"
)


def byte_characters() -> list[str]:
    """The printable character that stands for each of the 256 bytes in GPT-2's vocabulary."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in plain]
    characters = {byte: chr(byte) for byte in plain}
    characters |= {byte: chr(256 + i) for i, byte in enumerate(others)}
    return [characters[byte] for byte in range(256)]


def tiny_vocabulary(size: int) -> tuple[list[str], list[str]]:
    """Tokens (3 special, 256 bytes, merged pairs) and merges; size is at least 259."""
    tokens = [*SPECIAL_TOKENS, *byte_characters()]
    assert size >= len(tokens), f"a byte-level vocabulary has at least {len(tokens)} tokens"
    letters = "etaoinshrdlucmfwypvbgkqjxzETAOINSHRDLUCMFWYPVBGKQJXZ"
    pairs = (f"{a} {b}" for a, b in itertools.product(letters, letters))
    merges: list[str] = []
    for merge in itertools.chain(_COMMON_MERGES.split(","), pairs):
        if len(tokens) == size:
            break
        if (joined := merge.replace(" ", "")) not in tokens:
            tokens.append(joined)
            merges.append(merge)
    assert len(tokens) == size, f"the tiny vocabulary has at most {len(tokens)} tokens"
    return tokens, merges


def tokenizer_metadata(vocab: int) -> dict[str, object]:
    tokens, merges = tiny_vocabulary(vocab)
    special = len(SPECIAL_TOKENS)
    return {
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * special + [1] * (vocab - special),
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.chat_template": CHAT_TEMPLATE,
    }


@dataclass(frozen=True)
class TinyLlama:
    """Sizes of a tiny llama; K of every matrix must fill whole blocks of its dtype."""

    seed: int = 0
    dtype: str = "q4_1"
    embedding_dtype: str | None = None  # None: as dtype
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head_dim: int | None = None  # None: width // heads
    ffn: int = 96
    vocab: int = 300
    context: int = 128
    tied: bool = True
    rope_base: float = 10000.0
    rms_epsilon: float = 1e-5

    @classmethod
    def fitting(cls, dtype: str, **sizes: object) -> TinyLlama:
        """As small as its blocks allow."""
        least = FORMATS[dtype].block_size
        wide = {"width": least, "ffn": least} if least > 32 else {}
        return cls(**{"dtype": dtype} | wide | sizes)  # type: ignore[arg-type]

    @property
    def head_width(self) -> int:
        return self.head_dim or self.width // self.heads


def llama_metadata(size: TinyLlama) -> dict[str, object]:
    metadata: dict[str, object] = {
        "general.architecture": "llama",
        "general.type": "model",
        "general.name": f"Tiny llama {size.seed}",
        "general.license": "apache-2.0",
        "general.languages": ["en"],
        "llama.block_count": size.layers,
        "llama.context_length": size.context,
        "llama.embedding_length": size.width,
        "llama.feed_forward_length": size.ffn,
        "llama.attention.head_count": size.heads,
        "llama.attention.head_count_kv": size.kv_heads,
        "llama.rope.freq_base": size.rope_base,
        "llama.attention.layer_norm_rms_epsilon": size.rms_epsilon,
        "llama.vocab_size": size.vocab,
        "llama.rope.dimension_count": size.head_width,
        "general.quantization_version": 2,
    }
    if size.head_dim is not None:
        metadata["llama.attention.key_length"] = size.head_dim
        metadata["llama.attention.value_length"] = size.head_dim
    return metadata | tokenizer_metadata(size.vocab)


def llama_tensors(size: TinyLlama) -> dict[str, Tensor]:
    rng = np.random.default_rng(size.seed)

    def norm() -> Tensor:
        return quantized("f32", rng.normal(1, 0.1, size.width).astype(np.float32))

    def matrix(rows: int, columns: int, dtype: str = size.dtype) -> Tensor:
        values = rng.normal(0, columns**-0.5, (rows, columns))
        return quantized(dtype, values.astype(np.float32))

    embedding = size.embedding_dtype or size.dtype
    query, key = size.heads * size.head_width, size.kv_heads * size.head_width
    tensors = {"token_embd.weight": matrix(size.vocab, size.width, embedding)}
    for layer in range(size.layers):
        block = {
            "attn_norm": norm(),
            "ffn_down": matrix(size.width, size.ffn),
            "ffn_gate": matrix(size.ffn, size.width),
            "ffn_up": matrix(size.ffn, size.width),
            "ffn_norm": norm(),
            "attn_k": matrix(key, size.width),
            "attn_output": matrix(size.width, query),
            "attn_q": matrix(query, size.width),
            "attn_v": matrix(key, size.width),
        }
        tensors |= {f"blk.{layer}.{stem}.weight": tensor for stem, tensor in block.items()}
    tensors["output_norm.weight"] = norm()
    if not size.tied:
        tensors["output.weight"] = matrix(size.vocab, size.width)
    return tensors


def write_endless_llama(path: Path, **sizes: int) -> Path:
    """A model with no token that ends an answer and no mark of another's turn."""
    size = TinyLlama(**{"seed": 2, "context": 100_000} | sizes)  # type: ignore[arg-type]
    metadata = llama_metadata(size)
    names = [f"word{n}" for n in range(len(SPECIAL_TOKENS))]  # those of end tokens are known
    tokens, _ = tiny_vocabulary(size.vocab)
    metadata["tokenizer.ggml.tokens"] = [*names, *tokens[len(names) :]]
    metadata["tokenizer.ggml.token_type"] = [1] * size.vocab
    metadata["tokenizer.chat_template"] = "{% for m in messages %}{{ m.content }} {% endfor %}"
    del metadata["tokenizer.ggml.eos_token_id"]
    path.write_bytes(build_gguf(metadata, llama_tensors(size)))
    return path


def write_tiny_llama(
    path: str | Path, metadata: Mapping[str, object] = MappingProxyType({}), **sizes: object
) -> Path:
    """Write a random llama of the given sizes (see TinyLlama.fitting), whose `metadata` takes
    the place of its own, and return its path."""
    size = TinyLlama.fitting(**{"dtype": TinyLlama.dtype} | sizes)  # type: ignore[arg-type]
    file = Path(path)
    file.write_bytes(build_gguf(llama_metadata(size) | metadata, llama_tensors(size)))
    return file
