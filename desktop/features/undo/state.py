"""The journal of steps that can be undone and done again, the newest last.

A conversation is never overwritten, so a step in it is two snapshots: up to which message it was
shown, and which settings it had. Steps of the list (a conversation renamed or deleted) are carried
out by the history's host; here they only have their place in the order.
"""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import EngineOptions, Interventions, SamplingOptions
from llm_lite.core.records import replace

MOST = 200  # steps
TYPING = 5.0  # seconds without a key after which a text is changed anew


class ConversationSnapshot(Struct, frozen=True):
    """The part of a conversation that a step can change."""

    leaf: int | None  # the id of the last message that was shown
    system_prompt: str
    sampling: SamplingOptions
    options: EngineOptions
    interventions: Interventions


class ChatStep(Struct, frozen=True):
    """A change to the conversation that was in the chat."""

    label: str  # "edit of a question"
    at: float  # on the clock of notices
    chat: int
    conversation: int | None  # its number in the history
    before: ConversationSnapshot
    after: ConversationSnapshot


class ListStep(Struct, frozen=True):
    """A change to the list of conversations, which the history carries out."""

    ticket: int
    label: str
    number: int = 0  # in the journal of the history, 0 until it is known


Step = ChatStep | ListStep


class Undoing(Struct, frozen=True):
    done: tuple[Step, ...] = ()
    undone: tuple[Step, ...] = ()  # the one that was undone last stands last
    waiting: tuple[int, ...] = ()  # tickets of steps of the list, in the order they were asked
    tickets: int = 0  # that there ever were

    def with_step(self, step: Step) -> Undoing:
        """Add a step; what was undone in the same place cannot be done again then."""
        undone = tuple(other for other in self.undone if not _same_place(step, other))
        return replace(self, done=(*self.done, step)[-MOST:], undone=undone)

    def requested(self, label: str) -> Undoing:
        """Add a step that the history is to carry out. It answers in the order of the requests."""
        ticket = self.tickets + 1
        after = self.with_step(ListStep(ticket, label))
        return replace(after, waiting=(*self.waiting, ticket), tickets=ticket)

    def answered(self, number: int, label: str) -> Undoing:
        """Number the oldest waiting step, which the history carried out; remove it where
        `number` is 0, as nothing was changed."""
        if not self.waiting:
            return self
        ticket = self.waiting[0]

        def known(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            found: list[Step] = []
            for step in steps:
                if isinstance(step, ListStep) and step.ticket == ticket:
                    if not number:
                        continue
                    step = ListStep(ticket, label, number)
                found.append(step)
            return tuple(found)

        done, undone = known(self.done), known(self.undone)
        return replace(self, done=done, undone=undone, waiting=self.waiting[1:])

    def newest(self, chat: int, conversation: int | None, back: bool) -> Step | None:
        """Return the step to undo next (`back`) or to redo next: of the list, or of the
        conversation that is in the chat."""
        steps = self.done if back else self.undone
        return next((step for step in reversed(steps) if _is_here(step, chat, conversation)), None)

    def moved(self, step: Step, back: bool) -> Undoing:
        if back:
            return replace(self, done=_without(self.done, step), undone=(*self.undone, step))
        return replace(self, done=(*self.done, step), undone=_without(self.undone, step))

    def keeping(self, numbers: frozenset[int]) -> Undoing:
        """Remove steps of the list that are no longer in the journal of the history."""

        def kept(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            known = {0, *numbers}
            return tuple(s for s in steps if isinstance(s, ChatStep) or s.number in known)

        return replace(self, done=kept(self.done), undone=kept(self.undone))


def typed_on(step: Step | None, fresh: ChatStep) -> ChatStep | None:
    """Join both steps where the second continues a text that is being typed."""
    if not isinstance(step, ChatStep) or step.label != fresh.label or step.chat != fresh.chat:
        return None
    if fresh.at - step.at > TYPING or step.after != fresh.before:
        return None
    return replace(fresh, before=step.before)


def _without(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    return tuple(other for other in steps if other is not step)


def _is_here(step: Step, chat: int, conversation: int | None) -> bool:
    if isinstance(step, ListStep) or step.chat == chat:
        return True
    return step.conversation is not None and step.conversation == conversation


def _same_place(step: Step, other: Step) -> bool:
    if isinstance(step, ListStep) or isinstance(other, ListStep):
        return type(step) is type(other)
    same = step.conversation is not None and step.conversation == other.conversation
    return same or step.chat == other.chat
