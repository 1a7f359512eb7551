"""Random blocks of every format of weights, with scales that make their values what is asked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.quant.registry import FORMATS, GGUF_FORMATS

BLOCK_FORMATS = tuple(name for name in GGUF_FORMATS if FORMATS[name].block_size > 1)
# Mean of a level times its scale over that of a minimum times its scale, of random bytes.
_CENTRES = {"q4_1": -7.5, "q5_1": -15.5, "q2_k": 1.5, "q4_k": 7.5, "q5_k": 15.5}


def layout(name: str) -> np.dtype:
    """The fields of a block."""
    block: np.dtype = FORMATS[name].non_finite.__self__.BLOCK
    return block


def random_blocks(
    name: str, shape: tuple[int, ...], seed: int = 0, deviation: float = 1.0
) -> NDArray[np.uint8]:
    """Bytes of a tensor, every code of its blocks as likely as any other; values around 0."""
    rng = np.random.default_rng(seed)
    form = FORMATS[name]
    data = rng.integers(0, 256, form.nbytes(shape), np.uint8)
    count = len(data) // form.block_bytes
    scales = rng.uniform(0.5, 1.5, count).astype(np.float32)
    _set_scales(name, data, scales)
    found = form.dequantize(data, (count, form.block_size)).std()
    _set_scales(name, data, scales * np.float32(deviation / found))
    return data


def encoded(name: str, values: NDArray[np.float32], seed: int = 0) -> NDArray[np.uint8]:
    """Bytes of a tensor; of a format that is only read, random blocks that spread as the values."""
    if FORMATS[name].encoder is None:
        return random_blocks(name, values.shape, seed, float(values.std()))
    return FORMATS[name].quantize(np.asarray(values, np.float32))


def width(name: str, blocks: int) -> int:
    """Columns of so many blocks, of 32 at least; of large blocks at most 13."""
    size = FORMATS[name].block_size
    return min(blocks, 13) * size if size > 32 else blocks * 32


def _set_scales(name: str, data: NDArray[np.uint8], scales: NDArray[np.float32]) -> None:
    blocks = data.view(layout(name))
    if name == "mxfp4":
        blocks["e"] = np.rint(np.log2(scales)) + 127
    elif name == "nvfp4":
        d = np.clip(scales, 2**-6, 240)[:, None]  # the smallest normal number of UE4M3 and more
        blocks["d"] = (np.log2(d) + 7).astype(np.uint8) << 3 | blocks["d"] & 7
    elif name == "iq1_m":
        bits = scales.astype(np.float16).view(np.uint16)
        nibbles = bits[:, None] >> np.arange(0, 16, 4, dtype=np.uint16) << np.uint16(12)
        blocks["scales"] = blocks["scales"] & np.uint16(0x0FFF) | nibbles
    else:
        blocks["d"] = scales
        for field in ("m", "dmin"):
            if field in (blocks.dtype.names or ()):
                blocks[field] = scales * np.float32(_CENTRES[name])


def damaged(name: str, data: NDArray[np.uint8], block: int, value: float, field: str = "d") -> None:
    """Write a scale that is not finite into a block; of MXFP4, which has one such scale, that."""
    blocks = data.view(layout(name))
    if name == "mxfp4":
        blocks["e"][block] = 255
    elif name == "iq1_m":
        bits = int(np.float16(value).view(np.uint16))
        for word in range(4):
            kept = int(blocks["scales"][block, word]) & 0x0FFF
            blocks["scales"][block, word] = kept | (bits >> 4 * word & 15) << 12
    else:
        blocks[field][block] = value


def scale_fields(name: str) -> tuple[str, ...]:
    """The fields that may be infinite or NaN."""
    if name in ("mxfp4", "iq1_m"):
        return ("d",)
    if name == "nvfp4":
        return ()
    names = layout(name).names or ()
    return tuple(field for field in ("d", "m", "dmin") if field in names)
