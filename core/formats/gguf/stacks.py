"""Splits matrices that a GGUF file has in one tensor, and graphs use one by one."""

from __future__ import annotations

from collections.abc import Mapping

from llm_lite.core.quant.tensor import TensorData


def unstacked(tensors: Mapping[str, TensorData]) -> dict[str, TensorData]:
    """Return stacks of matrices split under the names of these: "altup_proj.weight" [3,N,K] becomes
    "altup_proj.0.weight" [N,K] and so on."""
    result = {}
    for name, tensor in tensors.items():
        if len(tensor.shape) != 3 or not name.endswith(".weight"):
            result[name] = tensor
            continue
        size = tensor.nbytes // tensor.shape[0]
        for i in range(tensor.shape[0]):
            part = f"{name.removesuffix('.weight')}.{i}.weight"
            data = tensor.data[i * size : (i + 1) * size]
            result[part] = TensorData(part, tensor.dtype, tensor.shape[1:], data)
    return result
