"""The check that a model's files hold what was written: checksums, and weights that are finite
numbers.

Work is cut into slices of some 4 MiB, so that the engine can do something else in between; there is
no thread here.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from pathlib import Path

from msgspec import Struct

from llm_lite.core.errors import FileError
from llm_lite.core.files.mapping import drop_pages
from llm_lite.core.formats.safetensors_reader import SINGLE_FILE
from llm_lite.core.formats.variant_checksums import Checksums, as_hex, header_pieces
from llm_lite.core.formats.variant_reader import VariantFolder
from llm_lite.core.memory import available_bytes
from llm_lite.core.quant.tensor import TensorData

SLICE_BYTES = 4 << 20


class Part(Struct, frozen=True):
    """A part of a file that can be checked by itself; `checksum` is None if none was kept.

    `pieces` are its bytes in order; a `tensor`'s are its data.
    """

    path: Path
    name: str  # of the tensor, or what else it is
    checksum: str | None
    nbytes: int
    pieces: Callable[[], Iterator[bytes]] | None = None
    tensor: TensorData | None = None


def tensor_parts(path: Path, tensors: Iterable[TensorData]) -> tuple[Part, ...]:
    """Return the parts of a file that has no checksums."""
    return tuple(Part(path, t.name, None, t.nbytes, tensor=t) for t in tensors)


def variant_parts(variant: VariantFolder) -> tuple[Part, ...]:
    """Return the parts of a variant, the documents first, then the tensors."""
    known, weights = variant.checksums, variant.path / SINGLE_FILE
    if known is None:
        return tensor_parts(weights, variant.tensors.values())
    tensors = (
        Part(weights, tensor.name, known.tensors[tensor.name], tensor.nbytes, tensor=tensor)
        for tensor in variant.tensors.values()
    )
    return (*document_parts(variant.path, known), *tensors)


def document_parts(folder: Path, known: Checksums) -> tuple[Part, ...]:
    """Return the parts of a variant but its manifest and its tensors."""
    weights = folder / SINGLE_FILE
    documents = [
        Part(path := folder / name, "", value, 0, partial(_pieces_of, path))
        for name, value in known.files.items()
    ]
    header = Part(weights, "the header", known.header, 0, partial(header_pieces, weights))
    return (*documents, header)


def verify(
    parts: Iterable[Part], *, release: bool = False, progress: Callable[[int], None] | None = None
) -> Iterator[FileError | None]:
    """Yield after each slice of work None, or what is wrong with the part that has just ended.

    With `release`, mapped pages are released once they were read. `progress` is called with the
    bytes done.
    """
    for part in parts:
        try:
            yield from _verify(part, release, progress)
        except FileError as error:
            yield error


def require_sound(
    part: Part, progress: Callable[[int], None] | None = None, *, release: bool = False
) -> None:
    """Raise FileError if a part of a file is not what was written. With `release`, or if it is
    large, its mapped pages are released."""
    release = release or worth_releasing(part.nbytes)
    for problem in verify([part], release=release, progress=progress):
        if problem is not None:
            raise problem


def worth_releasing(nbytes: int) -> bool:
    """Return True if so much is better not left in memory after it was read."""
    free = available_bytes()
    return free is not None and nbytes > free // 2


class Verification:
    """The parts that wait to be checked, each file once; a slice at a time, for one thread."""

    def __init__(self) -> None:
        self._paths: set[Path] = set()
        self._work: list[Iterator[FileError | None]] = []

    def add(self, parts: Collection[Part], skip: Collection[str] = ()) -> None:
        """Queue parts to be verified; not the tensors in `skip`, nor files of an earlier call."""
        fresh = [p for p in parts if p.path not in self._paths and p.name not in skip]
        self._paths.update(part.path for part in fresh)
        if fresh:
            release = worth_releasing(sum(part.nbytes for part in fresh))
            self._work.append(verify(fresh, release=release))

    @property
    def pending(self) -> bool:
        return bool(self._work)

    def step(self) -> FileError | None:
        """Verify one more slice and return what was found to be wrong."""
        if not self._work:
            return None
        try:
            return next(self._work[0])
        except StopIteration:
            del self._work[0]
            return None


def _verify(
    part: Part, release: bool, progress: Callable[[int], None] | None
) -> Iterator[FileError | None]:
    value, finite, tensor = 0, True, part.tensor
    for begin, piece in _slices(part):
        if part.checksum is not None:
            value = zlib.crc32(piece, value)
        if tensor is not None:
            data = tensor.data[begin : begin + len(piece)]
            finite = finite and not tensor.format.non_finite(data)
            if release:
                drop_pages(data)
        if progress:
            progress(len(piece))
        yield None
    found = as_hex(value)
    if part.checksum not in (None, found):
        what = f"tensor {part.name}" if tensor is not None else part.name or "the file"
        yield FileError(
            part.path, f"{what} is damaged: expected checksum {part.checksum}, found {found}"
        )
    elif not finite:
        yield FileError(part.path, f"tensor {part.name} has values that are not finite numbers")


def _slices(part: Part) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield (offset, bytes) of slices; those of tensors are whole tiles."""
    if part.tensor is None:
        assert part.pieces is not None
        begin = 0
        for piece in part.pieces():
            yield begin, piece
            begin += len(piece)
        return
    form, data = part.tensor.format, part.tensor.data
    unit = form.block_bytes * form.tile_rows
    step = max(1, SLICE_BYTES // unit) * unit
    for begin in range(0, part.tensor.nbytes, step):
        yield begin, data[begin : begin + step].data


def _pieces_of(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while piece := file.read(SLICE_BYTES):
                yield piece
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror}") from None
