"""An address for each question of core/questions/table.py that has none of its own form: its
parameters, its answer and its documentation are those of its records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta
from starlette.responses import Response

from llm_lite.core.checked import CheckError
from llm_lite.core.questions import wire
from llm_lite.core.questions.question import Question
from llm_lite.server.call import JSON, Call, Endpoint, Given
from llm_lite.server.inspect import (
    MOST_IN_JSON,
    NPZ,
    CacheQuery,
    npz_response,
    wants_arrays,
)
from llm_lite.server.schema import Body
from llm_lite.server.sending import LargeResponse


def endpoints_of(question: Question, finds: str) -> tuple[Endpoint, ...]:
    """Return the rows of a question's address, /inspect/NAME: GET, and where a parameter is a
    record, which may be long, POST with all of them in a body."""
    about = (question.answer.__doc__ or "").split("\n\n")[0]
    path, subject = f"/inspect/{question.name}", f"Ask {question.subject}"
    handle, given = _handler(question), Given(about, ((JSON, _reply(question)), (NPZ, None)))
    by_query = Endpoint(
        "GET", path, f"{subject}.", handle, given, query=_query(question), finds=finds
    )
    if not wire.takes_records(question):
        return (by_query,)
    about_body = f"{subject}, with its parameters in a body."
    return (
        by_query,
        Endpoint("POST", path, about_body, handle, given, body=_body(question), finds=finds),
    )


def _handler(question: Question) -> Callable[[Call], Awaitable[Response]]:
    async def answer(call: Call) -> Response:
        asked = call.query or call.body
        given = {one.name: getattr(asked, one.name) for one in wire.parameters(question)}
        request = wire.request_of(question, given)
        as_arrays = wants_arrays(call)

        def check(size: int) -> None:
            if size > MOST_IN_JSON and not as_arrays:
                raise CheckError("format", f"expected npz for {size:,} numbers, found json")

        found = await call.in_thread(
            lambda left: call.service.ask(asked.response, request, left, check), at_length=True
        )
        if as_arrays:
            arrays = {"response": np.array(asked.response), **wire.arrays_of(found)}
            return await call.in_thread(lambda _: npz_response(arrays))
        check(wire.size_of(found))  # of questions that do not say it before
        fields = {name: getattr(found, name) for name in found.__struct_fields__}
        reply = {"response": asked.response, **fields}
        return await call.in_thread(lambda _: LargeResponse(wire.plain(reply)))

    return answer


def _query(question: Question) -> type[CacheQuery]:
    fields: list[Any] = [
        (one.name, Annotated[one.query_kind, Meta(description=one.about)], one.query_default)
        if not one.is_required
        else (one.name, Annotated[one.query_kind, Meta(description=one.about)])
        for one in wire.parameters(question)
    ]
    name = f"{question.request.__name__}Query"
    made = msgspec.defstruct(
        name, fields, bases=(CacheQuery,), kw_only=True, forbid_unknown_fields=True
    )
    assert issubclass(made, CacheQuery)
    return made


def _body(question: Question) -> type[Body]:
    """Return the body that has the parameters of `_query`, of their own types."""
    shared = get_type_hints(CacheQuery, include_extras=True)
    fields: list[Any] = [("response", shared["response"]), ("format", shared["format"], None)]
    for one in wire.parameters(question):
        kind = one.kind if one.is_required or one.form == "value" else one.kind | None
        field = one.name, Annotated[kind, Meta(description=one.description)]
        fields.append(field if one.is_required else (*field, one.query_default))
    name = f"{question.request.__name__}Body"
    made = msgspec.defstruct(name, fields, bases=(Body,), kw_only=True)
    assert issubclass(made, Body)
    return made


def _reply(question: Question) -> type[msgspec.Struct]:
    """Return what an answer is in JSON: lists in place of arrays."""
    fields: list[Any] = [("response", str)]
    for name, kind in get_type_hints(question.answer, include_extras=True).items():
        fields.append((name, Annotated[_listed(kind), Meta(description=wire.description_of(kind))]))
    return msgspec.defstruct(question.answer.__name__, fields, kw_only=True)


def _listed(kind: Any) -> Any:
    bare = kind.__origin__ if hasattr(kind, "__metadata__") else kind
    if get_origin(bare) is np.ndarray:
        return list[Any]
    return dict[str, list[Any]] if get_origin(bare) is Mapping else bare
