"""Models whose weights are finite and so large that what they compute is not."""

from pathlib import Path

import numpy as np

from tests.make_gguf import Tensor, TinyLlama, build_gguf, llama_metadata, llama_tensors, quantized


def write_huge_llama(path: Path, tensor: str = "output.weight", factor: float = 3e38) -> Path:
    """A tiny llama of float32 whose logits are NaN or infinite: one tensor is too large."""
    size = TinyLlama(dtype="f32", tied=False)
    tensors = llama_tensors(size)
    old: Tensor = tensors[tensor]
    values = np.frombuffer(old.data, np.float32).reshape(old.shape)
    values = values * np.float32(factor)
    assert np.isfinite(values).all()
    tensors[tensor] = quantized("f32", values)
    path.write_bytes(build_gguf(llama_metadata(size), tensors))
    return path
