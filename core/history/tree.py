"""A conversation's tree: the path that is shown, and the versions of a message."""

from __future__ import annotations

import time
from collections import defaultdict

from msgspec import Struct, field

from llm_lite.core.attached_text import ConversationExtras
from llm_lite.core.history.records import AnswerEnd, StoredConversation, StoredMessage
from llm_lite.core.records import replace


class ConversationTree(Struct, frozen=True):
    """Looks up how a conversation's messages are related; made once for each reading."""

    conversation: StoredConversation
    by_id: dict[int, StoredMessage] = field(default_factory=dict)
    children: dict[int | None, tuple[StoredMessage, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, conversation: StoredConversation) -> ConversationTree:
        below: defaultdict[int | None, list[StoredMessage]] = defaultdict(list)
        for message in conversation.messages:
            below[message.parent].append(message)
        by_id = {message.id: message for message in conversation.messages}
        return cls(conversation, by_id, {key: tuple(value) for key, value in below.items()})

    def path(self) -> tuple[StoredMessage, ...]:
        """Return the messages that are shown, from the first to the leaf."""
        shown: list[StoredMessage] = []
        at = self._child(None, self.conversation.summary.selected)
        while at is not None:
            shown.append(at)
            at = self._child(at.id, at.selected)
        return tuple(shown)

    @property
    def leaf(self) -> int | None:
        """Return the last message that is shown. It is not stored: it follows from what is
        selected."""
        shown = self.path()
        return shown[-1].id if shown else None

    def versions(self, message: StoredMessage) -> tuple[StoredMessage, ...]:
        """Return all messages in the place of this one, itself included, the oldest first."""
        return self.children.get(message.parent, ())

    def path_to(self, message: int) -> tuple[StoredMessage, ...]:
        """Return the messages from the first to this one; () if there is none of this id."""
        found: list[StoredMessage] = []
        at = self.by_id.get(message)
        while at is not None:
            found.append(at)
            at = self.by_id.get(at.parent) if at.parent is not None else None
        return tuple(reversed(found))

    def fork(self, message: int, title: str) -> StoredConversation:
        """Return a conversation of the path to a message, and of nothing else; `History.add` gives
        it numbers of its own."""
        now, path = time.time(), self.path_to(message)
        follows = [one.id for one in path[1:]]
        messages = tuple(
            replace(
                one,
                selected=child,
                based_on=None,
                kept_tokens=0,
                finished=True,
                end=one.end if one.finished else AnswerEnd("stopped"),
            )
            for one, child in zip(path, [*follows, None], strict=True)
        )
        summary = replace(
            self.conversation.summary,
            title=title,
            title_source="person",
            created=now,
            updated=now,
            pinned=False,
            archived=False,
            deleted=None,
            selected=path[0].id if path else None,
        )
        extras = ConversationExtras(gains=self.conversation.extras.gains)  # the draft stays there
        return StoredConversation(summary, messages, extras)

    def _child(self, parent: int | None, selected: int | None) -> StoredMessage | None:
        child = self.by_id.get(selected) if selected is not None else None
        return child if child is not None and child.parent == parent else None
