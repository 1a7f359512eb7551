"""Arrays that a server sent as NPZ: checked before they are used, and never unpacked."""

from __future__ import annotations

import io
import math
import re
import zipfile
from typing import Any

import numpy as np
from numpy.typing import NDArray

_MAGIC, _LEAD = b"\x93NUMPY\x01\x00", 10  # of NPY 1.0: behind it the length of its header
_HEADER = re.compile(
    rb"\{'descr': '([<|](?:f[248]|[iu][1248]|b1)|<U\d{1,4})', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,12}, ?)*(?:\d{1,12})?)\), \}"
)
MOST_ARRAYS = 4096


def npz_arrays(raw: bytes) -> dict[str, NDArray[Any]]:
    """Return the arrays of an uncompressed NPZ by name: they are no larger than it looks.
    ValueError where it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            members = archive.infolist()
            if len(members) > MOST_ARRAYS:
                raise ValueError(f"expected at most {MOST_ARRAYS} arrays, found {len(members)}")
            if any(one.compress_type != zipfile.ZIP_STORED for one in members):
                raise ValueError("it is packed")
            if sum(one.file_size for one in members) > len(raw):
                raise ValueError("its arrays lie over each other")
            return {one.filename.removesuffix(".npy"): _array(archive.read(one)) for one in members}
    except (zipfile.BadZipFile, KeyError, OSError, EOFError, RuntimeError) as error:
        raise ValueError(str(error)) from None


def _array(found: bytes) -> NDArray[Any]:
    start = _LEAD + int.from_bytes(found[8:_LEAD], "little")
    header = _HEADER.fullmatch(found[_LEAD:start].strip())
    if found[:8] != _MAGIC or header is None:
        raise ValueError(f"expected numbers or texts, found {found[_LEAD:][:80]!r}")
    kind, sizes = np.dtype(header[1].decode()), header[2].decode().replace(" ", "").split(",")
    shape = tuple(int(size) for size in sizes if size)
    if kind.itemsize * math.prod(shape) != len(found) - start:
        raise ValueError(f"expected {kind} {shape}, found {len(found) - start} bytes")
    return np.frombuffer(found, kind, -1, start).reshape(shape)
