"""The one door from an event of the engine to the state: text is made fit for the screen here.

Names, tokens and sentences come from files. What must not stand in them is taken out as
`core.plain_text` does it, and they are bounded, so that no frame measures a name of a megabyte.
Which fields hold text is read from the messages' annotations. Paths stay as they are: files are
opened by them again, and views write them out with `shown_path`.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import is_
from types import MappingProxyType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from llm_lite.core.plain_text import lines, one_line, shortened
from llm_lite.core.records import replace

NAME = 200  # characters: of models, tensors, devices, stages
SENTENCE = 2_000
LOG_LINE = 4_000  # a defect's traceback too
TOKEN = 128  # the longest of real vocabularies are as many spaces
PATH = 300  # as it is shown
SOURCE = 8_000  # of a kernel
TYPED = 1 << 20  # a whole book; measuring it takes a frame of 10 ms

_Shown = TypeVar("_Shown")
_Cleaner = Callable[[Any], Any]
_NAMES = frozenset(
    {"name", "model", "title", "label", "architecture", "device", "format", "stage", "description"}
)
_LINES = {  # text of several lines, and how much of it
    ("Alternative", "text"): TOKEN,
    ("PromptToken", "text"): TOKEN,
    ("TokenLogit", "text"): TOKEN,
    ("TokenDecoded", "text"): TOKEN,
    ("DraftedToken", "text"): TOKEN,
    ("TokensSpelled", "texts"): TOKEN,
    ("RunToken", "text"): TOKEN,
    ("EncodedToken", "text"): TOKEN,
    ("Candidate", "text"): TOKEN,
    ("TargetFinished", "text"): TYPED,  # which is copied whole
    ("OtherTarget", "text"): TYPED,
    ("Logged", "text"): LOG_LINE,
    ("TitleMade", "text"): SENTENCE,
    ("KernelForm", "code"): SOURCE,
}
_PROSE = {("HubModel", "description")}  # a paragraph of a model's page
_PATHS = {
    ("ModelInfo", "path"),
    ("ModelInfo", "kept"),
    ("LoadStarted", "source"),
    ("LoadNeedsMemory", "source"),
    ("VariantKept", "path"),
    ("MapsExported", "path"),
    ("ModelIdentity", "path"),
    ("CatalogueEntry", "path"),
    ("CatalogueEntry", "source"),
}
# Spans count its characters; what is drawn of it passes `core.text.token_spelling`.
_EXACT = {("TextTokenized", "result")}


def fit_to_show(message: _Shown) -> _Shown:
    """Return a record of `core.messages` or of the state with all its text made fit for the screen;
    the same object if nothing changed."""
    kind: Any = type(message)
    clean = _cleaner(kind)
    if clean is None:
        return message
    cleaned: _Shown = clean(message)
    return cleaned


def fit_line(text: str, limit: int = SENTENCE) -> str:
    """Return `text` on one line of at most `limit` characters."""
    return shortened(one_line(shortened(text, limit)), limit)  # escapes made it longer


def fit_lines(text: str, limit: int = LOG_LINE) -> str:
    """Return `text` of at most `limit` characters, with its line breaks."""
    return shortened(lines(shortened(text, limit)), limit)


def typed(text: str) -> str:
    """Clean a text that was typed, pasted or read from the settings, and cut it to TYPED
    characters."""
    return lines(text[:TYPED])


def shown_path(path: str) -> str:
    return fit_line(path, PATH)


@cache
def _cleaner(kind: Any, owner: str = "", name: str = "") -> _Cleaner | None:
    """Return a function that cleans a value of the annotation `kind`, for the field `name` of the
    class `owner`; None if it holds no text."""
    if kind is str:
        return _text_cleaner(owner, name)
    if (owner, name) in _PATHS | _EXACT:
        return None
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _record_cleaner(kind)
    origin, inner = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_cleaner(tuple(_cleaner(one, owner, name) for one in inner), inner)
    if origin in (Union, types.UnionType):
        return _union_cleaner(inner, owner, name)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_cleaner(*(_cleaner(one, owner, name) for one in inner))
    return None


def _text_cleaner(owner: str, name: str) -> _Cleaner | None:
    if (owner, name) in _PATHS:
        return None
    limit = _LINES.get((owner, name))
    if limit is not None:
        return partial(fit_lines, limit=limit)
    is_name = name in _NAMES and (owner, name) not in _PROSE
    return partial(fit_line, limit=NAME if is_name else SENTENCE)


def _record_cleaner(kind: type[Struct]) -> _Cleaner | None:
    hints = get_type_hints(kind)
    found = ((name, _cleaner(hints[name], kind.__name__, name)) for name in kind.__struct_fields__)
    parts = [(name, clean) for name, clean in found if clean is not None]
    if not parts:
        return None

    def clean_fields(value: Any) -> Any:
        changed = {}
        for name, clean in parts:
            old = getattr(value, name)
            new = clean(old)
            if new is not old:
                changed[name] = new
        return replace(value, **changed) if changed else value

    return clean_fields


def _tuple_cleaner(
    cleaners: tuple[_Cleaner | None, ...], inner: tuple[Any, ...]
) -> _Cleaner | None:
    if not any(cleaners):
        return None
    if inner[-1] is Ellipsis:
        (clean, _) = cleaners
        assert clean is not None

        def each(values: tuple[Any, ...]) -> tuple[Any, ...]:
            new = tuple(map(clean, values))
            return values if all(map(is_, new, values)) else new

        return each

    def by_place(values: tuple[Any, ...]) -> tuple[Any, ...]:
        pairs = zip(cleaners, values, strict=True)
        new = tuple(value if clean is None else clean(value) for clean, value in pairs)
        return values if all(map(is_, new, values)) else new

    return by_place


def _union_cleaner(inner: tuple[Any, ...], owner: str, name: str) -> _Cleaner | None:
    """Return the cleaner of a value that may be left out, or is one of several records."""
    kinds = [one for one in inner if one is not types.NoneType]
    found = {kind: _cleaner(kind, owner, name) for kind in kinds}
    if not any(found.values()):
        return None
    if len(kinds) == 1:
        clean = found[kinds[0]]
        return lambda value: value if value is None or clean is None else clean(value)

    def of_kind(value: Any) -> Any:
        clean = found.get(type(value))
        return value if clean is None else clean(value)

    return of_kind


def _mapping_cleaner(of_key: _Cleaner | None, of_value: _Cleaner | None) -> _Cleaner | None:
    if of_key is None and of_value is None:
        return None

    def clean(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
        new = {
            of_key(key) if of_key else key: of_value(value) if of_value else value
            for key, value in mapping.items()
        }
        return mapping if new == mapping else MappingProxyType(new)

    return clean
