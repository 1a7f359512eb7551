"""A conversation is a tree: an edited question and another answer begin branches, and nothing is
lost. One path through it is shown."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from msgspec import Struct, field

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.history.ids import new_id
from llm_lite.core.history.records import AnswerEnd, StoredConversation, StoredMessage
from llm_lite.core.messages import ChatMessage
from llm_lite.core.records import replace


class Identified(Protocol):
    """A message of any kind, as the file, the window or the page has it."""

    @property
    def id(self) -> int: ...


class Turn(Struct, frozen=True):
    """A question or an answer of a conversation that no history keeps."""

    message: ChatMessage
    id: int = field(default_factory=new_id)


_NOWHERE = -1  # the id of no message
M = TypeVar("M", bound=Identified)
N = TypeVar("N", bound=Identified)


class Aside(Struct, Generic[M], frozen=True):
    """A message that is not shown."""

    message: M
    parent: int | None  # None: it is another beginning
    child: int | None  # the message that the path through it goes on with; None: it ends there


class ConversationTree(Struct, Generic[M], frozen=True):
    """The messages of a conversation and the path that is shown. Every change gives another tree,
    which shares with this one what stays.

    What follows from the path is not kept beside it: the parent of a message on it is the message
    before. So a conversation without branches is its path and nothing else.
    """

    path: tuple[M, ...] = ()  # from the first message to the last one shown
    aside: Mapping[int, Aside[M]] = field(default_factory=dict)  # all others, by their ids
    # The ids of messages in one place, the oldest first, by what they follow (None: they begin the
    # conversation); only where there are several.
    places: Mapping[int | None, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, conversation: StoredConversation) -> ConversationTree[StoredMessage]:
        """Return the tree of a conversation that is kept. Where it says no child of a message to
        show, the newest is: else none would be seen, nor could be chosen. A message whose parent is
        not before it, as in a file that was damaged, is in the tree, and no path leads there."""
        below: defaultdict[int | None, list[int]] = defaultdict(list)
        parents: dict[int, int | None] = {}
        for message in conversation.messages:
            is_behind = message.parent is None or message.parent in parents
            parents[message.id] = message.parent if is_behind else _NOWHERE
            below[parents[message.id]].append(message.id)
        chosen = {message.id: message.selected for message in conversation.messages}
        child = {
            parent: wanted if wanted in ids else ids[-1]
            for parent, ids in below.items()
            for wanted in [conversation.summary.selected if parent is None else chosen.get(parent)]
        }
        asides = {m.id: Aside(m, parents[m.id], child.get(m.id)) for m in conversation.messages}
        places = {parent: tuple(ids) for parent, ids in below.items() if len(ids) > 1}
        path = tuple(asides.pop(at).message for at in list(_down(child, child.get(None))))
        return ConversationTree(path, asides, places)

    @property
    def leaf(self) -> int | None:
        """Return the id of the last message that is shown."""
        return self.path[-1].id if self.path else None

    @property
    def count(self) -> int:
        """Return how many messages there are, shown or not."""
        return len(self.path) + len(self.aside)

    def __iter__(self) -> Iterator[M]:
        """Yield every message, those that are shown first."""
        yield from self.path
        yield from (one.message for one in self.aside.values())

    def index(self, message: int) -> int | None:
        """Return which message of the path has this id; None if none has."""
        return next((at for at, one in enumerate(self.path) if one.id == message), None)

    def find(self, message: int) -> M | None:
        """Return the message of this id; None if there is none."""
        if message in self.aside:
            return self.aside[message].message
        index = self.index(message)
        return None if index is None else self.path[index]

    def versions(self, index: int) -> tuple[int, ...]:
        """Return the ids of all messages in the place of the path's message `index`, itself
        included, the oldest first."""
        return self.places.get(self._parent(index), (self.path[index].id,))

    def version(self, index: int) -> int:
        """Return which of its versions the path's message `index` is."""
        return self.versions(index).index(self.path[index].id)

    def children(self) -> dict[int | None, tuple[M, ...]]:
        """Return what follows each message (None: the beginning), the oldest first."""
        found = {self._parent(index): (message,) for index, message in enumerate(self.path)}
        found |= {one.parent: (one.message,) for one in self.aside.values()}
        known = {message.id: message for message in self}
        return found | {at: tuple(known[one] for one in ids) for at, ids in self.places.items()}

    def path_to(self, message: int) -> tuple[M, ...]:
        """Return the messages from the first to this one; () if there is none of this id."""
        found: list[M] = []
        at: int | None = message
        while at is not None and at in self.aside:
            found.append(self.aside[at].message)
            at = self.aside[at].parent
        index = None if at is None else self.index(at)
        if at is not None and index is None:
            return ()
        shown = () if index is None else self.path[: index + 1]
        return (*shown, *reversed(found))

    def showing(self, message: int) -> ConversationTree[M]:
        """Return the tree with the path through a message, and on as it was left there; the same
        tree where that is shown, or where there is no such message."""
        way = self.path_to(message)
        if message not in self.aside or not way:
            return self
        child: dict[int | None, int | None] = {key: one.child for key, one in self.aside.items()}
        below = (self.aside[at].message for at in _down(child, child[message]))
        return self.with_path((*way, *below))

    def with_path(self, path: tuple[M, ...]) -> ConversationTree[M]:
        """Return the tree with another path. What the path before had and this one has not stays
        beside it, as other versions; what has the id of a message takes its place."""
        same = self._shared(path)
        if same == len(self.path) == len(path):
            return ConversationTree(path, self.aside, self.places)
        aside, places = dict(self.aside), dict(self.places)
        for at in range(same, len(self.path)):
            after = self.path[at + 1 : at + 2]
            child = after[0].id if after else None
            aside[self.path[at].id] = Aside(self.path[at], self._parent(at), child)
        for at, message in enumerate(path[same:], same):
            if aside.pop(message.id, None) is not None:
                continue  # it was there, and so were those beside it
            parent = path[at - 1].id if at else None
            beside = places.get(parent) or _behind(aside, parent)
            if beside:
                places[parent] = (*beside, message.id)
        return ConversationTree(path, aside, places)

    def mapped(self, made: Callable[[M], N]) -> ConversationTree[N]:
        """Return the tree of what `made` returns for each message, with the same ids."""
        path = tuple(map(made, self.path))
        aside = {
            key: Aside(made(one.message), one.parent, one.child) for key, one in self.aside.items()
        }
        return ConversationTree(path, aside, self.places)

    def _parent(self, index: int) -> int | None:
        return self.path[index - 1].id if index else None

    def _shared(self, path: tuple[M, ...]) -> int:
        """Return how many first messages both paths share. Where one has the last message of the
        other, it has all of them: a message is behind one other."""
        shorter = min(len(path), len(self.path))
        if shorter and path[shorter - 1].id == self.path[shorter - 1].id:
            return shorter
        pairs = enumerate(zip(path, self.path, strict=False))
        return next((at for at, (one, other) in pairs if one.id != other.id), shorter)


