"""Checkpoints of real shapes with random weights, to measure size and speed without the real ones.

Answers are nonsense. Weights are such that activations keep their scale from layer to layer.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import FileError, RequestError
from core.formats.gguf_writer import GgufTensor, write_gguf
from core.formats.huggingface_config import Config
from core.formats.huggingface_gemma3n import metadata_of
from core.models import gemma3n
from core.quant import f32, q4_0
from core.slicing import KNOWN
from core.vocabulary import TokenType

_PIECE_ROWS_BYTES = 8 << 20
_LEVEL_DEVIATION = 4.32  # of the levels -7 to 7, equally likely
GEMMA_TEMPLATE = (
    "{{ bos_token }}{% set first = messages[0]['content'] + '\n\n' "
    "if messages[0]['role'] == 'system' else '' %}"
    "{% for message in messages %}{% if message['role'] != 'system' %}"
    "{{ '<start_of_turn>' + ('model' if message['role'] == 'assistant' else 'user') + '\n' }}"
    "{{ first if loop.index0 == (1 if first else 0) else '' }}"
    "{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
Shapes = list[tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class _Known:
    title: str
    fields: Callable[[], tuple[dict[str, Any], Shapes]]


def names() -> tuple[str, ...]:
    return tuple(_KNOWN)


def write_synthetic(
    name: str, target: Path, *, seed: int = 0, progress: Callable[[float], None] | None = None
) -> None:
    """A GGUF file of Q4_0, written in a stream; whole or not at all.

    RequestError for a name that is not known, FileError where the file cannot be written.
    """
    if name not in _KNOWN:
        raise RequestError(f"unknown shape {name[:60]!r}: expected {', '.join(_KNOWN)}")
    known = _KNOWN[name]
    metadata, shapes = known.fields()
    vocabulary = dict(shapes)["token_embd.weight"][0]
    whole = {"general.name": f"{known.title} (random)", **metadata, **_tokenizer(vocabulary)}
    tensors = [_tensor(seed, tensor, shape) for tensor, shape in _stacked(shapes)]
    partial_target = target.with_name(f".{target.name}.part")
    try:
        with partial_target.open("wb") as file:
            write_gguf(file, whole, tensors, progress)
        partial_target.rename(target)
    except OSError as error:
        raise FileError(target, f"cannot be written: {error.strerror or error}") from None
    finally:
        partial_target.unlink(missing_ok=True)


def _tensor(seed: int, name: str, shape: tuple[int, ...]) -> GgufTensor:
    """Norms are 1; rows that fill whole blocks are Q4_0, others float32."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if len(shape) == 1:
        ones = partial(_ones, shape[0])
        return GgufTensor(name, "f32", shape, ones)
    blocks = shape[-1] % q4_0.BLOCK_SIZE == 0
    pieces = partial(_levels if blocks else _normal, rng, shape)
    return GgufTensor(name, "q4_0" if blocks else "f32", shape, pieces)


def _ones(count: int) -> Iterator[NDArray[np.uint8]]:
    yield f32.quantize(np.ones(count, np.float32))


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    values = 0.1 * rng.standard_normal(shape, np.float32)
    yield f32.quantize(values)


def _levels(rng: np.random.Generator, shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    """Blocks of equally likely levels around 0, of deviation 1 / sqrt(K)."""
    total = int(np.prod(shape, dtype=np.int64)) // q4_0.BLOCK_SIZE
    step = _PIECE_ROWS_BYTES // q4_0.BLOCK.itemsize
    scale = np.array([shape[-1] ** -0.5 / _LEVEL_DEVIATION], "<f2").view(np.uint8)
    for at in range(0, total, step):
        count = min(step, total - at)
        low, high = rng.integers(1, 16, (2, count, q4_0.BLOCK_SIZE // 2), np.uint8)
        blocks = np.empty((count, q4_0.BLOCK.itemsize), np.uint8)
        blocks[:, :2] = scale
        blocks[:, 2:] = low | high << 4
        yield blocks.reshape(-1)


def _stacked(shapes: Shapes) -> Shapes:
    """Projections of streams in stacks, as GGUF files have them."""
    result: Shapes = []
    for stem, group in itertools.groupby(shapes, lambda item: _stack_of(item[0])):
        items = list(group)
        result += [(f"{stem}.weight", (len(items), *items[0][1]))] if stem else items
    return result


def _stack_of(name: str) -> str:
    stem, _, rest = name.partition(".")
    return stem if stem in ("altup_proj", "altup_unembd_proj") and rest != "weight" else ""


def _gemma(changes: Mapping[str, Any]) -> tuple[dict[str, Any], Shapes]:
    """E4B's shapes are the defaults of its config."""
    metadata = metadata_of(Config({"model_type": "gemma3n_text", **changes}, Path(CONFIG)))
    shapes = gemma3n.shapes_of(metadata, Path(CONFIG), rows=262_144, table_rows=262_144, rank=64)
    projections = [item for item in shapes if _stack_of(item[0])]
    order = sorted(projections, key=lambda item: item[0])
    metadata.pop("gemma3n.altup.correct_scale")  # no field of GGUF's
    return metadata, [item for item in shapes if item not in projections] + order


def _e2b() -> tuple[dict[str, Any], Shapes]:
    layers = 35 - len(KNOWN["E2B"].skip)
    sizes = {"num_hidden_layers": layers, "intermediate_size": 8192, "num_kv_shared_layers": 10}
    return _gemma(sizes)


def _tokenizer(count: int) -> dict[str, object]:
    """A SentencePiece vocabulary of made-up words: all bytes, letters, and syllables."""
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
_KNOWN: Mapping[str, _Known] = {
    "gemma-3n-e4b": _Known("Gemma 3n E4B", partial(_gemma, {})),
    "gemma-3n-e2b": _Known("Gemma 3n E2B", _e2b),
}
