"""Writes a variant: streamed into a directory beside its place, then renamed at once.

Killed at any moment it leaves what was at the destination before, or the whole new variant;
besides, perhaps, a hidden directory that the next writer for that destination removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from core.errors import FileError
from core.formats.safetensors import SINGLE_FILE
from core.formats.variant import ALIGNMENT, LAYOUT_VERSION, MANIFEST_FILE, is_variant, padded
from core.formats.variant_checksums import Checksums, as_hex, checksum

_SPARE_BYTES = 4 << 20  # for the manifest and the file system's own


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor to come: its format, shape (row-major) and bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


class VariantWriter:
    """Use as a context; `finish` makes the variant appear, leaving without it removes all traces.

    documents: other files of the directory, by name. FileError where the destination exists (with
    `replace`: is there and is no variant), the disk is too full, or writing fails.
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
        self._mode, self._replace = mode, replace
        self._header = _header(slots, mode)
        check_destination(destination, replace=replace)
        self._check_room()
        self.folder = destination.parent / f".{destination.name}.{os.getpid()}.part"
        self._written, self._next = 0, 0
        self._value, self._checksums = 0, dict[str, str]()  # of the tensor begun, of those done

    def __enter__(self) -> VariantWriter:
        _tidy(self._destination)
        try:
            self.folder.mkdir()
            for name, content in self._documents.items():
                _write_whole(self.folder / name, content)
            self._file: BinaryIO = (self.folder / SINGLE_FILE).open("wb")
            self._file.write(self._header)
        except BaseException as error:
            shutil.rmtree(self.folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise self._failed(error) from None
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def add(self, data: NDArray[np.uint8]) -> None:
        """The next bytes of the tensor whose turn it is, in the order of the slots."""
        slot = self.slots[self._next]
        self._written += data.nbytes
        assert self._written <= slot.nbytes, f"{slot.name}: more than {slot.nbytes} bytes"
        try:
            self._file.write(data.data)
            self._value = zlib.crc32(data.data, self._value)
            if self._written == slot.nbytes:
                self._file.write(bytes(padded(slot.nbytes) - slot.nbytes))
                self._checksums[slot.name] = as_hex(self._value)
                self._next, self._written, self._value = self._next + 1, 0, 0
        except OSError as error:
            raise self._failed(error) from None

    def finish(self, manifest: Mapping[str, Any]) -> None:
        """Write the manifest and put the directory in its place."""
        assert self._next == len(self.slots), "tensors are missing"
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            files = {path.name: path.stat().st_size for path in sorted(self.folder.iterdir())}
            whole = {
                "layout_version": LAYOUT_VERSION,
                "mode": self._mode,
                "files": files,
                "checksums": self._all_checksums().to_json(),
                **manifest,
            }
            _write_whole(self.folder / MANIFEST_FILE, json.dumps(whole, indent=1).encode())
            check_destination(self._destination, replace=self._replace)
            _put_in_place(self.folder, self._destination)
        except OSError as error:
            raise self._failed(error) from None

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

    def _failed(self, error: OSError) -> FileError:
        return FileError(self._destination, f"cannot be written: {error.strerror or error}")


def check_destination(path: Path, *, replace: bool) -> None:
    """FileError where nothing may be written at `path`."""
    try:
        if not path.name or not path.parent.is_dir():
            raise FileError(path, f"cannot be written: there is no directory {path.parent}")
        if not path.exists() and not path.is_symlink():
            return
        if not replace:
            raise FileError(path, "exists; choose another name, or replace it with --force")
        if path.is_symlink() or not is_variant(path):
            raise FileError(path, "exists and is no variant; only a variant is replaced")
    except OSError as error:  # a name too long, a folder that may not be entered
        raise FileError(path, f"cannot be written: {error.strerror}") from None


def _header(slots: Sequence[Slot], mode: str) -> bytes:
    """Of the safetensors file, filled with spaces so that the data begin aligned."""
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


def _write_whole(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(folder: Path, destination: Path) -> None:
    if not destination.exists():
        folder.rename(destination)
    elif not _exchange(folder, destination):  # two steps: the old one stays under its new name
        aside = folder.with_suffix(".old")
        destination.rename(aside)
        folder.rename(destination)
        shutil.rmtree(aside, ignore_errors=True)
    with contextlib.suppress(OSError):  # not every system can open a directory
        handle = os.open(destination.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _exchange(one: Path, other: Path) -> bool:
    """Let two directories change their names in one step, where the system can (renameat2(2))."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    at_fdcwd, exchange = -100, 2
    arguments = (at_fdcwd, os.fsencode(one), at_fdcwd, os.fsencode(other), exchange)
    return rename is not None and rename(*arguments) == 0


def _tidy(destination: Path) -> None:
    """Remove what killed writers for this destination left; bring back what one had moved away."""
    pattern = re.compile(re.escape(f".{destination.name}.") + r"([0-9]{1,10})\.(part|old)")
    for path in destination.parent.iterdir():
        match = pattern.fullmatch(path.name)
        if match is None or _runs(int(match[1])):
            continue
        if match[2] == "old" and not destination.exists():
            path.rename(destination)
        else:
            shutil.rmtree(path, ignore_errors=True)


def _runs(process: int) -> bool:
    if process == os.getpid() or os.name != "posix":  # elsewhere a signal of 0 would end it
        return process != os.getpid()
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
