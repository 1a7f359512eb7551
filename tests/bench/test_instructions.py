"""A decoded token costs no more instructions than it did, whatever the machine's mood.

The figures are of the AVX2 build, which most machines for tests can run. Fewer instructions are a
warning: who makes the step faster writes them down with python -m tests.bench.test_instructions.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

from llm_lite.core.messages import Mode
from llm_lite.core.processor import available_isas
from tests.bench import instructions
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running

FIGURES = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.10  # compilers differ
ISA = "avx2"
SIZES = {"width": 64, "layers": 1, "heads": 4, "kv_heads": 2, "ffn": 128}
KINDS: dict[str, tuple[Mode, str]] = {
    "int4 a8": ("int4", "a8"),
    "int8 a8": ("int8", "a8"),
    "fp16 a32": ("fp16", "a32"),
}


def step_instructions(folder: Path, mode: Mode, activations: str) -> int:
    """Of a decode step at position 40 on one thread, less those of a step of no ops."""
    path = write_tiny_llama(folder / "tiny.gguf", **SIZES)
    options = exact(
        "cpu", mode=mode, activations=activations, threads=1, keys="fp16", values="fp16"
    )
    with running(path, options) as runner:
        executor = runner.executor
        runner.session.prefill(list(range(1, 41)))
        step = runner.session.step([5], 40)
        plan = executor.program.plan_of(step)
        whole = instructions.count(lambda: executor.run_ops(plan, step, 0, len(plan.ops)))
        empty = instructions.count(lambda: executor.run_ops(plan, step, 0, 0))
        return whole - empty


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoded_token_costs_no_more_instructions_than_it_did(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.gettrace() is not None:
        pytest.skip("the instructions of what traces this test would be counted")
    if ISA not in available_isas():
        pytest.skip(f"the figures are of {ISA}, which this processor cannot run")
    monkeypatch.setenv("LLM_LITE_ISA", ISA)
    stored = json.loads(FIGURES.read_text())[kind]
    try:
        found = step_instructions(tmp_path, *KINDS[kind])
    except instructions.CannotCountError as reason:
        pytest.skip(str(reason))
    assert found <= stored * (1 + TOLERANCE), f"{found} instructions, {stored} are on record"
    if found < stored * (1 - TOLERANCE):  # no failure, but a guard that would see less
        warnings.warn(f"{kind}: {found} instructions, {stored} are on record", stacklevel=1)


def test_counts_grow_with_the_work() -> None:
    try:
        little, much = (instructions.count(lambda n=n: sum(range(n))) for n in (50, 250))
    except instructions.CannotCountError as reason:
        pytest.skip(str(reason))
    assert 5 * 200 < much - little < 200 * 200


def main() -> None:
    os.environ["LLM_LITE_ISA"] = ISA
    with tempfile.TemporaryDirectory() as folder:
        figures = {k: step_instructions(Path(folder), *kind) for k, kind in KINDS.items()}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print(FIGURES.read_text())


if __name__ == "__main__":
    main()
