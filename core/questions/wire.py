"""Questions between two programs: a request as parameters of an address, an answer as arrays.

What a record's fields say is all that is needed: their types, defaults and descriptions. Arrays go
as NPZ, or in JSON as nested lists in which null stands for what is no number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from msgspec import Meta, Struct
from numpy.typing import NDArray

from llm_lite.core.checked import CheckError, convert
from llm_lite.core.errors import RequestError
from llm_lite.core.questions.question import Question

DIGITS = 7  # significant ones of a number in JSON: float32 has no more
Arrays = dict[str, NDArray[Any]]


class Field(Struct, frozen=True):
    """A parameter of a request. `separated`: a tuple, whose texts stand separated by commas."""

    name: str
    kind: Any  # as in the record, with its limits
    description: str
    default: Any  # where it is not required
    is_required: bool
    separated: bool = False


def parameters(question: Question) -> tuple[Field, ...]:
    """Return the parameters of a question, in the order of its record."""
    hints = get_type_hints(question.request, include_extras=True)
    return tuple(
        Field(
            one.name,
            str if _is_tuple(hints[one.name]) else hints[one.name],
            description_of(hints[one.name]),
            one.default,
            one.required,
            _is_tuple(hints[one.name]),
        )
        for one in msgspec.structs.fields(question.request)
    )


def request_of(question: Question, values: Mapping[str, Any]) -> Any:
    """Return the request with these values of its parameters; others have their defaults.
    RequestError for a parameter that it lacks or does not have, or a value of another kind."""
    known = {one.name: one for one in parameters(question)}
    for name in values:
        if name not in known:
            raise RequestError(f"{name}: {question.name} takes {', '.join(known)}")
    given = {name: value for name, value in values.items() if value is not None}
    for one in known.values():
        if one.is_required and one.name not in given:
            raise RequestError(f"{one.name}: {question.name} needs it. {one.description}".strip())
        if one.separated and isinstance(given.get(one.name), str):
            given[one.name] = tuple(given[one.name].split(","))
    try:
        return convert(given, question.request)
    except CheckError as error:
        raise RequestError(str(error)) from None


def query_of(question: Question, request: Any) -> dict[str, str]:
    """Return the parameters of a request as texts; those that are at their defaults are left
    out."""
    found = {}
    for one in parameters(question):
        value = getattr(request, one.name)
        if one.is_required or value != one.default:
            found[one.name] = ",".join(value) if one.separated else _text(value)
    return found


def arrays_of(answer: Struct) -> Arrays:
    """Return the fields of an answer as arrays; those of a mapping by its names."""
    found: Arrays = {}
    for name in answer.__struct_fields__:
        value = getattr(answer, name)
        parts = value.items() if isinstance(value, Mapping) else [(name, value)]
        found.update((part, np.asarray(one)) for part, one in parts)
    return found


def answer_of_arrays(question: Question, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return the answer that `arrays_of` made into arrays. ValueError where it is none, or a field
    is of another type."""
    hints, rest = get_type_hints(question.answer), dict(arrays)
    given: dict[str, Any] = {}
    for name, kind in hints.items():
        if get_origin(kind) is Mapping:
            continue
        if name not in rest:
            raise ValueError(f"expected {name}, found {', '.join(sorted(rest)) or 'nothing'}")
        given[name] = _field(name, rest.pop(name), kind)
    for name, kind in hints.items():
        if get_origin(kind) is Mapping:
            given[name] = {part: _field(part, one, get_args(kind)[1]) for part, one in rest.items()}
    return question.answer(**given)


def _field(name: str, value: NDArray[Any], kind: Any) -> Any:
    if get_origin(kind) is np.ndarray:
        (dtype,) = get_args(get_args(kind)[1])
        if value.dtype != dtype:
            raise ValueError(f"{name[:80]}: expected {np.dtype(dtype)}, found {value.dtype}")
        return value
    try:
        return convert(value.item(), kind)
    except CheckError as error:
        raise ValueError(f"{name[:80]}: {error}") from None


def plain(value: Any) -> Any:
    """Return a value for JSON: records as objects, arrays as lists, of numbers with DIGITS digits;
    null for what is no number."""
    return _known(msgspec.to_builtins(value, enc_hook=_listed))


def _listed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (_rounded(value) if value.dtype.kind == "f" else value).tolist()
    raise NotImplementedError(type(value))


def _rounded(values: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return numbers with DIGITS significant digits."""
    exact = values.astype(np.float64)
    count = np.isfinite(exact) & (exact != 0)
    exponents = np.zeros(exact.shape)
    np.log10(np.abs(exact), out=exponents, where=count)
    digits = DIGITS - 1 - np.floor(exponents)
    scale = 10 ** np.abs(digits)  # a power of 10 that is exact for most: so decimals stay short
    return np.where(digits >= 0, np.round(exact * scale) / scale, np.round(exact / scale) * scale)


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def size_of(answer: Struct) -> int:
    """Return how many numbers an answer has."""
    return sum(one.size for one in arrays_of(answer).values())


def description_of(kind: Any) -> str:
    return next((one.description or "" for one in get_args(kind) if isinstance(one, Meta)), "")


def _is_tuple(kind: Any) -> bool:
    return get_origin(get_args(kind)[0] if hasattr(kind, "__metadata__") else kind) is tuple


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
