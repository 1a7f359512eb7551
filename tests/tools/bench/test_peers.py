"""The peer of the AVX2 table is known by what it says of its own build."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools.bench import compare, peers

AVX2 = "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 1 | F16C = 1 | FMA = 1 | BMI2 = 1 | REPACK = 1 | "


def test_a_build_for_avx2_passes() -> None:
    peers.check_avx2(AVX2)
    peers.check_avx2(AVX2 + "AVX512 = 0 | AVX_VNNI = 0 | ")  # older versions say so


@pytest.mark.parametrize("extra", ["AVX512", "AVX_VNNI", "AVX512_VNNI", "AMX_INT8"])
def test_a_build_for_more_is_refused(extra: str) -> None:
    with pytest.raises(ValueError, match=f"nothing above, found: .*{extra}"):
        peers.check_avx2(f"{AVX2}{extra} = 1 | ")


@pytest.mark.parametrize("name", ["AVX2", "FMA", "F16C", "BMI2"])
def test_a_build_for_less_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected AVX AVX2"):
        peers.check_avx2(AVX2.replace(f" {name} = 1 |", ""))


def test_builds_lie_apart_and_models_are_shared() -> None:
    folder = Path("peers")
    pythons = {peers.python_of(folder, build) for build in ("cpu", "vulkan", "avx2")}
    assert len(pythons) == 3
    assert peers.python_of(folder) == folder / "llama.cpp" / "bin" / "python"


def test_the_server_is_built_for_what_the_processor_has_and_without_amx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = "flags : sse avx avx2 fma avx512f avx512_vnni amx_int8"
    monkeypatch.setattr(Path, "read_text", lambda _: words)
    options = set(peers.server_options())
    assert {"-DGGML_NATIVE=OFF", "-DGGML_AVX512=ON", "-DGGML_AVX512_VNNI=ON"} <= options
    assert not any("AMX" in option or "F16C" in option for option in options)


def test_a_limit_is_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["compare", "--isa", "avx2", "--backend", "vulkan"])
    with pytest.raises(SystemExit):
        compare.main()
