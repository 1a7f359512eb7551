"""One answer's schema or grammar: which tokens may come next, and that those that come are of them.

The masks are found in a process apart, while the model's step runs.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYetError

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.matcher import Matcher, RefusedError
from llm_lite.core.generation.grammars.matchers import matchers
from llm_lite.core.generation.token_choice import Mask
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.text.sandbox.process import give_up_when_cancelled
from llm_lite.core.text.tokenizer import Tokenizer

_POLL_SECONDS = 0.02  # how long a cancellation may go unnoticed
_MOST_RESTING = 8  # processes of answers that wait for their turn; of more, the oldest are ended

_resting: OrderedDict[int, weakref.ref[Grammar]] = OrderedDict()
_lock = threading.Lock()  # of `_resting`


def check_grammar(sampling: SamplingOptions) -> None:
    """RequestError, with the line, where a schema or grammar is broken, or costs too much to
    compile."""
    if not sampling.json_schema and not sampling.grammar:
        return
    matcher = matchers().start(None)
    try:
        _wait(matcher, matcher.begin(*_form(sampling), None))
    finally:
        matcher.close()


class Grammar:
    """What one answer has said of a grammar, and what it may say next. For one thread; `close` is
    for any, and gives its process back: it is started again where it is asked for more."""

    def __init__(self, sampling: SamplingOptions, tokenizer: Tokenizer) -> None:
        self._kind, self._text = _form(sampling)
        self._tokenizer = tokenizer
        self._matcher: Matcher | None = None
        self._coming: Future[bytes] | None = None  # the mask behind all tokens
        self._mask: Mask | None = None  # once it is there
        self._tokens: list[int] = []  # all that were taken
        self._sent = 0  # how many of them the process has

    def check(self) -> None:
        """Wait for the mask behind the tokens so far. RequestError where the schema or grammar is
        broken or costs too much, and where the tokens do not fit it."""
        self._found()
        with _lock:
            _resting[id(self)] = weakref.ref(self)
            while len(_resting) > _MOST_RESTING:
                oldest = _resting.popitem(last=False)[1]()
                if oldest is not None:
                    oldest._end()

    def prepare(self) -> None:
        """Begin to find the next mask: it is there when the model's step is done. What is wrong is
        said with the mask."""
        with _lock:
            _resting.pop(id(self), None)
        if self._mask is not None or self._coming is not None:
            return
        if self._matcher is None:
            self._sent = 0
            try:
                self._matcher = matchers().start(self._tokenizer)
            except RequestError as error:
                self._coming = Future()
                self._coming.set_exception(error)
                return
            self._coming = self._matcher.begin(self._kind, self._text, self._tokens)
        else:
            self._coming = self._matcher.advance(self._tokens[self._sent :], self._kind)

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Whether `mask` would not wait; waits for it so long."""
        self.prepare()
        if self._coming is None or self._coming.done():
            return True
        assert self._matcher is not None
        self._matcher.end_if_late()
        try:
            self._coming.exception(seconds)
        except NotYetError:
            return False
        return True

    def mask(self) -> Mask:
        """The tokens that may come next: those that end an answer only where it is complete.

        RequestError where there is none, and where finding them costs too much.
        """
        return self._found().copy()

    def take(self, token: int) -> None:
        """The answer goes on with this token. RequestError where it must not; where no mask was
        asked for behind the tokens before it, the next one says so."""
        if self._coming is not None:
            self._found()
        mask, self._mask = self._mask, None
        if mask is not None and not mask[token // 32] >> (token % 32) & 1:
            raise self._refused(token)
        self._tokens.append(token)

    def close(self) -> None:
        with _lock:
            _resting.pop(id(self), None)
            self._end()

    def _end(self) -> None:
        matcher, self._matcher = self._matcher, None
        self._coming = None
        if matcher is not None:
            matcher.close()

    def _found(self) -> Mask:
        """The mask, and it stays."""
        self.prepare()
        if self._mask is None:
            assert self._coming is not None
            try:
                data = _wait(self._matcher, self._coming)
            except RefusedError as refused:
                raise self._refused(self._tokens[self._sent + refused.index]) from None
            self._mask = np.frombuffer(data, np.uint32)
            self._coming, self._sent = None, len(self._tokens)
        return self._mask

    def _refused(self, token: int) -> RequestError:
        text = self._tokenizer.token_bytes(token).decode(errors="replace")
        return RequestError(
            f"the answer does not fit the {self._kind}: it does not allow {text!r} here"
        )


def grammar_of(sampling: SamplingOptions, tokenizer: Tokenizer) -> Grammar | None:
    """None where the answer is free."""
    if not sampling.json_schema and not sampling.grammar:
        return None
    return Grammar(sampling, tokenizer)


def _form(sampling: SamplingOptions) -> tuple[str, str]:
    """What it is called, and its text."""
    if sampling.json_schema:
        return "JSON schema", sampling.json_schema
    return "grammar", sampling.grammar


def _wait(matcher: Matcher | None, coming: Future[bytes]) -> bytes:
    while not coming.done():
        give_up_when_cancelled()
        if matcher is not None:
            matcher.end_if_late()
        try:
            return coming.result(_POLL_SECONDS)
        except NotYetError:
            continue
    return coming.result()
