"""/v1/models: which model answers."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from llm_lite.core.plain_text import quote
from llm_lite.core.serving.service import Service
from llm_lite.server.call import Call
from llm_lite.server.failures import ApiError, json_response


async def models(call: Call) -> Response:
    service = call.shared.service_or_none()
    found = [] if service is None else [_model(call, service)]
    return json_response({"object": "list", "data": found})


async def model(call: Call) -> Response:
    name, service = call.in_path["model"], call.service
    if name != service.model.name:
        raise ApiError(404, f"the model {quote(name)} is not loaded", code="model_not_found")
    return json_response(_model(call, service))


def _model(call: Call, service: Service) -> dict[str, Any]:
    """Nothing of where its files lie."""
    model, executor = service.model, service.executor
    return {
        "id": model.name,
        "object": "model",
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
    }
