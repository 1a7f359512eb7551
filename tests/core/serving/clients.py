"""Clients of an engine's service, in a test."""

import threading

from llm_lite.core.messages import (
    AnswerRequest,
    Ended,
    GenerationFinished,
    GenerationStarted,
    SamplingOptions,
    StartServing,
    TokenDecoded,
)
from tests.core.engine_client import PATIENCE

GREEDY = SamplingOptions(temperature=0.0, max_new_tokens=12)


def is_of_clients(step):
    """Return whether a step is of clients alone: their pages lie behind the chat's, which a draft
    model and a compared run have from 0 on, too."""
    return step.segments[0].pages[0] > 0


class Asked:
    """A request and all that was told of it."""

    def __init__(self, service, **request):
        self.events = []
        self.done = threading.Event()
        request.setdefault("sampling", GREEDY)
        request.setdefault("response", f"answer-{id(self)}")
        self.response = request["response"]
        self.handle = service.submit(AnswerRequest(**request), lambda event: self.hear(event))

    def hear(self, event):
        self.events.append(event)
        if isinstance(event, Ended):
            self.done.set()

    def end(self):
        """How it ended: the last event of all."""
        assert self.done.wait(PATIENCE), self.events
        assert isinstance(self.events[-1], Ended)
        return self.events[-1]

    def finished(self):
        """The last event of the answer, which did not fail."""
        assert self.end().problem == "", self.events
        assert isinstance(self.events[-2], GenerationFinished)
        return self.events[-2]

    @property
    def started(self):
        return next(e for e in self.events if isinstance(e, GenerationStarted))

    def tokens(self):
        self.finished()
        return [e.token for e in self.events if isinstance(e, TokenDecoded)]

    def text(self):
        self.finished()
        return "".join(e.text for e in self.events if isinstance(e, TokenDecoded))


def serve(client, speculate="off", **options):
    """The service of a server that begins now. Without drafts a step is a token, which tests
    count."""
    handle = client.send(StartServing(speculate=speculate, **options))
    problem = client.until_end(handle).problem  # the last server's events may come before it
    assert not problem, problem
    return client.engine.service()
