"""/health and /metrics say how the server is doing.

The metrics have Prometheus' text format, version 0.0.4:
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct
from starlette.responses import Response

from llm_lite.core.errors import FileChangedError
from llm_lite.core.messages import ServingStatus
from llm_lite.server.call import Call
from llm_lite.server.failures import ApiError, json_response
from llm_lite.server.shared import Shared

TEXT = "text/plain; version=0.0.4; charset=utf-8"
# Field of the status, kind, what it says; counters end with _total.
_STATUS: tuple[tuple[str, str, str], ...] = (
    ("parallel", "gauge", "Answers that can be made at once."),
    ("context", "gauge", "Positions of one answer."),
    ("pages", "gauge", "Pages of the cache."),
    ("pages_used", "gauge", "Pages of answers that are being made."),
    ("pages_kept", "gauge", "Pages of ended answers, until others need them."),
    ("page_tokens", "gauge", "Positions of a page."),
    ("finished", "counter", "Answers that ended by themselves."),
    ("cancelled", "counter", "Answers that were stopped."),
    ("failed", "counter", "Answers that failed."),
    ("refused", "counter", "Requests refused because too many waited."),
    ("prompt_tokens", "counter", "Tokens of prompts."),
    ("cached_tokens", "counter", "Of these, found in the cache."),
    ("new_tokens", "counter", "Tokens of answers."),
    ("steps", "counter", "Steps of the model."),
    ("step_seconds", "counter", "Seconds that they took."),
)


class Health(Struct):
    status: Literal["ok"]


async def health(call: Call) -> Response:
    """Answer 503 while no model is loaded, and where its file is no longer the one that was
    loaded. Where that lies, only holders of the key are told."""
    try:
        call.shared.service().check()
    except FileChangedError as error:
        raise ApiError(503, f"the model's file {error.problem}", code="model_changed") from None
    return json_response(Health("ok"))


async def metrics(call: Call) -> Response:
    service = call.shared.service_or_none()
    lines = list(_of_server(call.shared))
    if service is not None:
        lines += _of_service(service.status())
    return Response("\n".join(lines) + "\n", headers={"content-type": TEXT})


def _of_server(shared: Shared) -> Iterable[str]:
    yield from _metric("up_seconds", "gauge", "Since the server began.", time.time() - shared.began)
    yield from _metric("active", "gauge", "HTTP requests that are worked on.", shared.active.count)
    about = "Answers that ended because their client did not read."
    yield from _metric("unread", "counter", about, shared.unread)
    yield from _head("http_requests_total", "counter", "HTTP requests, by address and status.")
    for (path, status), count in sorted(shared.counts.items()):
        label = re.sub(r":\w+}", "}", path)  # of a route: without its kind
        yield f'llm_lite_http_requests_total{{path="{label}",status="{status}"}} {count}'


def _of_service(status: ServingStatus) -> Iterable[str]:
    for name, kind, about in _STATUS:
        yield from _metric(name, kind, about, getattr(status, name))
    waiting = sum(request.waiting for request in status.requests)
    running = len(status.requests) - waiting
    yield from _metric("running", "gauge", "Answers that are being made.", running)
    yield from _metric("waiting", "gauge", "Requests that wait for their turn.", waiting)
    yield from _head("model_info", "gauge", "The model in use.")
    yield f'llm_lite_model_info{{model="{_escaped(status.model)}"}} 1'


def _metric(name: str, kind: str, about: str, value: float) -> Iterable[str]:
    name = f"{name}_total" if kind == "counter" else name
    yield from _head(name, kind, about)
    yield f"llm_lite_{name} {value:.10g}"


def _head(name: str, kind: str, about: str) -> Iterable[str]:
    yield f"# HELP llm_lite_{name} {about}"
    yield f"# TYPE llm_lite_{name} {kind}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
