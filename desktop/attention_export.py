"""Maps as files: a PNG of what is shown, an NPZ of exact probabilities."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from core.attention import AttentionSource, head_maps
from core.errors import LlmLiteError
from core.metrics.memory import available_bytes
from desktop.attention_maps import AttentionMaps
from desktop.attention_state import Head
from desktop.png import write_png

LEAST_SIDE = 720  # pixels of a map in a PNG
GAP = 24  # between two maps


def export_folder() -> Path:
    """Where exported maps go."""
    return Path(platformdirs.user_documents_dir()) / "llm-lite"


def export_png(maps: AttentionMaps, heads: tuple[Head, ...], folder: Path) -> Path:
    """The locked heads as they are shown, side by side; what holds nothing is transparent."""
    parts = []
    for layer, head in heads:
        pixels = maps.read_picture(f"head.{layer}.{head}")
        times = max(1, -(-LEAST_SIDE // max(pixels.shape[:2])))
        parts.append(pixels.repeat(times, axis=0).repeat(times, axis=1))
    path = _path(folder, "png")
    try:
        write_png(path, _beside(parts))
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _beside(parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    height = max(part.shape[0] for part in parts)
    width = sum(part.shape[1] for part in parts) + GAP * (len(parts) - 1)
    whole, x = np.zeros((height, width, 4), np.uint8), 0
    for part in parts:
        whole[: part.shape[0], x : x + part.shape[1]] = part
        x += part.shape[1] + GAP
    return whole


def export_npz(source: AttentionSource, heads: tuple[Head, ...], folder: Path) -> Path:
    """`probs` float32 [heads, rows, n] for the rows whose queries are kept, `positions` of these
    rows, `tokens` int32 [n], `heads` int32 [heads, 2] (layer, head). Exact for float32 caches."""
    with source.hold() as alive:
        if not alive:
            raise LlmLiteError("the model was unloaded, so there is nothing to export")
        rows, n = source.rows, source.length
        size, free = 4 * len(heads) * len(rows) * n, available_bytes()
        if free is not None and size > free // 2:
            raise LlmLiteError(
                f"the maps would take {size / 2**30:.1f} GiB, more than half of the memory that "
                "is free: choose fewer heads"
            )
        probs = np.empty((len(heads), len(rows), n), np.float32)
        for number, (layer, head) in enumerate(heads):
            head_maps(source, layer, [head], probs[number : number + 1])
        tokens = np.array(source.tokens()[:n], np.int32)
    path = _path(folder, "npz")
    try:
        np.savez(
            path, probs=probs, positions=np.array(rows, np.int32), tokens=tokens,
            heads=np.array(heads, np.int32),
        )  # fmt: skip
    except OSError as error:
        raise _unwritable(path, error) from error
    return path


def _path(folder: Path, suffix: str) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder / f"attention-{time.strftime('%Y%m%d-%H%M%S')}.{suffix}"


def _unwritable(path: Path, error: OSError) -> LlmLiteError:
    return LlmLiteError(f"{path}: cannot be written to ({error.strerror})")
