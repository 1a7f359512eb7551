"""JSON from outside as values of declared types: msgspec checks it, and what does not fit is one
sentence with the field, what was expected and what was found.

A type is a `msgspec.Struct`, or what its fields may be: `Annotated[int, Meta(ge=0, le=9)]`,
`Literal["a", "b"]`, `tuple[str, ...]`, `X | None`. A struct that knows all its fields declares
`forbid_unknown_fields=True`. `Meta(extra={"expected": "a short text"})` names a kind in words of
its own.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec

from llm_lite.core.errors import FileError
from llm_lite.core.files.json_text import HALF_PAIR, found, lone_surrogate
from llm_lite.core.plain_text import quote

_T = TypeVar("_T")
_PLACE = re.compile(r"^(.*?)(?: - at (`key` in )?`\$([^`]*)`)?$", re.DOTALL)
_STEP = re.compile(
    r"\.([^.\[]+)|\[(\d+)\]|(\[\.\.\.\])"
)  # the last: a member of any name, which msgspec does not give
_WORDS = {int: "a whole number", float: "a number", bool: "true or false", NoneType: "null"}
_NAME = re.compile(r"[\w-]{1,64}")


Hook = Callable[[type, Any], Any]


class CheckError(ValueError):
    """A value does not fit its type: `at` is the path of the field ("stages[1].state", "" for the
    whole), `sentence` says what is wrong with it. `unknown`: it is a field that should not be."""

    def __init__(self, at: str, sentence: str, *, unknown: bool = False) -> None:
        super().__init__(f"{at}: {sentence}" if at else sentence)
        self.at = at
        self.sentence = sentence
        self.unknown = unknown


def convert(value: Any, kind: type[_T], at: str = "", hook: Hook | None = None) -> _T:
    """Return the parsed JSON `value` as a `kind`; CheckError where it does not fit.

    at: the path of `value` itself, which sentences begin with.
    hook: reads values of types that msgspec does not know; raises CheckError, of a path below them.
    """
    try:
        return msgspec.convert(value, kind, dec_hook=hook)
    except msgspec.ValidationError as error:
        raise _explained(error, value, kind, at, hook) from None
    except UnicodeEncodeError:
        below, text = lone_surrogate(value) or ("", "")
        raise CheckError(
            _below(at, below), f"is not valid Unicode: {HALF_PAIR}: {quote(text)}"
        ) from None


def convert_in_file(value: Any, kind: type[_T], path: Path, at: str = "") -> _T:
    """Convert what the file at `path` holds, as `convert` does; FileError names the file."""
    try:
        return convert(value, kind, at)
    except CheckError as error:
        raise FileError(path, str(error)) from None


def fitting(values: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return those `values` that fit the fields of a record, by name; the rest is left out."""
    fits = {}
    for name, field_kind in _kinds(kind).items():
        if name in values:
            with contextlib.suppress(msgspec.ValidationError, UnicodeEncodeError):
                fits[name] = msgspec.convert(values[name], field_kind)
    return fits


@cache
def _kinds(kind: Any) -> dict[str, Any]:
    """Return the types of a record's fields."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def expected(kind: Any) -> str:
    """Return what a type is in words: "a whole number from 0 to 9 or null"."""
    kind, metas = _bare(kind)
    for meta in metas:
        if named := (meta.extra or {}).get("expected"):
            return str(named)
    if kind in _WORDS:
        return _WORDS[kind] + _range(metas)
    if kind is str:
        return "a text" + _length(metas, "characters")
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Literal:
        return _choice(inner)
    if _is_union(origin):
        return " or ".join(expected(one) for one in sorted(inner, key=lambda one: one is NoneType))
    if origin is tuple and inner and inner[-1] is not ...:
        return f"a list of {len(inner)}"
    if isinstance(origin, type) and issubclass(origin, list | tuple | set | frozenset):
        return "a list" + _length(metas, "items")
    return "an object" + _length(metas, "members")


def _explained(
    error: msgspec.ValidationError, value: Any, kind: Any, at: str, hook: Hook | None
) -> CheckError:
    """Return the sentence for msgspec's message, which names a place and one side of a range."""
    match = _PLACE.match(str(error))
    assert match is not None  # each part of the pattern may be empty
    message, is_key, steps = match[1], bool(match[2]), match[3] or ""
    whole, whole_kind, begin = value, kind, at
    for name, index, unnamed in (step.groups() for step in _STEP.finditer(steps)):
        step = _culprit(value, kind, False, hook) if unnamed else name or int(index)
        if not _has(value, step):  # no place, but the end of a name that the message repeats
            value, kind, at, message, is_key = whole, whole_kind, begin, str(error), False
            break
        value, kind = value[step], _inner(kind, step)
        at = _joined(at, step)
    if isinstance(error.__cause__, CheckError):
        return CheckError(_below(at, error.__cause__.at), error.__cause__.sentence)
    if isinstance(error.__cause__, ValueError | TypeError):  # raised by a struct's own check
        return CheckError(at, message)
    if named := re.search(r"(missing required|contains unknown) field `(.*)`$", message, re.DOTALL):
        at = _joined(at, named[2])
        if named[1] == "contains unknown":
            return CheckError(at, "is not a known field", unknown=True)
        return CheckError(at, f"is missing: expected {expected(_inner(kind, named[2]))}")
    if is_key:
        name = str(_culprit(value, kind, True, hook))
        return CheckError(at, f"{quote(name)} cannot be a name in it")
    if " got `" not in message:  # one of the kinds that it may be is right
        kind = _only(kind, value)
    is_length = isinstance(value, str) and "of length" in message
    shown = f"{len(value):,}" if is_length else found(value)
    return CheckError(at, f"expected {expected(kind)}, found {shown}")


