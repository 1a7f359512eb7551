"""What can be undone and done again: one journal of what a person did, the newest last.

A conversation is never overwritten, so a step of it is two looks at it: which versions were shown,
and what it was told beside its messages. Steps of the list (a conversation renamed or deleted) are
carried out by the history's keeper; here they only have their place in the order.
"""

from __future__ import annotations

from msgspec import Struct

from llm_lite.core.messages import EngineOptions, Gains, SamplingOptions
from llm_lite.core.records import replace

Way = tuple[tuple[int, int], ...]  # as in `branches`
MOST = 200  # steps
TYPING = 5.0  # seconds without a key after which a text is changed anew


class ConversationLook(Struct, frozen=True):
    """What a step of a conversation may change."""

    way: Way
    system_prompt: str
    sampling: SamplingOptions
    options: EngineOptions
    gains: Gains | None


class ChatStep(Struct, frozen=True):
    """Of the conversation that was in the chat."""

    label: str  # "edit of a question"
    at: float  # on the clock of notices
    chat: int
    conversation: int | None  # its number in the history
    before: ConversationLook
    after: ConversationLook


class ListStep(Struct, frozen=True):
    """Of the list; `number` is that of the keeper's journal, 0 until it is known."""

    ticket: int
    label: str
    number: int = 0


Step = ChatStep | ListStep


class Undoing(Struct, frozen=True):
    done: tuple[Step, ...] = ()
    undone: tuple[Step, ...] = ()  # the one that was undone last stands last
    waiting: tuple[int, ...] = ()  # tickets of steps of the list, in the order they were asked
    tickets: int = 0  # that there ever were

    def with_step(self, step: Step) -> Undoing:
        """A step of the same place leaves nothing to be done again there."""
        undone = tuple(other for other in self.undone if not _same_place(step, other))
        return replace(self, done=(*self.done, step)[-MOST:], undone=undone)

    def asked(self, label: str) -> Undoing:
        """With a step that the keeper is to do. It does all in turn, as they are here."""
        ticket = self.tickets + 1
        after = self.with_step(ListStep(ticket, label))
        return replace(after, waiting=(*self.waiting, ticket), tickets=ticket)

    def answered(self, number: int, label: str) -> Undoing:
        """The oldest that was asked is done; or, with 0, there was nothing to do."""
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
        """What comes next: of the list, or of the conversation that is in the chat."""
        steps = self.done if back else self.undone
        return next((step for step in reversed(steps) if _is_here(step, chat, conversation)), None)

    def moved(self, step: Step, back: bool) -> Undoing:
        if back:
            return replace(self, done=_without(self.done, step), undone=(*self.undone, step))
        return replace(self, done=(*self.done, step), undone=_without(self.undone, step))

    def keeping(self, numbers: frozenset[int]) -> Undoing:
        """Without steps of the list that the keeper has forgotten."""

        def kept(steps: tuple[Step, ...]) -> tuple[Step, ...]:
            known = {0, *numbers}
            return tuple(s for s in steps if isinstance(s, ChatStep) or s.number in known)

        return replace(self, done=kept(self.done), undone=kept(self.undone))


def typed_on(step: Step | None, fresh: ChatStep) -> ChatStep | None:
    """One step for both, where the second goes on with a text that is being typed."""
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
