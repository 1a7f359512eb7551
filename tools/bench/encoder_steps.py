"""Where a step of an encoder goes on the C++ executor: many short sentences at once, or one.

python -m tools.bench.encoder_steps --mode fp32 --sentences 64 --tokens 10 40 --step-tokens 512

The shapes are MiniLM's with 6 layers, the weights random; `--profile` is of the first step.
`--products` measures the matrix products alone, beside NumPy's (OPENBLAS_NUM_THREADS says on how
many threads).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Plan, Program, Tensor
from llm_lite.core.plan.step import PAGE, PageShape, Segment, Step
from llm_lite.core.quant.tensor import TensorData
from tests.weight_blocks import encoded
from tools.bench.profile_step import print_profile

WIDTH, HEADS, FFN, LAYERS, VOCABULARY = 384, 12, 1536, 6, 1000
SEPARATOR = 102
MATRICES = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "o": (WIDTH, WIDTH)}
MATRICES |= {"up": (FFN, WIDTH), "down": (WIDTH, FFN)}
_FORMATS = {"fp32": "f32", "fp16": "f16", "int8": "int8", "int4": "int4"}


class Encoder:
    """Random weights of an encoder, and its graph: post-norm, learned positions, exact GELU."""

    def __init__(self, dtype: str, cache: str, layers: int = LAYERS) -> None:
        self._random = np.random.default_rng(0)
        self.weights: dict[str, TensorData] = {}
        self._layers, self._cache = layers, cache
        for name, rows in (("tokens", VOCABULARY), ("positions", 512), ("types", 2)):
            self._add(name, "f32", rows, WIDTH)
        self._add_vectors("embedded", WIDTH)
        for layer in range(layers):
            for name, shape in MATRICES.items():
                self._add(f"{layer}.{name}", dtype, *shape)
                self._add(f"{layer}.{name}.bias", "f32", shape[0])
            for norm in ("attended", "fed"):
                self._add_vectors(f"{layer}.{norm}", WIDTH)

    def _add(self, name: str, dtype: str, *shape: int) -> None:
        values = self._random.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)
        self.weights[name] = TensorData(name, dtype, shape, encoded(dtype, values))

    def _add_vectors(self, name: str, width: int) -> None:
        self._add(f"{name}.weight", "f32", width)
        self._add(f"{name}.bias", "f32", width)

    def program(self, buckets: tuple[int, ...], pages: PageShape | None, *, a8: bool) -> Program:
        plans = tuple(self._plan(tokens, pages, a8=a8) for tokens in buckets)
        context = pages.context if pages else max(buckets)
        return Program(plans, context, VOCABULARY, pages)

    def _plan(self, tokens: int, pages: PageShape | None, *, a8: bool) -> Plan:
        b = PlanBuilder(self.weights, Bucket(tokens, 1), integer_activations=a8)
        x = b.embed(b.weight("tokens"), "tokens.x")
        x = b.add(x, b.position_rows(b.weight("positions"), "positions.x"), "placed")
        types = b.type_rows(b.weight("types"), "types.x", separator=SEPARATOR)
        x = self._norm(b, b.add(x, types, "typed"), "embedded")
        rows = pages.pages * PAGE if pages else tokens
        for layer in range(self._layers):
            x = self._layer(b, x, f"{layer}.", rows)
        return b.finish(x)

    def _layer(self, b: PlanBuilder, x: Tensor, layer: str, rows: int) -> Tensor:
        q, k, v = (self._product(b, x, layer + name) for name in "qkv")
        caches = [b.state(f"{layer}{name}.cache", self._cache, (rows, WIDTH)) for name in "kv"]
        b.store([(k, caches[0]), (v, caches[1])], f"{layer}store")
        gains = b.state("gains", "f32", (1, HEADS), fill=1.0)
        sizes = {"layer": 0, "heads": HEADS, "kv_heads": HEADS, "head_dim": WIDTH // HEADS}
        y = b.attention(q, *caches, gains, f"{layer}heads", bidirectional=True, **sizes)
        y = self._product(b, y, f"{layer}o")
        x = self._norm(b, b.add(x, y, f"{layer}attended"), f"{layer}attended")
        y = b.gelu_erf(self._product(b, x, f"{layer}up"), f"{layer}gelu")
        y = self._product(b, y, f"{layer}down")
        return self._norm(b, b.add(x, y, f"{layer}fed"), f"{layer}fed")

    def _product(self, b: PlanBuilder, x: Tensor, name: str) -> Tensor:
        y = b.matmul(x, b.weight(name), f"{name}.product")
        return b.add_bias(y, b.weight(f"{name}.bias"), f"{name}.biased")

    def _norm(self, b: PlanBuilder, x: Tensor, name: str) -> Tensor:
        weight, bias = b.weight(f"{name}.weight"), b.weight(f"{name}.bias")
        return b.layer_norm(x, weight, bias, 1e-12, f"{name}.norm")


def sentences(count: int, shortest: int, longest: int) -> tuple[int, ...]:
    """Tokens of each, spread evenly."""
    return tuple(np.linspace(shortest, longest, count).round().astype(int).tolist())


def step_of(lengths: tuple[int, ...], pages: PageShape | None) -> Step:
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, sum(lengths)).astype(np.int32)
    if pages is None:
        return Step(tokens, 0, 0)
    table = np.arange(pages.pages, dtype=np.int32).reshape(pages.segments, -1)
    segments = tuple(Segment(0, n, 0, table[i]) for i, n in enumerate(lengths))
    return Step(tokens, 0, 0, segments)


def in_steps(lengths: tuple[int, ...], most: int) -> list[tuple[int, ...]]:
    """Sentences one after the other, in steps of at most so many tokens."""
    groups: list[tuple[int, ...]] = [()]
    for length in lengths:
        if groups[-1] and sum(groups[-1]) + length > most:
            groups.append(())
        groups[-1] += (length,)
    return groups


def _pages(lengths: tuple[int, ...], longest: int) -> PageShape:
    each = -(-longest // PAGE)
    return PageShape(each * len(lengths), len(lengths), each * PAGE)


def best_of(call: Callable[[], object], repeat: int) -> float:
    """Seconds of the quickest: a busy machine makes calls slower, never quicker."""
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


def measure_products(arguments: argparse.Namespace) -> None:
    """A matrix product of the executor beside NumPy's."""
    for tokens in (8, 32, 128, 512, 2048):
        for rows, columns in ((WIDTH, WIDTH), (FFN, WIDTH), (WIDTH, FFN)):
            own = _product_seconds(arguments, tokens, rows, columns)
            x, w = np.ones((tokens, columns), np.float32), np.ones((rows, columns), np.float32)
            theirs = best_of(lambda x=x, w=w: x @ w.T, arguments.repeat)
            work = 2e-9 * tokens * rows * columns
            print(
                f"{tokens:5} x {rows:4} x {columns:4}: {work / own:7.1f} GFLOP/s, "
                f"NumPy {work / theirs:7.1f}, {theirs / own:5.2f} times as fast"
            )


