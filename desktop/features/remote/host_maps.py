"""Attention maps of an engine elsewhere: another llm-lite computes them, a thread fetches them a
layer at a time, and they are coloured here. Of other servers, why there are none."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llm_lite.core import system_errors
from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.core.plan.attention_layers import RECURRENT, AttentionLayer
from llm_lite.desktop.attention.colors import faded
from llm_lite.desktop.language.incoming import fit_line
from llm_lite.desktop.language.translate import tr
from llm_lite.desktop.widgets.head_maps import ColorScale, MapPicture
from llm_lite.desktop.widgets.pixel_image import PixelImage

if TYPE_CHECKING:
    from llm_lite.core.remote.client import Exchange
    from llm_lite.core.remote.engine import RemoteEngine
    from llm_lite.core.remote.inspection import RemoteInspection, RemoteResponse

F32 = NDArray[np.float32]
U32 = NDArray[np.uint32]
MOST_BYTES = 192 << 20  # of whole maps; thumbnails stay when their layer is dropped
THUMBNAIL = 64  # pixels
LEAST_ROWS = 16  # of a text that is very long
ACROSS = 16  # thumbnails beside each other in their image, at least
PICTURES = 6  # large maps that are kept
LARGEST = 1024  # pixels
_Key = tuple[object, ...]


class LayerMaps:
    """The maps of one answer. The layer that was requested last is fetched first; `wake` is called
    when it has come."""

    def __init__(
        self, inspection: RemoteInspection, held: RemoteResponse, wake: Callable[[], None]
    ) -> None:
        from llm_lite.core.remote.client import Exchange
        from llm_lite.core.remote.inspection import MOST_VALUES

        self._inspection, self.held, self._wake = inspection, held, wake
        self._exchange: Exchange = Exchange()
        length = len(held.tokens)
        most = max(LEAST_ROWS, MOST_VALUES // (held.heads * length))
        self.rows = range(max(held.first_query, length - most), length)
        self.problem = ""
        self._lock = threading.Lock()
        self._maps: OrderedDict[int, F32] = OrderedDict()  # [heads, rows, length], by layer
        # [heads, THUMBNAIL, THUMBNAIL], by layer: as they are, and without the first position
        self.thumbnails: dict[int, tuple[F32, F32]] = {}
        self.scores: dict[int, dict[str, F32]] = {}  # [heads], by layer and name
        self._requested: list[int] = []
        self._work: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def layer(self, layer: int) -> F32 | None:
        """Return all maps of a layer; request it where it is not there."""
        with self._lock:
            found = self._maps.get(layer)
            if found is not None:
                self._maps.move_to_end(layer)
                return found
        self.request(layer)
        return None

    def request(self, layer: int) -> None:
        with self._lock:
            if self.problem or layer in self._requested:
                return
            self._requested.append(layer)
        self._work.put(True)
        if self._thread is None:
            self._thread = threading.Thread(target=self._fetch_all, name="maps", daemon=True)
            self._thread.start()

    @property
    def pending(self) -> bool:
        with self._lock:
            return bool(self._requested)

    @property
    def nbytes(self) -> int:
        with self._lock:
            return sum(maps.nbytes for maps in self._maps.values())

    def close(self) -> None:
        self._exchange.cancel()
        self._work.put(False)

    def _fetch_all(self) -> None:
        while self._work.get():
            with self._lock:
                layer = self._requested[-1] if self._requested else None
            if layer is None:
                continue
            try:
                self._fetch(layer)
            except CancelledError:
                return
            except LlmLiteError as error:
                self._fail(str(error))
            except Exception as error:  # an answer of a server is untrusted
                self._fail(system_errors.sentence(error) or repr(error))
            self._wake()

    def _fail(self, problem: str) -> None:
        self.problem = fit_line(problem)
        with self._lock:
            self._requested.clear()

    def _fetch(self, layer: int) -> None:
        held, rows = self.held, self.rows
        heads = range(held.heads)
        found = self._inspection.attention(
            held, layer, heads, rows.start, rows.stop, self._exchange
        )
        maps, lost = np.nan_to_num(found), int(np.isnan(found[0, :, 0]).sum())  # the first rows
        known = maps[:, lost:], np.asarray(rows)[lost:], held.tokens
        scores = {name: one(*known) for name, one in SCORES.items()}
        small = tuple(
            np.stack([resize_map(one, rows.start, THUMBNAIL) for one in kind])
            for kind in (maps, without_first(maps))
        )
        with self._lock:
            self._maps[layer] = maps
            self.thumbnails[layer], self.scores[layer] = (small[0], small[1]), scores
            while len(self._maps) > 1 and sum(m.nbytes for m in self._maps.values()) > MOST_BYTES:
                self._maps.popitem(last=False)
            self._requested.remove(layer)


def resize_map(rows: F32, first: int, side: int) -> F32:
    """Return a map of all positions as side x side pixels: a pixel is the largest of its pairs.
    `rows` begin at the position `first`."""
    return resize_rows(rows, first, rows.shape[1], side)


def resize_rows(part: F32, first: int, count: int, side: int) -> F32:
    """Return rows of a map of `count` rows, from `first` on, as side x side pixels: each is the
    largest of several pairs, or the value of one. Other rows are 0. A long map is never whole in
    memory."""
    narrow = _resized(part, side, 1)
    whole = np.zeros((count, side), np.float32)
    whole[first : first + len(narrow)] = narrow
    return _resized(whole, side, 0)


def _resized(part: F32, side: int, axis: int) -> F32:
    count = part.shape[axis]
    starts = np.arange(side) * count // side
    found: F32 = part.take(starts, axis=axis)
    if count > side:
        found = np.maximum.reduceat(part, starts, axis=axis)
    return found


def without_first(maps: F32) -> F32:
    """Return rows [..., n, length] without the first position, scaled to sums of 1 again."""
    rest = maps.copy()
    rest[..., 0] = 0.0
    scaled: F32 = rest / np.maximum(1.0 - maps[..., :1], 1e-6)
    return scaled


def atlas_shape(count: int) -> tuple[int, int]:
    """Return the rows and columns of `count` thumbnails. Two such images lie above each other in a
    texture, which is about square: devices take 16,384 pixels a side, some no more than 4,096."""
    across = max(ACROSS, isqrt(2 * count))
    return -(-count // across), across


class RemoteMaps:
    """`HeadMaps` of an engine elsewhere, for the thread that draws; `wake` is called on another one
    when maps have come."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._engine: RemoteEngine | None = None
        self._source: LayerMaps | None = None
        self._layers: tuple[AttentionLayer, ...] = ()
        self._scale = ColorScale()
        self._atlas, self._atlas_pixels = PixelImage(), np.zeros((0, 0), np.uint32)
        self._drawn: set[int] = set()  # layers in the atlas
        self._stale = False  # the atlas is to be written
        self._pictures: OrderedDict[str, tuple[PixelImage, _Key]] = OrderedDict()
        self._regions: dict[str, tuple[int, int]] = {}  # of pictures: layer, head
        self._begun: set[PixelImage] = set()  # images of this frame
        self.milliseconds = 0.0
        self.vanished = 0

    # What the program calls.

    def begin(self, engine: RemoteEngine, shown: bool) -> None:
        """Begin a frame, with maps of another answer where there is one."""
        held = engine.held if shown else None
        if engine is not self._engine or held is not (self._source and self._source.held):
            self._set_source(engine, held)
        self._begun.clear()

    def leave(self) -> None:
        """Drop the maps, as the engine is no longer connected."""
        if self._engine is not None:
            self._set_source(None, None)

    def _set_source(self, engine: RemoteEngine | None, held: RemoteResponse | None) -> None:
        if self._source is not None:
            self._source.close()
        self._engine, self._source, self._layers = engine, None, ()
        self._drawn.clear()
        self._regions.clear()
        self._pictures = OrderedDict((name, (im, ())) for name, (im, _) in self._pictures.items())
        if engine is None or held is None:
            return
        self._source = LayerMaps(engine.inspection, held, self._wake)
        groups = engine.model.kv_heads or held.heads
        groups = min(groups, held.heads)
        encoder = engine.model.encoder
        ahead = encoder is not None and encoder.sees_ahead
        one = AttentionLayer(None, "", held.heads, groups, 0, 1.0, 0, bidirectional=ahead)
        recurrent = engine.model.recurrent_layers
        self._layers = tuple(RECURRENT if i in recurrent else one for i in range(held.layers))
        rows, across = atlas_shape(held.layers * held.heads)
        self._atlas_pixels = np.zeros((rows * THUMBNAIL, across * THUMBNAIL), np.uint32)
        self._stale = True

    # What views ask.

    @property
    def problem(self) -> str:
        engine, source = self._engine, self._source
        if engine is None:
            return tr("No server is connected.")
        if not engine.server.can_inspect:
            words = tr(
                "{server} reports no attention maps: OpenAI's protocol has none. A model on this "
                "machine shows them, or one of another llm-lite."
            )
            return words.format(server=engine.server.title)
        if source is None and engine.model.encoder is not None:
            return tr("Attention maps of a remote llm-lite arrive once it has read the text.")
        if source is None:
            return tr("Attention maps of a remote llm-lite arrive after an answer. Send a message.")
        return source.problem

    @property
    def length(self) -> int:
        return len(self._source.held.tokens) if self._source else 0

    @property
    def rows(self) -> range:
        return self._source.rows if self._source else range(0)

    @property
    def ring_rows(self) -> int:
        return 0

    @property
    def layers(self) -> Sequence[AttentionLayer]:
        return self._layers

    def column_tokens(self, layer: int) -> tuple[int, ...]:
        return self._source.held.tokens if self._source else ()

    @property
    def memory(self) -> Mapping[str, int]:
        copies = self._source.nbytes if self._source else 0
        return {"queries": 0, "maps": self._atlas_pixels.nbytes, "copies": copies}

    @property
    def pending(self) -> bool:
        return self._source is not None and self._source.pending

    @property
    def scored_rows(self) -> int:
        """Return how many rows have scores: each layer that was fetched counts whole."""
        if self._source is None:
            return 0
        return len(self._source.scores) * self._source.held.heads * self.length

    def asks(self, view: str) -> None:
        pass

    def drop(self, name: str) -> None:
        self._regions.pop(name, None)

    def use(self, scale: ColorScale) -> None:
        if scale != self._scale:
            self._scale = scale
            self._drawn.clear()

    def thumbnail(self, layer: int, head: int) -> MapPicture:
        source = self._source
        assert source is not None
        if layer not in source.thumbnails:
            source.request(layer)
        elif layer not in self._drawn:
            self._draw_thumbnails(layer, source.thumbnails[layer][self._scale.exclude_first])
        image, pixels = self._atlas, self._atlas_pixels
        self._begin(image)
        if self._stale:
            self._stale = False
            image.write(pixels)
        texture, low, high = image.whole(pixels.shape[1], pixels.shape[0])
        number = layer * source.held.heads + head
        row, column = divmod(number, self._across)
        wide, tall = high[0] / self._across, (high[1] - low[1]) * THUMBNAIL / pixels.shape[0]
        x, y = column * wide, low[1] + row * tall
        waiting = 0 if layer in self._drawn else self.length
        return MapPicture(texture, (x, y), (x + wide, y + tall), 1, waiting, self._missing())

    def _draw_thumbnails(self, layer: int, maps: F32) -> None:
        first = layer * len(maps)
        for head, pixels in enumerate(self._painted(maps)):
            row, column = divmod(first + head, self._across)
            y, x = row * THUMBNAIL, column * THUMBNAIL
            self._atlas_pixels[y : y + THUMBNAIL, x : x + THUMBNAIL] = pixels
        self._drawn.add(layer)
        self._stale = True

    def picture(
        self, name: str, layer: int, head: int, rows: range, columns: range, side: float
    ) -> MapPicture:
        source = self._source
        assert source is not None
        size = max(1, min(int(side), LARGEST))
        maps = source.layer(layer)
        there = maps is not None
        key: _Key = (layer, head, rows, columns, size, self._scale, there)
        image, known = self._pictures.pop(name, (None, ()))
        if image is None:
            image = self._pictures.popitem(last=False)[1][0] if self._is_full else PixelImage()
        self._begin(image)
        if known != key:
            image.write(self._pixels(maps, head, rows, columns, size))
        self._pictures[name] = (image, key)
        self._regions[name] = (layer, head)
        texture, low, high = image.whole(size, size)
        return MapPicture(texture, low, high, 1, 0 if there else len(rows), self._missing())

    @property
    def _across(self) -> int:
        return self._atlas_pixels.shape[1] // THUMBNAIL

    @property
    def _is_full(self) -> bool:
        return len(self._pictures) >= PICTURES

    def _begin(self, image: PixelImage) -> None:
        if image not in self._begun:
            self._begun.add(image)
            image.begin()

    def _missing(self) -> tuple[tuple[int, int], ...]:
        first = self.rows.start
        return ((0, first),) if first else ()

    def _pixels(self, maps: F32 | None, head: int, rows: range, columns: range, size: int) -> U32:
        if maps is None:
            return np.zeros((size, size), np.uint32)
        first = self.rows.start
        low, high = max(rows.start, first), min(rows.stop, first + maps.shape[1])
        if high <= low:
            return np.zeros((size, size), np.uint32)
        part = maps[head, low - first : high - first]
        if self._scale.exclude_first:
            part = without_first(part)
        part = part[:, columns.start : columns.stop]
        return self._painted(resize_rows(part, low - rows.start, len(rows), size))

    def _painted(self, values: F32) -> U32:
        """Return packed colours; zero is transparent."""
        scale = self._scale
        if scale.logarithmic:
            span = np.log(scale.high / scale.low)
            share = np.log(np.maximum(values, scale.low) / scale.low) / span
        else:
            share = values / scale.high
        table = faded(scale.colors, scale.light).view(np.uint32).reshape(-1)
        place = np.clip(share * (len(table) - 1), 0, len(table) - 1).astype(np.intp)
        return np.where(values > 0, table[place], np.uint32(0))

    def value(self, name: str, row: int, column: int) -> float | None:
        source, region = self._source, self._regions.get(name)
        maps = source.layer(region[0]) if source and region else None
        if maps is None or region is None or row not in self.rows:
            return None
        if column > row and self._layers[region[0]].is_causal:
            return None
        at = maps[region[1], row - self.rows.start]
        if not self._scale.exclude_first:
            return float(at[column])
        return float(without_first(at[None])[0, column])

    def scores(self, *, of_all: bool = False) -> Mapping[str, NDArray[np.float32]] | None:
        source = self._source
        if source is None:
            return None
        heads = source.held.heads
        found = {name: np.full(len(self._layers) * heads, np.nan, np.float32) for name in SCORES}
        for layer in range(len(self._layers)):
            known = source.scores.get(layer)
            if known is None:
                if of_all:
                    source.request(layer)
                continue
            for name, values in known.items():
                found[name][layer * heads : (layer + 1) * heads] = values
        return found
