"""/v1/models: which model answers.

Its id is its title as a name, without spaces, as commands take it. A request may name any model:
there is one, which answers, and the answer says which it was. So editors whose settings name a
model of another server, or the one that was in use yesterday, go on.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from starlette.responses import Response

from llm_lite.core.assets import program_version
from llm_lite.core.messages import ModelInfo
from llm_lite.core.plain_text import quote
from llm_lite.core.records import asdict
from llm_lite.core.serving.service import Service
from llm_lite.server.call import Call
from llm_lite.server.failures import ApiError, json_response, no_model

_FINGERPRINT_DIGITS = 12
_NO_NAME = re.compile(r"[^\w.]+")
_LONGEST = 200  # characters


def id_of(model: ModelInfo) -> str:
    return name_of(model.name)


def name_of(title: str) -> str:
    """A title as a name: SmolLM2 135M Instruct is smollm2-135m-instruct."""
    return _NO_NAME.sub("-", title.lower()).strip("-.")[:_LONGEST] or "model"


def fingerprint(service: Service) -> str:
    """`system_fingerprint`: another one says that the same request and seed may be answered
    differently. Of the model, how its weights, activations and cache are kept and computed, and
    the program's version; the same after a restart, and on another machine."""
    model, executor = service.model, service.executor
    known = (
        *(model.name, model.architecture, model.parameters, model.file_bytes, model.vocabulary),
        *(executor.mode, executor.activations, executor.keys, executor.values, executor.backend),
        program_version(),
    )
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return f"fp_{digest[:_FINGERPRINT_DIGITS]}"


async def models(call: Call) -> Response:
    found = _known(call)
    return json_response({"object": "list", "data": [] if found is None else [found]})


async def model(call: Call) -> Response:
    name, found = call.in_path["model"], _known(call)
    if found is None:
        raise no_model()
    if name not in (found["id"], found["title"]):
        problem = f"the model {quote(name)} is not loaded: {quote(found['id'])} is"
        raise ApiError(404, problem, code="model_not_found")
    return json_response(found)


def _known(call: Call) -> dict[str, Any] | None:
    """The model in use, or the one that is being loaded: clients find it at once, and wait."""
    service = call.shared.service_or_none()
    if service is not None:
        return _model(call, service)
    coming = call.shared.coming()
    return _described(call, coming, "loading") if coming else None


def _described(call: Call, title: str, status: str) -> dict[str, Any]:
    return {
        "id": name_of(title),
        "object": "model",
        "title": title,
        "created": int(call.shared.began),
        "owned_by": "llm-lite",
        "status": {"value": status},  # as llama.cpp's server says it
    }


def _model(call: Call, service: Service) -> dict[str, Any]:
    """Nothing of where its files lie."""
    model, executor = service.model, service.executor
    return {
        **_described(call, model.name, "loaded"),
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
