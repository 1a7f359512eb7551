"""Bodies and queries are structs of msgspec, read from JSON and described in the OpenAPI document.

A struct says once what a body is: the types of its fields, their limits, defaults and descriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from llm_lite.core import checked
from llm_lite.core.checked import CheckError
from llm_lite.core.records import about as about

Schema = dict[str, Any]
REFERENCE = "#/components/schemas/{name}"
IGNORED = "llm-lite-ignored-fields"  # a header that names ignored fields of a body
NOT_HERE = "is not supported by this server"
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,20})?")
_TRUTH = {"true": True, "false": False}


class Body(msgspec.Struct, kw_only=True):
    """This is the body of a request. A field that is null counts as left out. Fields that are
    not declared are ignored: programs for other servers send fields of their own."""

    def unkept(self) -> list[str]:
        """Return the names of what is declared, and given, but left out, or left to the model."""
        return []


class Query(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The base class of the parameters in the path and the query of an address."""


class Custom:
    """A derived type, which msgspec does not know, reads its values and describes them."""

    @classmethod
    def read(cls, value: Any) -> Self:
        """Return the value; raise CheckError, whose path begins at the value."""
        raise NotImplementedError

    @classmethod
    def schema(cls) -> Schema:
        raise NotImplementedError


class Typed(Custom):
    """A list of objects of types: of what is not known here nothing is read, as of fields that
    are not known, and `left_out` has its types. `items` have their places in the list."""

    kinds: ClassVar[Mapping[str, type[msgspec.Struct]]]  # by type; the first one's without it

    def __init__(self, items: list[tuple[int, Any]], left_out: list[str]) -> None:
        self.items, self.left_out = items, left_out

    @classmethod
    def read(cls, value: Any) -> Self:
        items: list[tuple[int, Any]] = []
        left_out: dict[str, None] = {}
        for place, one in enumerate(read(list[Any], value)):
            named = one.get("type") if isinstance(one, dict) else None
            if isinstance(named, str) and named not in cls.kinds:
                left_out[named] = None
                continue
            kind = cls.kinds[named if isinstance(named, str) else next(iter(cls.kinds))]
            try:
                items.append((place, read(kind, one)))
            except CheckError as error:
                at = f"[{place}].{error.at}" if error.at else f"[{place}]"
                raise CheckError(at, error.sentence) from None
        return cls(items, list(left_out))

    @classmethod
    def schema(cls) -> Schema:
        named = {"type": "string", "not": {"enum": sorted(cls.kinds)}}
        other = {
            "type": "object",
            "required": ["type"],
            "properties": {"type": named},
            "description": f"Not looked at, and named in the header {IGNORED}.",
        }
        known = [inlined(kind) for kind in dict.fromkeys(cls.kinds.values())]
        return {"type": "array", "items": {"anyOf": [*known, other]}}


class Unsupported(Custom):
    """A field of this type changes an answer of another server, which this server cannot do. It
    is refused rather than ignored, unless its value asks for nothing."""

    neutral: ClassVar[Any]

    @classmethod
    def read(cls, value: Any) -> Self:
        if value != cls.neutral or isinstance(value, bool) != isinstance(cls.neutral, bool):
            raise CheckError("", f"{NOT_HERE}: leave it out")
        return cls()

    @classmethod
    def schema(cls) -> Schema:
        return {"const": cls.neutral}


def read(kind: Any, value: Any) -> Any:
    """Return the parsed JSON `value` as an object of the type `kind`; raise CheckError."""
    try:
        return msgspec.convert(value, kind, dec_hook=_read_custom)
    except msgspec.ValidationError as error:
        if " got `float`" in str(error):  # JSON has 3.0 for 3
            value = _with_whole_numbers(value)
    return checked.convert(value, kind, hook=_read_custom)


def read_body(kind: type[Body], value: Any) -> tuple[Any, list[str]]:
    """Return the body, and the names of fields that it does not declare."""
    if not isinstance(value, dict):
        return read(kind, value), []  # which raises
    required = required_of(kind)
    given = {name: one for name, one in value.items() if one is not None or name in required}
    return read(kind, given), [name for name in value if name not in kind.__struct_fields__]


