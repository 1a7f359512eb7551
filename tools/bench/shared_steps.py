"""How much faster several sequences decode in shared steps than one by one.

    python -m tools.bench.shared_steps --mode int4 --threads 2 --segments 8
    python -m tools.bench.shared_steps --backend vulkan --model MODEL

Steps of one token a sequence, at the positions of 64-token prompts with 128 new tokens; by turns a
plain step of one sequence, a shared step of one and one of all. The quickest twentieth counts: a
busy machine makes steps slower, never quicker.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping

import numpy as np

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.exec.executor import Executor
from llm_lite.core.loading.loader import open_model
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.weights import converted
from llm_lite.core.models.model import BuildOptions
from llm_lite.core.models.registry import read_model
from llm_lite.core.plan.builder import Bucket
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.plan.traffic import op_read_bytes
from llm_lite.core.quant.tensor import TensorData
from tools.bench.profile_step import print_profile

_CONTEXT = 4096


def main() -> None:
    arguments = _arguments()
    model = open_model(arguments.model, lambda *_: None, print)
    weights, _ = converted(model, arguments.mode, lambda *_: None, at_once=True)
    plain = _executor(arguments, model, weights, None)
    pages = arguments.segments * -(-(arguments.last + PAGE) // PAGE)
    shared = _executor(arguments, model, weights, PageShape(pages, arguments.segments, _CONTEXT))
    if arguments.profile:
        assert isinstance(shared, CpuExecutor)
        step = _shared_step(shared.program, arguments.segments, arguments.last)
        plan = shared.program.plan_for(step.count, step.outputs)
        print_profile(plan, *shared.measure(plan, step, arguments.repeat))
        return
    kinds = {
        "plain": (plain, lambda at: Step(np.array([at], np.int32), at)),
        "1 shared": (shared, lambda at: _shared_step(shared.program, 1, at)),
        "all shared": (shared, lambda at: _shared_step(shared.program, arguments.segments, at)),
    }
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(arguments.repeat):
        at = arguments.first + number % (arguments.last - arguments.first)
        for name, (executor, step_at) in kinds.items():
            began = time.perf_counter()
            executor.run(step_at(at))
            times[name].append(time.perf_counter() - began)
    counts = {"all shared": arguments.segments}
    for name, taken in times.items():
        best = float(np.quantile(taken, 0.05))
        count = counts.get(name, 1)
        print(f"{name:10} {count} x: {best * 1e3:7.2f} ms a step, {count / best:7.1f} tokens/s")
    _tell_of_experts(shared, arguments.segments, arguments.first)


def _tell_of_experts(executor: Executor, segments: int, at: int) -> None:
    """Print how many experts a layer of a mixture reads for one sequence and for all, and how much
    faster all are by the bytes that they read."""
    one, all_ = (_shared_step(executor.program, n, at) for n in (1, segments))
    counts = [_chosen_experts(executor, step) for step in (one, all_)]
    if not counts[0]:
        return
    chosen = [statistics.mean(map(len, of_layers)) for of_layers in counts]
    plan = executor.program.plan_of(one)
    read = [
        sum(
            op_read_bytes(plan, op, one) * (more if op.name == "expert_matmul" else 1)
            for op in plan.ops
        )
        for more in (1.0, chosen[1] / chosen[0])
    ]
    print(
        f"experts: {chosen[0]:.1f} a layer of one, {chosen[1]:.1f} of {segments}; by what is read "
        f"{segments} are at most {segments * read[0] / read[1]:.2f} times as fast"
    )


def _chosen_experts(executor: Executor, step: Step) -> list[set[int]]:
    """Return by layer the experts that tokens of a step choose."""
    plan = executor.program.plan_of(step)
    found, done = list[set[int]](), 0
    for index, op in enumerate(plan.ops):
        if op.name == "route":
            executor.run_ops(plan, step, done, index + 1)
            done = index + 1
            chosen = executor.read(plan, plan.tensors[op.outputs[0]], step)
            found.append(set(map(int, chosen.reshape(-1))))
    return found


def _executor(
    arguments: argparse.Namespace,
    model: ModelFile,
    weights: Mapping[str, TensorData],
    pages: PageShape | None,
) -> Executor:
    n = arguments.segments
    buckets = (Bucket(1, 1), Bucket(128, 1))
    if pages is not None:
        buckets = (Bucket(1, 1), Bucket(n, n), Bucket(PAGE + n, n))
    integer = arguments.activations == "a8"
    options = BuildOptions(_CONTEXT, "f16", "f16", "f16", integer, buckets, _CONTEXT, pages=pages)
    converted_model = read_model(model.file.metadata, weights, model.path)
    program = converted_model.build(options)
    executor: Executor
    if arguments.backend == "vulkan":
        from llm_lite.core.exec.vulkan.executor import VulkanExecutor
        from llm_lite.core.gpu.device import Device

        executor = VulkanExecutor(Device.open(arguments.device), program, weights)
    else:
        executor = CpuExecutor(program, weights, arguments.threads, isa=arguments.isa)
    executor.run(_first_step(executor.program, n))  # touches what there is
    return executor


def _first_step(program: Program, segments: int) -> Step:
    if program.pages is None:
        return Step(np.zeros(64, np.int32), 0)
    return _shared_step(program, segments, 0)


def _shared_step(program: Program, segments: int, at: int) -> Step:
    """One token of each sequence, at this position."""
    assert program.pages is not None
    each = program.pages.pages // program.pages.segments
    pages = np.arange(program.pages.pages, dtype=np.int32).reshape(-1, each)
    parts = tuple(Segment(at, 1, 1, pages[i]) for i in range(segments))
    return Step(np.arange(100, 100 + segments, dtype=np.int32), 0, segments, parts)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--backend", choices=("cpu", "vulkan"), default="cpu")
    parser.add_argument("--device", type=int, help="of Vulkan; see `llm-lite doctor`")
    parser.add_argument("--mode", default="int4")
    parser.add_argument("--activations", default="a8")
    parser.add_argument("--segments", type=int, default=8)
    parser.add_argument("--first", type=int, default=64)
    parser.add_argument("--last", type=int, default=192)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa")
    parser.add_argument("--repeat", type=int, default=256)
    parser.add_argument("--profile", action="store_true", help="of a shared step, on cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
