"""How the engine is doing, as far as the page shows it."""

from __future__ import annotations

from typing import Any

from llm_lite.core.messages import ACTIVATIONS, MODES
from llm_lite.core.serving.service import Service
from llm_lite.server.page.modes import switch_of

_MOST_LISTED = 32  # requests
_RUN = ("mode", "activations", "keys", "values", "backend", "device", "threads")


def status_of(service: Service | None) -> dict[str, Any]:
    """`model` is None while there is none."""
    if service is None:
        return {"model": None}
    model, executor, status = service.model, service.executor, service.status()
    asked = service.options
    usual = model.sampling()
    return {
        "model": {
            "name": model.name,
            "architecture": model.architecture,
            "parameters": model.parameters,
            "weight_bytes": model.weight_bytes,
            "layers": model.layers,
            "heads": model.heads,
            "kv_heads": model.kv_heads,
        },
        "run": {name: getattr(executor, name) for name in _RUN},
        "modes": {  # that may be chosen: bytes of all weights in each, 0 where that is not known
            "weights": {mode: model.mode_bytes.get(mode, 0) for mode in MODES},
            "activations": ACTIVATIONS,
            "asked": {"mode": asked.mode, "activations": asked.activations},
            "switch": switch_of(service),
        },
        "serving": {
            "parallel": status.parallel,
            "context": status.context,
            "pages": status.pages,
            "pages_used": status.pages_used,
            "pages_kept": status.pages_kept,
            "page_tokens": status.page_tokens,
            "waiting": sum(request.waiting for request in status.requests),
            "running": sum(not request.waiting for request in status.requests),
            "prompt_tokens": status.prompt_tokens,
            "cached_tokens": status.cached_tokens,
            "new_tokens": status.new_tokens,
            "requests": [
                {
                    "response": request.response,
                    "waiting": request.waiting,
                    "prompt_tokens": request.prompt_tokens,
                    "prefilled": request.prefilled,
                    "new_tokens": request.new_tokens,
                }
                for request in status.requests[:_MOST_LISTED]
            ],
        },
        "sampling": {
            "temperature": usual.temperature,
            "top_p": usual.top_p,
            "max_tokens": usual.max_new_tokens,
        },
    }
