import pytest

from core.formats import safetensors
from tests.fuzz import fuzz_gguf
from tests.fuzz.fuzz_safetensors import TARGET


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_raise_only_file_errors(seed, tmp_path):
    outcomes = fuzz_gguf.fuzz(1000, seed, tmp_path, TARGET)
    assert sum(outcomes.values()) == 1000
    assert outcomes["FileError"] > 200
    assert outcomes["read"] > 50  # mutations of data and names get through: both paths are tried


def test_fuzzer_finds_a_missing_check(tmp_path, monkeypatch):
    """Without the check of offsets a tensor is cut short, and using it fails."""
    monkeypatch.setattr(safetensors, "_check_cover", lambda *_: None)
    monkeypatch.setattr(safetensors, "_read_offsets", lambda _r, _w, value, _s: value)
    with pytest.raises(fuzz_gguf.FuzzError, match="escaped"):
        fuzz_gguf.fuzz(1000, 0, tmp_path, TARGET)
