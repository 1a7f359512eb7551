"""The docked windows: where they are at first, and the sizes that a person gave them.

The conversation is in the middle, the list of conversations at the left of it, two runs beside it,
views of the model at the right in two groups.
"""

from __future__ import annotations

import re
from typing import Any

from imgui_bundle import ImVec2, imgui
from msgspec import Struct
from msgspec.structs import astuple

from llm_lite.core.records import replace
from llm_lite.desktop.features.feature import View
from llm_lite.desktop.features.layouts.state import LEAST_INSPECTOR, LEAST_LIST, Layouts, Sizes
from llm_lite.desktop.features.registry import VIEWS
from llm_lite.desktop.widgets.theme import UNIT

DOCKSPACE = "llm-lite"
CHAT_SHARE = 0.63  # of the width
LIST_SHARE = 0.17  # of the width
LIST_WIDTH = (13.0, 20.0)  # text sizes: at least, at most
NARROW = 60.0  # text sizes: below, the right side gets less
RUNS_SHARE = 0.62  # of chat and runs together
MOST_INSPECTOR = 140 * UNIT  # text sizes: the panels need no more on a wide screen
LEAST_CHAT, LEAST_PIXELS = 28.0, 420.0  # text sizes; logical pixels
LEAST_RUNS = 28.0  # text sizes: of a narrow window, two runs get their share before the chat
MOST_LIST = 0.4  # of the width


class Shown(Struct, frozen=True):
    """The side panels that have room in the window."""

    list: bool
    inspector: bool


def automatic(width: float, text: float) -> tuple[float, float]:
    """Return the widths of list and inspector in a room of `width` pixels, where a person has not
    chosen any."""
    narrow, wide = (one * text for one in LIST_WIDTH)
    share = 1 - CHAT_SHARE if width > NARROW * text else 0.34
    return min(max(LIST_SHARE * width, narrow), wide), min(share * width, MOST_INSPECTOR * text)


def build_layout(root: int, size: ImVec2, text: float) -> None:
    """Place every view where it is by default, in the dockspace `root` of `size` pixels."""
    dock: Any = imgui.internal
    dock.dock_builder_remove_node(root)
    dock.dock_builder_add_node(root, dock.DockNodeFlagsPrivate_.dock_space)
    dock.dock_builder_set_node_size(root, size)
    listed, wanted = (one / size.x for one in automatic(size.x, text))
    left, rest = _split(root, imgui.Dir.left, listed)
    right, middle = _split(rest, imgui.Dir.right, wanted / (1 - listed))
    lower, upper = _split(right, imgui.Dir.down, 0.5)
    beside, middle = _split(middle, imgui.Dir.right, 0.5)
    nodes = {
        "middle": middle,
        "left": left,
        "beside": beside,
        "upper right": upper,
        "lower right": lower,
    }
    for view in VIEWS:
        dock.dock_builder_dock_window(view.window, nodes[view.place])
    dock.dock_builder_finish(root)


def places_views(remembered: str) -> bool:
    """Return True if Dear ImGui's ini text docks the conversation; without it the default is
    built."""
    return "[Docking]" in remembered and f"[Window][{VIEWS[0].name}]" in remembered


def missing(remembered: str) -> dict[str, int]:
    """Return the views that an older ini text does not place, each with the docking node of others
    of their place; 0 where there are none."""
    nodes = {view.name: _node_of(view, remembered) for view in VIEWS}
    found = {}
    for view in VIEWS:
        if f"[Window][{view.name}]" not in remembered:
            others = (nodes[other.name] for other in VIEWS if other.place == view.place)
            found[view.name] = next((node for node in others if node), 0)
    return found


def _node_of(view: View, remembered: str) -> int:
    section = remembered.partition(f"[Window][{view.name}]\n")[2].partition("\n[")[0]
    docked = re.search(r"^DockId=0x([0-9A-F]{8})", section, re.MULTILINE)
    return int(docked[1], 16) if docked else 0