def _has(value: Any, step: str | int) -> bool:
    if isinstance(value, Mapping):
        return step in value
    return isinstance(value, list | tuple) and isinstance(step, int) and step < len(value)


def _only(kind: Any, value: Any) -> Any:
    """Return the one of several types that a value is of."""
    bare, _ = _bare(kind)
    inner = [one for one in get_args(bare) if one is not NoneType]
    if not _is_union(get_origin(bare)) or len(inner) == 1:
        return kind
    fitting = (one for one in inner if _is_of(value, one))
    return next(fitting, kind)


def _is_of(value: Any, kind: Any) -> bool:
    bare, _ = _bare(kind)
    origin = get_origin(bare) or bare
    if origin is Literal:
        return type(value) in map(type, get_args(bare))
    if isinstance(value, str | bool | int | float):
        return isinstance(value, origin)
    return isinstance(value, list) == issubclass(origin, list | tuple | set | frozenset)


def _culprit(members: Any, kind: Any, is_key: bool, hook: Hook | None) -> str | int:
    """Return which member does not fit of an object of any names, or of a list that is to be a set:
    msgspec does not tell."""
    is_object = isinstance(members, Mapping)
    if not is_object and not isinstance(members, list | tuple):
        return ""
    inner = _inner(kind, -1 if is_key else "" if is_object else 0)
    name: Any = ""
    for name, member in members.items() if is_object else enumerate(members):
        try:
            msgspec.convert(name if is_key else member, inner, dec_hook=hook)
        except (msgspec.ValidationError, UnicodeEncodeError):
            break
    return cast(str | int, name)


def _joined(at: str, step: str | int) -> str:
    if isinstance(step, int):
        return f"{at}[{step}]"
    name = step if _NAME.fullmatch(step) else quote(step)
    return f"{at}.{name}" if at else name


def _below(at: str, path: str) -> str:
    """Return the path of a field whose own path begins at `at`."""
    return f"{at}.{path}" if at and path and not path.startswith("[") else at + path


def _bare(kind: Any) -> tuple[Any, list[msgspec.Meta]]:
    """Return a type without its constraints, and these."""
    if get_origin(kind) is not Annotated:
        return kind, []
    inner, *notes = get_args(kind)
    return inner, [note for note in notes if isinstance(note, msgspec.Meta)]


def _is_union(origin: Any) -> bool:
    return origin is Union or origin is UnionType


def _inner(kind: Any, step: str | int) -> Any:
    """Return the type of a member or an item, or with -1 of an object's names; None where the type
    has none of the name."""
    kind, _ = _bare(kind)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if _is_union(origin):
        found_types = (_inner(one, step) for one in inner)
        return next((one for one in found_types if one is not None), None)
    is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
    if step == -1:
        return inner[0] if inner and is_mapping else None
    if isinstance(step, int):
        return inner[step if origin is tuple and inner[-1] is not ... else 0] if inner else None
    if isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        fields = msgspec.structs.fields(origin)
        return next((field.type for field in fields if field.encode_name == step), None)
    return inner[1] if inner and is_mapping else None


def _choice(values: tuple[Any, ...]) -> str:
    """Return the names that a text may be; null comes last."""
    names = [str(value) for value in values if value is not None]
    listed = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
    return f"{listed} or null" if None in values else listed


def _limit(metas: list[msgspec.Meta], name: str) -> Any:
    return next((end for meta in metas if (end := getattr(meta, name)) is not None), None)


def _range(metas: list[msgspec.Meta]) -> str:
    low, high = _limit(metas, "ge"), _limit(metas, "le")
    if low is not None and high is not None:
        return f" from {_number(low)} to {_number(high)}"
    sides = {
        "of at least": low,
        "above": _limit(metas, "gt"),
        "of at most": high,
        "below": _limit(metas, "lt"),
    }
    given = [f"{side} {_number(end)}" for side, end in sides.items() if end is not None]
    return f" {' and '.join(given)}" if given else ""


def _number(value: float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _length(metas: list[msgspec.Meta], unit: str) -> str:
    least, most = _limit(metas, "min_length"), _limit(metas, "max_length")
    if most is None:
        return (
            f" of at least {least:,} {unit.removesuffix('s') if least == 1 else unit}"
            if least
            else ""
        )
    if least == most:
        return f" of {most:,} {unit}"
    return f" of {least:,} to {most:,} {unit}" if least else f" of at most {most:,} {unit}"
