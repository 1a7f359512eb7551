"""Tries what a device offers beyond plain shaders before it is relied on.

Dot products of packed integers and cooperative matrices are the least travelled paths of drivers. A
product of each kind is made once for a device and compared with what NumPy makes of it; what is
wrong or fails is left out, with a warning in the log, and plain shaders do the same.
"""

from __future__ import annotations

import logging

import numpy as np

from llm_lite.core.errors import DeviceError, DeviceLostError, OutOfDeviceMemoryError
from llm_lite.core.exec.numpy_executor import NumpyExecutor
from llm_lite.core.exec.vulkan.executor import VulkanExecutor
from llm_lite.core.exec.vulkan.tuning import Tuning
from llm_lite.core.gpu.device import Device
from llm_lite.core.plan.builder import Bucket, PlanBuilder
from llm_lite.core.plan.plan import Program
from llm_lite.core.plan.step import Step
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData
from llm_lite.core.records import replace

TOKENS, INPUTS, OUTPUTS = 72, 96, 100  # more than a tile each way, and no whole number of them
ALLOWED = 2.0**-9  # of the spread of the values: cooperative matrices multiply halves
FORMAT = "int4"

log = logging.getLogger(__name__)
_validated: dict[tuple[object, ...], Tuning] = {}


def validated(device: Device) -> Tuning:
    """Return the device's tuning without what fails or gives wrong products.

    Raises DeviceLostError, after which the device is not asked for any of it again, and
    OutOfDeviceMemoryError, after which it is.
    """
    info = device.info
    key = (info.vendor, info.name, info.driver, info.matrices, tuple(info.features.items()))
    if key not in _validated:
        wanted = Tuning.of(info)
        _validated[key] = replace(wanted, integer_dot=False, matrix=(0, 0, 0))
        try:
            _validated[key] = _tried(device, wanted)
        except OutOfDeviceMemoryError:
            del _validated[key]
            raise
    return _validated[key]


def _tried(device: Device, wanted: Tuning) -> Tuning:
    plain = replace(wanted, integer_dot=False, matrix=(0, 0, 0))
    found = plain
    if wanted.integer_dot and _is_right(device, replace(plain, integer_dot=True), "dot products"):
        found = replace(found, integer_dot=True)
    matrices = replace(plain, matrix=wanted.matrix)
    if wanted.matrix[0] and _is_right(device, matrices, "cooperative matrices"):
        found = replace(found, matrix=wanted.matrix)
    return found


def _is_right(device: Device, tuning: Tuning, what: str) -> bool:
    try:
        right = _multiplies(device, tuning)
    except (DeviceLostError, OutOfDeviceMemoryError):
        raise
    except DeviceError as error:
        log.warning("%s: %s are left out: %s", device.info.name, what, error)
        return False
    if not right:
        log.warning("%s: %s are left out: they give wrong products", device.info.name, what)
    return right


def _multiplies(device: Device, tuning: Tuning) -> bool:
    """Return True if products are right for few and for many tokens, which have own kernels."""
    program, weights = _product()
    expected = NumpyExecutor(program, weights)
    executor = VulkanExecutor(device, program, weights, tuning=tuning)
    try:
        steps = [Step(np.arange(count, dtype=np.int32), 0, count) for count in (TOKENS, 2)]
        return all(_close(executor.run(step), expected.run(step)) for step in steps)
    finally:
        executor.close()


def _close(found: np.ndarray, expected: np.ndarray) -> bool:
    return bool(np.abs(found - expected).max() <= ALLOWED * np.std(expected))


def _product() -> tuple[Program, dict[str, TensorData]]:
    """Return a program with an embedding and a product of int8 activations, and its random weights,
    the same every time."""
    random = np.random.default_rng(0)
    weights: dict[str, TensorData] = {}
    for name, dtype, shape in (("x", "f32", (TOKENS, INPUTS)), ("w", FORMAT, (OUTPUTS, INPUTS))):
        values = random.normal(0, 1, shape).astype(np.float32)
        weights[name] = TensorData(name, dtype, shape, FORMATS[dtype].quantize(values))
    plans = []
    for tokens in (2, TOKENS):
        builder = PlanBuilder(weights, Bucket(tokens, tokens), integer_activations=True)
        x = builder.embed(builder.weight("x"), "embed")
        y = builder.matmul(x, builder.weight("w"), "product")
        plans.append(builder.finish(builder.output_rows(y, "rows")))
    return Program(tuple(plans), TOKENS, OUTPUTS), weights
