"""/v1/models: which model answers.

Its id is its title as a name, without spaces, as commands take it. A request may name any model:
there is one, which answers, and the answer says which it was. So editors whose settings name a
model of another server, or the one that was in use yesterday, go on.
"""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Any

from starlette.responses import Response

from llm_lite.core.messages import ModelInfo
from llm_lite.core.plain_text import quote
from llm_lite.core.serving.service import Service
from llm_lite.server.call import Call
from llm_lite.server.failures import ApiError, json_response

_NO_NAME = re.compile(r"[^\w.]+")
_LONGEST = 200  # characters


def id_of(model: ModelInfo) -> str:
    """The title as a name: SmolLM2 135M Instruct is smollm2-135m-instruct."""
    return _NO_NAME.sub("-", model.name.lower()).strip("-.")[:_LONGEST] or "model"


async def models(call: Call) -> Response:
    service = call.shared.service_or_none()
    found = [] if service is None else [_model(call, service)]
    return json_response({"object": "list", "data": found})


async def model(call: Call) -> Response:
    name, service = call.in_path["model"], call.service
    known = id_of(service.model)
    if name not in (known, service.model.name):
        problem = f"the model {quote(name)} is not loaded: {quote(known)} is"
        raise ApiError(404, problem, code="model_not_found")
    return json_response(_model(call, service))


def _model(call: Call, service: Service) -> dict[str, Any]:
    """Nothing of where its files lie."""
    model, executor = service.model, service.executor
    return {
        "id": id_of(model),
        "object": "model",
        "title": model.name,
        "created": int(call.shared.began),
        "owned_by": "llm-lite",
        "context_length": service.status().context or model.context,
        "architecture": model.architecture,
        "parameters": model.parameters,
        "vocabulary": model.vocabulary,
        "layers": model.layers,
        "heads": model.heads,
        "width": model.width,
        "mode": executor.mode,
        "backend": executor.backend,
        "calls_functions": model.tool_style not in ("", "unknown"),
        "switches_thinking": model.switches_thinking,
        "has_chat_template": model.has_chat_template,
        "sampling_defaults": [asdict(default) for default in model.sampling_defaults],
    }
