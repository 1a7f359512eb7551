"""The check of the docked layout that the settings keep, a text of Dear ImGui.

Dear ImGui's settings parser trusts its text: a docking tree with a node missing ends the process by
a signal. So a text that is not as Dear ImGui writes it is refused as a whole. Format:
`DockSettingsHandler_*` and `WindowSettingsHandler_*` of imgui.cpp, `TableSettingsHandler_*` of
imgui_tables.cpp.
"""

from __future__ import annotations

import re

LAYOUT_VERSION = 3  # a new number puts everybody's panels back to the default once
FARTHEST = 32767  # pixels; Dear ImGui keeps places as 16-bit numbers
MOST_COLUMNS = 64
_HEADER = re.compile(r"\[(Window|Table|Docking)\]\[([^\]\n]*)\]")
_WINDOW = re.compile(r"\w+=(?:0x[0-9A-F]{8}|-?\d{1,9})(?:,\d{1,3})?")
_PLACE = re.compile(r"(?:Pos|Size|ViewportPos)=(-?\d{1,5}),(-?\d{1,5})")
_TABLE = re.compile(r"RefScale=[\d.]{1,12}|Column (\d{1,2})((?: +\w+=[0-9A-Fx.v^]{1,12})*)")
_TABLE_NAME = re.compile(r"0x[0-9A-F]{8},(\d{1,2})")
_NODE = re.compile(r" *Dock(Space|Node) +(.*)")
_NODE_WORD = re.compile(r"(\w+)=(0x[0-9A-F]{8}|[XY01]|-?\d{1,5},-?\d{1,5})")


def is_layout(text: str) -> bool:
    """Return True if Dear ImGui could have written `text`: known sections, numbers within bounds,
    and docking trees whose nodes all have their parent before them and none or two children."""
    section, name = "", ""
    nodes: dict[str, _Node] = {}
    try:
        for line in text.splitlines():
            if header := _HEADER.fullmatch(line):
                section, name = header[1], header[2]
            elif line:
                _check_line(section, name, line, nodes)
        _check_trees(nodes)
    except _RefusedError:
        return False
    return True


class _RefusedError(Exception):
    pass


class _Node:
    def __init__(self, words: dict[str, str]) -> None:
        self.parent = words.get("Parent", "")
        self.split = words.get("Split", "")
        self.children = 0


def _check_line(section: str, name: str, line: str, nodes: dict[str, _Node]) -> None:
    if section == "Window":
        place = _PLACE.fullmatch(line)
        _require(place is not None or _WINDOW.fullmatch(line) is not None)
        _require(place is None or all(abs(int(part)) <= FARTHEST for part in place.groups()))
    elif section == "Table":
        match, table = _TABLE.fullmatch(line), _TABLE_NAME.fullmatch(name)
        _require(match is not None and table is not None and int(table[1]) <= MOST_COLUMNS)
        if match and match[1] and table:
            _require(int(match[1]) < int(table[1]))
    else:
        _require(section == "Docking" and name == "Data")
        _add_node(line, nodes)


def _add_node(line: str, nodes: dict[str, _Node]) -> None:
    match = _NODE.fullmatch(line.rstrip())
    _require(match is not None)
    assert match is not None
    found = [_NODE_WORD.fullmatch(word) for word in match[2].split()]
    _require(all(found))
    words = {word[1]: word[2] for word in found if word}
    _require(len(words) == len(found))
    for sized in ("Size", "SizeRef"):
        if sized in words:
            _require(all(0 < int(side) <= FARTHEST for side in words[sized].split(",")))
    number, node = words.get("ID", ""), _Node(words)
    _require(number.startswith("0x") and int(number, 16) != 0 and number not in nodes)
    _require(node.split in ("", "X", "Y"))
    nodes[number] = node
    if not node.parent:
        _require("Size" in words)
        return
    _require(match[1] == "Node" and node.parent in nodes and "SizeRef" in words)
    nodes[node.parent].children += 1


def _check_trees(nodes: dict[str, _Node]) -> None:
    _require(all(node.children == (2 if node.split else 0) for node in nodes.values()))


def _require(holds: bool) -> None:
    if not holds:
        raise _RefusedError
