"""What of the cache is in which pixel, and in which colour."""

import numpy as np
import pytest

from llm_lite.core.history import ConversationTree
from llm_lite.core.messages import CacheLayerInfo
from llm_lite.core.records import replace
from llm_lite.desktop.features.cache.map import whose
from llm_lite.desktop.features.cache.picture import (
    CacheWindow,
    Scale,
    greatest,
    kinds,
    paint,
    positions_of,
    shade,
)
from llm_lite.desktop.features.program.state import Message
from tests.desktop.cached import with_cached
from tests.desktop.headless import READY


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 16, 31])
def test_places_of_a_ring_are_those_where_positions_were_written(length):
    ring, memory = CacheLayerInfo(0, (), 8, 0, 1, 1), [-1] * 8
    for position in range(length):
        memory[position % 8] = position
    assert positions_of(ring, length, 12, True).tolist() == [*memory, -2, -2, -2, -2]
    seen = positions_of(ring, length, 40, False)
    assert [p for p in seen.tolist() if p >= 0] == sorted(p for p in memory if p >= 0)
    assert (seen[length:] == -1).all() and (seen[: max(length - 8, 0)] == -2).all()


def test_kinds_follow_owners():
    said = (Message("user", "x"), Message("assistant", "y"))
    state = with_cached(replace(READY, tree=ConversationTree(said)), owners=(-1, -2, 0, 0, 1))
    assert kinds(state).tolist() == [1, 2, 3, 3, 4]
    assert [whose(state, p) for p in (0, 1, 2, 4)] == [
        "the chat template's own", "system prompt", "you, message 1", "answer, message 2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "span", "pixels"), [(0, 8192, 300), (100.5, 77.3, 301), (3, 8, 333)]
)
def test_pixels_and_columns_belong_together(first, span, pixels):
    window = CacheWindow(first, span, pixels)
    columns = window.columns()
    assert columns[0] == int(first) and abs(columns[-1] - (first + span)) < 1
    for x in range(0, pixels, 7):
        assert window.at(x + 1e-6) == columns[x]
    colors = np.zeros((8200, 3), np.float32)
    colors[:, 0] = 200
    painted = paint(colors, np.ones(8200, np.float32), window)
    assert set((painted & 0xFF).tolist()) == {200} and len(painted) == pixels
    values = np.arange(8200, dtype=np.float32)
    found = greatest(values, window)
    inside = ~np.isnan(found)
    assert (found[inside] >= columns[:-1][inside]).all()
    assert (found[inside] < np.maximum(columns[1:], columns[:-1] + 1)[inside]).all()


def test_columns_of_a_pixel_are_mixed():
    colors = np.zeros((4, 3), np.float32)
    colors[:, 0] = [100, 200, 0, 40]
    painted = paint(colors, np.array([1, 1, 0, 1], np.float32), CacheWindow(0, 4, 2))
    assert (painted & 0xFF).tolist() == [150, 40]
    assert (painted >> 24).tolist() == [255, 128]


def test_a_scale_meets_its_ends():
    logs = Scale(1e-4, 1.0, True)
    shares = logs.share(np.array([0, 1e-4, 1e-2, 1, 2], np.float32))
    assert shares == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-5)
    rgb, alpha = shade(np.array([np.nan, 1.0], np.float32), Scale(0, 1), "viridis", False)
    assert alpha.tolist() == [0, 1] and rgb[1].tolist() == [253, 231, 37]