def _product_seconds(arguments: argparse.Namespace, tokens: int, rows: int, columns: int) -> float:
    dtype = _FORMATS[arguments.mode]
    random = np.random.default_rng(0)
    weights = {
        name: TensorData(name, kind, shape, encoded(kind, random.normal(0, 1, shape)))
        for name, kind, shape in (
            ("x", "f32", (VOCABULARY, columns)),
            ("w", dtype, (rows, columns)),
        )
    }
    b = PlanBuilder(weights, Bucket(tokens, 1), integer_activations=arguments.activations == "a8")
    y = b.matmul(b.embed(b.weight("x"), "rows"), b.weight("w"), "y")
    plan = b.finish(y)
    pages = None if arguments.plain else _pages((tokens,), tokens)
    context = pages.context if pages else tokens
    program = Program((plan,), context, VOCABULARY, pages)
    executor = CpuExecutor(program, weights, arguments.threads, isa=arguments.isa)
    step = step_of((tokens,), pages)
    executor.run_ops(plan, step, 0, len(plan.ops))
    first = len(plan.ops) - 1
    return best_of(lambda: executor.run_ops(plan, step, first, first + 1), arguments.repeat)


def measure_steps(arguments: argparse.Namespace) -> None:
    lengths = sentences(arguments.sentences, *arguments.tokens)
    if arguments.plain and len(lengths) > 1:
        raise SystemExit("--plain: expected --sentences 1")
    groups = in_steps(lengths, arguments.step_tokens)
    pages = None if arguments.plain else _pages(max(groups, key=len), max(lengths))
    encoder = Encoder(_FORMATS[arguments.mode], arguments.cache)
    most = max(map(sum, groups))
    program = encoder.program((most,), pages, a8=arguments.activations == "a8")
    executor = CpuExecutor(program, encoder.weights, arguments.threads, isa=arguments.isa)
    steps = [step_of(group, pages) for group in groups]
    plan = program.plans[0]

    def run_all() -> None:
        for step in steps:
            executor.run_ops(plan, step, 0, len(plan.ops))

    best = best_of(run_all, arguments.repeat)
    print(
        f"{len(lengths)} sentences, {sum(lengths)} tokens in {len(steps)} steps: "
        f"{best * 1e3:.2f} ms, {len(lengths) / best:.0f} sentences/s, "
        f"{sum(lengths) / best:.0f} tokens/s"
    )
    if arguments.profile:
        print_profile(plan, *executor.measure(plan, steps[0], arguments.repeat))


def main() -> None:
    arguments = _arguments()
    if arguments.products:
        measure_products(arguments)
    else:
        measure_steps(arguments)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mode", choices=tuple(_FORMATS), default="fp32")
    parser.add_argument("--activations", choices=("a32", "a8"), default="a32")
    parser.add_argument("--sentences", type=int, default=64)
    parser.add_argument("--tokens", type=int, nargs=2, default=(10, 40), help="of a sentence")
    parser.add_argument("--step-tokens", type=int, default=2048, help="of a step at most")
    parser.add_argument("--cache", choices=("f32", "f16", "i8"), default="f32")
    parser.add_argument("--plain", action="store_true", help="a step of one sequence, no pages")
    parser.add_argument("--products", action="store_true", help="the matrix products alone")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa")
    parser.add_argument("--repeat", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main()
