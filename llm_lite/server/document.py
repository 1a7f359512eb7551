"""`document` describes the addresses by OpenAPI 3.1: https://spec.openapis.org/oas/v3.1.0"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from llm_lite.server.call import JSON, Endpoint
from llm_lite.server.failures import Error
from llm_lite.server.schema import IGNORED, Query, Schema, components, properties_of, required_of

_KEY = {"key": {"type": "http", "scheme": "bearer"}}
_IGNORED = "Where the body had fields that were ignored: names of at most 8 of them."
_ABOUT = (
    "llm-lite: a language model on your own machine, by OpenAI's protocol, and what is inside it."
)


class Document(Struct, kw_only=True):
    openapi: str
    paths: dict[str, Any]


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """Return what clients and tools read of each address."""
    kinds: list[Any] = [Error]
    for row in endpoints:
        kinds += [kind for kind in (row.body, *(kind for _, kind in row.given.forms)) if kind]
    schemas, named = components(kinds)
    by_kind = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        path = re.sub(r":\w+}", "}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(row, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "llm-lite", "version": version, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": named, "securitySchemes": _KEY},
        "security": [{"key": []}, {}],
    }


def _operation(row: Endpoint, schemas: dict[Any, Schema]) -> dict[str, Any]:
    found: dict[str, Any] = {"summary": row.about, "operationId": row.handle.__name__}
    parameters = [*_parameters(row.query, "query"), *_parameters(row.in_path, "path")]
    if parameters:
        found["parameters"] = parameters
    if row.body is not None:
        content = {JSON: {"schema": schemas[row.body]}}
        found["requestBody"] = {"required": True, "content": content}
    found["responses"] = {"200": _given(row, schemas), **_failures(row, schemas)}
    if row.is_open:
        found["security"] = []
    return found


def _parameters(kind: type[Query] | None, place: str) -> list[dict[str, Any]]:
    found = []
    for name, schema in properties_of(kind).items() if kind else ():
        # In a query nothing is null: a parameter may be left out.
        arms = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
        rest = {key: one for key, one in schema.items() if key not in ("anyOf", "description")}
        found.append(
            {
                "name": name,
                "in": place,
                "required": name in required_of(kind),
                "description": schema.get("description", ""),
                "schema": {**(arms[0] if len(arms) == 1 else {}), **rest},
            }
        )
    return found


def _given(row: Endpoint, schemas: dict[Any, Schema]) -> dict[str, Any]:
    content = {
        media: {} if kind is None else {"schema": schemas[kind]} for media, kind in row.given.forms
    }
    given: dict[str, Any] = {"description": row.given.about, "content": content}
    if row.body is not None:
        given["headers"] = {IGNORED: {"description": _IGNORED, "schema": {"type": "string"}}}
    return given


def _failures(row: Endpoint, schemas: dict[Any, Schema]) -> dict[str, Any]:
    """Return the statuses that follow from what an endpoint says of itself."""
    found = {
        403: "The request names this server wrongly, or a page of another server sent it.",
        405: "The address does not take this method.",
        429: "Too much is asked at once; Retry-After says when to ask again.",
        431: "The head of the request is too large.",
    }
    if not row.is_open:
        found[401] = "The key is missing, or is not the one of this server."
    if row.body is not None or row.query or row.in_path:
        found[400] = "Something of the request cannot be; the sentence says what."
    if row.body is not None:
        found[408] = "The body did not come in time."
        found[413] = "The body is too large."
        found[415] = f"The body is not of type {JSON}, or is packed."
    if row.finds:
        found[404] = f"There is no such thing: {row.finds}."
    if row.needs_model:
        found[503] = "No model is loaded, or it stopped answering."
    content = {JSON: {"schema": schemas[Error]}}
    return {str(s): {"description": found[s], "content": content} for s in sorted(found)}
