"""From a model to a variant of it on disk: weights converted piece by piece, with a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.convert.calibration import Moments
from llm_lite.core.errors import RequestError
from llm_lite.core.files.json_text import MAX_TOKENIZER_BYTES, read_bytes
from llm_lite.core.files.mapping import drop_pages
from llm_lite.core.formats.variant_reader import METADATA_FILE, identity_of, to_json
from llm_lite.core.formats.variant_writer import Slot, VariantWriter
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.verification import require_sound
from llm_lite.core.quant.modes import (
    AS_STORED,
    MODES,
    Encode,
    check_kept,
    encode,
    pieces,
    promoted,
    table_dtype,
    target_dtype,
)
from llm_lite.core.quant.quantizer import Calibrated
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData, files_of, not_finite
from llm_lite.core.records import asdict
from llm_lite.core.text import template_files, tokenizer_files

VARIANT_MODES = tuple(mode for mode in MODES if mode != AS_STORED)
Progress = Callable[[str, float], None]  # what is being done, 0..1; may raise to cancel

# Of a Hugging Face directory, what its tokenizer is read from, beside its chat templates.
_COMPANIONS = (
    "config.json",
    "generation_config.json",
    *tokenizer_files.ALL,
)


class QuantizedTensor(Struct, frozen=True):
    """The report of one written tensor. bits: a weight, as written; snr_db: 10 log10 of the sum of
    squares of the weights over that of the errors, None if nothing was lost. stored: the source's
    format."""

    name: str
    shape: tuple[int, ...]
    stored: str
    format: str
    bits: float
    snr_db: float | None


class QuantizationReport(Struct, frozen=True):
    mode: str
    calibration_tokens: int  # 0: none
    tensors: tuple[QuantizedTensor, ...]
    bits_per_weight: float  # of all matrices that the mode changes
    nbytes: int


def quantize(
    model: ModelFile,
    destination: Path,
    mode: str,
    *,
    moments: Moments | None = None,
    replace: bool = False,
    made_of: str = "",
    progress: Progress = lambda stage, fraction: None,
) -> QuantizationReport:
    """Write a variant of a model; memory beyond the model's is a few pieces of 8 MiB.
    made_of: the name by which commands know the source, "hf:owner/repo:file" or another.

    RequestError for an unknown mode; FileError where the destination exists or cannot be written,
    the disk is too full, a weight is not finite, the source is damaged or its files change
    meanwhile; what `progress` raises passes through; nothing is left behind then.
    """
    tensors = list(model.file.tensors.values())
    total = sum(math.prod(tensor.shape) for tensor in tensors)
    reports, done = [], 0
    with writer_for(model, destination, mode, replace=replace) as writer:
        with files_of(tensors).unchanged():
            _check_source(model, progress)
            for tensor, slot in zip(tensors, writer.slots, strict=True):
                work = _Work(model.path, tensor, slot, moments)
                for data in work:
                    writer.add(data)
                    drop_pages(tensor.data)
                    done += work.values
                    progress(f"quantizing {tensor.name}", done / total)
                if moments is not None and tensor.name in moments.of_matrix:
                    drop_pages(moments.of_matrix[tensor.name])
                reports.append(work.report())
        report = QuantizationReport(
            mode,
            moments.tokens if moments else 0,
            tuple(reports),
            bits_per_weight(reports),
            sum(slot.nbytes for slot in writer.slots),
        )
        writer.finish(_manifest(model, report, made_of))
    return report


def _check_source(model: ModelFile, progress: Progress) -> None:
    """Check the checksums of a source that is a variant itself; the values of other sources are
    checked as they are read."""
    for part in model.file.parts:
        if part.checksum is not None:
            require_sound(part, lambda done: progress("checking the source", 0.0), release=True)


def writer_for(
    model: ModelFile, destination: Path, mode: str, *, replace: bool = False
) -> VariantWriter:
    """Raises, before anything is done, what `quantize` would for mode, destination and disk."""
    check_mode(mode)
    slots = variant_slots(model.file.tensors.values(), mode, model.model.on_disk)
    return VariantWriter(destination, slots, _documents(model), mode, replace=replace)


def variant_slots(
    tensors: Collection[TensorData], mode: str, tables: Collection[str]
) -> list[Slot]:
    """Return the places of a model's tensors in a variant; `tables` names those kept on disk."""
    finer = promoted(tensors, mode)
    return [
        slot_of(t, table_dtype(t, mode) if t.name in tables else target_dtype(t, mode, finer))
        for t in tensors
    ]


def check_mode(mode: str) -> None:
    if mode not in VARIANT_MODES:
        expected = ", ".join(VARIANT_MODES)
        raise RequestError(f"unknown weight mode {mode!r}, expected one of {expected}")


