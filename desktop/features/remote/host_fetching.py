"""Maps of heads from another llm-lite, fetched a layer at a time in a thread."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from llm_lite.core import system_errors
from llm_lite.core.errors import CancelledError, LlmLiteError
from llm_lite.core.inspect.attention_scores import SCORES
from llm_lite.desktop.language.incoming import fit_line

if TYPE_CHECKING:
    from llm_lite.core.remote.client import Exchange
    from llm_lite.core.remote.glass import Glass, RemoteResponse

F32 = NDArray[np.float32]
MOST_BYTES = 192 << 20  # of whole maps; thumbnails of layers that were let go stay
THUMBNAIL = 64  # pixels
LEAST_ROWS = 16  # of a text that is very long


class LayerMaps:
    """Of one answer. What was asked for last is fetched first; `heard` is called when it came."""

    def __init__(self, glass: Glass, held: RemoteResponse, heard: Callable[[], None]) -> None:
        from llm_lite.core.remote.client import Exchange
        from llm_lite.core.remote.glass import MOST_VALUES

        self._glass, self.held, self._heard = glass, held, heard
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
        self._wanted: list[int] = []
        self._work: SimpleQueue[bool] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def layer(self, layer: int) -> F32 | None:
        """All maps of a layer, which is fetched where it is not there."""
        with self._lock:
            found = self._maps.get(layer)
            if found is not None:
                self._maps.move_to_end(layer)
                return found
        self.want(layer)
        return None

    def want(self, layer: int) -> None:
        with self._lock:
            if self.problem or layer in self._wanted:
                return
            self._wanted.append(layer)
        self._work.put(True)
        if self._thread is None:
            self._thread = threading.Thread(target=self._fetch_all, name="maps", daemon=True)
            self._thread.start()

    @property
    def pending(self) -> bool:
        with self._lock:
            return bool(self._wanted)

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
                layer = self._wanted[-1] if self._wanted else None
            if layer is None:
                continue
            try:
                self._fetch(layer)
            except CancelledError:
                return
            except LlmLiteError as error:
                self._give_up(str(error))
            except Exception as error:  # what a server says may do what nobody thought of
                self._give_up(system_errors.sentence(error) or repr(error))
            self._heard()

    def _give_up(self, problem: str) -> None:
        self.problem = fit_line(problem)
        with self._lock:
            self._wanted.clear()

    def _fetch(self, layer: int) -> None:
        held, rows = self.held, self.rows
        heads = range(held.heads)
        maps = self._glass.attention(held, layer, heads, rows.start, rows.stop, self._exchange)
        scores = {name: one(maps, np.asarray(rows), held.tokens) for name, one in SCORES.items()}
        small = tuple(
            np.stack([pooled(one, rows.start, THUMBNAIL) for one in kind])
            for kind in (maps, without_first(maps))
        )
        with self._lock:
            self._maps[layer] = maps
            self.thumbnails[layer], self.scores[layer] = (small[0], small[1]), scores
            while len(self._maps) > 1 and sum(m.nbytes for m in self._maps.values()) > MOST_BYTES:
                self._maps.popitem(last=False)
            self._wanted.remove(layer)


def pooled(rows: F32, first: int, side: int) -> F32:
    """A map of all positions on side x side pixels: a pixel is the largest of its pairs. `rows` are
    those of the positions from `first` on."""
    return placed(rows, first, rows.shape[1], side)


def placed(part: F32, first: int, count: int, side: int) -> F32:
    """Rows first .. of a part of a map that has `count` of them, on side x side pixels: of several
    pairs the largest, of one its value. The others are 0; a long map is never whole in memory."""
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
    """Rows [..., n, length] without the first position, scaled to sums of 1 again."""
    rest = maps.copy()
    rest[..., 0] = 0.0
    scaled: F32 = rest / np.maximum(1.0 - maps[..., :1], 1e-6)
    return scaled
