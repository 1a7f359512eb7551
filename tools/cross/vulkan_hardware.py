"""The Vulkan kernels of hardware, on whatever device there is, against the C++ executor.

    python -m tools.cross.vulkan_hardware [--tokens 300] [--model FILE] [--modes int4,fp16]

The device is taken for a discrete one with fast integer dot products, and validated: lanes that
read tiles of weights side by side, products of int8 blocks as integers, cooperative matrices where
the driver has them, steps of 256 tokens, attention that workgroups share beyond 256 positions. A
prompt of random tokens is read and twelve more decoded. With float32 activations the logits must
agree; int8 ones round here or there, so their divergence from float32 must be like that of the C++
executor. On a software driver that takes minutes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.exec.vulkan.self_test import validated
from llm_lite.core.gpu.device import Device
from llm_lite.core.hub import catalog
from llm_lite.core.messages import EngineOptions
from llm_lite.core.metrics.divergence import compare
from llm_lite.core.records import replace
from tests.runners import running

DECODED = 12
ALLOWED = 0.02  # of logits, float32 activations
TIMES = 1.5  # the C++ executor's divergence of int8 activations, and as much for the few tokens


def main() -> int:
    """0, or 1 where something differs too much or a validation layer said something."""
    arguments = _arguments()
    device = Device.open(validation=True)
    take_for_hardware(device)
    print(f"{device.info.name}: {validated(device)}")
    path = arguments.model or catalog.resolve(None)
    right = True
    for mode in arguments.modes.split(","):
        exact = _logits(path, device, "cpu", mode, "a32", arguments.tokens)
        found = _logits(path, device, "vulkan", mode, "a32", arguments.tokens)
        error = float(np.abs(found - exact).max())
        line = f"{mode:10} a32: logits differ by at most {error:.4f}"
        right &= error <= ALLOWED
        if mode not in ("fp16", "fp32"):
            usual, ours = (
                _divergence(exact, _logits(path, device, backend, mode, "a8", arguments.tokens))
                for backend in ("cpu", "vulkan")
            )
            line += f"; a8 from a32: {ours:.5f} nats, in C++ {usual:.5f}"
            right &= ours <= TIMES * usual
        print(line, flush=True)
    device.close()
    print(f"{len(device.validation_messages)} messages of the validation layers")
    return 0 if right and not device.validation_messages else 1


def take_for_hardware(device: Device) -> None:
    """For a discrete device with fast integer dot products."""
    features = {**device.info.features, "integer_dot_accelerated": True}
    device.info = replace(device.info, kind="discrete", features=MappingProxyType(features))


def _logits(
    path: Path, device: Device, backend: Any, mode: Any, activations: Any, count: int
) -> NDArray[np.float32]:
    """Return logits after the prompt and after each decoded token, [1 + DECODED, vocabulary]."""
    options = EngineOptions(backend=backend, mode=mode, activations=activations)
    found, at = [], 0
    with running(path, replace(options, context=count + DECODED), device=device) as runner:
        executor = runner.executor
        program, random = executor.program, np.random.default_rng(0)
        tokens = random.integers(0, program.vocabulary, count + DECODED).tolist()
        while at < len(tokens):
            size = min(program.chunk, count - at) if at < count else 1
            last = executor.run(program.step(tokens[at : at + size], at))[-1].copy()
            at += size
            if at >= count:
                found.append(last)
    return np.array(found)


def _divergence(exact: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Mean KL divergence of the next token's probabilities, in nats."""
    return float(compare(exact, other, np.zeros(len(exact), np.int64)).kld.mean())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--modes", default="int4,int8,as-stored,fp16")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
