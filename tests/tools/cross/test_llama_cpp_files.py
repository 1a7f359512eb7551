"""`tools.cross.llama_cpp_files` without the peer: a file of ours in place of its quantizer's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gguf import GGMLQuantizationType
from gguf.quants import dequantize

from llm_lite.core.formats.gguf_reader import open_gguf
from llm_lite.core.quant.formats import FORMATS
from tests.make_gguf import write_tiny_llama
from tools.cross import llama_cpp_files
from tools.cross.llama_cpp_files import (
    ALLOWED,
    CONTEXT,
    TYPES,
    Line,
    check_file,
    decode_file,
    format_of,
)

GOOD = Line("wide", "Q4_K_M", {"q4_k": 3, "q6_k": 1}, dict.fromkeys(ALLOWED, 0.0), {"cpu": ""})


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "tiny.gguf"
    return write_tiny_llama(path, dtype="q4_k", embedding_dtype="q6_k", context=CONTEXT)


def test_the_reference_is_the_same_model_in_float32(tiny, tmp_path):
    plain = tmp_path / "plain.gguf"
    decode_file(tiny, plain)
    with open_gguf(tiny) as stored, open_gguf(plain) as decoded:
        assert dict(decoded.metadata) == dict(stored.metadata)
        assert [*decoded.tensors] == [*stored.tensors]
        assert {tensor.dtype for tensor in decoded.tensors.values()} == {"f32"}
        for name, tensor in decoded.tensors.items():
            assert tensor.shape == stored.tensors[name].shape


def test_a_good_file_has_no_problems(tiny, tmp_path):
    line = check_file("wide", "Q4_K_M", tiny, tmp_path, None)
    assert line.problems() == []
    assert line.formats == {"q4_k": 14, "q6_k": 1}
    assert set(line.divergence) == {"numpy", "cpu", "cpu a8"}
    assert line.divergence["cpu"] < line.divergence["cpu a8"]
    assert str(line).startswith("| wide Q4_K_M | q4_k 14, q6_k 1 | ")


def test_blocks_that_are_read_one_percent_too_large_are_found(tiny, tmp_path, monkeypatch):
    def larger(data, kind):
        return dequantize(data, kind) * (1.01 if kind == GGMLQuantizationType.Q4_K else 1)

    monkeypatch.setattr(llama_cpp_files, "dequantize", larger)
    problems = check_file("wide", "Q4_K_M", tiny, tmp_path, None).problems()
    assert [problem.partition(":")[0] for problem in problems][:1] == ["cpu"]


@pytest.mark.parametrize("where", ALLOWED)
@pytest.mark.parametrize("value", [0.01, float("nan")])
def test_logits_that_differ_are_a_problem(where, value):
    (problem,) = replace(GOOD, divergence=GOOD.divergence | {where: value}).problems()
    assert problem.startswith(f"{where}: ")


def test_what_else_is_a_problem():
    assert GOOD.problems() == []
    assert replace(GOOD, formats={"q6_k": 4}).problems() == ["the file has no q4_k"]
    read_only = GOOD.formats | {"iq2_s": 1}
    assert replace(GOOD, formats=read_only).problems() == ["iq2_s is not multiplied"]
    silent = replace(GOOD, model="SmolLM2").problems()
    assert silent == ["no answer on cpu"]


def test_every_type_of_gguf_that_kernels_multiply_is_checked():
    rows = {f.name for f in FORMATS.values() if f.layout == "rows" and f.native}
    assert {format_of(name) for name in TYPES} == rows
