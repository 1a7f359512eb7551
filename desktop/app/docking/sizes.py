"""The sizes of the side panels, read from Dear ImGui's docking tree and set in it."""

from __future__ import annotations

from typing import Any

from imgui_bundle import ImVec2, imgui

from llm_lite.core.records import replace
from llm_lite.desktop.features.feature import View
from llm_lite.desktop.features.layouts.state import Layouts, Sizes
from llm_lite.desktop.features.registry import VIEWS

RUNS_SHARE = 0.62  # of chat and runs together
LEAST_CHAT = 24.0  # text sizes
LEAST_RUNS = 28.0  # text sizes: of a narrow window, two runs get their share before the chat
LEAST_INSPECTOR, LEAST_LIST = 15.0, 12.0  # text sizes: the list gives way to the inspector
MOST_LIST = 0.4  # of the width


def measured(layouts: Layouts, text: float) -> Sizes:
    """Return the sizes of the panels that are shown, in text sizes; the others keep theirs."""
    known = layouts.sides.sizes
    left, right, runs = _side("conversations"), _side("attention"), _side("runs")
    upper, lower = _node("attention"), _node("performance")
    found = replace(known, list_width=_width(left, text, known.list_width))
    if layouts.name == "compare":
        found = replace(found, runs_width=_width(runs, text, known.runs_width))
    if not layouts.shows_inspector:
        return found
    if upper is not None and lower is not None and upper.id_ != lower.id_ and right is not None:
        found = replace(found, upper_share=round(upper.size.y / max(right.size.y, 1.0), 3))
    return replace(found, inspector_width=_width(right, text, known.inspector_width))


def apply(layouts: Layouts, text: float, width: float, shows_list: bool) -> bool:
    """Give the panels the sizes of the layout in use, from the next frame on; `width` in pixels.
    Where a person never chose one, the panel stays as it is, and runs get most of the room. False
    while a panel has not been drawn yet: then once more."""
    sizes = layouts.sides.sizes
    listed, inspector = _side("conversations"), _side("attention")
    left = min(sizes.list_width * text, MOST_LIST * width)
    if layouts.shows_inspector:
        room = width - (LEAST_CHAT + LEAST_INSPECTOR) * text
        left = min(left, max(room, LEAST_LIST * text))
    _set(listed, left)
    beside = (left or _now(listed)) if shows_list else 0.0
    _set(inspector, min(sizes.inspector_width * text, width - beside - LEAST_CHAT * text))
    _share(sizes.upper_share)
    if layouts.name == "compare":
        taken = beside + (_now(inspector) if layouts.shows_inspector else 0.0)
        room = max(width - taken, 1.0)
        wanted = sizes.runs_width * text or RUNS_SHARE * room
        runs = _side("runs")
        most = max(room - LEAST_CHAT * text, min(LEAST_RUNS * text, RUNS_SHARE * room))
        _set(runs, min(wanted, most))
        return runs is not None
    return True


def _view(name: str) -> View:
    return next(view for view in VIEWS if view.name == name)


def _node(name: str) -> Any:
    window: Any = imgui.internal.find_window_by_name(_view(name).window)
    return window.dock_node if window is not None else None


def _side(name: str) -> Any:
    """Return the column that a view is in: the largest part of the tree without the
    conversation."""
    node, chat = _node(name), _ancestors(_node("chat"))
    if node is None or node.id_ in chat:
        return None
    while node.parent_node is not None and node.parent_node.id_ not in chat:
        node = node.parent_node
    return node if node.parent_node is not None else None


def _ancestors(node: Any) -> set[int]:
    found = set()
    while node is not None:
        found.add(node.id_)
        node = node.parent_node
    return found


def _width(node: Any, text: float, otherwise: float) -> float:
    return round(node.size.x / text, 1) if node is not None and node.size.x > 0 else otherwise


def _set(node: Any, width: float) -> None:
    if node is not None and width > 0:
        size = ImVec2(round(width), max(node.size_ref.y, 1.0))
        imgui.internal.dock_builder_set_node_size(node.id_, size)


def _now(node: Any) -> float:
    return float(node.size_ref.x) if node is not None else 0.0


def _share(share: float) -> None:
    """Set the upper group's share in the height of both groups."""
    upper, lower = _node("attention"), _node("performance")
    if share <= 0 or upper is None or lower is None or upper.parent_node is None:
        return
    if lower.parent_node is None or upper.parent_node.id_ != lower.parent_node.id_:
        return
    height = upper.size_ref.y + lower.size_ref.y
    for node, part in ((upper, share), (lower, 1 - share)):
        size = ImVec2(max(node.size_ref.x, 1.0), max(1.0, round(height * part)))
        imgui.internal.dock_builder_set_node_size(node.id_, size)
