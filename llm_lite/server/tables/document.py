"""The rows as a document of OpenAPI 3.1: https://spec.openapis.org/oas/v3.1.0"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from llm_lite.server.tables.endpoint import JSON, Endpoint
from llm_lite.server.tables.kinds import Kind, ListOf, MapOf, OneOf
from llm_lite.server.tables.records import IGNORED, Field, Record
from llm_lite.server.tables.shapes import ERROR

_KEY = {"key": {"type": "http", "scheme": "bearer"}}
_IGNORED = "Where the body had fields that were not looked at: names of at most 8 of them."
_SOLE = (
    "llm-lite: a language model on your own machine, by OpenAI's protocol, and what is inside it."
)


def document(endpoints: Sequence[Endpoint], version: str) -> dict[str, Any]:
    """What is said of each address, as clients and tools read it."""
    paths: dict[str, dict[str, Any]] = {}
    for row in endpoints:
        path = re.sub(r":\w+}", "}", row.path)
        paths.setdefault(path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "llm-lite", "version": version, "description": _SOLE},
        "paths": paths,
        "components": {"schemas": _schemas(endpoints), "securitySchemes": _KEY},
        "security": [{"key": []}, {}],
    }


def _operation(row: Endpoint) -> dict[str, Any]:
    told: dict[str, Any] = {"summary": row.about, "operationId": row.handle.__name__}
    parameters = [*_parameters(row.query, "query"), *_parameters(row.in_path, "path")]
    if parameters:
        told["parameters"] = parameters
    if row.body is not None:
        content = {JSON: {"schema": row.body.schema()}}
        told["requestBody"] = {"required": True, "content": content}
    told["responses"] = {"200": _given(row), **_failures(row)}
    if row.is_open:
        told["security"] = []
    return told


def _parameters(fields: Iterable[Field], place: str) -> list[dict[str, Any]]:
    found = []
    for field in fields:
        schema = field.kind.schema()
        if field.default is not None:
            schema["default"] = field.default
        found.append(
            {
                "name": field.name,
                "in": place,
                "required": field.required,
                "description": field.about,
                "schema": schema,
            }
        )
    return found


def _given(row: Endpoint) -> dict[str, Any]:
    content = {
        media: {} if kind is None else {"schema": kind.schema()} for media, kind in row.given.forms
    }
    given: dict[str, Any] = {"description": row.given.about, "content": content}
    if row.body is not None:
        given["headers"] = {IGNORED: {"description": _IGNORED, "schema": {"type": "string"}}}
    return given


def _failures(row: Endpoint) -> dict[str, Any]:
    """Statuses that follow from what a row says of itself."""
    told = {
        403: "The request names this server wrongly, or a page of another server sent it.",
        405: "The address does not take this method.",
        429: "Too much is asked at once; Retry-After says when to ask again.",
        431: "The head of the request is too large.",
    }
    if not row.is_open:
        told[401] = "The key is missing, or is not the one of this server."
    if row.body is not None or row.query or row.in_path:
        told[400] = "Something of the request cannot be; the sentence says what."
    if row.body is not None:
        told[408] = "The body did not come in time."
        told[413] = "The body is too large."
        told[415] = f"The body is not of type {JSON}."
    if row.finds:
        told[404] = f"There is no such thing: {row.finds}."
    if row.needs_model:
        told[503] = "No model is loaded, or it stopped answering."
    content = {JSON: {"schema": ERROR.schema()}}
    return {str(s): {"description": told[s], "content": content} for s in sorted(told)}


def _schemas(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for row in endpoints:
        for kind in (row.body, *(kind for _, kind in row.given.forms)):
            _collect(kind, found)
    _collect(ERROR, found)
    return dict(sorted(found.items()))


def _collect(kind: Kind | None, found: dict[str, Any]) -> None:
    """All records within, by their names."""
    match kind:
        case Record():
            known = kind.definition()
            assert found.get(kind.name, known) == known, f"two records are called {kind.name}"
            found[kind.name] = known
            for field in kind.fields:
                _collect(field.kind, found)
        case ListOf() | MapOf():
            _collect(kind.kind, found)
        case OneOf():
            for one in kind.kinds:
                _collect(one, found)
