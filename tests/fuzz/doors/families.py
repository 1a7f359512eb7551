"""GGUF files of BERT, T5 and BLOOM: absurd fields, tensors and words, and blocks cut short."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np

from llm_lite.cli import main
from llm_lite.core.errors import RequestError
from llm_lite.core.generation.translation import encode_source
from llm_lite.core.loading import loader
from llm_lite.core.loading.beside import translator_of
from llm_lite.core.loading.encoder_starting import start_encoder
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.models.registry import ARCHITECTURES
from llm_lite.core.quant.modes import MADE
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.records import replace
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from tests.encoder_checks import spelled_in_gguf, words
from tests.fuzz import whole
from tests.fuzz.door import Case, Door, Result
from tests.fuzz.doors.gguf import change_metadata, change_tensors
from tests.fuzz.mutations import mutate_bytes
from tests.make_gguf import Tensor, Typed, build_gguf, quantized, tokenizer_metadata
from tests.paths import FIXTURES

NAMES = ("bloom", "bert", "t5")
ROWS, FEED_FORWARD = 262, 64
DTYPES = ("f32", "f16", "q4_0", "q8_0", "q4_1", "q6_k", "q4_k")
MORE_KEYS = {
    "bloom": ("attention.key_length", "rope.freq_base", "attention.max_alibi_bias"),
    "bert": ("pooling_type", "token_type_count", "attention.causal", "position_first"),
    "t5": ("rope.scaling.type", "scale_decoder_outputs", "generation.beams", "expert_count"),
}
Parts = tuple[dict[str, object], dict[str, Tensor]]


@cache
def model(name: str, dtype: str) -> Parts:
    """A model of one layer, of one layer a stack in T5; its matrices of a block format."""
    width = max(32, FORMATS[dtype].block_size)
    metadata = {"general.architecture": name, **_fields(name, width), **_vocabulary(name)}
    sizes = {"token_embd.weight": (ROWS, width), "token_types.weight": (2, width)}
    shapes = ARCHITECTURES[name].shapes_of(metadata, Path("m.gguf"), sizes=sizes)
    rng = np.random.default_rng(len(shapes))
    tensors = {
        stem: _tensor(rng, dtype, shape) for stem, shape in shapes if not stem.startswith(MADE)
    }
    if name == "bert":
        tensors["token_types.weight"] = _tensor(rng, "f32", (2, width))
    if name == "bloom":
        for kind in ("weight", "bias"):
            parts = [tensors.pop(f"blk.0.attn_{one}.{kind}") for one in "qkv"]
            shape = (3 * width, *parts[0].shape[1:])
            data = b"".join(part.data for part in parts)
            tensors[f"blk.0.attn_qkv.{kind}"] = Tensor(parts[0].dtype, shape, data)
    return metadata, tensors


def _fields(name: str, width: int) -> dict[str, object]:
    fields: dict[str, object] = {
        "context_length": 64,
        "embedding_length": width,
        "feed_forward_length": max(FEED_FORWARD, width),
        "block_count": 1,
        "attention.head_count": 2,
        "attention.layer_norm_epsilon": 1e-6,
    }
    if name == "bert":
        fields |= {"attention.causal": False, "pooling_type": 2, "token_type_count": 2}
    if name == "t5":
        fields |= {
            "decoder_block_count": 1,
            "decoder_start_token_id": 0,
            "attention.key_length": 16,
            "attention.value_length": 16,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "attention.relative_buckets_count": 8,
            "attention.relative_max_distance": 12,
        }
    return {f"{name}.{key}": value for key, value in fields.items()}


def _vocabulary(name: str) -> dict[str, object]:
    keys: Mapping[str, object]
    if name == "bloom":
        return tokenizer_metadata(ROWS)
    if name == "bert":
        keys = {
            "model": "bert",
            "tokens": [spelled_in_gguf(word) for word in words()],
            "seperator_token_id": words().index("[SEP]"),
            "unknown_token_id": words().index("[UNK]"),
            "bos_token_id": words().index("[CLS]"),
        }
    else:
        spm = read_sentencepiece(FIXTURES / "marian_tokenizer" / "source.spm")
        pieces = [piece for piece, _ in spm.pieces[:ROWS]]
        kinds = {"<unk>": 2, "<s>": 3, "</s>": 3}
        keys = {
            "model": "t5",
            "pre": "default",
            "tokens": pieces,
            "scores": [score for _, score in spm.pieces[:ROWS]],
            "token_type": [kinds.get(piece, 1) for piece in pieces],
            "precompiled_charsmap": Typed(9, list(spm.charsmap), 0),
            "remove_extra_whitespaces": True,
            "add_space_prefix": True,
            "add_bos_token": False,
            "add_eos_token": True,
            "unknown_token_id": spm.unknown,
            "eos_token_id": pieces.index("</s>"),
        }
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def _tensor(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Tensor:
    values = rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
    fits = len(shape) > 1 and shape[-1] % FORMATS[dtype].block_size == 0
    return quantized(dtype if fits else "f32", values)


@cache
def model_bytes(name: str, dtype: str) -> bytes:
    return build_gguf(*model(name, dtype))


def use(case: Case) -> Result | None:
    rng, path = case.rng, case.folder / "x.gguf"
    name, dtype = rng.choice(NAMES), rng.choice(DTYPES)
    kind = rng.random()
    if kind < 0.2:
        path.write_bytes(mutate_bytes(model_bytes(name, dtype), rng))
    elif kind < 0.4:
        path.write_bytes(cut_short(name, dtype, rng))
    else:
        path.write_bytes(absurd(name, dtype, rng))
    return _USES[name](path, rng)


def cut_short(name: str, dtype: str, rng: random.Random) -> bytes:
    """Within a block: of the file's last tensor, or of one whose neighbours stay where they are."""
    metadata, tensors = (dict(part) for part in model(name, dtype))
    if rng.random() < 0.5:
        raw = model_bytes(name, dtype)
        block = FORMATS[dtype].block_bytes
        return raw[: len(raw) - rng.choice((1, block // 2, block, 3 * block + 1, len(raw) // 3))]
    chosen = rng.choice(list(tensors))
    tensor = tensors[chosen]
    block = FORMATS[tensor.dtype].block_bytes
    less = rng.choice((1, block - 1, block, len(tensor.data) // 2, len(tensor.data)))
    tensors[chosen] = Tensor(tensor.dtype, tensor.shape, tensor.data[: len(tensor.data) - less])
    return build_gguf(metadata, tensors)


def absurd(name: str, dtype: str, rng: random.Random) -> bytes:
    """One to three things changed that a reader may take for granted."""
    metadata, tensors = (dict(part) for part in model(name, dtype))
    more = tuple(f"{name}.{key}" for key in MORE_KEYS[name])
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.7:
            change_metadata(metadata, rng, more)
        else:
            change_tensors(tensors, rng)
    return build_gguf(metadata, tensors)


def _open(path: Path, warnings: list[str]) -> ModelFile:
    return loader.open_model(str(path), lambda *_: None, warnings.append)


def embed(path: Path, rng: random.Random) -> Result:
    """Vectors of two texts, by the encoder or by the command."""
    if rng.random() < 0.3:
        return _command(["embed", str(path), "-p", "the cat sat", "-p", "on", "--json"])
    warnings: list[str] = []
    file = _open(path, warnings)
    try:
        runner = start_encoder(file, replace(whole.EXACT, context=32), None)
        try:
            return Result([runner.embed_tokens(file.tokenizer.encode_texts(["the cat", "on"]))])
        finally:
            runner.close()
    finally:
        file.close()


def translate(path: Path, rng: random.Random) -> Result:
    """A few tokens of a target, greedily or by a beam."""
    beam = rng.choice((1, 3))
    if rng.random() < 0.3:
        words = ["translate", str(path), "A page for each", "--max-tokens", "3"]
        return _command([*words, "--beam", str(beam), "--ctx", "32"])
    warnings: list[str] = []
    file = _open(path, warnings)
    try:
        runner = loader.start(file, whole.EXACT, None, lambda *_: None)
        try:
            translator = translator_of(runner)
            translator.read_source(encode_source(file.tokenizer, "A page", whole.CONTEXT))
            target = translator.whole(translator.options(beam, 3))
            file.tokenizer.decode(list(target.tokens))
            return Result([[target.score]], bool(warnings))
        finally:
            runner.close()
    finally:
        file.close()


def _command(words: list[str]) -> Result:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = main.main([*words, "--backend", "cpu", "--threads", "1"])
    if code:
        raise RequestError(said.getvalue().strip().split("\n")[-1])
    return Result()


_USES: dict[str, Callable[[Path, random.Random], Result]] = {
    "bloom": whole.run,
    "bert": embed,
    "t5": translate,
}


def prepare() -> None:
    whole.prepare()
    for name in NAMES:
        model_bytes(name, "q4_0")


DOOR = Door("families", use, prepare)
