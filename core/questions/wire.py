"""Questions between two programs: a request as parameters of an address, an answer as arrays.

What a record's fields say is all that is needed: their types, defaults and descriptions. Arrays go
as NPZ, or in JSON as nested lists in which null stands for what is no number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

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
    """A parameter of a request. `form`: "list" of a tuple, whose texts or numbers stand separated
    by commas; "record" of records, which are JSON."""

    name: str
    kind: Any  # as in the record, with its limits
    description: str
    default: Any  # where it is not required
    is_required: bool
    form: Literal["value", "list", "record"] = "value"
    # Token ids, for which a text may stand where there is a tokenizer, or that of a target.
    may_be: Literal["", "text", "target"] = ""

    @property
    def separated(self) -> bool:
        return self.form == "list"

    @property
    def about(self) -> str:
        """Return what the parameter is, with how it is written."""
        how = {"value": "", "list": " Separated by commas.", "record": " JSON."}[self.form]
        return f"{self.description}{how}"

    @property
    def query_kind(self) -> Any:
        """Return the type of the parameter in an address."""
        return self.kind if self.form == "value" else str if self.is_required else str | None

    @property
    def query_default(self) -> Any:
        return self.default if self.form == "value" else None


def parameters(question: Question) -> tuple[Field, ...]:
    """Return the parameters of a question, in the order of its record."""
    hints = get_type_hints(question.request, include_extras=True)
    return tuple(
        Field(
            one.name,
            hints[one.name],
            description_of(hints[one.name]),
            one.default,
            one.required,
            _form(hints[one.name]),
            _notes(hints[one.name]).get("may_be", ""),
        )
        for one in msgspec.structs.fields(question.request)
    )


def takes_records(question: Question) -> bool:
    """Return whether a parameter is of records, which may be longer than an address."""
    return any(one.form == "record" for one in parameters(question))


def request_of(
    question: Question,
    values: Mapping[str, Any],
    ids_of: Callable[[str], Sequence[int]] | None = None,
    target_of: Callable[[str], Sequence[int]] | None = None,
) -> Any:
    """Return the request with these values of its parameters; others have their defaults. `ids_of`
    makes token ids of a text, where one may stand for them, `target_of` of that of a target.
    RequestError for a parameter that it lacks or does not have, or a value of another kind."""
    known = {one.name: one for one in parameters(question)}
    for name in values:
        if name not in known:
            raise RequestError(f"{name}: {question.name} takes {', '.join(known)}")
    given = {name: value for name, value in values.items() if value is not None}
    for one in known.values():
        if one.is_required and one.name not in given:
            raise RequestError(f"{one.name}: {question.name} needs it. {one.description}".strip())
        if one.name in given:
            spell = {"text": ids_of, "target": target_of}.get(one.may_be)
            given[one.name] = _given(one, given[one.name], spell)
    try:
        return convert(given, question.request)
    except CheckError as error:
        raise RequestError(str(error)) from None


def _given(one: Field, value: Any, ids_of: Callable[[str], Sequence[int]] | None) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, range):
        return list(value)
    if isinstance(value, Struct):
        return msgspec.to_builtins(value)
    if not isinstance(value, str) or one.form == "value":
        return value
    if one.form == "record":
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError as error:
            raise RequestError(f"{one.name}: expected JSON: {error}") from None
    if ids_of is not None:
        return [int(token) for token in ids_of(value)]
    return [_number(part) for part in value.split(",")] if value else []


def _number(text: str) -> str | int:
    """Return the number that a text is, or the text."""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text.strip()) else text


def query_of(question: Question, request: Any) -> dict[str, str]:
    """Return the parameters of a request as texts; those that are at their defaults are left
    out."""
    found = {}
    for one in parameters(question):
        value = getattr(request, one.name)
        if not one.is_required and value == one.default:
            continue
        if one.form == "record":
            found[one.name] = msgspec.json.encode(value).decode()
        else:
            found[one.name] = ",".join(map(str, value)) if one.separated else _text(value)
    return found


def body_of(question: Question, request: Any) -> dict[str, Any]:
    """Return the parameters of a request as JSON has them."""
    found = msgspec.to_builtins(request)
    return {one.name: found[one.name] for one in parameters(question)}


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
        return convert(value.tolist() if _is_tuple(kind) else value.item(), kind)
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


def _bare(kind: Any) -> Any:
    """Return a type without its notes, and without null."""
    bare = get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    others = [one for one in get_args(bare) if one is not NoneType]
    if get_origin(bare) in (Union, UnionType) and len(others) == 1:
        return _bare(others[0])
    return bare


def _is_tuple(kind: Any) -> bool:
    return get_origin(_bare(kind)) is tuple


def _form(kind: Any) -> Literal["value", "list", "record"]:
    bare = _bare(kind)
    if isinstance(bare, type) and issubclass(bare, Struct):
        return "record"
    return "list" if _is_tuple(kind) else "value"


def _notes(kind: Any) -> dict[str, Any]:
    return next((one.extra for one in get_args(kind) if isinstance(one, Meta) and one.extra), {})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
