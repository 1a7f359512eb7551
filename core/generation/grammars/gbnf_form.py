"""GBNF rules in the form that llguidance takes: `form_of_rules`.

GBNF is about single characters, while llguidance first cuts a text into terminals, always the
longest that fit: `[a-z]+ "ing"` would never be complete. So terminals are single characters here,
but for those parts of a rule where the end of a terminal cannot be mistaken: a part is one terminal
where no text leads both to a place within it and to one outside of it at which the same character
may come next. Where that is so, masks are found a thousand times as fast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as ListLike
from itertools import islice

from llm_lite.core.generation.grammars.gbnf import (
    LAST_CHARACTER,
    Characters,
    Either,
    Node,
    Repeated,
    RuleNamed,
    Sequence,
    TokenNamed,
)

_MOST_PLACES = 3000  # of characters, in all rules: of more, no two are put in one terminal
_MOST_WORK = 100_000  # sets of places that are looked at, as above
_MOST_COPIED = 48  # characters of a rule that is copied to where it is named

Places = int  # of characters and tokens in the rules, as bits


TokenId = Callable[[str], int]  # of a token that a grammar names; RequestError


def form_of_rules(rules: Mapping[str, Node], token_id: TokenId) -> str:
    """Return the text of a grammar, whose start is the rule "root"."""
    used = _used(rules)
    copied = _with_copies(used)
    return _Writer(_PlacedRules(used if copied is None else copied), token_id).text()


def _used(rules: Mapping[str, Node]) -> dict[str, Node]:
    """Return the rules that "root" leads to, itself first."""
    found: dict[str, Node] = {}
    waiting = ["root"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = rules[name]
            waiting += (one.name for one in _leaves(rules[name]) if isinstance(one, RuleNamed))
    return found


def _leaves(node: Node) -> Iterator[Characters | RuleNamed | TokenNamed]:
    if isinstance(node, Sequence):
        for part in node.parts:
            yield from _leaves(part)
    elif isinstance(node, Either):
        for alternative in node.alternatives:
            yield from _leaves(alternative)
    elif isinstance(node, Repeated):
        yield from _leaves(node.part)
    else:
        yield node


def _with_copies(rules: dict[str, Node]) -> dict[str, Node] | None:
    """Return the rules with small ones that name no other copied to where they are named; None
    where that makes them too large. One that repeats something without an end, as the rule of a
    JSON text's strings, is copied to one place only: in several, its copies would be mistaken for
    each other."""
    while True:
        leaves = (one for node in rules.values() for one in _leaves(node))
        known = list(islice(leaves, _MOST_PLACES + 1))
        if len(known) > _MOST_PLACES:
            return None
        named = Counter(one.name for one in known if isinstance(one, RuleNamed))
        copied = {
            name: node
            for name, node in rules.items()
            if name != "root" and _is_small(node) and (named[name] == 1 or not _is_endless(node))
        }
        if not copied:
            return rules
        rules = {name: _copied(node, copied) for name, node in rules.items() if name not in copied}


def _is_small(node: Node) -> bool:
    leaves = list(islice(_leaves(node), _MOST_COPIED + 1))
    return len(leaves) <= _MOST_COPIED and all(isinstance(one, Characters) for one in leaves)


def _is_endless(node: Node) -> bool:
    if isinstance(node, Sequence):
        return any(map(_is_endless, node.parts))
    if isinstance(node, Either):
        return any(map(_is_endless, node.alternatives))
    return isinstance(node, Repeated) and (node.most is None or _is_endless(node.part))


def _copied(node: Node, copies: Mapping[str, Node]) -> Node:
    if isinstance(node, RuleNamed):
        return copies.get(node.name, node)
    if isinstance(node, Sequence):
        return Sequence(tuple(_copied(part, copies) for part in node.parts))
    if isinstance(node, Either):
        return Either(tuple(_copied(alternative, copies) for alternative in node.alternatives))
    if isinstance(node, Repeated):
        return Repeated(_copied(node.part, copies), node.least, node.most)
    return node


class _Part:
    """A part of a rule, with its places. It is regular where it names no rule and no token."""

    def __init__(self, node: Node, parts: list[_Part], places: Places) -> None:
        self.node, self.parts = node, parts
        self.places = places
        for part in parts:
            self.places |= part.places
        self.is_regular: bool = not isinstance(node, RuleNamed | TokenNamed) and all(
            part.is_regular for part in parts
        )
        # Whether it may be empty, and the places of its first and last characters.
        self.may_be_empty = False
        self.first: Places = 0
        self.last: Places = 0


class _PlacedRules:
    """Rules, and which of their parts may be terminals."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._leaves: list[Characters | TokenNamed] = []  # by place
        self.rules = {name: self._placed(node) for name, node in rules.items()}
        self._mixed = self._mistakable() if len(self._leaves) <= _MOST_PLACES else None

    def conflict(self, places: Places) -> Places | None:
        """Return places, some but not all among these, where the same character may come next
        behind one text; 0 where there are none, None where that is not known."""
        if places == (1 << len(self._leaves)) - 1:
            return 0
        if self._mixed is None:
            return None
        return next((m for m in self._mixed if m & places and m & ~places), 0)

    def _placed(self, node: Node) -> _Part:
        if isinstance(node, Characters | TokenNamed):
            self._leaves.append(node)
            return _Part(node, [], 1 << (len(self._leaves) - 1))
        inside: ListLike[Node] = ()
        if isinstance(node, Sequence):
            inside = node.parts
        elif isinstance(node, Either):
            inside = node.alternatives
        elif isinstance(node, Repeated):
            inside = (node.part,)
        return _Part(node, [self._placed(one) for one in inside], 0)

    def _mistakable(self) -> list[Places] | None:
        """Return sets of places where the same character may come next behind one text; None where
        there are too many."""
        self._find_edges()
        behind = self._followers()
        alike = self._alike()
        seen: set[Places] = set()
        found: dict[Places, None] = {}
        waiting = [self.rules["root"].first]
        work = 0
        while waiting:
            state = waiting.pop()
            for places in {state & one for one in alike}:
                if not places or places in found:
                    continue
                found[places] = None
                work += 1 + places.bit_count()
                after = 0
                for place in _bits(places):
                    after |= behind[place]
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
            work += len(alike)
            if work > _MOST_WORK:
                return None
        return [places for places in found if places.bit_count() > 1]

    def _find_edges(self) -> None:
        """Find what may be empty, first and last, of all parts: as rules name each other, again
        and again until nothing is new."""
        is_new = True
        while is_new:
            is_new = False
            for part in self.rules.values():
                before = part.may_be_empty, part.first, part.last
                self._find_edges_of(part)
                is_new = is_new or before != (part.may_be_empty, part.first, part.last)

    def _find_edges_of(self, part: _Part) -> None:
        for one in part.parts:
            self._find_edges_of(one)
        node, parts = part.node, part.parts
        if isinstance(node, RuleNamed):
            rule = self.rules[node.name]
            part.may_be_empty, part.first, part.last = rule.may_be_empty, rule.first, rule.last
        elif isinstance(node, Sequence):
            part.may_be_empty = all(one.may_be_empty for one in parts)
            part.first = _until_one_is_there(parts, lambda one: one.first)
            part.last = _until_one_is_there(parts[::-1], lambda one: one.last)
        elif isinstance(node, Either | Repeated):
            part.may_be_empty = any(one.may_be_empty for one in parts)
            part.may_be_empty |= isinstance(node, Repeated) and not node.least
            for one in parts:
                part.first |= one.first
                part.last |= one.last
        else:
            part.first = part.last = part.places

    def _followers(self) -> list[Places]:
        """Return, by place, the places that may come next behind its character."""
        behind = [0] * len(self._leaves)

        def note(part: _Part) -> None:
            if isinstance(part.node, Sequence):
                after = 0
                for one in reversed(part.parts):
                    for place in _bits(one.last) if after else ():
                        behind[place] |= after
                    after = one.first | (after if one.may_be_empty else 0)
            elif isinstance(part.node, Repeated) and part.node.most != 1:
                for place in _bits(part.parts[0].last):
                    behind[place] |= part.parts[0].first
            for one in part.parts:
                note(one)

        for rule in self.rules.values():
            note(rule)
        return behind

    def _alike(self) -> list[Places]:
        """Return, for each stretch of characters that every set has all or none of, the places
        that have them. A token may be any characters."""
        edges: dict[int, Places] = {0: 0, LAST_CHARACTER + 1: 0}  # where places begin or end
        for place, leaf in enumerate(self._leaves):
            ranges = leaf.ranges if isinstance(leaf, Characters) else ((0, LAST_CHARACTER),)
            for low, high in ranges:
                for edge in (low, high + 1):
                    edges[edge] = edges.get(edge, 0) ^ (1 << place)
        now, found = 0, set[Places]()
        for edge in sorted(edges):
            now ^= edges[edge]
            found.add(now)
        return list(found - {0})


