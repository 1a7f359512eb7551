"""A layout in which every view is seen at once."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.desktop.features.registry import VIEWS

COLUMNS = 3


def tiled(root: int, size: ImVec2, _text: float) -> None:
    """In the place of llm_lite.desktop.app.layout.build_layout."""
    dock: Any = imgui.internal
    dock.dock_builder_remove_node(root)
    dock.dock_builder_add_node(root, dock.DockNodeFlagsPrivate_.dock_space)
    dock.dock_builder_set_node_size(root, size)
    rows = -(-len(VIEWS) // COLUMNS)
    left = root
    for column in range(COLUMNS):
        views = VIEWS[column * rows : (column + 1) * rows]
        node, left = _cut(left, imgui.Dir.left, COLUMNS - column)
        for index, view in enumerate(views):
            here, node = _cut(node, imgui.Dir.up, len(views) - index)
            dock.dock_builder_dock_window(view.window, here)
    dock.dock_builder_finish(root)


def _cut(node: int, side: Any, parts: int) -> tuple[int, int]:
    """A node's first part of so many equal ones, and the rest."""
    if parts == 1:
        return node, node
    found: Any = imgui.internal.dock_builder_split_node(node, side, 1 / parts)
    return found.id_at_dir, found.id_at_opposite_dir
