"""Tiny encoder-decoders beside what transformers makes of them: tests/seq2seq_families.py."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.executor import Executor
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.split import split_executor
from llm_lite.core.generation.translation import SourceEncoder
from llm_lite.core.loading.accelerators import accelerator
from llm_lite.core.loading.sources import open_source
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step, beam_pages
from llm_lite.core.records import replace
from llm_lite.core.text.sentencepiece.model_file import read_sentencepiece
from llm_lite.core.text.vocabulary import TokenType
from tests.make_huggingface import write_folder
from tests.make_safetensors import entry
from tests.paths import FIXTURES
from tests.seq2seq_families import VOCABULARY, Seq2SeqFamily

TOLERANCE = 2e-3
POSITIONS = 32  # of source and target


@cache
def stored(family: str, case: str) -> dict[str, Any]:
    with np.load(FIXTURES / "seq2seq" / f"{family}.npz") as arrays:
        return {
            name.removeprefix(f"{case}."): arrays[name]
            for name in arrays
            if name.startswith(f"{case}.")
        }


def write_case(family: Seq2SeqFamily, case: str, folder: Path) -> Path:
    known = stored(family.name, case)
    config, shapes = (json.loads(str(known[part])) for part in ("config", "shapes"))
    tensors = {n: entry(family.values(n, tuple(shape))) for n, shape in shapes.items()}
    return write_folder(folder, config, tensors, tokens=VOCABULARY)


def write_odd_heads(folder: Path) -> Path:
    """A T5 with twice as many heads, of half the width: 5 values."""
    family, known = import_module("tests.fixtures.seq2seq.t5").FAMILY, stored("t5", "gated")
    config, shapes = (json.loads(str(known[part])) for part in ("config", "shapes"))
    config |= {"num_heads": 2 * config["num_heads"], "d_kv": config["d_kv"] // 2}
    for name, shape in shapes.items():
        if "relative_attention_bias" in name:
            shape[1] *= 2
    tensors = {n: entry(family.values(n, tuple(shape))) for n, shape in shapes.items()}
    return write_folder(folder, config, tensors, tokens=VOCABULARY)


@dataclass
class Pair:
    encoder: SourceEncoder
    decoder: Executor


def write_t5_gguf(
    family: Seq2SeqFamily,
    case: str,
    path: Path,
    more: Callable[[GGUFWriter], None] = lambda writer: None,
) -> None:
    """Keys and names by the `gguf` package; `more` writes other fields."""
    known = stored(family.name, case)
    config, shapes = (json.loads(str(known[part])) for part in ("config", "shapes"))
    writer = GGUFWriter(path, MODEL_ARCH_NAMES[MODEL_ARCH.T5])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["d_model"])
    writer.add_feed_forward_length(config["d_ff"])
    writer.add_block_count(config["num_layers"])
    writer.add_decoder_block_count(config["num_decoder_layers"])
    writer.add_head_count(config["num_heads"])
    writer.add_key_length(config["d_kv"])
    writer.add_value_length(config["d_kv"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])
    writer.add_layer_norm_rms_eps(config["layer_norm_epsilon"])
    writer.add_relative_attn_buckets_count(config["relative_attention_num_buckets"])
    writer.add_uint32(
        "t5.attention.relative_max_distance", config["relative_attention_max_distance"]
    )
    writer.add_decoder_start_token_id(config["decoder_start_token_id"])
    write_unigram(writer)
    more(writer)
    layers = max(config["num_layers"], config["num_decoder_layers"])
    names = get_tensor_name_map(MODEL_ARCH.T5, layers)
    for name, shape in shapes.items():
        found = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert found is not None, name
        writer.add_tensor(found, family.values(name, tuple(shape)))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_unigram(writer: GGUFWriter, *, encodes: bool = False) -> None:
    """The pieces of source.spm, as many as the models have rows; with XLM-R's tokens around a text
    where it `encodes`."""
    model = read_sentencepiece(FIXTURES / "marian_tokenizer" / "source.spm")
    pieces = model.pieces[:VOCABULARY]
    control, unknown, normal = TokenType.CONTROL, TokenType.UNKNOWN, TokenType.NORMAL
    kinds = {"<unk>": unknown, "<s>": control, "</s>": control}
    writer.add_tokenizer_model("t5")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([piece for piece, _ in pieces])
    writer.add_token_scores([score for _, score in pieces])
    writer.add_token_types([kinds.get(piece, normal).value for piece, _ in pieces])
    writer.add_precompiled_charsmap(model.charsmap)
    writer.add_remove_extra_whitespaces(True)
    writer.add_add_space_prefix(True)
    writer.add_add_bos_token(encodes)
    if encodes:
        writer.add_bos_token_id([piece for piece, _ in pieces].index("<s>"))
    writer.add_add_eos_token(True)
    writer.add_unk_token_id(model.unknown)
    writer.add_eos_token_id([piece for piece, _ in pieces].index("</s>"))


def executor_of(backend: str, program: Program, weights: Any, device: Any) -> Executor:
    if backend == "numpy":
        return NumpyExecutor(program, weights)
    if backend == "cpu":
        return CpuExecutor(program, weights)
    if backend != "vulkan":
        return split_executor(
            accelerator(backend),
            program,
            weights,
            lambda cut: CpuExecutor(program, weights, beside=cut),
        )
    from llm_lite.core.exec.vulkan.executor import VulkanExecutor

    return VulkanExecutor(device, program, weights)


@contextmanager
def running_pair(
    path: Path, backend: str, device: Any = None, *, kept_queries: int = 0, beam: int = 0
) -> Iterator[Pair]:
    """Both programs in float32; the decoder's for a beam so wide, or for one sequence."""
    source = open_source(path)
    model = read_model(source.metadata, source.tensors, source.path)
    assert model.encoder is not None

    def options(*buckets: Bucket) -> BuildOptions:
        exact = ("f32", "f32", "f32", False)
        return BuildOptions(POSITIONS, *exact, buckets, query_rows=kept_queries, source=POSITIONS)

    whole = Bucket(POSITIONS, POSITIONS)
    decoding = options(Bucket(1, 1), whole)
    if beam:
        sizes = Bucket(1, 1), Bucket(beam, beam)
        decoding = replace(options(*sizes), pages=beam_pages(beam, POSITIONS))
    programs = model.encoder.build(options(whole)), model.build(decoding)
    executors = [executor_of(backend, p, dict(source.tensors), device) for p in programs]
    try:
        yield Pair(SourceEncoder(executors[0], model.shape.layers), executors[1])
    finally:
        for executor in executors:
            executor.close()
        source.close()


def check_logits(family: Seq2SeqFamily, case: str, backend: str, folder: Path, device: Any) -> None:
    """Hidden states, and logits in one step and token by token."""
    known = stored(family.name, case)
    with running_pair(write_case(family, case, folder), backend, device) as pair:
        hidden = pair.encoder.encode(known["source"].tolist())
        assert np.abs(hidden - known["hidden"]).max() < TOLERANCE
        pair.encoder.hand_to(pair.decoder)
        target, source = known["target"], len(known["source"])
        logits = pair.decoder.run(Step(target, 0, len(target), source=source))
        assert 0.5 < np.abs(known["logits"]).max() < 40
        assert np.abs(logits - known["logits"]).max() < TOLERANCE
        for i in range(len(target)):
            found = pair.decoder.run(Step(target[i : i + 1], i, 1, source=source))
            assert np.abs(found[0] - known["logits"][i]).max() < TOLERANCE, i
