"""Caches of fewer bits: on disk, handed over to caches of other types, and what is remembered."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_lite.core.engine.hosting import cache_transfer
from llm_lite.core.errors import FileError
from llm_lite.core.generation.prefill import PrefillOptions
from llm_lite.core.gpu.device import Device
from llm_lite.core.kv_cache.provenance import PRECISIONS, Conditions, Precision, coarsest
from llm_lite.core.loading.runner import Runner
from llm_lite.core.messages import KV_TYPES, KvType
from tests.runners import BACKENDS, exact, running

TOKENS = list(range(40))
TYPES: tuple[tuple[KvType, KvType], ...] = (("int4", "int4"), ("int8", "int4"), ("int4", "fp16"))
PRECISION: dict[KvType, Precision] = {"fp32": "whole", "fp16": "whole", "int8": "int8"}
PRECISION["int4"] = "int4"
OFF = {"fp32": 0.0, "fp16": 1e-3, "int8": 0.02, "int4": 0.2}  # most, of the largest value


def cache_of(runner: Runner) -> dict[str, np.ndarray]:
    cache = runner.session.cache
    return {
        tensor.name: cache.values(layer, tensor, range(len(cache)))
        for layer in cache.layers
        for tensor in layer.tensors
    }


@pytest.mark.vulkan
@pytest.mark.parametrize("types", TYPES, ids=",".join)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_saved_cache_comes_back_on_every_executor(
    tiny_llama: Path, device: Device, tmp_path: Path, backend: str, types: tuple[KvType, KvType]
) -> None:
    path, (keys, values) = tmp_path / "chat.kv", types
    with running(tiny_llama, exact(keys=keys, values=values, context=64)) as runner:
        runner.session.prefill(TOKENS)
        cache_transfer.save(runner, path)
        mine = runner.session.copy_prefix()
    options = exact(backend, keys=keys, values=values, context=64)
    with running(tiny_llama, options, device=device) as other:
        assert cache_transfer.open_saved(other, path) == 40
        its = other.session.copy_prefix()
        assert {made.precision for made in its.contents.conditions} == {"int4"}
        for name, rows in mine.rows.items():
            assert np.array_equal(rows.data[:40], its.rows[name].data)
        assert other.session.prepare([*TOKENS, 7]).reused == 40


@pytest.fixture(scope="module")
def saved(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, bytes]:
    with running(tiny_llama, exact(keys="int4", values="int4", context=64)) as runner:
        runner.session.prefill(TOKENS)
        path = tmp_path_factory.mktemp("caches") / "chat.kv"
        cache_transfer.save(runner, path)
        yield runner, path.read_bytes()


@given(st.data())
def test_no_damaged_row_is_used(
    saved: tuple[Runner, bytes], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    runner, whole = saved
    first = 16 + int.from_bytes(whole[8:16], "little")
    at, bit = data.draw(st.integers(first, len(whole) - 1)), data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "damaged.kv"
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
    with pytest.raises(FileError, match="its checksum is another"):
        cache_transfer.open_saved(runner, path)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'"precision": "int4"', b'"precision": "int2"', "expected one of whole, int8, int4"),
        (b'"i4"', b'"i8"', "rows: expected 'k_cache.0', 'i4'"),
        (b"0, 40, 20]", b"0, 40, 36]", "rows: expected"),
    ],
)
def test_a_header_that_lies_of_types(
    saved: tuple[Runner, bytes], tmp_path: Path, old: bytes, new: bytes, words: str
) -> None:
    runner, whole = saved
    assert old in whole
    (tmp_path / "x").write_bytes(whole.replace(old, new, 1))
    with pytest.raises(FileError, match=words):
        cache_transfer.open_saved(runner, tmp_path / "x")


@pytest.mark.parametrize(("before", "after"), list(itertools.product(KV_TYPES, KV_TYPES)))
def test_a_cache_is_taken_over_by_one_of_another_type(
    tiny_llama: Path, before: KvType, after: KvType
) -> None:
    """As when the types are switched in the middle of an answer."""
    with (
        running(tiny_llama, exact(keys=before, values=before)) as old,
        running(tiny_llama, exact(keys=after, values=after)) as new,
    ):
        old.session.prefill(TOKENS)
        expected = cache_of(old)
        cache_transfer.hand_over(cache_transfer.copy_prefix(old, print), old, new)
        assert new.session.tokens() == tuple(TOKENS)
        for name, found in cache_of(new).items():
            most = np.abs(expected[name]).max()
            assert (
                np.abs(found - expected[name]).max()
                <= (OFF[after] if before != after else 0) * most
            )
        precision = coarsest(PRECISION[before], PRECISION[after])
        assert {made.precision for made in new.session.cache.contents.conditions} == {precision}
        finer = PRECISIONS.index(PRECISION[after]) < PRECISIONS.index(precision)
        resumed = new.session.prepare([*TOKENS, 7], PrefillOptions(resumed=True))
        assert resumed.reused == 40
        assert new.session.prepare([*TOKENS, 7]).reused == (0 if finer else 40)


def test_the_coarsest_precision_stays() -> None:
    made = Conditions.of("int4 a8")
    assert (made.weights, made.arithmetic, made.made_by) == ("int4", "a8", "int4 a8")
    assert made.rounded("int8").rounded("int4").rounded("int8").precision == "int4"
    assert made.rounded("whole") is made
