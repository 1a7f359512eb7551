"""Attention maps: cached queries and keys of the running model to textures, on the same device.

Nothing comes back to the host but the value under the pointer, and now and then the scores of all
heads. A view requests pictures while a frame is built; `record` computes what they show, within a
budget, before Dear ImGui's pass of that frame; on a software device behind it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from llm_lite.core.gpu.device import Device
from llm_lite.core.gpu.pipelines import BufferRange
from llm_lite.core.inspect.attention_scores import SCORES, means, repeats
from llm_lite.core.plan.attention_layers import AttentionLayer
from llm_lite.desktop.attention.cells import Cell
from llm_lite.desktop.attention.frame import SCORES_EACH, FrameRecorder, largest_row
from llm_lite.desktop.attention.slot import Slot
from llm_lite.desktop.attention.store import Store, largest_surface
from llm_lite.desktop.attention.surface import WORD, MapSurface
from llm_lite.desktop.attention.text import MapText
from llm_lite.desktop.attention.upload import Uploads, largest_copy
from llm_lite.desktop.attention.work import Budget, FrameJobs, Planner
from llm_lite.desktop.language.core_words import translated
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.render.imgui_renderer import ImguiRenderer
from llm_lite.desktop.widgets.head_maps import ColorScale, MapPicture

if TYPE_CHECKING:
    from llm_lite.core.inspect.attention import AttentionSource


SCORE_PERIOD = 0.6  # seconds between two readings of the scores
Probe = tuple[str, int, int]  # name of a picture, pixel row and column


class Readings:
    """The requests of views in this frame, and what was read back for earlier ones."""

    def __init__(self) -> None:
        self.bytes = {"maps": 0, "pointer": 0, "scores": 0, "exports": 0}  # so far
        self.probe: Probe | None = None
        self.sums: NDArray[np.float32] | None = None
        self.means: dict[str, NDArray[np.float32]] | None = None
        self._values: dict[Probe, float] = {}
        self._wanted, self._at = False, 0.0

    def begin(self) -> None:
        self.probe, self._wanted = None, False

    def forget(self) -> None:
        """Forget what was read, as there is another model."""
        self.forget_values()
        self.sums = self.means = None

    def forget_values(self) -> None:
        """Forget values of pixels, as the text has changed."""
        self._values.clear()

    def value(self, probe: Probe) -> float | None:
        """Return the value of a pixel, a few frames after it was first requested; until then
        None."""
        self.probe = probe
        return self._values.get(probe)

    def want_scores(self) -> None:
        self._wanted = True

    def scores_due(self) -> bool:
        """Return True if this frame reads the scores."""
        now = time.perf_counter()
        if not self._wanted or now - self._at < SCORE_PERIOD:
            return False
        self._at = now
        return True

    def read(self, slot: Slot) -> None:
        """Take what came back with the frame that used this slot before."""
        if slot.probed is not None:
            word = int(slot.probe.array(np.uint32)[0])
            self._values = {slot.probed: _float(word - 1)} if word else {}
            self.bytes["pointer"] += WORD
        if slot.summed:
            self.sums = slot.read_sums()
            self.means = means(self.sums)
            self.bytes["scores"] += self.sums.nbytes


class Requests:
    """Requested thumbnails by number, large maps by name. A view that keeps its picture keeps its
    maps."""

    def __init__(self) -> None:
        self.thumbnails: dict[int, Cell] = {}
        self.pictures: dict[str, MapSurface] = {}
        self._views: dict[int | str, str] = {}  # the view that requested it
        self._view = ""

    def begin(self, view: str) -> None:
        """Drop the requests of `view`, which is about to be drawn again."""
        self._view = view
        for key in [key for key, by in self._views.items() if by == view]:
            self.drop(key)

    def thumbnail(self, number: int, cell: Cell) -> None:
        self.thumbnails[number], self._views[number] = cell, self._view

    def picture(self, name: str, surface: MapSurface) -> None:
        self.pictures[name], self._views[name] = surface, self._view

    def drop(self, key: int | str) -> None:
        """Forget a thumbnail or a large map, if it was requested."""
        if self._views.pop(key, None) is None:
            return
        if isinstance(key, str):
            del self.pictures[key]
        else:
            del self.thumbnails[key]

    def cells(self) -> list[Cell]:
        """List the requested cells, those of large maps first."""
        return [
            *(surface.cells[0] for surface in self.pictures.values()),
            *self.thumbnails.values(),
        ]


SCORE_BYTES = 48 << 20
GRID_PERIOD = 0.25  # seconds between two sizes of the thumbnails while the model writes


class AttentionMaps:
    """The maps of a device and its renderer. Every frame: `begin`, draw, `record`, `submitted`."""

    def __init__(
        self, device: Device, renderer: ImguiRenderer, *, frames_in_flight: int = 2
    ) -> None:
        self._device, self._renderer = device, renderer
        self._frames_in_flight, self._frame = frames_in_flight, 0
        self._source: AttentionSource | None = None
        self._store: Store | None = None
        self._recorder: FrameRecorder | None = None
        self._uploads: Uploads | None = None
        self._held = ExitStack()
        self._budget, self._planner = Budget(device.info.kind == "software"), Planner()
        self._scale, self._scale_number = ColorScale(), 0
        self._text = MapText()
        self._refused = 0  # bytes of a buffer that this device does not bind
        self._requests = Requests()
        self._readings = Readings()
        self._busy, self._background = False, False
        self._shown, self._shown_at = 0, 0.0  # tokens that thumbnails show, since when
        self.milliseconds = 0.0  # of the device's time, in the last frame that was measured

    @property
    def read_back(self) -> Mapping[str, int]:
        """Return the bytes that were read back to the host so far, by purpose."""
        return self._readings.bytes

    @property
    def problem(self) -> str:
        """Return a sentence that says why there are no maps; "" when there are."""
        source = self._source
        if source is None:
            return tr("Load a model to see where its heads look.")
        if source.note:
            return translated(source.note)
        if self._refused:
            words = tr(
                "A map needs {needed} bytes in one buffer; {device} binds at most {most}: choose a "
                "smaller context."
            )
            info = self._device.info
            most = info.max_storage_buffer_range
            return words.format(needed=self._refused, device=info.name, most=most)
        if self._store is None:
            return tr("This model keeps no queries, so there is nothing to draw maps from.")
        if self.length < 2:
            return tr("Maps begin with the second token: say something in the chat.")
        return ""

    @property
    def length(self) -> int:
        """Return how many tokens maps can show."""
        return len(self._text.tokens)

    @property
    def tokens(self) -> tuple[int, ...]:
        """Return the ids of the tokens that maps can show."""
        return self._text.tokens

    @property
    def rows(self) -> range:
        """Return the positions whose queries are held; maps of others can no longer be computed."""
        return self._text.rows

    def columns(self, layer: int) -> int:
        """Count the key positions of a layer's maps: the text's, or of cross-attention the
        source's."""
        return len(self.column_tokens(layer))

    def column_tokens(self, layer: int) -> tuple[int, ...]:
        """Return the ids of the tokens at a layer's key positions."""
        return self._text.source_tokens if self.layers[layer].cross else self._text.tokens

    @property
    def ring_rows(self) -> int:
        """Return how many queries are kept for each head."""
        return self._source.ring_rows if self._source else 0

    @property
    def layers(self) -> Sequence[AttentionLayer]:
        return self._source.layers if self._source else ()

    @property
    def memory(self) -> dict[str, int]:
        """Return bytes by purpose."""
        return {
            "queries": self._source.bytes if self._source else 0,
            "maps": self._store.nbytes if self._store else 0,
            "copies": self._uploads.nbytes if self._uploads else 0,
        }

    @property
    def pending(self) -> bool:
        """Return True if something that is shown is not complete yet."""
        cells = self._requests.cells()
        if self._background and self._store:
            cells += [c for c in self._store.atlas.cells if c.seen < self.length or c.todo]
            return any(c.seen < self.length or c.todo for c in cells)
        return any(cell.todo or cell.scale_number != self._scale_number for cell in cells)

    def use(self, scale: ColorScale) -> None:
        """Use `scale` for the colours from now on."""
        if scale == self._scale:
            return
        if self._store and scale.exclude_first != self._scale.exclude_first:
            self._store.redo()
        self._scale, self._scale_number = scale, self._scale_number + 1

    def thumbnail(self, layer: int, head: int) -> MapPicture:
        """Return a head's small map over the whole conversation. Only where there is no
        `problem`."""
        assert self._store is not None
        number = self._store.thumbnail(layer, head, self.length)
        atlas = self._store.atlas
        self._requests.thumbnail(number, atlas.cells[number])
        columns = self.columns(layer) if self.layers[layer].cross else self._shown
        return picture_of(atlas, number, columns, self._shown)

    def picture(
        self, name: str, layer: int, head: int, rows: range, columns: range, side: float
    ) -> MapPicture:
        """Return a head's map of query positions `rows` and key positions `columns` on about `side`
        pixels. `name` tells large maps apart; a few are kept. Only where there is no `problem`."""
        assert self._store is not None
        surface = self._store.panel(name, layer, head, rows, columns, side, self.length)
        self._requests.picture(name, surface)
        return picture_of(surface, 0, len(columns), len(rows))

    def value(self, name: str, row: int, column: int) -> float | None:
        """Return a picture's value at a pair of positions, a few frames after it was first
        requested; None before, and where the map holds nothing."""
        surface = self._requests.pictures.get(name)
        if surface is None:
            return None
        cell = surface.cells[0]
        y, x = (row - cell.row) >> cell.shift, (column - cell.column) >> cell.shift
        if not (0 <= y < cell.height and 0 <= x < cell.width):
            return None
        return self._readings.value((name, y, x))

    def scores(self, *, of_all: bool = False) -> Mapping[str, NDArray[np.float32]] | None:
        """Return scores by name of core/inspect/attention_scores.py: the means over the rows that
        are computed, float32 [all heads], layer by layer; nan where there is none. Updated about
        twice a second. With `of_all`, heads that are not on the screen are computed too."""
        self._readings.want_scores()
        self._background = self._background or of_all
        return self._readings.means

    @property
    def scored_rows(self) -> int:
        """Return how many rows the scores are computed from, over all heads."""
        sums = self._readings.sums
        return 0 if sums is None else int(sums[:, len(SCORES)].sum())

    def drop(self, name: str) -> None:
        """Drop a large map; no frame draws it from now on."""
        self._requests.drop(name)
        if self._store:
            self._store.drop(name)

    def _dropped(self, name: str) -> None:
        """Drop the request of a large map that has gone, and the bindings of its buffers."""
        self._requests.drop(name)
        if self._recorder:
            self._recorder.forget()

    # What the program calls.

    def asks(self, view: str) -> None:
        """Drop the requests of `view`, which is drawn again; a view that keeps its picture keeps
        its requests."""
        self._requests.begin(view)

    @property
    def vanished(self) -> int:
        """Count the textures that are gone and that pictures of earlier frames may show."""
        return self._renderer.vanished

    def begin(
        self, source: AttentionSource | None, busy: bool, ids: tuple[int, ...] | None = None
    ) -> None:
        """Begin a frame; `busy` while the model is writing. Only tokens of the source that are the
        first of `ids` are of what is in front; None: all."""
        self._requests.begin("")
        self._readings.begin()
        if busy > self._busy:  # what maps cost the answer before is not of this one
            self.milliseconds = 0.0
        self._busy, self._background = busy, False
        if source is not self._source:
            self._adopt(source)
        if source is not None and not self._text.is_current(source, ids):
            self._update_text(source, ids)
        now = time.perf_counter()
        if not busy or now - self._shown_at >= GRID_PERIOD or self._shown > self.length:
            self._shown, self._shown_at = self.length, now

    def prepare(self, commands: Any) -> None:
        """Record what lets images be drawn that have never been written."""
        for surface in self._store.surfaces() if self._store else ():
            surface.prepare(commands)

    def record(self, commands: Any) -> bool:
        """Record what the pictures of this frame need; return True if that is anything. The frame
        that was submitted `frames_in_flight` frames ago is done on the device."""
        recorder, source = self._recorder, self._source
        if recorder is None or source is None:
            return False
        slot = recorder.begin(self._frame)
        self._read(slot)
        if self._uploads:
            self._uploads.begin(self._frame % self._frames_in_flight)
        self._frame += 1
        self._held.close()
        slot.cost, slot.probed, slot.summed = -1.0, None, False
        if not self._held.enter_context(source.hold()):
            return False
        recorded = self._record(recorder, commands, slot)
        if self._uploads:
            self._held.close()  # all that was needed has been copied
        return recorded

    def submitted(self) -> None:
        """Release the source after a submit: what frees its memory waits for the device."""
        self._held.close()

    def close(self) -> None:
        """Close everything; the device is done with every frame."""
        self._held.close()
        for part in (self._store, self._recorder, self._uploads):
            if part is not None:
                part.close()
        self._store = self._recorder = self._uploads = self._source = None

    def _adopt(self, source: AttentionSource | None) -> None:
        """Take another model or none; all maps are dropped."""
        for part in (self._store, self._recorder, self._uploads):
            if part is not None:
                part.retire()
        self._store = self._recorder = self._uploads = None
        self._text = MapText()
        self._source, self._requests, self._refused = source, Requests(), 0
        self._readings.forget()
        if source is None or not source.ring_rows or not source.layers:
            return
        with source.hold() as alive:
            if alive:
                self._open(source)

    def _open(self, source: AttentionSource) -> None:
        context, info = source.context, self._device.info
        heads = sum(layer.heads for layer in source.layers)
        needed = max(largest_copy(source), largest_surface(heads), largest_row(source))
        if needed > info.max_storage_buffer_range:
            self._refused = needed
            return
        scored = min(context, SCORE_BYTES // (heads * SCORES_EACH))
        self._store = Store(self._device, self._renderer, source.layers, scored, self._dropped)
        self._recorder = FrameRecorder(
            self._device, self._renderer, self._store, source, scored, self._frames_in_flight,
        )  # fmt: skip
        if any(source.host_keys(layer) is not None for layer in range(len(source.layers))):
            self._uploads = Uploads(self._device, self._renderer, source, self._frames_in_flight)

    def _update_text(self, source: AttentionSource, ids: tuple[int, ...] | None) -> None:
        """Update the maps for a conversation that has grown, or is another one from some position
        on."""
        if self._store is None or self._recorder is None:
            return
        before, kept = self.length, self._text.update(source, ids)
        self._store.source_length = len(self._text.source_tokens)
        if kept < before:
            self._store.shrink(kept)
            self._readings.forget_values()
            if self._uploads:
                self._uploads.forget_from(kept)
        marked = np.array(self.tokens, np.uint32)
        marked |= repeats(marked).astype(np.uint32) << np.uint32(31)
        self._recorder.tokens.array(np.uint32)[kept : len(marked)] = marked[kept:]

    def _plan(self, jobs: FrameJobs) -> None:
        if self.length < 2:
            return
        assert self._source is not None
        panels = [surface.cells[0] for surface in self._requests.pictures.values()]
        thumbnails = [cell for _, cell in sorted(self._requests.thumbnails.items())]
        pairs = self._budget.pairs(self._busy)
        if not pairs:
            return
        rows, others = self._source.rows_of, self._others()
        self._planner.plan(panels, thumbnails, others, self.layers, rows, pairs, jobs, self._ensure)

    def _others(self) -> list[Cell]:
        """List the cells of heads that are not on the screen but whose scores are wanted."""
        if self._store is None or not self._background:
            return []
        for head in self._store.heads:
            self._store.thumbnail(*head, self.length)
        return [cell for cell in self._store.atlas.cells if cell.todo]

    def _ensure(self, layer: int, first: int, count: int) -> bool:
        return self._uploads.ensure(layer, first, count) if self._uploads else True

    def _buffers(self, layer: int) -> tuple[BufferRange, BufferRange]:
        if self._uploads:
            return self._uploads.buffers(layer)
        assert self._source is not None
        queries, keys = self._source.device_queries(layer), self._source.device_keys(layer)
        assert queries is not None and keys is not None
        return queries, keys

    def _record(self, recorder: FrameRecorder, commands: Any, slot: Slot) -> bool:
        store = self._store
        assert store is not None
        jobs, uploads = recorder.empty_jobs(self._text.positions), self._uploads
        self._plan(jobs)
        self._recolor(store)
        scores = self.length >= 2 and self._readings.scores_due()
        probe = self._readings.probe
        copies = uploads is not None and uploads.staged
        quiet = not (jobs.jobs or copies or store.steps or probe or scores)
        if quiet and not any(s.spans or s.fresh for s in store.surfaces()):
            return False
        slot.cost, slot.summed = jobs.cost, scores
        recorder.prepare(commands)
        recorder.steps(commands)
        if uploads:
            if uploads.evict():
                recorder.forget()
            uploads.record(commands)
            recorder.order(commands)
        exclude = self._scale.exclude_first
        most = self._text.positions
        recorder.rows(commands, jobs.jobs, self.ring_rows, most, exclude, self._buffers)
        recorder.colors(commands, self._scale)
        if probe and probe[0] in self._requests.pictures:
            name, y, x = slot.probed = probe
            recorder.probe(commands, self._requests.pictures[name], y, x)
        if scores:
            recorder.sum_scores(commands, self.length)
        recorder.finish(commands)
        return True

    def _recolor(self, store: Store) -> None:
        """Mark pictures of this frame that have the colours of another scale."""
        for number, cell in self._requests.thumbnails.items():
            if cell.scale_number != self._scale_number:
                store.atlas.recolor(number, 0, cell.height)
                cell.scale_number = self._scale_number
        for surface in self._requests.pictures.values():
            if surface.cells[0].scale_number != self._scale_number:
                surface.recolor(0, 0, surface.size[1])
                surface.cells[0].scale_number = self._scale_number

    def _read(self, slot: Slot) -> None:
        """Take what came back with the frame that used this slot before."""
        if slot.cost >= 0 and slot.times:
            self.milliseconds = float(slot.times.read()[1])
            self._budget.measured(slot.cost, self.milliseconds)
        self._readings.read(slot)


def picture_of(surface: MapSurface, number: int, columns: int, rows: int) -> MapPicture:
    """Return the picture of the first `rows` and `columns` positions of a cell."""
    cell = surface.cells[number]
    left, top = surface.place(number)
    width, height = surface.image.width, surface.image.height
    shown = (columns / (1 << cell.shift), rows / (1 << cell.shift))
    high = ((left + shown[0]) / width, (top + shown[1]) / height)
    low = (left / width, top / height)
    return MapPicture(surface.texture, low, high, 1 << cell.shift, cell.waiting, cell.missing)


def _float(bits: int) -> float:
    return float(np.array([bits], np.uint32).view(np.float32)[0])
