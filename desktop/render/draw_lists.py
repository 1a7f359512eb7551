"""Dear ImGui's draw data as plain values, read once a frame however many passes ask."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from imgui_bundle import imgui
from msgspec import Struct
from numpy.typing import NDArray

Box = tuple[int, int, int, int]  # x0, y0, x1, y1 in pixels


class DrawCommand(NamedTuple):
    """Triangles of one texture, cut off at `clip` (x0, y0, x1, y1 in display units)."""

    clip: tuple[float, float, float, float]
    texture: int
    indices: int
    first_index: int
    first_vertex: int


class DrawList(Struct, frozen=True):
    """A draw list with addresses of its ImDrawVert and ImDrawIdx; sizes are counts."""

    name: str  # its place in the order, and whose it is
    commands: tuple[DrawCommand, ...]
    vertices: int
    vertex_count: int
    indices: int
    index_count: int


def read(data: imgui.ImDrawData) -> list[DrawList]:
    """Read the lists of a frame; they are valid until the next one begins."""
    return [_read(at, one) for at, one in enumerate(data.cmd_lists)]


def _read(at: int, one: imgui.ImDrawList) -> DrawList:
    commands, vertices, indices = [], one.vtx_buffer, one.idx_buffer
    for command in one.cmd_buffer:
        rect = command.clip_rect
        clip = (rect.x, rect.y, rect.z, rect.w)
        commands.append(
            DrawCommand(
                clip, command.get_tex_id(), command.elem_count,
                command.idx_offset, command.vtx_offset,
            )
        )  # fmt: skip
    return DrawList(
        f"{at}.{one._owner_name}", tuple(commands), vertices.data_address(), vertices.size(),
        indices.data_address(), indices.size(),
    )  # fmt: skip


class Draws:
    """The commands of all lists of a frame, with their clip boxes in pixels."""

    def __init__(
        self, lists: list[DrawList], data: imgui.ImDrawData, extent: tuple[int, int]
    ) -> None:
        position, scale = data.display_pos, data.framebuffer_scale
        self.commands: list[tuple[int, int, int, int]] = []  # texture, indices, first ones
        clips = []
        index = vertex = 0
        for one in lists:
            for clip, texture, count, first, base in one.commands:
                if count:
                    clips.append(clip)
                    self.commands.append((texture, count, index + first, vertex + base))
            index, vertex = index + one.index_count, vertex + one.vertex_count
        places = np.array(clips, np.float32).reshape(-1, 2, 2)
        places -= (position.x, position.y)
        places *= (scale.x, scale.y)
        self._low = np.maximum(places[:, 0].astype(np.int64), 0)
        self._high = np.minimum(places[:, 1].astype(np.int64), extent)

    def within(self, area: Box) -> list[tuple[int, Box]]:
        """List the numbers of the commands that touch an area, in order, each with the box that it
        may paint."""
        low: NDArray[np.int64] = np.maximum(self._low, area[:2])
        high: NDArray[np.int64] = np.minimum(self._high, area[2:])
        seen = np.flatnonzero((high > low).all(axis=1))
        boxes = np.concatenate([low[seen], high[seen]], axis=1).tolist()
        return [(at, tuple(box)) for at, box in zip(seen.tolist(), boxes, strict=True)]
