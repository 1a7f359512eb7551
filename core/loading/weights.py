"""A model's weights as its executor reads them: in a weight mode, or as they are stored, and what
there is to say of their formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from llm_lite.core.files.mapping import MappedFiles, drop_pages
from llm_lite.core.loading.kept_variants import open_weights
from llm_lite.core.loading.model_file import ModelFile
from llm_lite.core.loading.verification import Part, variant_parts
from llm_lite.core.quant.modes import (
    AS_STORED,
    common_room,
    convert,
    convert_table,
    loaded_table_dtype,
    made_bytes,
    promoted,
    room_for,
    target_dtype,
)
from llm_lite.core.quant.registry import FORMATS
from llm_lite.core.quant.tensor import TensorData, files_of, with_own_vectors

Progress = Callable[[str, float], None]  # stage, 0..1; may raise CancelledError


class LazyWeights(Mapping[str, TensorData]):
    """Weights in a mode, each converted when it is read and not kept: for callers that copy them to
    a device, so that memory never holds more than one besides it."""

    def __init__(
        self, tensors: Mapping[str, TensorData], on_disk: Collection[str], mode: str
    ) -> None:
        self._tensors, self._on_disk, self._mode = tensors, on_disk, mode
        self._finer = promoted(tensors.values(), mode)

    def __getitem__(self, name: str) -> TensorData:
        tensor = self._tensors[name]
        if name in self._on_disk:
            return convert_table(tensor)
        target = target_dtype(tensor, self._mode, self._finer)
        made = convert(tensor, self._mode, room_for([made_bytes(tensor, target)]), self._finer)
        if made is not tensor:
            drop_pages(tensor.data)
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def files_behind(model_file: ModelFile, weights: Mapping[str, TensorData]) -> MappedFiles:
    """Return the files of a model, and of the variant that is in use instead."""
    used = () if isinstance(weights, LazyWeights) else weights.values()
    return files_of([*model_file.file.tensors.values(), *used])


def converted(
    model_file: ModelFile, mode: str, progress: Progress, *, at_once: bool = True
) -> tuple[Mapping[str, TensorData], tuple[Part, ...]]:
    """Return the weights in a mode, and the parts of a kept variant that they are; what stays on
    disk keeps its format if kernels read it. `at_once`: else each is converted when it is read."""
    tensors, on_disk = model_file.file.tensors, model_file.model.on_disk
    kept_at = {str(known): path for known, path in model_file.kept.items()}.get(mode)
    if kept_at is not None:
        progress("mapping the variant on disk", 0.35)
        variant = open_weights(kept_at, model_file, mode)
        parts = variant_parts(variant)
        used = tuple(part for part in parts if part.tensor and part.name not in on_disk)
        mapped = variant.tensors
        return {n: convert_table(tensors[n]) if n in on_disk else mapped[n] for n in tensors}, used
    if not at_once:
        return LazyWeights(tensors, on_disk, mode), ()
    total = sum(t.nbytes for t in tensors.values()) or 1
    done = 0
    weights = {}
    tables = [tensor for name, tensor in tensors.items() if name in on_disk]
    matrices = [tensor for name, tensor in tensors.items() if name not in on_disk]
    finer = promoted(tensors.values(), mode)
    room = common_room(matrices, mode, finer, tables)
    for tensor in with_own_vectors(tensors).values():
        progress("preparing the weights", 0.35 + 0.25 * done / total)
        kept = tensor.name in on_disk
        weights[tensor.name] = (
            convert_table(tensor, room) if kept else convert(tensor, mode, room, finer)
        )
        if weights[tensor.name] is not tensor:
            drop_pages(tensor.data)  # what it became is read from now on
        done += tensor.nbytes
    return weights, ()


def multiplied_as(model_file: ModelFile) -> Mapping[tuple[str, str], int]:
    """Count tensors by the format in the file and the one that kernels read instead in as-stored
    mode, where these differ."""
    tensors, on_disk = model_file.file.tensors, model_file.model.on_disk
    found: Counter[tuple[str, str]] = Counter()
    for name, tensor in tensors.items():
        if not tensor.format.native:
            table = name in on_disk
            read = loaded_table_dtype(tensor) if table else target_dtype(tensor, AS_STORED)
            found[tensor.dtype, read] += 1
    return MappingProxyType(dict(found))


def conversion_note(model_file: ModelFile) -> str:
    """Return a sentence on the formats that kernels do not read as stored; "" if there are none."""
    by_format: dict[str, dict[str, int]] = {}
    for (stored, read), count in multiplied_as(model_file).items():
        by_format.setdefault(read, {})[stored] = count
    parts = []
    for read, counts in by_format.items():
        some = [f"{n} tensor{'s' if n > 1 else ''} of type {t}" for t, n in counts.items()]
        listed = " and ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)
        parts.append(
            f"{listed} {'is' if sum(counts.values()) == 1 else 'are'} multiplied as {read}"
        )
    return "; ".join(parts)


def of_blocks(formats: Iterable[str]) -> tuple[str, ...]:
    """Return the formats in which several weights share a scale."""
    return tuple(name for name in formats if name in FORMATS and FORMATS[name].block_size > 1)


def described(formats: Iterable[str]) -> Mapping[str, str]:
    return MappingProxyType({name: _description(name) for name in formats if name in FORMATS})


def _description(name: str) -> str:
    form = FORMATS[name]
    if form.block_size == 1:
        return f"Single weights of {8 * form.block_bytes} bits."
    return (
        f"Blocks of {form.block_size} weights in {form.block_bytes} bytes: "
        f"{form.bits_per_weight:g} bits a weight."
    )
