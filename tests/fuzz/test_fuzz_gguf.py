import time
from pathlib import Path

import pytest

from core.formats import gguf
from tests.fuzz import fuzz_gguf


@pytest.mark.parametrize("seed", range(4))
def test_mutated_files_raise_only_file_errors(seed, tmp_path):
    outcomes = fuzz_gguf.fuzz(1000, seed, tmp_path)
    assert sum(outcomes.values()) == 1000
    assert outcomes["FileError"] > 200
    assert outcomes["read"] > 50  # mutations of data and text get through: both paths are tried


def test_fuzzer_finds_a_missing_check(tmp_path, monkeypatch):
    """Without the check of offsets a tensor is cut short, and using it fails."""
    monkeypatch.setattr(gguf, "_check_offset", lambda *_: None)
    with pytest.raises(fuzz_gguf.FuzzError, match="escaped"):
        fuzz_gguf.fuzz(1000, 0, tmp_path)


def test_fuzzer_finds_a_slow_reader(tmp_path):
    def slow(_: Path) -> None:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    with pytest.raises(fuzz_gguf.FuzzError, match="3 times over the limit"):
        fuzz_gguf.check(b"", tmp_path / "slow", slow, time_limit_s=0.001)


def test_fuzzer_forgives_one_slow_moment(tmp_path):
    moments = iter((0.02, 0.0))

    def once(_: Path) -> None:
        end = time.thread_time() + next(moments)
        while time.thread_time() < end:
            pass

    assert fuzz_gguf.check(b"", tmp_path / "once", once, time_limit_s=0.01) == "read"
