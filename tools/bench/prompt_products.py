"""Products of a prompt's tokens in each build of the C++ kernels, by the format of the weights.

    python -m tools.bench.prompt_products [--isas avx512vnni amx amxbf16] [--formats bf16 f16]
        [--tokens 128] [--rows 4096] [--columns 4096] [--threads N] [--repeat 15]

GFLOP/s (a multiply-add is two operations) of the product alone, of activations in int8 where the
weights are integers and in float32 where they are floats: the median of runs in which builds take
turns. By default these are avx512vnni and all that is higher, so that one command on a processor
with AMX says what its tile registers bring. Emulated builds run where they are named; their speed
says nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

import numpy as np

from llm_lite.core.convert.synthetic import pieces
from llm_lite.core.errors import RequestError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import available_isas, default_threads, processor_name
from llm_lite.core.quant.tensor import TensorData

FORMATS = ("bf16", "f16", "f32", "int8", "int4")
INTEGERS = ("int8", "int4")
_BASE = "avx512vnni"


class Product:
    """A product of one format in each build, whose runs are timed."""

    def __init__(self, dtype: str, arguments: argparse.Namespace) -> None:
        shapes = {"x": (arguments.tokens, arguments.columns)}
        shapes["w"] = (arguments.rows, arguments.columns)
        rng = np.random.default_rng(0)
        weights = {
            name: TensorData(
                name,
                form,
                shapes[name],
                np.concatenate(list(pieces(rng, form, name, shapes[name]))),
            )
            for name, form in (("x", "f32"), ("w", dtype))
        }
        builder = PlanBuilder(
            weights,
            Bucket(arguments.tokens, arguments.tokens),
            integer_activations=dtype in INTEGERS,
        )
        x = builder.embed(builder.weight("x"), "x.rows")
        self.plan = builder.finish(builder.matmul(x, builder.weight("w"), "y"))
        program = Program((self.plan,), arguments.tokens, max(arguments.tokens, arguments.rows))
        self.step = Step(np.arange(arguments.tokens, dtype=np.int32), 0)
        self.op = next(i for i, op in enumerate(self.plan.ops) if op.name == "matmul")
        self.executors = {
            isa: CpuExecutor(program, weights, arguments.threads, isa=isa) for isa in arguments.isas
        }

    def seconds(self, repeat: int) -> dict[str, float]:
        """Medians by build."""
        taken: dict[str, list[float]] = {isa: [] for isa in self.executors}
        for executor in self.executors.values():
            executor.run_ops(self.plan, self.step, 0, len(self.plan.ops))
        for _ in range(repeat):
            for isa, executor in self.executors.items():
                began = time.perf_counter()
                executor.run_ops(self.plan, self.step, self.op, self.op + 1)
                taken[isa].append(time.perf_counter() - began)
        return {isa: statistics.median(each) for isa, each in taken.items()}

    def differences(self) -> dict[str, float]:
        """The largest of each build from the first, of the largest value."""
        logits = self.plan.tensors[self.plan.logits]
        found = {
            isa: executor.read(self.plan, logits, self.step)
            for isa, executor in self.executors.items()
        }
        first = next(iter(found.values()))
        return {
            isa: float(np.abs(y - first).max() / np.abs(first).max()) for isa, y in found.items()
        }

    def close(self) -> None:
        for executor in self.executors.values():
            executor.close()


def table(arguments: argparse.Namespace) -> str:
    """Markdown: a row for each format, GFLOP/s and times the first build for each build."""
    operations = 2 * arguments.tokens * arguments.rows * arguments.columns
    lines = [
        f"| weights | {' | '.join(arguments.isas)} | largest difference |",
        f"| --- |{' --: |' * (len(arguments.isas) + 1)}",
    ]
    for dtype in arguments.formats:
        product = Product(dtype, arguments)
        seconds = product.seconds(arguments.repeat)
        worst = max(product.differences().values())
        product.close()
        first = seconds[arguments.isas[0]]
        cells = [f"{1e-9 * operations / s:,.0f} ({first / s:.2f} x)" for s in seconds.values()]
        lines.append(f"| {dtype} | {' | '.join(cells)} | {worst:.1e} |")
    return "\n".join(lines)


def main() -> int:
    arguments = _arguments()
    try:
        measured = table(arguments)
    except RequestError as error:
        print(error, file=sys.stderr)
        return 1
    shape = f"{arguments.rows} x {arguments.columns}"
    print(f"{processor_name()}, {arguments.threads} threads: {arguments.tokens} tokens by {shape}")
    print(measured)
    return 0


def _higher() -> list[str]:
    names = available_isas()
    return names[names.index(_BASE) :] if _BASE in names else names[-1:]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--isas", nargs="+", default=_higher(), help="builds, the first to compare with"
    )
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--columns", type=int, default=4096, help="a multiple of 32")
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--repeat", type=int, default=15)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
