"""One answer's schema or grammar: which tokens may come next, and that those that come are of them.

The masks are found in a process apart, while the model's step runs.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from llm_lite.core.errors import RequestError
from llm_lite.core.generation.grammars.matcher import Matcher, RefusedError
from llm_lite.core.generation.grammars.matchers import matchers
from llm_lite.core.generation.token_choice import Mask
from llm_lite.core.messages import SamplingOptions
from llm_lite.core.processor import default_threads
from llm_lite.core.text.sandbox.process import give_up_when_cancelled
from llm_lite.core.text.tokenizer import Tokenizer
from llm_lite.core.turns import NOBODY, Places, client_here

_POLL_SECONDS = 0.02  # how long a cancellation may go unnoticed
_LONG_WAITS = 15  # of so long
_MOST_RESTING = 8  # processes of answers that wait for their turn; of more, the oldest are ended

_resting: OrderedDict[int, weakref.ref[Grammar]] = OrderedDict()
_lock = threading.Lock()  # of `_resting`
# Of clients' schemas and grammars fewer are compiled at once than there are cores: what answers is
# left one.
compiled_at_once = Places(max(1, default_threads() - 1))


def check_grammar(sampling: SamplingOptions) -> None:
    """Raise RequestError, with the line, where a schema or grammar is broken, or costs too much to
    compile."""
    if not sampling.json_schema and not sampling.grammar:
        return
    with _compiling():
        matcher = matchers().start(None)
        try:
            matcher.begin(*_form(sampling), None)
            _result(matcher)
        finally:
            matcher.close()


class Grammar:
    """The state of one answer in a grammar, and what may come next. It is used by one thread;
    `close` may be called from any, and ends its process, which starts again at the next question.
    """

    def __init__(self, sampling: SamplingOptions, tokenizer: Tokenizer) -> None:
        self._kind, self._text = _form(sampling)
        self._tokenizer = tokenizer
        self._matcher: Matcher | None = None
        self._is_coming = False  # the mask behind all tokens
        self._problem: RequestError | None = None  # why there is none any more
        self._mask: Mask | None = None  # once it is there
        self._tokens: list[int] = []  # all that were taken
        self._sent = 0  # how many of them the process has

    def check(self) -> None:
        """Wait for the mask behind the tokens so far. RequestError where the schema or grammar is
        broken or costs too much, and where the tokens do not fit it. Those of clients are compiled
        in turns."""
        with _compiling():
            self._found()
        self.rest()

    def rest(self) -> None:
        """Keep the process until the next question, as long as not too many rest after it."""
        with _lock:
            if self._matcher is None:
                return
            _resting[id(self)] = weakref.ref(self)
            while len(_resting) > _MOST_RESTING:
                oldest = _resting.popitem(last=False)[1]()
                if oldest is not None:
                    oldest._end()

    @property
    def is_kept(self) -> bool:
        """Return whether its process is there, so that nothing is compiled again."""
        return self._matcher is not None

    @property
    def is_busy(self) -> bool:
        """Return whether a mask is still to come; unlike `is_ready` this asks for none."""
        with _lock:
            matcher = self._matcher
            return self._is_coming and matcher is not None and not matcher.is_ready()

    def prepare(self) -> None:
        """Begin to compute the next mask: it is there when the model's step is done. Errors are
        raised with the mask."""
        with _lock:
            _resting.pop(id(self), None)
        if self._mask is not None or self._is_coming or self._problem is not None:
            return
        if self._matcher is None:
            self._sent = 0
            try:
                self._matcher = matchers().start(self._tokenizer)
            except RequestError as error:
                self._problem = error
                return
            self._matcher.begin(self._kind, self._text, self._tokens)
        else:
            self._matcher.advance(self._tokens[self._sent :])
        self._is_coming = True

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Return True if `mask` would not wait; waits up to `seconds` for it."""
        self.prepare()
        return not self._is_coming or self._matcher is None or self._matcher.is_ready(seconds)

    def mask(self) -> Mask:
        """Return the tokens that may come next: those that end an answer only if it is complete.

        RequestError where there is none, and where finding them costs too much.
        """
        return self._found().copy()

    def take(self, token: int) -> None:
        """The answer goes on with this token. RequestError where it must not; if no mask was
        computed behind the tokens before it, the next one raises it."""
        if self._is_coming:
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
        self._is_coming = False
        if matcher is not None:
            matcher.close()

    def _found(self) -> Mask:
        self.prepare()
        if self._problem is not None:
            raise self._problem
        if self._mask is None:
            assert self._matcher is not None
            try:
                data = _result(self._matcher)
            except RefusedError as refused:
                self._problem = self._refused(self._tokens[self._sent + refused.index])
            except RequestError as error:
                self._problem = error
            if self._problem is not None:
                self._end()
                raise self._problem
            self._mask = np.frombuffer(data, np.uint32)
            self._is_coming, self._sent = False, len(self._tokens)
        return self._mask

    def _refused(self, token: int) -> RequestError:
        text = self._tokenizer.token_bytes(token).decode(errors="replace")
        return RequestError(
            f"the answer does not fit the {self._kind}: it does not allow {text!r} here"
        )


def grammar_of(sampling: SamplingOptions, tokenizer: Tokenizer) -> Grammar | None:
    """Return None where the answer is free."""
    if not sampling.json_schema and not sampling.grammar:
        return None
    return Grammar(sampling, tokenizer)


def _form(sampling: SamplingOptions) -> tuple[str, str]:
    """Return what the constraint is called, and its text."""
    if sampling.json_schema:
        return "JSON schema", sampling.json_schema
    return "grammar", sampling.grammar


def _result(matcher: Matcher) -> bytes:
    """Wait for a matcher's result and return it; one that takes long, as an honest one never does,
    has the processor after others. CancelledError as of `cancelled_by`."""
    waits = 0
    while not matcher.is_ready(_POLL_SECONDS):
        give_up_when_cancelled()
        waits += 1
        if waits == _LONG_WAITS:
            matcher.lower()
    return matcher.result()


def _compiling() -> AbstractContextManager[None]:
    """Have a place among those that are compiled at once. The window's own answers, which nobody
    can hold up so, need none."""
    client = client_here()
    if client == NOBODY:
        return nullcontext()
    return compiled_at_once.taken(client, _POLL_SECONDS, give_up_when_cancelled)
