"""A conversation in Python: questions and answers, with every version that there was of them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from llm_lite.api.answer import Answer
from llm_lite.api.given import Message
from llm_lite.core.errors import RequestError
from llm_lite.core.history.tree import ConversationTree, Turn
from llm_lite.core.messages import ChatMessage


class Answering(Protocol):
    """A model here or elsewhere."""

    def generate(
        self, prompt: str | Sequence[Message], *, thinking: bool = True, **sampling: Any
    ) -> Answer: ...


class Conversation:
    """Questions to a model and its answers.

        talk = llm_lite.Conversation(model, system="Answer in one sentence.")
        talk.send("Why is the sky blue?")
        talk.regenerate()  # another version of that answer
        talk.edit(0, "Why is grass green?")  # another version of the question, and its answer
        talk.show(0, 0)  # the first question again, with what followed it

    Nothing is lost: an edit and another answer stand beside what was there before. `options` are
    those of every answer, as of `Model.generate`; those of a single answer come before them.
    """

    def __init__(self, model: Answering, system: str = "", **options: Any) -> None:
        self._model, self._system, self._options = model, system, options
        self._tree: ConversationTree[Turn] = ConversationTree()
        self._answer: Answer | None = None  # to the last question; it is no message yet

    def send(self, question: str, **options: Any) -> Answer:
        """Return the answer to another question. What is not computed of the answer before is
        computed first."""
        return self._answered(
            (*self._finished_path(), Turn(ChatMessage("user", question))), options
        )

    def regenerate(self, **options: Any) -> Answer:
        """Return another answer to the last question, by default with a seed of its own."""
        path = self._finished_path()
        if not path:
            raise RequestError("there is no answer yet: send a question first")
        return self._answered(path[:-1], {"seed": secrets.randbelow(1 << 32), **options})

    def edit(self, index: int, question: str, **options: Any) -> Answer:
        """Return the answer to another question in the place of message `index`."""
        path = self._finished_path()
        self._check(path, index, "user")
        turn = Turn(ChatMessage("user", question))
        return self._answered((*path[:index], turn), options)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The questions and answers that are shown, in turns; what is not computed yet of the last
        one is computed first."""
        return tuple(turn.message for turn in self._finished_path())

    def versions(self, index: int) -> tuple[ChatMessage, ...]:
        """Return all messages that there were in the place of message `index`, the oldest first."""
        self._check(self._finished_path(), index)
        found = (self._tree.find(one) for one in self._tree.versions(index))
        return tuple(turn.message for turn in found if turn is not None)

    def show(self, index: int, version: int) -> None:
        """Show a version of message `index`, and what followed it; both count from 0."""
        self._check(self._finished_path(), index)
        known = self._tree.versions(index)
        if not 0 <= version < len(known):
            raise RequestError(
                f"message {index} has versions 0 to {len(known) - 1}, asked for {version}"
            )
        self._tree = self._tree.showing(known[version])

    def __len__(self) -> int:
        return len(self._finished_path())

    def __str__(self) -> str:
        return "\n\n".join(f"{one.role}: {one.content}" for one in self.messages)

    def __repr__(self) -> str:
        shown = len(self._tree.path) + (self._answer is not None)
        return f"<Conversation of {shown} messages, {len(self._tree.aside)} others beside them>"

    def _answered(self, path: tuple[Turn, ...], options: dict[str, Any]) -> Answer:
        """Show a path that ends with a question, once the model takes it."""
        system = (ChatMessage("system", self._system),) if self._system else ()
        asked = (*system, *(turn.message for turn in path))
        answer = self._model.generate(asked, **{**self._options, **options})
        self._tree, self._answer = self._tree.with_path(path), answer
        return answer

    def _finished_path(self) -> tuple[Turn, ...]:
        """Return the path with the last answer, which is a message from now on; as far as it came
        where the model was used for something else meanwhile."""
        answer = self._answer
        if answer is not None:
            with suppress(RequestError):
                _ = answer.text
            self._tree = self._tree.with_path((*self._tree.path, Turn(answer.so_far)))
            self._answer = None  # not before: what interrupts the answer loses none of it
        return self._tree.path

    def _check(self, path: Sequence[Turn], index: int, role: str = "") -> None:
        """Raise RequestError unless there is such a message, of this role if one is given."""
        if not 0 <= index < len(path):
            raise RequestError(f"there is no message {index}: the conversation has {len(path)}")
        if role and path[index].message.role != role:
            raise RequestError(f"message {index} is an answer: expected a question to edit")
