"""Which of several is recommended, what bandwidth is kept, and what is known without a file."""

import json
from types import SimpleNamespace

import pytest

from llm_lite.core.hub.fit import bandwidth
from llm_lite.core.hub.fit.bandwidth import known_gb_s, measured_gb_s
from llm_lite.core.hub.fit.machine import Machine
from llm_lite.core.hub.fit.recommend import instead_of, recommend, recommend_mode, total
from llm_lite.core.hub.fit.remote import coarse_fit, described_by_config
from llm_lite.core.loading.backends import ExecutorChoice
from llm_lite.core.loading.fitting import Fitting
from llm_lite.core.messages import EngineOptions
from llm_lite.core.messages.library import Fit, HubFile, MemoryPart
from llm_lite.core.records import replace

GB = 10**9


def fit(size, speed=50.0, free=10 * GB, mode="as-stored", context=4096):
    return Fit(mode, context, "cpu", (MemoryPart("weights", size, 0),), free, None, speed)


def test_the_largest_that_fits_with_room_and_is_fast_enough():
    sizes = [1 * GB, 4 * GB, 7 * GB, 9 * GB, 12 * GB]
    fits = [fit(size) for size in sizes]
    assert recommend(fits, sizes) == 2, "9 GB of 10 leave too little, 12 do not fit"
    slow = [fit(size, speed=20 * GB / size) for size in sizes]
    assert recommend(slow, sizes) == 0, "5 tokens/s of the second are too few"
    unknown = [fit(size, speed=None) for size in sizes]
    assert recommend(unknown, sizes) == 0
    assert recommend([fit(12 * GB)], [1]) is None
    assert recommend([fit(9 * GB), fit(9 * GB + 1)], [1, 2]) == 0, "none with room"
    assert recommend([], []) is None


def test_a_mode_as_exact_as_the_file_is_before_larger_ones():
    modes = {"int4": 1, "as-stored": 3, "fp16": 4, "fp32": 7}
    fits = [fit(size * GB, mode=mode) for mode, size in modes.items()]
    assert fits[recommend_mode(fits)].mode == "as-stored"
    narrow = [fit(size * GB, mode=mode, free=3 * GB) for mode, size in modes.items()]
    assert narrow[recommend_mode(narrow)].mode == "int4"


def test_a_mode_that_rounds_weights_twice_is_chosen_where_no_other_fits():
    def fits_of(free):
        rows = [fit(1 * GB, mode="int4", free=free), fit(3 * GB, mode="as-stored", free=free)]
        return [replace(rows[0], rounded_again=0.8), rows[1]]

    roomy, tight, narrow = (fits_of(free * GB) for free in (9, 3, 2))
    assert roomy[recommend_mode(roomy)].mode == "as-stored"
    assert tight[recommend_mode(tight)].mode == "as-stored"
    assert narrow[recommend_mode(narrow)].mode == "int4"


def test_sentences_of_what_would_fit():
    asked = fit(12 * GB, mode="fp16", context=8192)
    shorter = fit(2 << 30, mode="fp16", context=2048)
    smaller = fit(3 << 30, mode="int4", context=8192)
    both = fit(1 << 29, mode="int4", context=1024)
    assert instead_of([smaller], asked) == "mode int4 (3.0 GiB) fits"
    assert instead_of([shorter, smaller], asked) == (
        "a context of 2048 tokens (2.0 GiB) or mode int4 (3.0 GiB) would fit"
    )
    assert instead_of([both], asked) == "mode int4 with a context of 1024 tokens (512 MiB) fits"
    assert "E2B" in instead_of([], asked, "E2B")


def test_bandwidth_is_measured_once(tmp_path, monkeypatch):
    file, found = tmp_path / "kept" / "bandwidth.json", iter([11.0, 22.0, 33.0])
    monkeypatch.setattr(bandwidth, "read_gb_s", lambda: next(found))
    assert known_gb_s(file=file) is None
    assert [measured_gb_s(file=file) for _ in range(3)] == [11.0] * 3
    assert known_gb_s(file=file) == 11.0
    assert measured_gb_s(file=file, again=True) == 22.0
    other = SimpleNamespace(name="A device", driver="1")
    assert known_gb_s(other, file) is None, "each has its own"
    for nonsense in ("[]", "{", '{"x": 1e999}', json.dumps({bandwidth._key(None): -3})):
        file.write_text(nonsense)
        assert known_gb_s(file=file) is None
    assert measured_gb_s(file=file) == 33.0


QWEN3 = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "max_position_embeddings": 40960,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
}


def hub_file(name, size, format):
    return HubFile(name, (name,), size, "gguf", format)


def test_a_file_on_a_hub_by_its_config(tmp_path):
    """Qwen3 0.6B, whose Q8_0 file has 639,446,688 bytes on the hub."""
    file = hub_file("Qwen3-0.6B-Q8_0.gguf", 639_446_688, "Q8_0")
    description = described_by_config(file, QWEN3)
    assert "before anything was fetched" in description.note
    options = EngineOptions(backend="cpu", context=4096)
    found = Fitting(description, ExecutorChoice("cpu", ""), Machine(8 * GB)).fit(options, 10.0)
    parts = {part.name: part.host for part in found.parts}
    assert parts["weights"] == pytest.approx(file.size, rel=0.03)
    assert parts["cache"] == 4096 * 28 * 2 * 8 * 128 * 2
    assert found.speed == pytest.approx(10 * GB / (file.size + parts["cache"] / 2), rel=0.05)
    coarse = coarse_fit(file, 596_049_920, options, Machine(8 * GB), 10.0)
    assert total(coarse) == pytest.approx(total(found), rel=0.4)
    assert coarse.fits and not coarse_fit(file, 0, options, Machine(GB // 2), None).fits
