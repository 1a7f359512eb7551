"""Checkpoints of real shapes with random weights, to measure size and speed without the real ones.

Answers are nonsense. Weights are such that activations keep their scale from layer to layer.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.convert.quantizing import check_mode, variant_slots
from llm_lite.core.errors import RequestError
from llm_lite.core.files.writing import replaced
from llm_lite.core.formats.gguf_reader import EXPERTS
from llm_lite.core.formats.gguf_writer import GgufTensor, write_gguf
from llm_lite.core.formats.huggingface_config import CheckpointConfig
from llm_lite.core.formats.variant_reader import METADATA_FILE, to_json
from llm_lite.core.formats.variant_writer import VariantWriter
from llm_lite.core.models.description.architecture import Architecture
from llm_lite.core.models.description.decoder import EMBEDDING, HEAD
from llm_lite.core.models.description.tensors import Shapes
from llm_lite.core.models.gemma3n.architecture import GEMMA_3N
from llm_lite.core.models.gemma3n.config import LAUREL, PER_LAYER_TABLE
from llm_lite.core.models.gemma3n.cut import SLICES
from llm_lite.core.models.gemma4 import GEMMA_4
from llm_lite.core.models.gpt_oss import GPT_OSS
from llm_lite.core.models.lfm2 import LFM2
from llm_lite.core.models.llama import LLAMA
from llm_lite.core.models.olmoe import OLMOE
from llm_lite.core.models.qwen3_5 import QWEN3_5
from llm_lite.core.models.qwen3_moe import QWEN3_MOE
from llm_lite.core.quant.blocks.code_tables import MXFP4
from llm_lite.core.quant.blocks.legacy import Q4_0, Q4_1, Q8_0
from llm_lite.core.quant.blocks.tiles import INT4, INT8
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.text.vocabulary import TokenType

Bytes = NDArray[np.uint8]
Random = np.random.Generator
_PIECE_BYTES = 8 << 20
_PIECE_ROWS = 16  # a multiple of the rows of a tile
_SMALL = 0.1  # deviation of matrices of a few columns, which mix streams
_MIDDLE, _SPREAD = 7.5, 4.61  # mean and deviation of the levels 0 to 15, equally likely
_SPREAD_OF_15 = 4.32  # deviation of the levels 1 to 15
_SPREAD_OF_E2M1 = 2.93  # deviation of all 16 codes
_SPREAD_OF_255 = 73.6  # deviation of the levels -127 to 127


def pieces(rng: Random, dtype: str, name: str, shape: tuple[int, ...]) -> Iterator[Bytes]:
    """Yield the bytes of a tensor in order; a vector is a norm's, all 1, or of a recurrent state,
    which then forgets about a third with each token."""
    form, stem = FORMATS[dtype], _of_layer(name)
    if len(shape) == 1 or stem in _OF_STATES:
        yield form.quantize(np.full((1, math.prod(shape)), _OF_STATES.get(stem, 1.0), np.float32))
        return
    rows, columns = math.prod(shape[:-1]), shape[-1]
    deviation = columns**-0.5 if columns >= INT4.BLOCK_SIZE else _SMALL
    if dtype not in _BLOCKS or rows % form.tile_rows:
        yield from _normal(rng, dtype, (rows, columns), deviation)
        return
    unit = form.block_bytes * form.tile_rows
    total, step = form.nbytes((rows, columns)) // unit, _PIECE_BYTES // unit
    for at in range(0, total, step):
        yield _BLOCKS[dtype](rng, min(step, total - at), deviation).reshape(-1).view(np.uint8)


_TAPS = {"ssm_conv1d.weight": 4, "shortconv.conv.weight": 3}  # of convolutions
_OF_STATES = {"ssm_a": -0.5, "ssm_dt.bias": 0.0, **dict.fromkeys(_TAPS, 0.5)}


def _of_layer(name: str) -> str:
    """Return a tensor's name without its layer."""
    return name.split(".", 2)[-1]


