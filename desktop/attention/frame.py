"""Records one frame of map work: uploads, clears, pooling, rows, colours, copies, readings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from llm_lite.core.gpu.commands import memory_barrier
from llm_lite.core.gpu.create import vk
from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.memory import Buffer
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.desktop.attention import colors as attention_colors
from llm_lite.desktop.attention.kernels import FEW_ROWS, ROWS, Kernels, whole
from llm_lite.desktop.attention.slot import Slot
from llm_lite.desktop.attention.store import Clear, Store
from llm_lite.desktop.attention.surface import STORAGE, WORD, MapSurface
from llm_lite.desktop.attention.work import FrameJobs, Job
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.widgets.head_maps import ColorScale

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource

SCRATCH_BYTES = 16 << 20  # of a row's scores, for all jobs of a frame; more for a long context
SCORE_WORDS = 3
SCORES_EACH = 4 * SCORE_WORDS  # bytes a row and head
COMPUTE, COPY = 0x800, 0x1000  # VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, _TRANSFER_BIT
SHADER_READ_WRITE, COPY_READ_WRITE = 0x60, 0x1800  # VK_ACCESS_...
EVERYTHING, MEMORY_WRITE = 0x10000, 0x10000  # VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, _MEMORY_WRITE


class FrameRecorder:
    """Buffers and kernels for the maps of one model."""

    def __init__(
        self, device: Device, renderer: ImguiRenderer, store: Store,
        source: AttentionSource, scored: int, slots: int,
    ) -> None:  # fmt: skip
        self._device, self._renderer = device, renderer
        self._store, self._layers, self._scored = store, source.layers, scored
        self._kernels = Kernels(device, renderer)
        self._slots = [Slot(device, store) for _ in range(slots)]
        self._slot = self._slots[0]
        self.tokens = Buffer(device, max(4, source.context * WORD), STORAGE, host=True)
        self._biases = _biases(device, source)
        rows = len(store.heads) * scored
        self._row_scores = Buffer(device, max(4, rows * SCORES_EACH), STORAGE, host=False)
        scratch = max(SCRATCH_BYTES, largest_row(source))
        self._scratch = Buffer(device, scratch, STORAGE, host=False)
        self._fresh_scores = True

    def begin(self, index: int) -> Slot:
        """Return the slot for a new frame; its earlier frame is done on the device."""
        self._slot = self._slots[index % len(self._slots)]
        return self._slot

    def empty_jobs(self, length: int) -> FrameJobs:
        """Return an empty list of jobs with the room of this frame, for rows of so many
        positions."""
        return self._slot.empty_jobs(self._scratch.size // (WORD * stride(length)))

    def forget(self) -> None:
        """Bind buffers again, as those of queries or keys have gone."""
        self._kernels.forget()

    def prepare(self, commands: Any) -> None:
        """Order this frame's work after everything before it, and begin to measure."""
        if self._slot.times:
            self._slot.times.reset(commands)
            self._slot.times.mark(commands, 0)
        memory_barrier(
            commands, (EVERYTHING, MEMORY_WRITE),
            (COMPUTE | COPY, SHADER_READ_WRITE | COPY_READ_WRITE),
        )  # fmt: skip
        for surface in self._store.surfaces():
            surface.prepare(commands)
        if self._fresh_scores:
            vk.lib.vkCmdFillBuffer(commands, self._row_scores.handle, 0, self._row_scores.size, 0)
            _barrier(commands)
            self._fresh_scores = False

    def order(self, commands: Any) -> None:
        """Record a barrier: later work sees what earlier work wrote."""
        _barrier(commands)

    def steps(self, commands: Any) -> None:
        """Clear and halve what the store asks for, in its order."""
        halvings: list[tuple[MapSurface, int]] = []
        cleared: set[tuple[int, int]] = set()
        for step in self._store.steps:
            if isinstance(step, Clear):
                self._halve(commands, halvings)
                if (step.surface.texture, step.number) in cleared:
                    _barrier(commands)
                    cleared.clear()
                self._clear(commands, step)
                cleared.add((step.surface.texture, step.number))
            else:
                if (step.surface, step.number) in halvings:
                    self._halve(commands, halvings)
                halvings.append((step.surface, step.number))
            height = step.surface.size[1]
            step.surface.recolor(step.number, 0, height)
        self._halve(commands, halvings)
        self._store.steps.clear()
        _barrier(commands)

    def _clear(self, commands: Any, step: Clear) -> None:
        cell, width = step.surface.cells[step.number], step.surface.size[0]
        start = (cell.origin + step.first * width) * WORD
        size = (step.surface.size[1] - step.first) * width * WORD
        if size:
            vk.lib.vkCmdFillBuffer(commands, step.surface.values.handle, start, size, 0)
        if step.surface is self._store.atlas and step.scores < self._scored:
            start = (cell.scores + step.scores) * SCORES_EACH
            size = (self._scored - step.scores) * SCORES_EACH
            vk.lib.vkCmdFillBuffer(commands, self._row_scores.handle, start, size, 0)

    def _halve(self, commands: Any, halvings: list[tuple[MapSurface, int]]) -> None:
        """Halve cells by way of `colors`, which are computed again afterwards; empties the list."""
        while halvings:
            surface = halvings[0][0]
            numbers = [number for other, number in halvings if other is surface]
            halvings[:] = [pair for pair in halvings if pair[0] is not surface]
            _barrier(commands)
            self._halve_cells(commands, surface, numbers)
            _barrier(commands)

    def _halve_cells(self, commands: Any, surface: MapSurface, numbers: list[int]) -> None:
        width, height = surface.size
        pipeline = self._kernels.plain("attention_map_halve")
        buffers = {"Values": whole(surface.values), "Halved": whole(surface.colors)}
        for number in numbers:
            push = (surface.cells[number].origin, width, height)
            key = ("halve", surface.texture)
            self._kernels.dispatch(commands, pipeline, key, buffers, push, height)
            _barrier(commands)
        regions = vk.ffi.new("VkBufferCopy[]", len(numbers))
        for region, number in zip(regions, numbers, strict=True):
            region.srcOffset = region.dstOffset = surface.cells[number].origin * WORD
            region.size = width * height * WORD
        vk.lib.vkCmdCopyBuffer(
            commands, surface.colors.handle, surface.values.handle, len(regions), regions
        )

    def rows(
        self, commands: Any, jobs: Sequence[Job], ring: int, length: int, exclude: bool,
        buffers: Any,
    ) -> None:  # fmt: skip
        """Add rows to the maps, jobs as `empty_jobs` took them; `buffers(layer)` gives queries and
        keys."""
        store, slot = self._store, self._slot
        homes = {id(c): (s, n) for s in store.surfaces() for n, c in self._used(s, jobs)}

        def batch(job: Job) -> tuple[int, int, int]:
            rows = FEW_ROWS if job.count <= FEW_ROWS else ROWS
            return job.cell.layer, homes[id(job.cell)][0].texture, rows

        ordered = sorted(jobs, key=batch)
        words, table = slot.jobs.rows, slot.cells.rows
        scratch = 0
        for at, job in enumerate(ordered):
            words[at] = (job.cell.index, job.first, job.count, scratch)
            sink = self._layers[job.cell.layer].sink(job.cell.head)
            table[job.cell.index] = job.cell.words(sink)
            scratch += job.count
            surface, number = homes[id(job.cell)]
            top = (job.first - job.cell.row) >> job.cell.shift
            bottom = (job.first + job.count - 1 - job.cell.row) >> job.cell.shift
            surface.recolor(number, top, min(bottom + 1, job.cell.height))
        at = 0
        for (layer, _, rows), group in groupby(ordered, key=batch):
            part = list(group)
            surface = homes[id(part[0].cell)][0]
            push = (at, ring, stride(length), int(exclude), self._scored)
            self._dispatch_rows(commands, layer, surface, rows, buffers(layer), push, len(part))
            _barrier(commands)
            at += len(part)

    def _used(self, surface: MapSurface, jobs: Sequence[Job]) -> Iterable[tuple[int, Any]]:
        wanted = {id(job.cell) for job in jobs}
        return ((n, cell) for n, cell in enumerate(surface.cells) if id(cell) in wanted)

    def _dispatch_rows(
        self, commands: Any, layer: int, surface: MapSurface, rows: int,
        memory: tuple[BufferRange, BufferRange], push: tuple[int, ...], groups: int,
    ) -> None:  # fmt: skip
        slot = self._slot
        bias, columns = self._biases.get(self._layers[layer].bias or "", (self.tokens, 0))
        pipeline = self._kernels.map(self._layers[layer], rows, columns)
        named = {
            "Bias": whole(bias),
            "Jobs": whole(slot.jobs.buffer),
            "Cells": whole(slot.cells.buffer),
            "Queries": memory[0],
            "Keys": memory[1],
            "Values": whole(surface.values),
            "Scratch": whole(self._scratch),
            "Tokens": whole(self.tokens),
            "RowScores": whole(self._row_scores),
        }
        key = (layer, surface.texture, self._slots.index(slot))
        self._kernels.dispatch(commands, pipeline, key, named, push, groups)

    def colors(self, commands: Any, scale: ColorScale) -> None:
        """Compute the colours of what has changed and copy them into the images."""
        slot = self._slot
        slot.table.upload(attention_colors.faded(scale.colors, scale.light))
        at, done = 0, []
        for surface in self._store.surfaces():
            pieces = surface.pieces()
            if not pieces:
                continue
            slot.spans.rows[at : at + len(pieces)] = pieces
            self._dispatch_colors(commands, surface, scale, at, len(pieces))
            at += len(pieces)
            done.append(surface)
        if done:
            _barrier(commands)
        for surface in done:
            surface.copy_colors(commands)
            self._renderer.touched(surface.texture)

    def _dispatch_colors(
        self, commands: Any, surface: MapSurface, scale: ColorScale, first: int, count: int
    ) -> None:
        slot = self._slot
        named = {
            "Spans": whole(slot.spans.buffer),
            "Values": whole(surface.values),
            "Table": whole(slot.table),
            "Colors": whole(surface.colors),
        }
        low = scale.low if scale.logarithmic else 0.0
        push = (first, int(scale.logarithmic), float(low), float(scale.high))
        pipeline = self._kernels.plain("attention_map_color")
        key = ("color", surface.texture, self._slots.index(slot))
        self._kernels.dispatch(commands, pipeline, key, named, push, count)

    def probe(self, commands: Any, surface: MapSurface, y: int, x: int) -> None:
        """Have one value come back with this frame."""
        offset = (surface.cells[0].origin + y * surface.size[0] + x) * WORD
        region = vk.VkBufferCopy(srcOffset=offset, dstOffset=0, size=WORD)
        vk.vkCmdCopyBuffer(commands, surface.values.handle, self._slot.probe.handle, 1, [region])

    def sum_scores(self, commands: Any, length: int) -> None:
        """Have the scores of all heads come back with this frame."""
        slot = self._slot
        named = {"RowScores": whole(self._row_scores), "Sums": whole(slot.sums)}
        pipeline = self._kernels.plain("attention_map_scores")
        key = ("scores", self._slots.index(slot))
        push = (self._scored, min(length, self._scored))
        self._kernels.dispatch(commands, pipeline, key, named, push, len(self._store.heads))

    def finish(self, commands: Any) -> None:
        """Make what comes back visible to the host, and end measuring."""
        memory_barrier(
            commands, (COMPUTE | COPY, SHADER_READ_WRITE | COPY_READ_WRITE),
            (vk.VK_PIPELINE_STAGE_HOST_BIT, vk.VK_ACCESS_HOST_READ_BIT),
        )  # fmt: skip
        if self._slot.times:
            self._slot.times.mark(commands, 1)

    def retire(self) -> None:
        """Close when the frames in flight are done."""
        self._renderer.retire(self.close)

    def close(self) -> None:
        for slot in self._slots:
            slot.close()
        for buffer in (self.tokens, self._row_scores, self._scratch):
            buffer.close()
        for bias, _ in self._biases.values():
            bias.close()
        self._kernels.close()


def stride(positions: int) -> int:
    """Return the floats of scratch that a row takes which attends to so many positions."""
    return max(256, 1 << (positions - 1).bit_length())


def largest_row(source: AttentionSource) -> int:
    """Return the bytes of scratch that a job needs."""
    sources = (layer.key_rows for layer in source.layers if layer.cross)
    return ROWS * WORD * stride(max(source.context, *sources, 1))


def _biases(device: Device, source: AttentionSource) -> dict[str, tuple[Buffer, int]]:
    """Upload biases: by the name of the weight, its values and the columns of a head."""
    found: dict[str, tuple[Buffer, int]] = {}
    for number, layer in enumerate(source.layers):
        bias = source.bias(number)
        if layer.bias is not None and bias is not None and layer.bias not in found:
            buffer = Buffer(device, bias.nbytes, STORAGE, host=True)
            buffer.upload(np.ascontiguousarray(bias))
            found[layer.bias] = buffer, bias.shape[1]
    return found


def _barrier(commands: Any) -> None:
    access = SHADER_READ_WRITE | COPY_READ_WRITE
    memory_barrier(commands, (COMPUTE | COPY, access), (COMPUTE | COPY, access))
