"""The tree that the messages of the chat are: every version of every one, and the way to it.

A way is what must be chosen: the place of a version by the index of its message, from the first
message on. Places are in the order in which versions were made, so a way stays the same when more
are made, when another path is shown and when the conversation is opened again. Nothing here
recurses: a tree may be as deep as it has messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from llm_lite.desktop.features.program.state import Message

Way = tuple[tuple[int, int], ...]  # index of a message, place of its version


class Branch(Struct, frozen=True):
    """Messages behind each other: those that are shown, or another version with what follows."""

    messages: tuple[Message, ...]
    index: int  # of its first message in the conversation
    place: int  # of its first message among its versions
    parent: int  # number of the branch that it leaves; -1: none


def branches(messages: tuple[Message, ...]) -> list[Branch]:
    """The one that is shown is the first; the others stand behind the one that they leave."""
    found: list[Branch] = []
    waiting = [Branch(messages, 0, messages[0].place if messages else 0, -1)]
    while waiting:
        branch = waiting.pop()
        number = len(found)
        found.append(branch)
        for at, message in enumerate(branch.messages):
            for nth, tail in enumerate(message.versions):
                place = nth + (nth >= message.place)
                waiting.append(Branch(tail, branch.index + at, place, number))
    return found


def way_of(found: Sequence[Branch], number: int, last: int) -> Way:
    """To the message of the index `last` in a branch."""
    choices: list[tuple[int, int]] = []
    while number >= 0:
        branch = found[number]
        for index in range(last, branch.index - 1, -1):
            message = branch.messages[index - branch.index]
            if branch.parent >= 0 and index == branch.index:
                choices.append((index, branch.place))
            elif message.versions:
                choices.append((index, message.place))
        number, last = branch.parent, branch.index - 1
    return tuple(reversed(choices))


def way_to(messages: tuple[Message, ...], key: int) -> Way | None:
    """To the message of this key; None where there is none."""
    found = branches(messages)
    for number, branch in enumerate(found):
        for at, message in enumerate(branch.messages):
            if message.key == key:
                return way_of(found, number, branch.index + at)
    return None


def places_of(messages: tuple[Message, ...]) -> Way:
    """The way that is shown."""
    return tuple((index, m.place) for index, m in enumerate(messages) if m.versions)
