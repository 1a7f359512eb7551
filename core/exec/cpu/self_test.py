"""The self-test of a build of the kernels before it is relied on, once for each machine and build.

Products of every kind of levels, for one token, few and many, are compared with what NumPy makes of
them; a build that is wrong is left out, with a warning in the log, and the next lower one is used.
A build that was right is written down in the cache folder, so that programs start without the test.
"""

from __future__ import annotations

import hashlib
import json
import logging
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from llm_lite_kernels import _cpp

from llm_lite.core.errors import LlmLiteError
from llm_lite.core.exec.cpu.executor import CpuExecutor
from llm_lite.core.files.json_text import read_object
from llm_lite.core.files.places import user_folder
from llm_lite.core.files.writing import make_folder, write_file
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.processor import available_isas, cpu_features, leave_out, processor_name
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

TOKENS, INPUTS, OUTPUTS = 40, 256, 50  # more than a panel each way, and no whole number of them
STEPS = (1, 3, TOKENS)  # each has kernels of its own
# values, and levels of each kind
FORMATS_TRIED = ("f16", "bf16", "f32", "int4", "int8", "q4_1", "q6_k")
ALLOWED = 1e-4  # of the largest value: sums of float32 in another order

log = logging.getLogger(__name__)


def validated_isa() -> str:
    """Return the highest build of `available_isas()` whose products are right, or else the lowest,
    which has no instructions that a processor of this kind may lack.

    Raises RequestError if LLM_LITE_ISA names a build that cannot run here.
    """
    names = available_isas()
    while len(names) > 1 and not _is_right(names[-1]):
        leave_out(names.pop())
    return names[-1]


_right: set[str] = set()  # in this process


def _is_right(isa: str) -> bool:
    if isa in _right:
        return True
    key, place = _key(), user_folder("cache") / "kernels.json"
    known = _recorded(place, key)
    if isa not in known:
        if (error := largest_error(isa)) > ALLOWED:
            log.warning("kernels %s are left out: products are off by %.2g", isa, error)
            return False
        _record(place, key, [*known, isa])
    _right.add(isa)
    return True


def largest_error(isa: str) -> float:
    """Return the largest error of products, relative to the largest value of each; infinite if a
    value is not finite."""
    worst = 0.0
    for integer_activations in (False, True):
        program, weights = _products(integer_activations)
        worst = max(worst, _error_of(program, weights, isa))
    return worst


def _error_of(program: Program, weights: Mapping[str, TensorData], isa: str) -> float:
    from llm_lite.core.exec.numpy_executor import NumpyExecutor

    expected = NumpyExecutor(program, weights)
    executor = CpuExecutor(program, weights, 1, isa=isa)
    worst = 0.0
    try:
        for count in STEPS:
            step = Step(np.arange(count, dtype=np.int32), 0, count)
            wanted, found = expected.run(step), executor.run(step)
            with np.errstate(invalid="ignore"):
                off = np.abs(found - wanted).max() / np.abs(wanted).max()
            worst = max(worst, float(np.nan_to_num(off, nan=np.inf)))
    finally:
        executor.close()
    return worst


def _products(integer_activations: bool) -> tuple[Program, dict[str, TensorData]]:
    """Return a program that adds up a product with each format, and its random weights, the same
    every time."""
    random = np.random.default_rng(0)
    weights: dict[str, TensorData] = {}
    shapes = {"x": ("f32", (TOKENS, INPUTS))} | {f: (f, (OUTPUTS, INPUTS)) for f in FORMATS_TRIED}
    for name, (dtype, shape) in shapes.items():
        if dtype == "q6_k":
            data = _random_q6_k(random, shape)
        else:
            data = FORMATS[dtype].quantize(random.normal(0.2, 1, shape).astype(np.float32))
        weights[name] = TensorData(name, dtype, shape, data)
    plans = []
    for tokens in STEPS:
        builder = PlanBuilder(
            weights, Bucket(tokens, tokens), integer_activations=integer_activations
        )
        x = builder.embed(builder.weight("x"), "embed")
        first, *others = (
            builder.matmul(x, builder.weight(name), f"{name}.product") for name in FORMATS_TRIED
        )
        total = first
        for name, product in zip(FORMATS_TRIED[1:], others, strict=True):
            total = builder.add(total, product, f"{name}.sum")
        plans.append(builder.finish(builder.output_rows(total, "rows")))
    return Program(tuple(plans), TOKENS, OUTPUTS), weights


def _random_q6_k(random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.uint8]:
    """Return random blocks: any levels and scales of 16 columns; float16 d ends a block. The format
    is only read, never written."""
    form = FORMATS["q6_k"]
    blocks = shape[0] * shape[1] // form.block_size
    data = random.integers(0, 256, (blocks, form.block_bytes)).astype(np.uint8)
    data[:, -2:] = np.frombuffer(np.float16(2**-13).tobytes(), np.uint8)
    return data.reshape(-1)


def _key() -> str:
    """Return a hash that names this processor, its system, and these kernels."""
    library = Path(_cpp.__file__)
    state = library.stat()
    features = sorted(name for name, has in cpu_features().items() if has)
    parts = (processor_name(), platform.release(), features, str(library))
    text = json.dumps([*parts, state.st_size, state.st_mtime_ns])
    return hashlib.sha256(text.encode()).hexdigest()


def _recorded(place: Path, key: str) -> list[str]:
    """Return builds that were right, if the record is of this machine and build, else none."""
    try:
        found = read_object(place)
    except LlmLiteError:
        return []
    names = found.get("right") if found.get("key") == key else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _record(place: Path, key: str, names: list[str]) -> None:
    try:
        make_folder(place.parent)
        write_file(place, json.dumps({"key": key, "right": names}, indent=1).encode())
    except (LlmLiteError, OSError) as error:
        log.info("the kernels' self-test is not written down: %s", error)
