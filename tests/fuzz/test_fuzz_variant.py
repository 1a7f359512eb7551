import pytest

from core.formats import variant
from tests.fuzz import fuzz_gguf
from tests.fuzz.fuzz_variant import TARGET


@pytest.mark.parametrize("seed", range(2))
def test_mutated_variants_raise_only_file_errors(seed, tmp_path):
    outcomes = fuzz_gguf.fuzz(300, seed, tmp_path, TARGET)
    assert sum(outcomes.values()) == 300
    assert outcomes["FileError"] > 100
    assert outcomes["read"] > 10  # changed weights and values that nobody reads get through


def test_fuzzer_finds_a_missing_check(tmp_path, monkeypatch):
    """Without the check of names, one leads a reader to what is no name of a file."""
    monkeypatch.setattr(variant, "_is_name", lambda name: True)
    monkeypatch.setattr(variant, "found", lambda value: value + 1)
    with pytest.raises(fuzz_gguf.FuzzError, match="escaped"):
        fuzz_gguf.fuzz(600, 0, tmp_path, TARGET)
