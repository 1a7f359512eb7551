"""The layout of a conversation's map: a row for each message, a column for each branch.

The first version of a message stays in its parent's column, each other one begins a column of its
own, as far left as there is room. So nothing moves when another path is shown. Rows in which
nothing branches or ends are drawn together as one. The layout is computed once for each change;
drawing reads only the rows in sight.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Collection

from msgspec import Struct

from llm_lite.core.history.tree import ConversationTree
from llm_lite.core.messages import Role
from llm_lite.desktop.features.program.state import Message

MOST = 50_000  # messages that a map is made of
LEAST = 4  # messages behind each other that are drawn as one


class MapCell(Struct, frozen=True):
    """A message, or a run of messages without branches; `id` and `index` are the first one's."""

    id: int
    index: int
    count: int
    column: int
    above: int  # column of what it follows; -1: it begins the conversation
    role: Role


class MapRow(Struct, frozen=True):
    cells: tuple[MapCell, ...]  # from the left
    forks: tuple[tuple[int, int], ...]  # columns: from what is above to the last that follows it

    def between(self, first: float, last: float) -> tuple[MapCell, ...]:
        low = bisect_left(self.cells, first, key=_column)
        return self.cells[low : bisect_right(self.cells, last, key=_column)]


class TreeMap(Struct, frozen=True):
    rows: tuple[MapRow, ...]
    columns: int
    places: dict[int, tuple[int, int]]  # by id: row, and which of its cells
    messages: dict[int, Message]  # by id
    beside: int  # messages that are not shown

    def cell(self, message: int) -> MapCell | None:
        place = self.places.get(message)
        return self.rows[place[0]].cells[place[1]] if place is not None else None


class _MapNode(Struct):
    message: Message
    index: int
    parent: int  # -1: none
    column: int = 0


def tree_map(tree: ConversationTree[Message], unfolded: Collection[int] = ()) -> TreeMap:
    """Lay out the tree. `unfolded` are indices of first messages of runs that are drawn in full."""
    if tree.count > MOST:
        return TreeMap((), 0, {}, {}, 0)
    nodes = _nodes(tree)
    children: defaultdict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        children[node.parent].append(number)
    columns = _place(nodes, children)
    depth = max((node.index for node in nodes), default=-1) + 1
    rows = _rows_by_index(nodes, children, depth, unfolded)
    found = _fill(nodes, rows)
    places = {
        cell.id: (at, which) for at, row in enumerate(found) for which, cell in enumerate(row.cells)
    }
    by_id = {node.message.id: node.message for node in nodes}
    return TreeMap(found, columns, places, by_id, len(nodes) - len(tree.path))


def _nodes(tree: ConversationTree[Message]) -> list[_MapNode]:
    """Return all messages, each behind the one that it follows, versions the oldest first."""
    children = tree.children()
    nodes: list[_MapNode] = []
    waiting = [(message, 0, -1) for message in reversed(children.get(None, ()))]
    while waiting:
        message, index, parent = waiting.pop()
        number = len(nodes)
        nodes.append(_MapNode(message, index, parent))
        below = reversed(children.get(message.id, ()))
        waiting += [(one, index + 1, number) for one in below]
    return nodes


def _place(nodes: list[_MapNode], children: dict[int, list[int]]) -> int:
    """Give each node its column and return how many there are. A branch that leaves deeper comes
    first, so that no line crosses another."""
    taken: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)  # half rows, by column
    most = 0
    roots = children.get(-1, [])
    waiting = [(number, 0) for number in reversed(roots)]
    beside: dict[int, int] = {}  # column of the version before, by parent
    while waiting:
        start, least = waiting.pop()
        chain, number = [start], start
        while children.get(number):
            number = children[number][0]
            chain.append(number)
        low, high = 2 * nodes[start].index - 2, 2 * nodes[chain[-1]].index
        parent = nodes[start].parent
        before = beside.get(parent, least - 1)
        column = max(least, before + 1)
        while _is_taken(taken[column], low, high):
            column += 1
        insort(taken[column], (low, high))
        across = 2 * nodes[start].index - 1  # where the line runs that leads there
        for passed in range(before + 1, column):
            if not _is_taken(taken[passed], across, across):
                insort(taken[passed], (across, across))
        beside[parent] = column
        most = max(most, column + 1)
        for number in chain:
            nodes[number].column = column
        for number in chain:  # the deepest is popped first
            waiting += [(other, column + 1) for other in reversed(children.get(number, [])[1:])]
    return most


def _is_taken(rows: list[tuple[int, int]], low: int, high: int) -> bool:
    """Return whether a range touches one of `rows`, which are in order and apart."""
    at = bisect_left(rows, (high + 1, 0))
    return at > 0 and rows[at - 1][1] >= low


def _rows_by_index(
    nodes: list[_MapNode], children: dict[int, list[int]], depth: int, unfolded: Collection[int]
) -> list[tuple[int, int]]:
    """Return the first and last index of each row."""
    busy = bytearray(depth + 2)
    for number, node in enumerate(nodes):
        below = children.get(number, [])
        if len(below) != 1:
            busy[node.index] = 1
        if len(below) > 1:
            busy[node.index + 1] = 1
    if depth:
        busy[0] = busy[depth - 1] = 1
    if len(children.get(-1, [])) > 1 and depth > 1:
        busy[1] = 1
    rows: list[tuple[int, int]] = []
    index = 0
    while index < depth:
        end = index
        while end < depth and not busy[end]:
            end += 1
        if end - index >= LEAST and index not in unfolded:
            rows.append((index, end - 1))
            index = end
        else:
            rows += [(one, one) for one in range(index, max(end, index + 1))]
            index = max(end, index + 1)
    return rows


def _fill(nodes: list[_MapNode], rows: list[tuple[int, int]]) -> tuple[MapRow, ...]:
    row_of = {first: number for number, (first, _) in enumerate(rows)}
    cells: list[list[MapCell]] = [[] for _ in rows]
    for node in nodes:
        row = row_of.get(node.index)
        if row is None:  # within a run
            continue
        first, last = rows[row]
        above = nodes[node.parent].column if node.parent >= 0 else -1
        count, message = last - first + 1, node.message
        cells[row].append(MapCell(message.id, node.index, count, node.column, above, message.role))
    found = []
    for beside in cells:
        beside.sort(key=_column)
        ends: dict[int, int] = {}
        for cell in beside:
            ends[cell.above] = max(cell.column, ends.get(cell.above, 0))
        forks = tuple((max(a, 0), b) for a, b in ends.items() if b > max(a, 0))
        found.append(MapRow(tuple(beside), forks))
    return tuple(found)


def _column(cell: MapCell) -> int:
    return cell.column
