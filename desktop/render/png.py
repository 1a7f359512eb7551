"""PNG files of 8-bit RGBA: enough for our pictures and our icon, without an imaging library.

Format: W3C Portable Network Graphics (Second Edition), https://www.w3.org/TR/PNG/.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.errors import FileError
from llm_lite.core.files.writing import write_file

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_RGBA8 = (8, 6, 0, 0, 0)  # bit depth, colour type, compression, filter method, interlace


def write_png(path: Path, rgba: NDArray[np.uint8], *, new: bool = False) -> None:
    """Write uint8 [height, width, 4]; `new`: never over another file. FileError."""
    write_file(path, encode_png(rgba), new=new)


def encode_png(rgba: NDArray[np.uint8]) -> bytes:
    """Encode uint8 [height, width, 4] as PNG; rows are stored as differences to the row above."""
    height, width, channels = rgba.shape
    if channels != 4 or rgba.dtype != np.uint8:
        raise ValueError(f"expected uint8 [h, w, 4], got {rgba.dtype} {list(rgba.shape)}")
    rows = rgba.reshape(height, width * 4)
    above = np.vstack([np.zeros((1, width * 4), np.uint8), rows[:-1]])
    filter_up = np.full((height, 1), 2, np.uint8)
    lines = np.hstack([filter_up, rows - above])
    header = struct.pack(">IIBBBBB", width, height, *_RGBA8)
    body = zlib.compress(lines.tobytes(), 6)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def read_png(path: Path) -> NDArray[np.uint8]:
    """Read back what `write_png` wrote: uint8 [height, width, 4]. Raises FileError otherwise."""
    data = Path(path).read_bytes()
    if len(data) < 33 or data[:8] != _SIGNATURE or data[12:16] != b"IHDR":
        raise FileError(path, "expected a PNG file")
    width, height, *kind = struct.unpack_from(">IIBBBBB", data, 16)
    if tuple(kind) != _RGBA8:
        raise FileError(path, f"expected 8-bit RGBA without interlace, found {kind}")
    try:
        lines = np.frombuffer(zlib.decompress(_image_data(data)), np.uint8)
        lines = lines.reshape(height, 1 + width * 4)
    except (zlib.error, struct.error, ValueError) as error:
        raise FileError(path, f"damaged image data ({error})") from error
    if (lines[:, 0] != 2).any():
        raise FileError(path, "expected row filter 2 (up) throughout")
    rows = lines[:, 1:].copy()
    for above, row in pairwise(rows):  # np.cumsum takes twenty times as long
        row += above
    return rows.reshape(height, width, 4)


def _image_data(data: bytes) -> bytes:
    parts, offset = [], 8
    while offset < len(data):
        length, kind = struct.unpack_from(">I4s", data, offset)
        if kind == b"IDAT":
            parts.append(data[offset + 8 : offset + 8 + length])
        offset += 12 + length
    return b"".join(parts)
