"""What a decoded token costs in instructions, of the AVX2 build, which most machines can run.

python -m tools.bench.token_instructions    stores what it counts, for the test to compare with
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from llm_lite.core.messages import Mode
from tests.make_gguf import write_tiny_llama
from tests.runners import exact, running
from tools.bench import instructions

FIGURES = Path(__file__).with_name("instructions.json")
ISA = "avx2"
SIZES = {"width": 64, "layers": 1, "heads": 4, "kv_heads": 2, "ffn": 128}
KINDS: dict[str, tuple[Mode, str]] = {
    "int4 a8": ("int4", "a8"),
    "int8 a8": ("int8", "a8"),
    "fp16 a32": ("fp16", "a32"),
}


def step_instructions(folder: Path, mode: Mode, activations: str) -> int:
    """Return the instructions of a decode step at position 40 on one thread, less those of a step
    of no ops."""
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


def main() -> None:
    os.environ["LLM_LITE_ISA"] = ISA
    with tempfile.TemporaryDirectory() as folder:
        figures = {k: step_instructions(Path(folder), *kind) for k, kind in KINDS.items()}
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n")
    print(FIGURES.read_text())


if __name__ == "__main__":
    main()
