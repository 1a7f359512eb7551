"""Frames with maps in them, offscreen, and what the maps must hold by the NumPy definition."""

import numpy as np

from llm_lite.core.inspect.attention import layer_probabilities
from llm_lite.desktop.attention import work
from llm_lite.desktop.attention.maps import AttentionMaps

SIDE = 512  # of the offscreen image


class Rig:
    """Frames with maps in them."""

    def __init__(self, scene, device, source, monkeypatch):
        monkeypatch.setattr(work, "SOFTWARE_IDLE_MS", 200.0)
        self.scene = scene(SIDE, SIDE)
        self.maps = AttentionMaps(device, self.scene.renderer)
        self.scene.loop.prepare = self.maps.record
        self.scene.loop.submitted = self.maps.submitted
        self.source = source

    def frame(self, paint, *, busy=False):
        def draw(draw_list):
            self.maps.begin(self.source, busy)
            paint(self.maps, draw_list)

        return self.scene.draw(draw)

    def until_complete(self, paint, most=200):
        """Frames until nothing is pending; the pixels of the last."""
        self.frame(paint)
        for _ in range(most):
            if not self.maps.pending:
                return self.frame(paint)
            self.frame(paint)
        raise AssertionError("the maps were never complete")

    def close(self):
        self.scene.loop.wait()
        self.maps.close()
        self.source.close()


def expected(source, layer, head, *, exclude=False):
    """float32 [n, columns]; NaN where the map holds nothing."""
    q, k = source.head(layer, head)
    one, n = source.layers[layer], source.length
    positions = np.arange(n)
    p = layer_probabilities(one, head, q, k, positions, source.bias(layer))
    visible = np.arange(len(k))[None] <= positions[:, None]
    visible |= not one.is_causal
    if one.window:
        visible &= positions[None] > positions[:, None] - one.window
    if exclude:
        visible[:, 0] = False
        p[:, 0] = 0
        with np.errstate(invalid="ignore"):
            p /= p.sum(axis=1, keepdims=True)
    return np.where(visible, p, np.nan)


def pooled(p, pool):
    """Maximum over blocks of pool x pool, NaN only where all are."""
    rows, columns = (-(-s // pool) * pool for s in p.shape)
    padded = np.full((rows, columns), -1.0)
    padded[: p.shape[0], : p.shape[1]] = np.nan_to_num(p, nan=-1.0)
    blocks = padded.reshape(rows // pool, pool, columns // pool, pool).max(axis=(1, 3))
    return np.where(blocks < 0, np.nan, blocks)


def values_of(surface, number):
    """What the kernels left in a cell, NaN for nothing."""
    width, height = surface.size
    cell = surface.cells[number]
    words = surface.values.download(cell.origin * 4, width * height * 4).view(np.uint32)
    floats = (np.maximum(words, 1) - 1).view(np.float32).astype(np.float64)
    return np.where(words == 0, np.nan, floats).reshape(height, width)


def thumbnails(maps, draw_list):
    for layer, one in enumerate(maps.layers):
        for head in range(one.heads):
            maps.thumbnail(layer, head)


def assert_thumbnails(rig, tolerance, *, exclude=False):
    atlas = rig.maps._store.atlas
    for number, (layer, head) in enumerate(rig.maps._store.heads):
        cell = atlas.cells[number]
        want = pooled(expected(rig.source, layer, head, exclude=exclude), 1 << cell.shift)
        got = values_of(atlas, number)
        rows, columns = want.shape
        assert np.isnan(got[rows:]).all() and np.isnan(got[:, columns:]).all()
        got = got[:rows, :columns]
        np.testing.assert_allclose(got, want, atol=tolerance, err_msg=f"{number}")
