"""Objects of known members: what a request may say, and what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from llm_lite.server.tables.kinds import FieldProblem, Kind, Schema, expect, named

IGNORED = "llm-lite-ignored-fields"  # a header: members of a body that were not looked at


class Field(Struct, frozen=True):
    """A member of a record. One that is not required may be missing or null, and is then
    `default`."""

    name: str
    kind: Kind
    about: str = ""
    required: bool = False
    default: Any = None


class Record(Struct, frozen=True):
    """An object of known members. Of one that is `open`, others are not looked at; `others` says it
    in the document."""

    name: str  # in the document
    fields: tuple[Field, ...]
    open: bool = False
    others: str = ""

    @property
    def words(self) -> str:
        return "an object"

    def fits(self, value: Any) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any, at: str) -> dict[str, Any]:
        expect(self, value, at)
        if not self.open:
            self._refuse_unknown(value, at)
        lead = f"{at}." if at else ""
        return {field.name: _member(field, value, lead) for field in self.fields}

    def unknown(self, value: Mapping[str, Any]) -> list[str]:
        """The names of its other members."""
        known = {field.name for field in self.fields}
        return [name for name in value if name not in known]

    def _refuse_unknown(self, value: Mapping[str, Any], at: str) -> None:
        for unknown in self.unknown(value):
            place = f"{at}.{named(unknown)}" if at else named(unknown)
            raise FieldProblem(place, "is not a field that this server knows")

    def schema(self) -> Schema:
        """As it stands among the components of the document."""
        return {"$ref": f"#/components/schemas/{self.name}"}

    def definition(self) -> Schema:
        required = [field.name for field in self.fields if field.required]
        properties = {field.name: described(field) for field in self.fields}
        schema: Schema = {"type": "object", "properties": properties}
        if required:
            schema["required"] = required
        if self.others:
            return {**schema, "additionalProperties": {"description": self.others}}
        return schema if self.open else {**schema, "additionalProperties": False}


def request_body(name: str, fields: tuple[Field, ...]) -> Record:
    """Of an address that programs for other servers ask, too: they send fields of their own."""
    return Record(name, fields, True, f"Not looked at, and named in the header {IGNORED}.")


def described(field: Field) -> Schema:
    """A field's schema, with its words."""
    schema = field.kind.schema()
    if not field.required:
        inner = schema.get("anyOf", [schema])
        null = {"type": "null"}
        schema = {"anyOf": [*inner, null]} if null not in inner and schema else schema
    if field.about:
        schema = {**schema, "description": field.about}
    if field.default is not None:
        schema = {**schema, "default": field.default}
    return schema


def _member(field: Field, value: Mapping[str, Any], lead: str) -> Any:
    found = value.get(field.name)
    if found is None and not field.required:
        return field.default
    if field.name not in value:
        raise FieldProblem(f"{lead}{field.name}", f"is missing: expected {field.kind.words}")
    return field.kind.read(found, f"{lead}{field.name}")