def lossy_source(tensors: Mapping[str, TensorData], mode: str) -> str | None:
    """Return a warning if the source's matrices were quantized before to no more bits than now."""
    check_mode(mode)
    again: dict[str, int] = {}
    for tensor in tensors.values():
        target = FORMATS[target_dtype(tensor, mode)]
        if len(tensor.shape) > 1 and tensor.format.bits_per_weight < 16:
            stored = tensor.format.bits_per_weight
            if stored <= target.bits_per_weight + 1 or target.bits_per_weight >= 16:
                again[tensor.dtype] = again.get(tensor.dtype, 0) + math.prod(tensor.shape)
    if not again:
        return None
    whole = sum(math.prod(t.shape) for t in tensors.values() if len(t.shape) > 1)
    parts = ", ".join(
        f"{100 * count / whole:.0f} % of the weights are {name}, "
        f"{FORMATS[name].bits_per_weight:g} bits each"
        for name, count in again.items()
    )
    return (
        f"the source is quantized already ({parts}): {mode} keeps what that lost lost"
        + (" and rounds once more" if FORMATS[_matrix_format(mode)].block_size > 1 else "")
        + "; a float source would do better"
    )


def bits_per_weight(reports: list[QuantizedTensor]) -> float:
    """Return the mean over the weights of all matrices, those kept at higher precision included."""
    matrices = [(math.prod(r.shape), r.bits) for r in reports if len(r.shape) > 1]
    return sum(n * bits for n, bits in matrices) / max(1, sum(n for n, _ in matrices))


class _Work:
    """A tensor being written: the bytes of its pieces in order, and their errors."""

    def __init__(self, path: Path, tensor: TensorData, slot: Slot, moments: Moments | None) -> None:
        self._path, self._tensor, self._slot = path, tensor, slot
        self._encode = _calibrated(tensor, slot.dtype, moments)
        self._signal = self._noise = self._largest = 0.0
        self.values = 0  # in the piece just done

    def __iter__(self) -> Any:
        target = FORMATS[self._slot.dtype]
        for values in pieces(_as_matrix(self._tensor)):
            if not np.isfinite(values).all():
                raise not_finite(self._path, self._tensor.name)
            data = encode(self._tensor, target, values, self._encode)
            self._count(values, target.dequantize(data, values.shape))
            yield data
        check_kept(self._tensor, target, self._largest, self._signal, self._noise)

    def report(self) -> QuantizedTensor:
        tensor, slot = self._tensor, self._slot
        lost = self._noise > 0 and self._signal > 0
        return QuantizedTensor(
            tensor.name,
            tensor.shape,
            tensor.dtype,
            slot.dtype,
            8 * slot.nbytes / math.prod(tensor.shape),
            round(10 * math.log10(self._signal / self._noise), 2) if lost else None,
        )

    @np.errstate(over="ignore", invalid="ignore")
    def _count(self, values: NDArray[np.float32], decoded: NDArray[np.float32]) -> None:
        self.values = values.size
        self._largest = max(self._largest, float(values.max()), -float(values.min()))
        signal, noise = _squares(values), _squares(decoded - values)
        if not math.isfinite(signal + noise):  # float32 ends at 3.4e38
            exact = values.astype(np.float64)
            signal, noise = _squares(exact), _squares(decoded - exact)
        self._signal += signal
        self._noise += noise


def _squares(values: NDArray[np.floating]) -> float:
    return float(np.dot(values.ravel(), values.ravel()))


def _calibrated(tensor: TensorData, dtype: str, moments: Moments | None) -> Encode | None:
    if moments is None or FORMATS[dtype].tile_rows == 1 or tensor.name not in moments.of_matrix:
        return None
    moment = moments.of_matrix[tensor.name]
    return Calibrated(dtype, moment, also_rows=tensor.name in moments.tables).encode


def _as_matrix(tensor: TensorData) -> TensorData:
    """Return a vector as a matrix of one row."""
    if len(tensor.shape) > 1:
        return tensor
    return TensorData(tensor.name, tensor.dtype, (1, *tensor.shape), tensor.data)


def slot_of(tensor: TensorData, dtype: str) -> Slot:
    """Return the place that a tensor takes in a variant."""
    matrix = (math.prod(tensor.shape[:-1]), tensor.shape[-1])
    return Slot(tensor.name, dtype, tensor.shape, FORMATS[dtype].nbytes(matrix))


def _matrix_format(mode: str) -> str:
    return target_dtype(TensorData("", "f32", (16, 32), np.empty(0, np.uint8)), mode)


def _documents(model: ModelFile) -> dict[str, bytes]:
    documents = {METADATA_FILE: to_json(model.file.metadata)}
    if model.path.is_dir():
        for name in _COMPANIONS:
            if (model.path / name).is_file():
                documents[name] = read_bytes(model.path / name, MAX_TOKENIZER_BYTES)
        documents |= template_files.in_one_folder(model.path)
    return documents


def _manifest(model: ModelFile, report: QuantizationReport, made_of: str) -> dict[str, Any]:
    return {
        "tokenizer": model.tokenizer.identity,
        "source": {
            "name": model.path.name,
            "bytes": model.size,
            "identity": identity_of(model.file.metadata, model.file.tensors),
            **({"made_of": made_of} if made_of else {}),
        },
        "report": asdict(report),
    }
