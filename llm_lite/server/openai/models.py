"""/v1/models says which model answers.

Its id is its title as a name, without spaces, as commands take it. A request may name any model:
there is one, which answers, and the answer says which it was. So editors whose settings name a
model of another server, or the one that was in use yesterday, go on.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from llm_lite.core.assets import program_version
from llm_lite.core.messages import ModelInfo
from llm_lite.core.messages.encoding import EncoderInfo
from llm_lite.core.plain_text import quote
from llm_lite.core.serving.service import Service
from llm_lite.server.call import Call
from llm_lite.server.failures import ApiError, json_response, no_model
from llm_lite.server.schema import Count, Query, about

_FINGERPRINT_DIGITS = 12
_NO_NAME = re.compile(r"[^\w.]+")
_LONGEST = 200  # characters


def id_of(model: ModelInfo) -> str:
    return name_of(model.name)


def name_of(title: str) -> str:
    """Return a title as a name: SmolLM2 135M Instruct is smollm2-135m-instruct."""
    return _NO_NAME.sub("-", title.lower()).strip("-.")[:_LONGEST] or "model"


def fingerprint(service: Service) -> str:
    """Return the `system_fingerprint`: another one says that the same request and seed may be
    answered differently. It is a hash of the model, of how its weights, activations and cache
    are kept and computed, and of the program's version; so it is the same after a restart, and
    on another machine."""
    model, executor = service.model, service.executor
    known = (
        *(model.name, model.architecture, model.parameters, model.file_bytes, model.vocabulary),
        *(executor.mode, executor.activations, executor.keys, executor.values, executor.backend),
        program_version(),
    )
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return f"fp_{digest[:_FINGERPRINT_DIGITS]}"


class ModelStatus(Struct):
    value: Literal["loaded", "loading"]  # as llama.cpp's server says it


class SamplingDefault(Struct):
    name: str
    value: float
    source: str


class ServedCacheLayer(Struct, kw_only=True):
    layer: Count
    shared_with: Annotated[list[Count], about("Later layers that read its keys and values.")]
    window: Annotated[Count, about("Tokens that its attention reaches back; 0: all.")]
    key_row_bytes: Annotated[Count, about("Of one position.")]
    value_row_bytes: Count


class ServedModel(Struct, kw_only=True):
    id: Annotated[str, about("The title as a name.")]
    title: str
    object: Literal["model"]
    created: Count
    owned_by: str
    status: Annotated[
        ModelStatus,
        about("While it is loading, nothing below is known, and other addresses answer 503."),
    ]
    context_length: Annotated[Count | UnsetType, about("Tokens of a prompt and its answer.")] = (
        UNSET
    )
    architecture: str | UnsetType = UNSET
    parameters: Count | UnsetType = UNSET
    vocabulary: Count | UnsetType = UNSET
    layers: Count | UnsetType = UNSET
    heads: Count | UnsetType = UNSET
    width: Count | UnsetType = UNSET
    cache_layers: Annotated[
        list[ServedCacheLayer] | UnsetType, about("Layers with keys and values of their own.")
    ] = UNSET
    mode: Annotated[str | UnsetType, about("How weights are kept.")] = UNSET
    backend: str | UnsetType = UNSET
    calls_functions: bool | UnsetType = UNSET
    switches_thinking: bool | UnsetType = UNSET
    has_chat_template: Annotated[
        bool | UnsetType, about("Without one, a chat is written in a plain format.")
    ] = UNSET
    encoder: Annotated[EncoderInfo | UnsetType, about("Of an encoder: what it can do.")] = UNSET
    sampling_defaults: Annotated[
        list[SamplingDefault] | UnsetType,
        about("How tokens are chosen where a request says nothing, and what advises it."),
    ] = UNSET


class ModelList(Struct, kw_only=True):
    object: Literal["list"]
    data: Annotated[list[ServedModel], Meta(max_length=1)]


class ModelPath(Query, kw_only=True):
    model: Annotated[str, Meta(min_length=1, max_length=512, description="As /v1/models names it.")]


async def models(call: Call) -> Response:
    found = _known(call)
    return json_response(ModelList(object="list", data=[] if found is None else [found]))


async def model(call: Call) -> Response:
    path: ModelPath = call.in_path
    found = _known(call)
    if found is None:
        raise no_model()
    if path.model not in (found.id, found.title):
        problem = f"the model {quote(path.model)} is not loaded: {quote(found.id)} is"
        raise ApiError(404, problem, code="model_not_found")
    return json_response(found)


def _known(call: Call) -> ServedModel | None:
    """Return the model in use, or the one that is being loaded, which clients find at once and
    wait for."""
    service = call.shared.service_or_none()
    if service is not None:
        return _loaded(call, service)
    coming = call.shared.coming()
    return _described(call, coming, "loading") if coming else None


def _described(call: Call, title: str, status: Literal["loaded", "loading"]) -> ServedModel:
    return ServedModel(
        id=name_of(title),
        title=title,
        object="model",
        created=int(call.shared.began),
        owned_by="llm-lite",
        status=ModelStatus(status),
    )


def _loaded(call: Call, service: Service) -> ServedModel:
    """Describe the loaded model, but not where its files lie."""
    model, executor = service.model, service.executor
    return replace(
        _described(call, model.name, "loaded"),
        context_length=service.status().context or model.context,
        architecture=model.architecture,
        parameters=model.parameters,
        vocabulary=model.vocabulary,
        layers=model.layers,
        heads=model.heads,
        width=model.width,
        cache_layers=[
            ServedCacheLayer(
                layer=one.layer,
                shared_with=list(one.shared_with),
                window=one.window,
                key_row_bytes=one.key_row_bytes,
                value_row_bytes=one.value_row_bytes,
            )
            for one in model.cache.layers
        ],
        mode=executor.mode,
        backend=executor.backend,
        calls_functions=model.tool_style not in ("", "unknown"),
        switches_thinking=model.switches_thinking,
        has_chat_template=model.has_chat_template,
        encoder=model.encoder or UNSET,
        sampling_defaults=[
            SamplingDefault(default.name, default.value, default.source)
            for default in model.sampling_defaults
        ],
    )
