"""An answer in Python: an iterator of tokens, each with what the model thought of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from llm_lite.api.token_text import TokenText
from llm_lite.core.generation.answer import Emit
from llm_lite.core.generation.answer_writer import AnswerWriter
from llm_lite.core.generation.sampling import TokenChoice
from llm_lite.core.generation.session import Session
from llm_lite.core.generation.steps import AnswerItem, answer_steps
from llm_lite.core.messages import (
    Alternative,
    ChatMessage,
    Event,
    StopReason,
    Thinking,
    TokenDecoded,
)
from llm_lite.core.text.thinking import Split

Turn = Callable[["Answer"], AbstractContextManager[None]]


class Token(Struct, frozen=True):
    """A token of an answer."""

    id: int  # -1 where a server does not tell it
    text: str  # what became whole characters with this token; may be ""
    probability: float  # 0..1, at temperature 1, before penalties and filters
    alternatives: tuple[Alternative, ...]  # the five likeliest in its place: text, probability

    def __str__(self) -> str:
        return self.text


class Answer:
    """The answer that `Model.generate` and `Model.complete` return: an iterator of `Token`.

        for token in model.generate("Why is the sky blue?"):
            print(token.text, end="", flush=True)

    Each token is computed when it is asked for. `text` (and `str`, and a notebook that shows the
    answer) goes on to the end. Another use of the model in between ends an answer that is not
    finished: going on with it then raises RequestError.
    """

    def __init__(self, prompt: tuple[int, ...] = (), thinking: Thinking | None = None) -> None:
        self.prompt = prompt  # ids of the tokens of the prompt, the chat template's included
        self.tokens: list[Token] = []  # so far
        self.is_begun = False
        self.finish_reason: StopReason | None = None  # None: not finished
        self._thinking = thinking
        self._ready: list[Token] = []  # chosen and not yet given
        self._rest = ""  # of a character that no token finished

    def _step(self) -> None:
        """Append further tokens to `_ready`, or set `finish_reason`."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Token]:
        """Iterate from the first token, also after the answer was finished."""
        at = 0
        while at < len(self.tokens) or self._next():
            yield self.tokens[at]
            at += 1

    def __next__(self) -> Token:
        if not self._next():
            raise StopIteration
        return self.tokens[-1]

    @property
    def text(self) -> str:
        """The whole answer; what is not computed yet is computed first."""
        while self._next():
            pass
        return self._whole_text

    @property
    def ids(self) -> NDArray[np.int32]:
        """int32 [n] of the tokens so far."""
        return np.array([token.id for token in self.tokens], np.int32)

    @property
    def probabilities(self) -> NDArray[np.float32]:
        """float32 [n] of the tokens so far, as `Token.probability`."""
        return np.array([token.probability for token in self.tokens], np.float32)

    @property
    def message(self) -> ChatMessage:
        """Return the whole answer as a message, to continue with `[question, answer.message, "…"]`.

        The thoughts of a reasoning model stand apart in its `thought`.
        """
        while self._next():
            pass
        return self.so_far

    @property
    def so_far(self) -> ChatMessage:
        """Return what is computed of the answer as a message."""
        text = self._whole_text
        ids = tuple(token.id for token in self.tokens)
        if self.finish_reason in ("stop string", "role") or min(ids, default=0) < 0:
            ids = ()
        if self._thinking is None:
            return ChatMessage("assistant", text, ids)
        split = Split.of(self._thinking).fed(text).ended()
        return ChatMessage("assistant", split.visible_text, ids, split.thought)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        whole = self._whole_text
        shown = whole if len(whole) <= 40 else whole[:39] + "…"
        state = self.finish_reason or "not finished"
        return f"<Answer of {len(self.tokens)} tokens, {state}: {shown!r}>"

    def _repr_html_(self) -> str:
        """Return the whole answer as HTML, its tokens tinted by how unlikely the model found
        them."""
        text = self.text
        return self.token_text._repr_html_() if text else repr(self)

    @property
    def token_text(self) -> TokenText:
        """Return the tokens so far with their probabilities, for a notebook to show."""
        texts = [token.text for token in self.tokens]
        notes = [_list_alternatives(token.alternatives) for token in self.tokens]
        return TokenText(texts, self.probabilities, likelihood=True, notes=notes)

    @property
    def _whole_text(self) -> str:
        return "".join(token.text for token in self.tokens) + self._rest

    def _next(self) -> bool:
        """Return True if there is one more token, which is then the last of `tokens`."""
        while not self._ready and self.finish_reason is None:
            self._step()
        if self._ready:
            self.tokens.append(self._ready.pop(0))
            return True
        return False


class ComputedAnswer(Answer):
    """The answer of a model that is loaded in this process."""

    def __init__(
        self, make_writer: Callable[[Emit], AnswerWriter], session: Session, turn: Turn
    ) -> None:
        """`make_writer` gets what takes its events. RequestError as of `AnswerWriter`."""
        self._writer = writer = make_writer(self._take)
        super().__init__(tuple(writer.chooser.tokens), writer.thinking)
        self._session, self._turn = session, turn
        self._steps = self._run()

    def _run(self) -> Iterator[AnswerItem]:
        session, chooser = self._session, self._writer.chooser
        try:
            chooser.drafts.speculation = session.speculation
            yield from answer_steps(session, session.prepare(chooser.tokens), chooser)
        finally:
            chooser.close()

    def _step(self) -> None:
        with self._turn(self):
            self.is_begun = True
            writer, item = self._writer, next(self._steps, None)
            if isinstance(item, TokenChoice):
                writer.emit_token(item, self._session.context_used, self._session.step_seconds)
            if item is None or writer.reason is not None:
                writer.flush()
                self.finish_reason = writer.reason or "context"

    def _take(self, event: Event) -> None:
        if not isinstance(event, TokenDecoded):
            return
        if event.token in self._writer.chooser.ends:
            self._rest = event.text
        else:
            token = Token(event.token, event.text, event.probability, event.alternatives)
            self._ready.append(token)


def _list_alternatives(best: tuple[Alternative, ...]) -> str:
    return ", ".join(f"{other.text!r} {other.probability:.1%}" for other in best)
