"""Answers for clients of a server: what they ask, and how the server is doing.

The events of such an answer are those of the chat: GenerationStarted, TokenDecoded,
GenerationFinished and Ended, which only the client that asked receives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from llm_lite.core.messages.answers import ChatMessage
from llm_lite.core.messages.interventions import NO_CHANGES, Interventions
from llm_lite.core.messages.kinds import Command, Event
from llm_lite.core.messages.options import Speculate
from llm_lite.core.messages.sampling_options import SamplingOptions
from llm_lite.core.messages.tools import ToolSpec, ToolStyle


class AnswerRequest(Command, frozen=True):
    """A prompt to answer: `messages` in the model's template, or else `tokens`, or else `text` as
    it is, without a template. Exactly one of the three is there.

    `response` is the name under which the answer can be inspected as long as the cache keeps it.
    With `continue_last` the last message is an assistant's and goes on where it ended. `client`
    says whose turn it is: clients take turns, however many requests each has. `alternatives`: how
    many likeliest tokens are told with each token, at most MOST_ALTERNATIVES. `interventions` act
    while the prompt is read and the answer written: scales of heads and experts, choices of
    experts, and shifts of what layers leave. An answer that
    keeps to a schema or grammar may be a call of a function in its place, marked as `calls` says.
    """

    response: str
    messages: tuple[ChatMessage, ...] = ()
    tokens: tuple[int, ...] = ()
    text: str = ""
    sampling: SamplingOptions = field(default_factory=SamplingOptions)
    tools: tuple[ToolSpec, ...] = ()
    thinking: bool = True
    continue_last: bool = False
    alternatives: int = 0
    client: str = ""
    calls: ToolStyle = ""
    values: Mapping[str, Any] = field(default_factory=dict)  # of other variables of the template
    interventions: Interventions = NO_CHANGES


MOST_ALTERNATIVES = 20


class ServedRequest(Struct, frozen=True):
    """A request that waits, or that is being answered."""

    number: int
    response: str
    client: str
    waiting: bool
    prompt_tokens: int  # 0 until the prompt is encoded
    prefilled: int  # of these, those that the cache holds
    new_tokens: int
    seconds: float  # since it was asked


class ServingStatus(Struct, frozen=True):
    """The status of a server. Counts are since it began."""

    model: str = ""
    parallel: int = 0  # answers at once
    most_waiting: int = 0
    context: int = 0  # positions of one answer
    pages: int = 0  # of the cache, shared by all answers
    pages_used: int = 0  # by answers that run
    pages_kept: int = 0  # by ended ones, until others need them
    page_tokens: int = 0  # positions of a page
    requests: tuple[ServedRequest, ...] = ()
    finished: int = 0
    cancelled: int = 0
    failed: int = 0
    refused: int = 0  # because too many waited
    prompt_tokens: int = 0
    cached_tokens: int = 0  # of these, found in the cache
    new_tokens: int = 0
    steps: int = 0
    step_seconds: float = 0.0


class StartServing(Command, frozen=True):
    """Answer clients of a server on the model in use, up to `parallel` at once, beside the chat."""

    parallel: int = 4
    context: int = 0  # positions of one answer; 0: as the model is loaded
    cache_budget: int = 0  # bytes for pages of the cache; 0: as many as all answers at once take
    most_waiting: int = 64
    # Drafts of an answer that runs alone; None: as the chat's, also once these are changed.
    speculate: Speculate | None = None
    # With drafts of the model that EngineOptions name, too: where nobody chats, whose text it would
    # have to follow as well.
    by_draft_model: bool = False


class StopServing(Command, frozen=True):
    """End all answers of clients, and free their cache."""


class ServingChanged(Event, frozen=True):
    """Reports whether clients are answered now, and how; `problem` is a sentence if it failed."""

    is_on: bool
    status: ServingStatus = ServingStatus()
    problem: str = ""