def fork(conversation: StoredConversation, message: int, title: str) -> StoredConversation:
    """Return a conversation of the path to a message, and of nothing else; `History.add` gives it
    numbers of its own."""
    now, path = time.time(), ConversationTree.of(conversation).path_to(message)
    follows = {one.parent: one.id for one in path}
    messages = tuple(
        replace(
            one,
            selected=follows.get(one.id),
            based_on=None,
            kept_tokens=0,
            finished=True,
            end=one.end if one.finished else AnswerEnd("stopped"),
        )
        for one in path
    )
    summary = replace(
        conversation.summary,
        title=title,
        title_source="person",
        created=now,
        updated=now,
        pinned=False,
        archived=False,
        deleted=None,
        selected=path[0].id if path else None,
    )
    changes = conversation.extras.interventions  # the draft stays there
    extras = ConversationExtras(interventions=changes)
    return StoredConversation(summary, messages, extras)


def _down(child: Mapping[int | None, int | None], at: int | None) -> Iterator[int]:
    """Yield a message and what is chosen behind it, to the end."""
    while at is not None:
        yield at
        at = child.get(at)


def _behind(aside: Mapping[int, Aside[M]], parent: int | None) -> tuple[int, ...]:
    return tuple(key for key, one in aside.items() if one.parent == parent)
