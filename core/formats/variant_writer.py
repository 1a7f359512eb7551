"""Writes a variant: streamed into a directory that then takes its place whole."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.errors import FileError
from llm_lite.core.files.folders import NewFolder, check_folder
from llm_lite.core.files.writing import Output
from llm_lite.core.formats.safetensors_reader import SINGLE_FILE
from llm_lite.core.formats.variant_checksums import Checksums, as_hex, checksum
from llm_lite.core.formats.variant_reader import (
    ALIGNMENT,
    LAYOUT_VERSION,
    MANIFEST_FILE,
    listed_files,
    padded,
)

_SPARE_BYTES = 4 << 20  # for the manifest and the file system's own


class Slot(Struct, frozen=True):
    """The place of a tensor to come: its format, shape (row-major) and bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class VariantWriter:
    """Use as a context; `finish` makes the variant appear, leaving without it removes all traces.

    documents: other files of the directory, by name. FileError where the destination exists (with
    `replace`: is there and is no variant, or holds more), the disk is too full, or writing fails.
    """

    def __init__(
        self,
        destination: Path,
        slots: Sequence[Slot],
        documents: Mapping[str, bytes],
        mode: str,
        *,
        replace: bool = False,
    ) -> None:
        self._destination, self.slots, self._documents = destination, slots, documents
        self._mode = mode
        self._header = _header(slots, mode)
        self._folder = NewFolder(destination, listed_files, replace=replace)
        self._check_room()
        self._written, self._next = 0, 0
        self._value, self._checksums = 0, dict[str, str]()  # of the tensor begun, of those done

    def __enter__(self) -> VariantWriter:
        self._folder.__enter__()
        try:
            for name, content in self._documents.items():
                self._folder.write(name, content)
            self._file: Output = self._folder.create(SINGLE_FILE)
            self._file.write(self._header)
        except BaseException as error:
            self._folder.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._folder.__exit__(kind, error, trace)

    def add(self, data: NDArray[np.uint8]) -> None:
        """Write the next bytes of the current tensor, in the order of the slots."""
        slot = self.slots[self._next]
        self._written += data.nbytes
        assert self._written <= slot.nbytes, f"{slot.name}: more than {slot.nbytes} bytes"
        self._file.write(data.data)
        self._value = zlib.crc32(data.data, self._value)
        if self._written == slot.nbytes:
            self._file.write(bytes(padded(slot.nbytes) - slot.nbytes))
            self._checksums[slot.name] = as_hex(self._value)
            self._next, self._written, self._value = self._next + 1, 0, 0

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest and put the directory in its place."""
        assert self._next == len(self.slots), "tensors are missing"
        self._file.finish()
        files = {p.name: p.stat().st_size for p in sorted(self._folder.path.iterdir())}
        whole = {
            "layout_version": LAYOUT_VERSION,
            "mode": self._mode,
            "files": files,
            "checksums": self._all_checksums().to_json(),
            **manifest,
        }
        self._folder.write(MANIFEST_FILE, json.dumps(whole, indent=1).encode())
        self._folder.put()

    def _all_checksums(self) -> Checksums:
        files = {name: checksum([content]) for name, content in self._documents.items()}
        return Checksums(checksum([self._header]), self._checksums, files)

    def _check_room(self) -> None:
        needed = len(self._header) + sum(padded(slot.nbytes) for slot in self.slots)
        needed += sum(map(len, self._documents.values())) + _SPARE_BYTES
        free = shutil.disk_usage(self._destination.parent).free
        if free < needed:
            raise FileError(
                self._destination,
                f"the disk has {free / 1e6:.0f} MB free, the variant needs {needed / 1e6:.0f} MB",
            )


def check_destination(path: Path, *, replace: bool) -> None:
    """Raise FileError where `llm-lite quantize` may write no variant; `replace`: with --force."""
    advice = ", or replace a variant with --force"
    check_folder(path, listed_files if replace else None, advice=advice)


def _header(slots: Sequence[Slot], mode: str) -> bytes:
    """Return the safetensors file's header, filled with spaces so that the data begin aligned."""
    entries: dict[str, Any] = {
        "__metadata__": {
            "format": "llm-lite",
            "layout_version": str(LAYOUT_VERSION),
            "mode": mode,
            "tensors": json.dumps({s.name: [s.dtype, list(s.shape)] for s in slots}),
        }
    }
    begin = 0
    for slot in slots:
        end = begin + padded(slot.nbytes)
        entries[slot.name] = {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return struct.pack("<Q", len(text)) + text
