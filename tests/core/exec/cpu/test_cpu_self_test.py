"""Builds of the kernels are tried before they are relied on."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from llm_lite_kernels import _cpp

from llm_lite.core import processor
from llm_lite.core.exec.cpu import self_test
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.cpu.self_test import ALLOWED, largest_error, validated_isa
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import available_isas, emulated_isas, isa_name, left_out_isas
from tests.core.exec.one_op import ISAS

several = pytest.mark.skipif(len(ISAS) < 2, reason="this processor runs one build only")


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A process that has tried no build yet, with a cache folder of its own."""
    monkeypatch.setattr(processor, "_left_out", set())
    monkeypatch.setattr(self_test, "_right", set())
    monkeypatch.setattr(self_test, "user_folder", lambda kind: tmp_path / kind)
    monkeypatch.delenv("LLM_LITE_ISA", raising=False)
    return tmp_path / "cache" / "kernels.json"


def a_new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "_right", set())


@pytest.mark.parametrize("isa", [*ISAS, *emulated_isas()])
def test_every_build_is_right(isa: str) -> None:
    assert largest_error(isa) <= ALLOWED / 10


@pytest.mark.parametrize("count", self_test.STEPS)
def test_wrong_products_are_seen(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """One value, of any step."""
    right = CpuExecutor.run

    def wrong(executor: CpuExecutor, step: Step) -> object:
        found = right(executor, step)
        if step.count == count:
            found[-1, -1] += 2e-3 * abs(found).max()
        return found

    monkeypatch.setattr(CpuExecutor, "run", wrong)
    assert largest_error(isa_name()) > ALLOWED


@several
def test_a_build_is_tried_once_for_a_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(self_test, "largest_error", lambda isa: float(tried.append(isa) or 0))
    assert validated_isa() == validated_isa() == isa_name()
    a_new_process(monkeypatch)
    assert validated_isa() == isa_name()
    assert tried == [isa_name()]


@several
@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"key": 3, "right": 4}', b"\xff\xfe"])
def test_a_record_that_is_none_of_this_machine_is_made_again(
    nothing_known: Path, monkeypatch: pytest.MonkeyPatch, record: bytes
) -> None:
    tried: list[str] = []
    monkeypatch.setattr(self_test, "largest_error", lambda isa: float(tried.append(isa) or 0))
    nothing_known.parent.mkdir()
    nothing_known.write_bytes(record)
    validated_isa()
    a_new_process(monkeypatch)
    validated_isa()
    assert tried == [isa_name()]


@several
@pytest.mark.parametrize("builds", range(2, len(ISAS) + 1))
def test_a_build_that_fails_is_left_out(
    builds: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    nothing_known: Path,
) -> None:
    """Whichever is the highest that a processor has. What is below it is tried and written down,
    unless it is the lowest, which needs no test; a failure is tried again by the next program."""
    monkeypatch.setattr(_cpp, "available_isas", lambda: ISAS[:builds])
    highest = isa_name()
    errors = {highest: float("inf")}
    monkeypatch.setattr(self_test, "largest_error", lambda isa: errors.get(isa, 0.0))
    with caplog.at_level(logging.WARNING):
        found = validated_isa()
        assert validated_isa() == found == isa_name() == ISAS[builds - 2]
    assert [r.message for r in caplog.records] == [
        f"kernels {highest} are left out: products are off by inf"
    ]
    assert left_out_isas() == [highest] and highest not in available_isas()
    recorded = json.loads(nothing_known.read_text())["right"] if nothing_known.exists() else []
    assert recorded == ([] if builds == 2 else [found])
    monkeypatch.setenv("LLM_LITE_ISA", highest)
    assert validated_isa() == ISAS[builds - 2]


def test_the_lowest_build_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "largest_error", lambda isa: 1.0)
    assert validated_isa() == ISAS[0]


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(
    nothing_known: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_known.parent.write_text("a file")
    monkeypatch.setattr(self_test, "largest_error", lambda isa: 0.0)
    assert validated_isa() == ISAS[-1]