def _until_one_is_there(parts: ListLike[_Part], edge: Callable[[_Part], Places]) -> Places:
    """Return the edges of all parts up to the first that cannot be empty."""
    found = 0
    for part in parts:
        found |= edge(part)
        if not part.may_be_empty:
            break
    return found


def _bits(places: Places) -> Iterator[int]:
    while places:
        lowest = places & -places
        yield lowest.bit_length() - 1
        places ^= lowest


class _Writer:
    def __init__(self, placed: _PlacedRules, token_id: TokenId) -> None:
        self._placed, self._token_id = placed, token_id
        self._names = {name: f"r{number}" for number, name in enumerate(placed.rules)}
        self._names["root"] = "start"
        self._terminals: dict[str, str] = {}  # names, by what is behind the colon

    def text(self) -> str:
        rules = [
            f"{self._names[name]}: {self._written(part)}"
            for name, part in self._placed.rules.items()
        ]
        return "\n".join((*rules, *(f"{name}: {one}" for one, name in self._terminals.items())))

    def _written(self, part: _Part) -> str:
        """Return a part as an expression that can be repeated."""
        node = part.node
        if not part.places and part.is_regular:
            return '""'
        if part.is_regular and self._placed.conflict(part.places) == 0:
            return self._terminal([part])
        if isinstance(node, RuleNamed):
            return self._names[node.name]
        if isinstance(node, TokenNamed):
            return f"<[{'^' * node.is_other}{self._token_id(node.token)}]>"
        if isinstance(node, Characters):
            return self._terminal([part])
        if isinstance(node, Either):
            return f"({' | '.join(map(self._written, part.parts))})"
        if isinstance(node, Repeated):
            return f"({self._written(part.parts[0])}{_counts(node)})"
        return f"({' '.join(self._sequence(part.parts))})"

    def _sequence(self, parts: list[_Part]) -> Iterator[str]:
        """Yield the expressions of a sequence: a run of parts that may be a terminal is one."""
        run: list[_Part] = []
        at = 0
        while at < len(parts):
            end = self._run(parts, at)
            if end == at:
                if run:
                    yield self._terminal(run)
                run = []
                yield self._written(parts[at])
                at += 1
            else:  # behind another run it goes on with that one
                run += parts[at:end]
                at = end
        if run:
            yield self._terminal(run)

    def _run(self, parts: list[_Part], begin: int) -> int:
        """Return the end of the shortest run of parts from `begin` that may be a terminal; `begin`
        where there is none."""
        end, places = begin, 0
        while True:
            if end == len(parts) or not parts[end].is_regular:
                return begin
            places |= parts[end].places
            end += 1
            conflict = self._placed.conflict(places)
            if conflict == 0:
                return end
            outside = 0 if conflict is None else conflict & ~places
            if not any(part.places & outside for part in parts[end:]):
                return begin

    def _terminal(self, parts: ListLike[_Part]) -> str:
        """Return an expression for parts in sequence. No terminal may be empty."""
        pattern = f"/{''.join(_pattern(part.node) for part in parts)}/"
        if not any(part.places for part in parts):
            return '""'
        may_be_empty = all(_may_be_empty(part.node) for part in parts)
        behind = f"{pattern} & /(?s:.+)/" if may_be_empty else pattern
        name = self._terminals.setdefault(behind, f"T{len(self._terminals)}")
        return f"({name})?" if may_be_empty else name


def _may_be_empty(node: Node) -> bool:
    """Return whether a node that names no rule may be empty."""
    if isinstance(node, Sequence):
        return all(map(_may_be_empty, node.parts))
    if isinstance(node, Either):
        return any(map(_may_be_empty, node.alternatives))
    return isinstance(node, Repeated) and (not node.least or _may_be_empty(node.part))


def _pattern(node: Node) -> str:
    """Return the regular expression of a node that names no rule."""
    if isinstance(node, Characters):
        return f"[{''.join(map(_range, node.ranges))}]"
    if isinstance(node, Sequence):
        return f"(?:{''.join(map(_pattern, node.parts))})"
    if isinstance(node, Either):
        return f"(?:{'|'.join(map(_pattern, node.alternatives))})"
    assert isinstance(node, Repeated)
    return f"(?:{_pattern(node.part)}{_counts(node)})"


def _range(one: tuple[int, int]) -> str:
    low, high = (f"\\x{{{number:x}}}" for number in one)
    return low if low == high else f"{low}-{high}"


def _counts(node: Repeated) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    most = "" if node.most is None else node.most
    return known.get((node.least, node.most)) or f"{{{node.least},{most}}}"