def _normal(rng: Random, dtype: str, shape: tuple[int, int], deviation: float) -> Iterator[Bytes]:
    step = max(1, _PIECE_BYTES // 4 // shape[1] // _PIECE_ROWS) * _PIECE_ROWS
    for at in range(0, shape[0], step):
        rows = min(step, shape[0] - at)
        values = rng.standard_normal((rows, shape[1]), np.float32) * np.float32(deviation)
        yield FORMATS[dtype].quantize(values)


def _bytes(rng: Random, shape: tuple[int, ...]) -> Bytes:
    return np.frombuffer(rng.bytes(math.prod(shape)), np.uint8).reshape(shape)


def _signed(rng: Random, shape: tuple[int, ...]) -> NDArray[np.int8]:
    return rng.integers(-127, 128, shape, np.int8)


def _q4_0(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, Q4_0.BLOCK)
    blocks["d"] = deviation / _SPREAD_OF_15
    low, high = rng.integers(1, 16, (2, count, 16), np.uint8)  # level 8 is 0
    blocks["qs"] = low | high << 4
    return blocks


def _q4_1(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, Q4_1.BLOCK)
    blocks["d"] = deviation / _SPREAD
    blocks["m"] = -deviation / _SPREAD * _MIDDLE
    blocks["qs"] = _bytes(rng, (count, 16))
    return blocks


def _q8_0(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, Q8_0.BLOCK)
    blocks["d"] = deviation / _SPREAD_OF_255
    blocks["qs"] = _signed(rng, (count, 32))
    return blocks


def _mxfp4(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    blocks = np.empty(count, MXFP4.BLOCK)
    blocks["e"] = 127 + round(math.log2(deviation / _SPREAD_OF_E2M1))  # a power of two
    blocks["qs"] = _bytes(rng, (count, 16))
    return blocks


def _int4(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    tiles = np.empty(count, INT4.TILE)
    step = INT4.encode_step(np.array([deviation / _SPREAD], np.float32))
    tiles["headers"] = step << np.uint16(6) | np.uint16(_MIDDLE * 4)
    tiles["levels"] = _bytes(rng, (count, INT4.GROUPS, 16, 4))
    return tiles


def _int8(rng: Random, count: int, deviation: float) -> NDArray[np.void]:
    tiles = np.empty(count, INT8.TILE)
    tiles["headers"] = np.array([deviation / _SPREAD_OF_255], "<f2").view("<u2")
    tiles["levels"] = _signed(rng, (count, INT8.GROUPS, 16, 4)).view(np.uint8)
    return tiles


_BLOCKS: Mapping[str, Callable[[Random, int, float], NDArray[np.void]]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q8_0": _q8_0,
    "mxfp4": _mxfp4,
    "int4": _int4,
    "int8": _int8,
}


_BIASES = "_exps.bias"  # ends the names of the biases of all experts of a layer
_FLOATS = (_BIASES, "ffn_gate_inp.weight")  # whose rows would fill blocks
_NOT_OF_GGUF = ("gemma3n.altup.correct_scale",)  # no field of its
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% set first = messages[0]['content'] + '\n\n' "
    "if messages[0]['role'] == 'system' else '' %}"
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' }}"
    "{{ first if loop.index0 == (1 if first else 0) else '' }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
Form = Literal["variant", "gguf"]
Progress = Callable[[float], None]  # the part done, 0..1
FORMS: tuple[Form, ...] = ("variant", "gguf")


class _KnownShape(Struct, frozen=True):
    title: str
    fields: Callable[[], tuple[dict[str, Any], Shapes]]


def names() -> tuple[str, ...]:
    return tuple(_KNOWN)


def write_synthetic(
    name: str,
    target: Path,
    *,
    form: Form = "variant",
    mode: str = "int4",
    seed: int = 0,
    context: int = 0,
    progress: Progress | None = None,
) -> None:
    """Write a variant in a mode, or with form="gguf" a GGUF file of Q4_0 as llama.cpp reads it;
    written in a stream, whole or not at all. `context`: tokens that it says it was made for, 0: as
    many as models of this shape.

    RequestError for a name or mode that is not known, FileError where it cannot be written.
    """
    if name not in _KNOWN:
        raise RequestError(f"unknown shape {name[:60]!r}: expected {', '.join(_KNOWN)}")
    known = _KNOWN[name]
    metadata, shapes = known.fields()
    if context:
        metadata[f"{metadata['general.architecture']}.context_length"] = context
    vocabulary = dict(shapes)["token_embd.weight"][0]
    whole = {"general.name": f"{known.title} (random)", **metadata, **_tokenizer(vocabulary)}
    if form == "gguf":
        _write_gguf(target, whole, shapes, seed, progress)
    else:
        _write_variant(target, whole, shapes, mode, seed, progress)


def _write_gguf(
    target: Path, metadata: Mapping[str, Any], shapes: Shapes, seed: int, progress: Progress | None
) -> None:
    metadata = {key: value for key, value in metadata.items() if key not in _NOT_OF_GGUF}
    architecture = metadata["general.architecture"]
    if (length := metadata.get(f"{architecture}.attention.key_length")) is not None:
        # llama.cpp takes values to be width / heads long where a file does not say
        metadata.setdefault(f"{architecture}.attention.value_length", length)
    experts = metadata.get(f"{architecture}.expert_count", 0)
    is_packed = architecture == GPT_OSS.gguf
    packed = "mxfp4" if is_packed else "q4_0"
    tensors = []
    for name, shape in _stacked(shapes, experts):
        if is_packed and name == "rope_freqs.weight":  # its files say how factors are made
            continue
        blocks = packed if name.endswith(EXPERTS) else "q4_0"
        tensors.append(_gguf_tensor(seed, name, shape, blocks))
    with replaced(target) as file:
        write_gguf(file, metadata, tensors, progress)


def _gguf_tensor(seed: int, name: str, shape: tuple[int, ...], blocks: str) -> GgufTensor:
    """Return a tensor: rows of matrices that fill whole blocks lie in such, others are float32; a
    layer's scale is one value."""
    if name.endswith("layer_output_scale.weight"):
        shape = (1,)
    if taps := _TAPS.get(_of_layer(name)):
        shape = (shape[0] // taps, taps)
    fills = len(shape) > 1 and shape[-1] % Q4_0.BLOCK_SIZE == 0
    dtype = blocks if fills and not name.endswith(_FLOATS) else "f32"
    return GgufTensor(name, dtype, shape, partial(pieces, _random(seed, name), dtype, name, shape))


def _write_variant(
    target: Path,
    metadata: Mapping[str, Any],
    shapes: Shapes,
    mode: str,
    seed: int,
    progress: Progress | None,
) -> None:
    check_mode(mode)
    tensors = [TensorData(name, "f32", shape, np.empty(0, np.uint8)) for name, shape in shapes]
    slots = variant_slots(tensors, mode, (PER_LAYER_TABLE,))
    identity = Tokenizer.from_gguf(metadata, target).identity
    total, done = sum(slot.nbytes for slot in slots), 0
    documents = {METADATA_FILE: to_json(metadata)}
    with VariantWriter(target, slots, documents, mode) as writer:
        for slot in slots:
            for data in pieces(_random(seed, slot.name), slot.dtype, slot.name, slot.shape):
                writer.add(data)
                done += data.nbytes
                if progress:
                    progress(done / total)
        writer.finish({"tokenizer": identity, "source": {"seed": seed}, "report": {}})


def _random(seed: int, name: str) -> np.random.Generator:
    """Return a random generator of the tensor's own."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def _stacked(shapes: Shapes, experts: int) -> Shapes:
    """Return the shapes with projections of streams stacked, and what experts have too, as GGUF
    files have them."""
    shapes = [
        (name, (experts, shape[0] // experts, *shape[1:]))
        if name.endswith((EXPERTS, _BIASES))
        else (name, shape)
        for name, shape in shapes
    ]
    result: Shapes = []
    for stem, group in itertools.groupby(shapes, lambda item: _stack_of(item[0])):
        items = list(group)
        result += [(f"{stem}.weight", (len(items), *items[0][1]))] if stem else items
    return result


def _stack_of(name: str) -> str:
    stem, _, rest = name.partition(".")
    return stem if stem in ("altup_proj", "altup_unembd_proj") and rest != "weight" else ""


def _gemma(
    changes: Mapping[str, Any], rows: int = 262_144, table_rows: int = 262_144
) -> tuple[dict[str, Any], Shapes]:
    """Return metadata and shapes; E4B's are the defaults of its config, with `rows` of the
    embedding and of the table."""
    config = CheckpointConfig({"model_type": "gemma3n_text", **changes}, Path(CONFIG))
    metadata = GEMMA_3N.metadata_of(config)
    sizes = {EMBEDDING: (rows, 1), PER_LAYER_TABLE: (table_rows, 1), LAUREL: (64, 1)}
    shapes = GEMMA_3N.shapes_of(metadata, Path(CONFIG), sizes=sizes, optional=True)
    projections = [item for item in shapes if _stack_of(item[0])]
    order = sorted(projections, key=lambda item: item[0])
    return metadata, [item for item in shapes if item not in projections] + order


def _e2b() -> tuple[dict[str, Any], Shapes]:
    layers = 35 - len(SLICES["E2B"].skip)
    sizes = {"num_hidden_layers": layers, "intermediate_size": 8192, "num_kv_shared_layers": 10}
    return _gemma(sizes)


_GEMMA_4_E4B = {  # https://huggingface.co/google/gemma-4-E4B
    "hidden_size": 2560,
    "intermediate_size": 10240,
    "num_hidden_layers": 42,
    "num_key_value_heads": 2,
    "num_kv_shared_layers": 18,
    "rms_norm_eps": 1e-6,
    "final_logit_softcapping": 30.0,
}


def _gemma4(changes: Mapping[str, Any], rows: int = 262_144) -> tuple[dict[str, Any], Shapes]:
    """Return metadata and shapes with `rows` of the embedding and of the table; layers with keys of
    their own have values too."""
    config = CheckpointConfig({"model_type": "gemma4_text", **changes}, Path(CONFIG))
    metadata = GEMMA_4.metadata_of(config)
    for layers in ("", "_swa"):  # llama.cpp wants this said, too
        width = metadata[f"gemma4.attention.key_length{layers}"]
        metadata[f"gemma4.attention.value_length{layers}"] = width
        metadata[f"gemma4.rope.dimension_count{layers}"] = width
    own = metadata["gemma4.block_count"] - metadata["gemma4.attention.shared_kv_layers"]
    values = [f"blk.{layer}.attn_v.weight" for layer in range(own)]
    sizes = {EMBEDDING: (rows, 1), PER_LAYER_TABLE: (rows, 1)}
    return metadata, GEMMA_4.shapes_of(metadata, Path(CONFIG), sizes=sizes, optional=values)


def _llama(
    changes: Mapping[str, Any], rows: int, head: bool = False
) -> tuple[dict[str, Any], Shapes]:
    """Return the metadata and shapes of a llama with a vocabulary of `rows`; its output head is a
    matrix of its own, or the embedding."""
    metadata: dict[str, Any] = {f"llama.{k}": v for k, v in changes.items()}
    metadata["general.architecture"] = "llama"
    sizes, own = {EMBEDDING: (rows, 1)}, [HEAD] if head else []
    return metadata, LLAMA.shapes_of(metadata, Path(CONFIG), sizes=sizes, optional=own)


def _llama_fields(
    layers: int, width: int, inner: int, heads: tuple[int, int], base: float = 5e5
) -> Mapping[str, Any]:
    """Return the fields of a llama, by default with Llama 3's rotary base; `heads`: of queries and
    of keys."""
    return {
        "block_count": layers,
        "context_length": 8192,
        "embedding_length": width,
        "feed_forward_length": inner,
        "attention.head_count": heads[0],
        "attention.head_count_kv": heads[1],
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": width // heads[0],
        "rope.freq_base": base,
    }


_SMOLLM2 = _llama_fields(30, 576, 1536, (9, 3), 1e5)
_LLAMA_1B = _llama_fields(16, 2048, 8192, (32, 8))  # meta-llama/Llama-3.2-1B
_LLAMA_3B = _llama_fields(28, 3072, 8192, (24, 8))  # meta-llama/Llama-3.2-3B
_LLAMA_8B = _llama_fields(32, 4096, 14_336, (32, 8))  # meta-llama/Llama-3.1-8B

_QWEN3_5_0_8B = {  # https://huggingface.co/Qwen/Qwen3.5-0.8B
    "hidden_size": 1024,
    "intermediate_size": 3584,
    "num_hidden_layers": 24,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "linear_num_value_heads": 16,
}
_QWEN3_5_4B = {  # https://huggingface.co/Qwen/Qwen3.5-4B
    "hidden_size": 2560,
    "intermediate_size": 9216,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "linear_num_value_heads": 32,
}


def _qwen3_5(changes: Mapping[str, Any], rows: int = 248_320) -> tuple[dict[str, Any], Shapes]:
    """Return the metadata and shapes with an output head that is the embedding of `rows` rows."""
    common = {
        "model_type": "qwen3_5_text",
        "max_position_embeddings": 32_768,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {"rope_theta": 10_000_000.0, "partial_rotary_factor": 0.25},
        "linear_num_key_heads": 16,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": _TAPS["ssm_conv1d.weight"],
    }
    config = CheckpointConfig({**common, **changes}, Path(CONFIG))
    metadata = QWEN3_5.metadata_of(config)
    del metadata["qwen35.ssm.tiled"]  # as files of others: value heads are in GGUF's order
    metadata["qwen35.full_attention_interval"] = 4
    metadata["qwen35.rope.dimension_sections"] = [11, 11, 10, 0]  # llama.cpp wants these said, too
    return metadata, QWEN3_5.shapes_of(metadata, Path(CONFIG), sizes={EMBEDDING: (rows, 1)})


_QWEN3_30B_A3B = {  # https://huggingface.co/Qwen/Qwen3-30B-A3B
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 40_960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
}
_GPT_OSS_20B = {  # https://huggingface.co/openai/gpt-oss-20b
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "max_position_embeddings": 131_072,
    "rope_theta": 150_000.0,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 32.0,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "truncate": False,
        "original_max_position_embeddings": 4096,
    },
    "rms_norm_eps": 1e-5,
}
_OLMOE_1B_7B = {  # https://huggingface.co/allenai/OLMoE-1B-7B-0924
    "hidden_size": 2048,
    "intermediate_size": 1024,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}


def _mixture(
    architecture: Architecture, fields: Mapping[str, Any], rows: int
) -> tuple[dict[str, Any], Shapes]:
    """Return the metadata and shapes of a mixture of experts with a vocabulary of `rows` and an
    output head of its own."""
    config = CheckpointConfig({"model_type": architecture.model_types[0], **fields}, Path(CONFIG))
    metadata, sizes = architecture.metadata_of(config), {EMBEDDING: (rows, 1)}
    return metadata, architecture.shapes_of(metadata, Path(CONFIG), sizes=sizes, optional=[HEAD])


_LFM2_1_2B = {  # https://huggingface.co/LiquidAI/LFM2-1.2B
    "hidden_size": 2048,
    "block_ff_dim": 12_288,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
}


def _lfm2(changes: Mapping[str, Any], rows: int = 65_536) -> tuple[dict[str, Any], Shapes]:
    """Return the metadata and shapes with an output head that is the embedding of `rows` rows."""
    taps = _TAPS["shortconv.conv.weight"]
    common = {"model_type": "lfm2", "max_position_embeddings": 32_768, "conv_L_cache": taps}
    metadata = LFM2.metadata_of(CheckpointConfig({**common, **changes}, Path(CONFIG)))
    return metadata, LFM2.shapes_of(metadata, Path(CONFIG), sizes={EMBEDDING: (rows, 1)})


def _tokenizer(count: int) -> dict[str, object]:
    """Return a SentencePiece vocabulary of made-up words: all bytes, letters, and syllables."""
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    types = [TokenType.CONTROL] * 3 + [TokenType.UNKNOWN] + [TokenType.CONTROL] * 2
    tokens += [f"<0x{byte:02X}>" for byte in range(256)]
    types += [TokenType.BYTE] * 256
    letters = "▁etaoinshrdlucmfwypvbgkqjxz"
    words = ("".join(word) for n in range(1, 6) for word in itertools.product(letters, repeat=n))
    tokens += itertools.islice(words, count - len(tokens))
    types += [TokenType.NORMAL] * (count - len(types))
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [-float(i) for i in range(count)],
        "tokenizer.ggml.token_type": [int(kind) for kind in types],
        "tokenizer.ggml.bos_token_id": 2,
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.unknown_token_id": 3,
        "tokenizer.ggml.padding_token_id": 0,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_space_prefix": False,
        "tokenizer.chat_template": GEMMA_TEMPLATE,
    }


CONFIG = "config.json"  # what errors would name
_KNOWN: Mapping[str, _KnownShape] = {
    "gemma-3n-e4b": _KnownShape("Gemma 3n E4B", partial(_gemma, {})),
    "gemma-3n-e2b": _KnownShape("Gemma 3n E2B", _e2b),
    "gemma-4-e4b": _KnownShape("Gemma 4 E4B", partial(_gemma4, _GEMMA_4_E4B)),
    "smollm2-135m": _KnownShape("SmolLM2 135M", partial(_llama, _SMOLLM2, 49_152)),
    "llama-1b": _KnownShape("Llama 1B", partial(_llama, _LLAMA_1B, 128_256)),
    "llama-3b": _KnownShape("Llama 3B", partial(_llama, _LLAMA_3B, 128_256)),
    "llama-8b": _KnownShape("Llama 8B", partial(_llama, _LLAMA_8B, 128_256, head=True)),
    "qwen3.5-0.8b": _KnownShape("Qwen3.5 0.8B", partial(_qwen3_5, _QWEN3_5_0_8B)),
    "qwen3.5-4b": _KnownShape("Qwen3.5 4B", partial(_qwen3_5, _QWEN3_5_4B)),
    "qwen3-30b-a3b": _KnownShape(
        "Qwen3 30B-A3B", partial(_mixture, QWEN3_MOE, _QWEN3_30B_A3B, 151_936)
    ),
    "gpt-oss-20b": _KnownShape("gpt-oss 20B", partial(_mixture, GPT_OSS, _GPT_OSS_20B, 201_088)),
    "olmoe-1b-7b": _KnownShape("OLMoE 1B-7B", partial(_mixture, OLMOE, _OLMOE_1B_7B, 50_304)),
    "lfm2-1.2b": _KnownShape("LFM2 1.2B", partial(_lfm2, _LFM2_1_2B)),
}