def read_query(kind: type[Query], given: Mapping[str, str]) -> Any:
    """Return the parameters of an address, whose numbers and truth values come as texts."""
    known = properties_of(kind)
    return read(kind, {name: _from_text(known.get(name, {}), one) for name, one in given.items()})


def _from_text(schema: Schema, text: str) -> str | int | float | bool:
    kinds = {one.get("type") for one in _arms(schema)}
    if "boolean" in kinds and text in _TRUTH:
        return _TRUTH[text]
    if not {"integer", "number"} & kinds or not _NUMBER.fullmatch(text):
        return text
    return float(text) if "." in text else int(text)


def _read_custom(kind: type, value: Any) -> Any:
    assert issubclass(kind, Custom), kind
    return kind.read(value)


def _with_whole_numbers(value: Any) -> Any:
    """Return the value with an int for each float that is whole."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_with_whole_numbers(one) for one in value]
    if isinstance(value, dict):
        return {name: _with_whole_numbers(one) for name, one in value.items()}
    return value


@cache
def required_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.name for field in msgspec.structs.fields(kind) if field.required)


def components(kinds: Iterable[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schema of each type, and those of the structs that they refer to, by name."""
    kinds = list(kinds)
    found, named = msgspec.json.schema_components(
        kinds, schema_hook=_schema_of_custom, ref_template=REFERENCE
    )
    bodies = {kind.__name__ for kind in kinds if isinstance(kind, type) and issubclass(kind, Body)}
    return list(found), {
        name: _tidy(schema, is_body=name in bodies) for name, schema in named.items()
    }


def inlined(kind: type[msgspec.Struct]) -> Schema:
    """Return the schema of a struct, with those of the structs in it where it refers to them."""
    [schema], named = components([kind])

    def resolved(one: Any) -> Any:
        if isinstance(one, list):
            return [resolved(part) for part in one]
        if not isinstance(one, dict):
            return one
        if (to := one.get("$ref")) is not None:
            return resolved(named[to.rpartition("/")[2]])
        return {name: resolved(part) for name, part in one.items()}

    found: Schema = resolved(schema)
    return found


@cache
def properties_of(kind: type[msgspec.Struct]) -> dict[str, Schema]:
    """Return the schema of each field of a struct, by name."""
    _, named = components([kind])
    found: dict[str, Schema] = named[kind.__name__]["properties"]
    return found


def _schema_of_custom(kind: type) -> Schema:
    assert issubclass(kind, Custom), kind
    return kind.schema()


def _tidy(schema: Schema, *, is_body: bool) -> Schema:
    schema = {name: one for name, one in schema.items() if name != "title" and one != []}
    required = schema.get("required", ())
    schema["properties"] = {
        name: _tidy_field(one, or_null=is_body and name not in required)
        for name, one in schema.get("properties", {}).items()
    }
    if is_body:
        about = f"Not looked at, and named in the header {IGNORED}."
        schema["additionalProperties"] = {"description": about}
    return schema


def _tidy_field(schema: Schema, *, or_null: bool) -> Schema:
    """Return the schema of a field with its description where the field stands, not within a union,
    and without a default of null, which says no more than that it may be left out."""
    null: Schema = {"type": "null"}
    arms, about = _arms(schema), schema.get("description")
    for arm in arms:
        about = arm.pop("description", None) or about
    value = schema.get("default")
    rest = {} if value is None else {"default": list(value) if value == () else value}
    if or_null and null not in arms and arms != [{}]:
        arms.append(null)
    description = {"description": about} if about else {}
    return {**(arms[0] if len(arms) == 1 else {"anyOf": arms}), **description, **rest}


def _arms(schema: Schema) -> list[Schema]:
    """Return the schemas; a value keeps to one of them."""
    if "anyOf" in schema:
        return list(schema["anyOf"])
    return [{name: one for name, one in schema.items() if name not in ("default", "description")}]
