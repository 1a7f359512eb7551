"""What a view may ask of attention maps; `desktop.attention.maps` makes them on the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.core.plan.attention_layers import AttentionLayer


class ColorScale(Struct, frozen=True):
    """The mapping of values to colours."""

    colors: str = "viridis"
    logarithmic: bool = False
    low: float = 1e-4  # value of the first colour of a logarithmic scale; a linear one begins at 0
    high: float = 1.0  # value of the last colour
    exclude_first: bool = False  # leave out the first position and renormalise the rows
    light: bool = False  # the paper is light: little is light, much is dark


class MapPicture(Struct, frozen=True):
    """The part of a texture that shows a map."""

    texture: Any  # a number, or a reference of Dear ImGui's
    low: tuple[float, float]  # texture coordinates of the upper left corner
    high: tuple[float, float]
    pool: int  # a pixel is the largest of pool x pool token pairs
    waiting: int  # rows that are still to be computed
    missing: tuple[tuple[int, int], ...] = ()  # [from, to) of the positions without a row


class HeadMaps(Protocol):
    """Maps of every head of the running model; a view asks while a frame is built."""

    @property
    def problem(self) -> str:
        """Return why there are no maps, as a sentence; "" when there are."""
        ...

    @property
    def length(self) -> int:
        """Return how many tokens maps can show."""
        ...

    @property
    def rows(self) -> range:
        """Positions whose queries are held; maps of others can no longer be computed."""
        ...

    @property
    def ring_rows(self) -> int:
        """Return how many positions' queries are held at most; 0: a server has them."""
        ...

    @property
    def layers(self) -> Sequence[AttentionLayer]: ...

    def column_tokens(self, layer: int) -> tuple[int, ...]:
        """Return the ids of the tokens that are columns of a layer's maps: those of the text, or
        with cross-attention those of the source."""
        ...

    @property
    def memory(self) -> Mapping[str, int]:
        """Return bytes by what they are for."""
        ...

    @property
    def milliseconds(self) -> float:
        """Return the device's time for maps in the last frame that was measured, in milliseconds;
        0: none."""
        ...

    @property
    def pending(self) -> bool:
        """Return whether something that is shown is not complete yet."""
        ...

    @property
    def scored_rows(self) -> int:
        """Return how many rows are behind the scores, of all heads together."""
        ...

    @property
    def vanished(self) -> int:
        """Return how many textures are gone that pictures of earlier frames may show."""
        ...

    def asks(self, view: str) -> None:
        """Begin what `view`, which is drawn again, asks for. A view that is not asked again shows
        what it asked for before."""
        ...

    def drop(self, name: str) -> None:
        """Keep a picture no longer; no frame draws it from now on."""
        ...

    def use(self, scale: ColorScale) -> None:
        """Use this colour scale from now on."""
        ...

    def thumbnail(self, layer: int, head: int) -> MapPicture:
        """Return a head's small map over the whole conversation. Call it only where there is no
        `problem`."""
        ...

    def picture(
        self, name: str, layer: int, head: int, rows: range, columns: range, side: float
    ) -> MapPicture:
        """Return a head's map of query positions `rows` and key positions `columns` on about `side`
        pixels. `name` tells large maps apart; a few are kept. Call it only where there is no
        `problem`."""
        ...

    def value(self, name: str, row: int, column: int) -> float | None:
        """Return the value of a picture at a pair of positions, a few frames after it was first
        asked for; None before, and where the map holds nothing."""
        ...

    def scores(self, *, of_all: bool = False) -> Mapping[str, NDArray[np.float32]] | None:
        """Return, by name of core/inspect/attention_scores.py, the means over the rows that are
        computed, float32 [all heads], layer by layer; nan where it is not known. They are updated
        twice a second. `of_all` also computes heads that are not on the screen."""
        ...
