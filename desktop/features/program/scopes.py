"""Scopes of the state: what becomes of each part when another conversation comes to the front or
another model takes over.

Every field of the state declares its scope where it stands; one without a scope is refused when the
first conversation comes. So a view, which reads the state alone, shows what belongs to the one in
front, or what names the conversation it is of.

- conversation: of the conversation in front; as at first in the next one
- reading: what a model made of the conversation in front: gone with either
- model: of the model in use
- setting: what a person chose; it is kept from one start to the next
- program: of the window, the engine and the files; what in it is of a conversation names it
- divided: a record whose parts have several scopes. It has the methods `of_next_conversation` and
  `of_next_model`, which return it as it is then, and may have `fit`, which is given the next model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, Protocol, TypeVar, cast

from llm_lite.core.messages import ModelInfo
from llm_lite.core.records import FieldWithNotes, replace

KEY = "scope"
Scope = Literal["conversation", "reading", "model", "setting", "program", "divided"]
T = TypeVar("T")


class Divided(Protocol):
    def of_next_conversation(self) -> Any: ...

    def of_next_model(self) -> Any: ...


D = TypeVar("D", bound=Divided)


def of(scope: Scope, default: T) -> T:
    """Declare a field with a default that does not change."""
    return cast(T, FieldWithNotes({KEY: scope}, default=default))


def made(scope: Scope, factory: Callable[[], T]) -> T:
    """Declare a field whose default is made for each state."""
    return cast(T, FieldWithNotes({KEY: scope}, default_factory=factory))


def divided(factory: Callable[[], D]) -> D:
    return cast(D, FieldWithNotes({KEY: "divided"}, default_factory=factory))


@cache
def scopes(kind: Any) -> Mapping[str, Scope]:
    """Return a record's scopes by the names of its fields; TypeError where one has none."""
    missing = [name for name in kind.__struct_fields__ if KEY not in kind.notes.get(name, ())]
    if missing:
        raise TypeError(f"{kind.__name__}: {', '.join(missing)}: a field needs a scope")
    return {name: notes[KEY] for name, notes in kind.notes.items()}


def fields_of(record: Any, scope: Scope) -> tuple[str, ...]:
    """Return the names of the fields of a scope."""
    kind: Any = type(record)
    return tuple(name for name, one in scopes(kind).items() if one == scope)


def next_conversation(record: T, **changes: Any) -> T:
    """`record` with nothing of the conversation that was in front; `changes` are of the next."""
    return _without(record, ("conversation", "reading"), "of_next_conversation", changes)


def next_model(record: T, model: ModelInfo | None, **changes: Any) -> T:
    """Return `record` without what the model before made of the conversation in front, each part
    fitted to the next model; None: there is none yet."""
    found = _without(record, ("reading",), "of_next_model", {"model": model, **changes})
    if model is None:
        return found
    parts = {name: getattr(found, name) for name in fields_of(found, "divided")}
    fitted = {name: part.fit(model) for name, part in parts.items() if hasattr(part, "fit")}
    return cast(T, replace(cast(Any, found), **fitted))


def _without(record: T, gone: tuple[Scope, ...], method: str, changes: Mapping[str, Any]) -> T:
    kind: Any = type(record)
    defaults = _defaults(kind)
    fresh: dict[str, Any] = {}
    for name, scope in scopes(kind).items():
        if scope in gone:
            fresh[name] = defaults[name]
        elif scope == "divided":
            fresh[name] = getattr(getattr(record, name), method)()
    return cast(T, replace(cast(Any, record), **{**fresh, **changes}))


@cache
def _defaults(kind: Any) -> Mapping[str, Any]:
    """Return the default of each field; the record and its defaults never change."""
    bare = kind()
    return {name: getattr(bare, name) for name in scopes(kind)}