def place(root: int, lacking: dict[str, int]) -> bool:
    """Place views that a remembered layout lacks: where others of their place are, or else beside
    the conversation. The rest stays where the person put it. False while the conversation has no
    place yet."""
    dock: Any = imgui.internal
    central = dock.dock_builder_get_central_node(root)
    if central is None:
        return False
    for view in (view for view in VIEWS if view.name in lacking):
        there = lacking[view.name]
        if not there:
            side = imgui.Dir.left if view.place == "left" else imgui.Dir.right
            there, _ = _split(central.id_, side, 0.3 if view.place == "left" else 0.5)
            central = dock.dock_builder_get_central_node(root) or central
        dock.dock_builder_dock_window(view.window, there)
    dock.dock_builder_finish(root)
    return True


def rescale(factor: float) -> None:
    """Keep the panels' share of the window when it moves to a screen of another density."""
    dock: Any = imgui.internal
    done = set()
    for view in VIEWS:
        window: Any = dock.find_window_by_name(view.window)
        node = window.dock_node if window is not None else None
        while node is not None and node.id_ not in done:
            done.add(node.id_)
            size = ImVec2(node.size_ref.x * factor, node.size_ref.y * factor)
            if node.parent_node is not None:
                dock.dock_builder_set_node_size(node.id_, size)
            node = node.parent_node


def hide_tabs() -> None:
    """Hide the tabs of windows that are alone in their place: the conversation, the list, two runs.
    Nodes are found by their windows. The central node that Dear ImGui names is freed memory from
    when panels leave the dockspace to when the dockspace is drawn next."""
    flags = imgui.internal.DockNodeFlagsPrivate_
    for view in VIEWS:
        window: Any = imgui.internal.find_window_by_name(view.window)
        if view.place not in ("middle", "left", "beside") or window is None:
            continue
        node = window.dock_node
        if node is not None and len(node.windows) == 1:
            over = 0 if view.place == "middle" else flags.no_docking_over_me
            node.set_local_flags(node.local_flags | flags.no_tab_bar | over)


def _split(node: int, direction: Any, share: float) -> tuple[int, int]:
    """Split a node; return the new node on that side, and what is left."""
    result = imgui.internal.dock_builder_split_node(node, direction, share)
    return result.id_at_dir, result.id_at_opposite_dir


def changed(known: Sizes, before: Sizes, now: Sizes) -> Sizes:
    """Return the sizes that a person has chosen, after a border was dragged: those of the panels
    that it made larger or smaller, and what was known of the others."""
    pairs = zip(Sizes.__struct_fields__, astuple(before), astuple(now), strict=True)
    return replace(known, **{name: b for name, a, b in pairs if a != b})


def measured(layouts: Layouts, text: float, shows_inspector: bool) -> Sizes:
    """Return the sizes of the panels that are shown, in text sizes; the others keep theirs."""
    known = layouts.sides.sizes
    left, right, runs = _side("conversations"), _side("attention"), _side("runs")
    upper, lower = _node("attention"), _node("performance")
    found = replace(known, list_width=_width(left, text, known.list_width))
    if layouts.name == "compare":
        found = replace(found, runs_width=_width(runs, text, known.runs_width))
    if not shows_inspector:
        return found
    if upper is not None and lower is not None and upper.id_ != lower.id_ and right is not None:
        found = replace(found, upper_share=round(upper.size.y / max(right.size.y, 1.0), 3))
    return replace(found, inspector_width=_width(right, text, known.inspector_width))


def apply(layouts: Layouts, text: float, scale: float, width: float, shown: Shown) -> bool:
    """Give the panels the sizes of the layout in use, from the next frame on; `width` in pixels.
    Those that a person never chose follow the width. The conversation keeps its least: first the
    inspector gives way, then the list. Runs get most of the room. False while a panel has not been
    drawn yet: then once more."""
    sizes, (left, right) = layouts.sides.sizes, automatic(width, text)
    listed, inspector = _side("conversations"), _side("attention")
    left = min(sizes.list_width * text or left, MOST_LIST * width)
    right = sizes.inspector_width * text or right
    borders = 2 * imgui.get_style().docking_separator_size
    room = width - max(LEAST_CHAT * text, LEAST_PIXELS * scale) - borders
    least = LEAST_INSPECTOR * text if shown.inspector else 0.0
    left = min(left, max(room - least, LEAST_LIST * text))
    beside = left if shown.list else 0.0
    right = min(right, max(room - beside, LEAST_INSPECTOR * text))
    _set(listed, left)
    _set(inspector, right)
    _share(sizes.upper_share)
    if layouts.name == "compare":
        taken = beside + (right if shown.inspector else 0.0)
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
